//! Who is asked, by what fits where.

use stanchion_core::{Call, Candidate, Candidates, Dialect, DispositionRules, FailureKind, FallbackOn, Family};
use stanchion_fallback::{FallbackLayer, OnOverflow};
use stanchion_testkit::request;
use tower::{Layer, ServiceExt};

use super::{Script, failure, selected};

/// Candidates by name and window; a window of 0 is none.
fn windows<const N: usize>(windows: [(&str, u32); N]) -> Candidates {
    Candidates::new(windows.map(|(name, window)| {
        let candidate = Candidate::new(name, Family::OpenAi, "http://x");
        if window == 0 { candidate } else { candidate.with_context_window(window) }
    }))
}

/// Asks for a prompt of so many tokens; who was asked, and who of them was told to be the last.
async fn asked(layer: FallbackLayer, tokens: usize, failures: &[FailureKind]) -> (Vec<String>, Vec<bool>) {
    let replies = failures.iter().map(|kind| Err(failure(*kind))).chain([Ok(())]);
    let script = Script::new(replies);
    let mut request = request();
    request.extensions_mut().insert(Call::new(Dialect::OpenAiChat, true).with_tokens(tokens));
    let _ = layer.layer(script.clone()).oneshot(request).await;
    let last = script.requests().iter().map(|request| selected(request).last).collect();
    (script.asked(), last)
}

#[tokio::test]
async fn candidates_that_a_prompt_does_not_fit_are_passed_over() {
    use FailureKind::Overloaded;
    for (tokens, failures, expected, last) in [
        (100, &[Overloaded, Overloaded][..], &["small", "large", "unknown"][..], &[false, false, true][..]),
        (9_000, &[Overloaded], &["large", "unknown"], &[false, true]),
        (150_000, &[], &["unknown"], &[true]),
    ] {
        let layer = FallbackLayer::new(windows([("small", 8_000), ("large", 128_000), ("unknown", 0)]));
        let (asked, lasts) = asked(layer, tokens, failures).await;
        assert_eq!(
            (&asked[..], &lasts[..]),
            (&expected.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()[..], last),
            "{tokens}"
        );
    }
}

#[tokio::test]
async fn a_guess_refuses_nobody() {
    let layer = FallbackLayer::new(windows([("a", 1_000), ("b", 2_000)]));
    assert_eq!(asked(layer.clone(), 50_000, &[FailureKind::Overloaded]).await.0, ["a", "b"]);
    let off = FallbackLayer::new(windows([("a", 1_000), ("b", 0)])).with_fit_guard(false);
    assert_eq!(asked(off, 50_000, &[]).await.0, ["a"]);
}

#[tokio::test]
async fn an_overflow_goes_to_a_larger_window_where_it_is_wished() {
    let list = || windows([("small", 8_000), ("equal", 8_000), ("unknown", 0), ("large", 128_000)]);
    let overflow = [FailureKind::ContextOverflow];
    let stop = FallbackLayer::new(list());
    assert_eq!(asked(stop, 100, &overflow).await.0, ["small"]);
    let larger = FallbackLayer::new(list()).with_overflow(OnOverflow::LargerWindow);
    let (names, last) = asked(larger.clone(), 100, &overflow).await;
    assert_eq!((names, last), (vec!["small".to_owned(), "large".to_owned()], vec![false, true]));
    // Whatever the larger one fails with, the prompt fits no smaller one.
    let then = [FailureKind::ContextOverflow, FailureKind::CircuitOpen];
    let smaller =
        windows([("small", 8_000), ("large", 128_000), ("unknown", 0), ("equal", 8_000), ("larger", 200_000)]);
    let (names, last) = asked(FallbackLayer::new(smaller).with_overflow(OnOverflow::LargerWindow), 100, &then).await;
    assert_eq!((names, last), (vec!["small".to_owned(), "large".into(), "larger".into()], vec![false, false, true]));
    // The rule that lets overflows pass on makes it no less; it counts where no window is known.
    let rules = DispositionRules::default().with_fallback_on(FallbackOn::Overflow);
    let both = |list| FallbackLayer::new(list).with_overflow(OnOverflow::LargerWindow).with_rules(rules);
    assert_eq!(asked(both(list()), 100, &overflow).await.0, ["small", "large"]);
    let unknown = || windows([("unknown", 0), ("small", 8_000), ("equal", 8_000), ("large", 128_000)]);
    assert_eq!(asked(both(unknown()), 100, &overflow).await.0, ["unknown", "small"]);
    assert_eq!(asked(both(unknown()), 100, &overflow.repeat(2)).await.0, ["unknown", "small", "large"]);
    let without = FallbackLayer::new(unknown()).with_overflow(OnOverflow::LargerWindow);
    assert_eq!(asked(without, 100, &overflow).await.0, ["unknown"]);
    // Nobody has more than the largest.
    let twice = [FailureKind::ContextOverflow, FailureKind::ContextOverflow];
    assert_eq!(asked(larger, 100, &twice).await.0, ["small", "large"]);
}
