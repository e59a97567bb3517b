//! What holds for every layer, and what holds for every script of answers.

use proptest::prelude::*;
use stanchion_core::{DispositionRules, Failure, FailureKind, FallbackOn};
use stanchion_fallback::FallbackLayer;
use stanchion_testkit::{Contract, Events, candidates, request_in};
use tower::{Layer, ServiceExt};

use super::{Reply, Script, failure, passes, status};

#[tokio::test(start_paused = true)]
async fn the_contract_of_every_layer() {
    Contract::new(FallbackLayer::new(candidates(["a"]))).check().await;
    Contract::new(FallbackLayer::new(candidates(["a", "b", "c"]))).check().await;
}

/// An answer: a kind of failure, and whether the provider said it with a status of its own.
type Answer = Option<(FailureKind, bool)>;

fn failed((kind, answered): (FailureKind, bool)) -> Failure {
    if answered { status(kind, 418) } else { failure(kind) }
}

/// Whether it goes on after an answer, with the rules that let refused keys and missing models pass.
fn goes_on((kind, _): (FailureKind, bool), widened: bool) -> bool {
    passes(kind) || (widened && is_widened(kind))
}

fn is_widened(kind: FailureKind) -> bool {
    matches!(kind, FailureKind::Authentication | FailureKind::PermissionDenied | FailureKind::NotFound)
}

/// How much an answer tells, said once more, in other words than the layer's.
fn worth((kind, answered): (FailureKind, bool)) -> u32 {
    use FailureKind::{CircuitOpen, Drained, Misconfigured, QueueClosed, QueueFull, QueueTimeout};
    match kind {
        Misconfigured => 0,
        kind if is_widened(kind) => 1,
        CircuitOpen | QueueFull | QueueTimeout | QueueClosed | Drained => 2,
        _ => 3 + u32::from(answered),
    }
}

proptest! {
    #[test]
    fn every_script_is_walked_in_order_and_ends_with_the_best(
        script in proptest::collection::vec(
            proptest::option::weighted(0.9, (0..FailureKind::ALL.len(), any::<bool>())), 1..7
        ),
        widened in any::<bool>(),
    ) {
        let known = |(kind, told): (usize, bool)| (FailureKind::ALL[kind], told);
        let script: Vec<Answer> = script.into_iter().map(|answer| answer.map(known)).collect();
        let providers: Vec<String> = (0..script.len()).map(|index| format!("p{index}")).collect();
        let replies = script.iter().map(|answer| -> Reply { answer.map_or(Ok(()), |answer| Err(failed(answer))) });
        let inner = Script::new(replies);
        let list = candidates(providers.iter().map(String::as_str));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (result, lines) = runtime.block_on(async {
            let events = Events::new();
            let mut rules = DispositionRules::default();
            for class in [FallbackOn::Auth, FallbackOn::NotFound].into_iter().filter(|_| widened) {
                rules = rules.with_fallback_on(class);
            }
            let service = FallbackLayer::new(list).with_rules(rules).layer(inner.clone());
            (service.oneshot(request_in(events.context())).await, events.lines())
        });

        // The walk stops at the first answer that is none to pass on, or at the end of the list.
        let goes_on = |answer| goes_on(answer, widened);
        let stops = script.iter().position(|answer| !answer.is_some_and(goes_on)).unwrap_or(script.len() - 1);
        prop_assert_eq!(inner.asked(), &providers[..=stops]);
        let marker = |pair: &[String]| format!("M.fallback {}/gpt-x>{}/gpt-x", pair[0], pair[1]);
        let markers: Vec<_> = providers[..=stops].windows(2).map(marker).collect();
        prop_assert_eq!(lines, markers);

        let Err(failure) = result else {
            prop_assert!(script[stops].is_none());
            return Ok(());
        };
        let last = script[stops].expect("a failure");
        let best = if goes_on(last) {
            (0..=stops).max_by_key(|index| (worth(script[*index].unwrap()), *index)).unwrap()
        } else {
            stops
        };
        prop_assert_eq!(failure.kind(), script[best].unwrap().0);
        let name = format!("p{best}/gpt-x");
        prop_assert_eq!(failure.candidate().map(|name| &**name), Some(&*name));
        let was_asked = |(kind, told): &&(FailureKind, bool)| !matches!(worth((*kind, *told)), 0 | 2);
        let asked = script[..=stops].iter().flatten().filter(was_asked).count();
        prop_assert_eq!(failure.attempts() as usize, asked);
    }
}
