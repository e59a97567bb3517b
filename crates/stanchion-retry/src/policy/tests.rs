use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use proptest::prelude::*;
use stanchion_core::{
    FallbackOn,
    HintSource::{RateLimitReset, RetryAfter, RetryAfterMs, Text},
    Phase, ProviderReply,
};

use super::*;

const MODES: [RecoveryMode; 2] = [RecoveryMode::Standard, RecoveryMode::BoundedForeground];
const CLASSES: [RetryClass; 2] = [RetryClass::RateLimit, RetryClass::Transient];

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn hint(delay: Duration) -> RetryHint {
    RetryHint::new(delay, HintSource::RetryAfter)
}

fn preset(preset: Preset) -> RetryPolicy {
    RetryPolicy::preset(preset).build().unwrap()
}

/// The wait of a policy in standard mode, with and without jitter, in milliseconds.
fn waits(policy: &RetryPolicy, class: RetryClass, retry: u32, hint: Option<RetryHint>) -> Option<[u128; 2]> {
    let wait = |random| policy.wait(RecoveryMode::Standard, class, retry, hint, || random);
    Some([wait(0.0)?.as_millis(), wait(1.0)?.as_millis()])
}

#[test]
fn a_setting_outside_its_range_is_named() {
    let hour = Duration::from_secs(3600);
    let of = RetryPolicy::builder;
    for (builder, setting) in [
        (of().cap(hour + ms(1)), "cap"),
        (of().base(Duration::from_secs(9)), "base"),
        (of().factor(0.9), "factor"),
        (of().factor(f64::NAN), "factor"),
        (of().factor(10.1), "factor"),
        (of().jitter(-0.1..=1.0), "jitter"),
        (of().jitter(0.0..=2.1), "jitter"),
        (of().jitter(1.0..=0.9), "jitter"),
        (of().jitter(f64::NAN..=1.0), "jitter"),
        (of().hint_cap(hour * 25), "hint_cap"),
        (of().hint_cap_of(RetryClass::Transient, hour * 25), "hint_cap"),
        (of().hint_pad(Duration::from_secs(61)), "hint_pad"),
        (of().backoff(RetryClass::Transient, Backoff { factor: 0.0, ..Backoff::STANDARD }), "factor"),
    ] {
        assert_eq!(builder.build().unwrap_err().setting(), setting);
    }
    let error = of().factor(0.0).build().unwrap_err();
    assert_eq!(error.to_string(), "the retry setting `factor` must be between 1 and 10");
    let widest = of().cap(hour).base(hour).factor(10.0).jitter(0.0..=2.0).hint_cap(hour * 24).max_retries(u32::MAX);
    let rules = DispositionRules::default().with_fallback_on(FallbackOn::Quota);
    let widest = widest.rules(rules).build().unwrap();
    assert_eq!((widest.max_retries(), *widest.rules()), (u32::MAX, rules));
}

#[test]
fn presets_have_names_and_all_of_them_are_whole() {
    for one in Preset::ALL {
        assert_eq!(Preset::parse(one.as_str()), Some(one));
        let _ = preset(one);
    }
    assert_eq!(Preset::parse("Standard"), None);
    assert_eq!(preset(Preset::Standard), RetryPolicy::default());
}

#[test]
fn attempts_are_one_more_than_retries() {
    for (attempts, retries) in [(0, 0), (1, 0), (2, 1), (13, 12)] {
        assert_eq!(RetryPolicy::builder().total_attempts(attempts).build().unwrap().max_retries(), retries);
    }
}

#[test]
fn a_hint_replaces_the_backoff_up_to_its_cap() {
    let policy = RetryPolicy::default();
    for (asked, standard, bounded) in [
        (Duration::from_secs(3), Some(3000), 3000),
        (ms(250), Some(250), 250),
        (Duration::from_micros(1), Some(1), 1),
        (Duration::from_micros(1_250_500), Some(1251), 1251),
        (Duration::from_secs(60), Some(60_000), 60_000),
        (ms(60_001), None, 60_000),
        (Duration::from_secs(3600), None, 60_000),
        (Duration::from_secs(121_180), None, 60_000),
        (Duration::MAX, None, 60_000),
    ] {
        for class in CLASSES {
            let wait = |mode| policy.wait(mode, class, 1, Some(hint(asked)), || unreachable!("a hint has no jitter"));
            assert_eq!(wait(RecoveryMode::Standard), standard.map(ms), "{asked:?}");
            assert_eq!(wait(RecoveryMode::BoundedForeground), Some(ms(bounded)), "{asked:?}");
        }
    }
    let nothing = Some(hint(Duration::ZERO));
    assert_eq!(waits(&policy, RetryClass::Transient, 1, nothing), Some([375, 500]));
    assert_eq!(waits(&policy, RetryClass::RateLimit, 2, None), Some([750, 1000]));
}

#[test]
fn the_ceiling_of_the_backoff_is_higher_where_a_person_waits() {
    let policy = RetryPolicy::default();
    for (mode, retry, longest) in [
        (RecoveryMode::Standard, 1, 500),
        (RecoveryMode::Standard, 5, 8000),
        (RecoveryMode::Standard, 20, 8000),
        (RecoveryMode::BoundedForeground, 1, 500),
        (RecoveryMode::BoundedForeground, 5, 8000),
        (RecoveryMode::BoundedForeground, 6, 16_000),
        (RecoveryMode::BoundedForeground, 7, 32_000),
        (RecoveryMode::BoundedForeground, 20, 60_000),
    ] {
        let wait = policy.wait(mode, RetryClass::Transient, retry, None, || 1.0);
        assert_eq!(wait, Some(ms(longest)), "{mode:?} {retry}");
    }
    let bounded = preset(Preset::BoundedForeground);
    for mode in MODES {
        assert_eq!(bounded.wait(mode, RetryClass::Transient, 20, None, || 1.0), Some(ms(60_000)));
        let long = Some(hint(Duration::from_secs(3600)));
        assert_eq!(bounded.wait(mode, RetryClass::Transient, 1, long, || 1.0), Some(ms(60_000)));
    }
    assert_eq!(bounded.max_retries(), 12);
    // What is set counts in both modes.
    let own = RetryPolicy::builder().cap(ms(2000)).over_cap(OverCap::GiveUp).build().unwrap();
    for mode in MODES {
        assert_eq!(own.wait(mode, RetryClass::Transient, 20, None, || 1.0), Some(ms(2000)));
        assert_eq!(own.wait(mode, RetryClass::Transient, 1, Some(hint(ms(60_001))), || 1.0), None);
    }
}

/// The published vectors of PI-Desktop's policy. Of the dates only the one in the future is a wait: one in the past is
/// no hint with us, where it asks for a retry at once there.
#[test]
fn two_budgets_as_pi_desktop_has_them() {
    let policy = preset(Preset::DualBudget);
    assert_eq!(policy.limits, Limits::Two { rate_limit: 10, transient: 10 });
    let (rate, transient) = (RetryClass::RateLimit, RetryClass::Transient);
    for (class, retry, asked, expected) in [
        (rate, 1, Some(1250), [1250, 1250]),
        (rate, 1, Some(2000), [2000, 2000]),
        (rate, 1, Some(5000), [5000, 5000]),
        (rate, 1, None, [2000, 2500]),
        (rate, 2, None, [4000, 5000]),
        (rate, 4, None, [16_000, 20_000]),
        (rate, 5, None, [30_000, 30_000]),
        (rate, 20, Some(120_000), [30_000, 30_000]),
        (transient, 1, None, [1000, 1000]),
        (transient, 2, None, [2000, 2000]),
        (transient, 3, None, [4000, 4000]),
        (transient, 4, None, [8000, 8000]),
        (transient, 20, None, [8000, 8000]),
        (transient, 1, Some(600_000), [8000, 8000]),
        (transient, 1, Some(100), [100, 100]),
        (transient, 4, Some(250), [250, 250]),
    ] {
        let asked = asked.map(|asked| hint(ms(asked)));
        assert_eq!(waits(&policy, class, retry, asked), Some(expected), "{class:?} {retry} {asked:?}");
    }
    // Ten rate limits in a row come to between 210 and 217.5 s, ten transient faults to 63 s.
    let sum = |class, which: usize| -> u128 { (1..=10).map(|n| waits(&policy, class, n, None).unwrap()[which]).sum() };
    assert_eq!((sum(rate, 0), sum(rate, 1), sum(transient, 0)), (210_000, 217_500, 63_000));
}

#[test]
fn the_transport_policy_as_pi_has_it() {
    let policy = preset(Preset::Transport);
    for (retry, expected) in
        [(1, [375, 500]), (2, [750, 1000]), (3, [1500, 2000]), (4, [3000, 4000]), (9, [6000, 8000])]
    {
        assert_eq!(waits(&policy, RetryClass::Transient, retry, None), Some(expected));
    }
    assert_eq!(waits(&policy, RetryClass::RateLimit, 1, Some(hint(ms(1000)))), Some([1000, 1000]));
    // A longer hint than the cap fails at once, in every mode.
    for mode in MODES {
        let long = Some(hint(Duration::from_secs(277_403)));
        assert_eq!(policy.wait(mode, RetryClass::RateLimit, 1, long, || 0.0), None);
    }
}

#[test]
fn the_ladder_as_octos_has_it() {
    let policy = preset(Preset::Ladder);
    assert_eq!(policy.max_retries(), 3);
    let text = |seconds: f64| Some(RetryHint::new(Duration::from_secs_f64(seconds), HintSource::Text));
    for (class, retry, asked, expected) in [
        (RetryClass::Transient, 1, None, 1000),
        (RetryClass::Transient, 2, None, 2000),
        (RetryClass::Transient, 3, None, 4000),
        (RetryClass::RateLimit, 1, None, 30_000),
        (RetryClass::RateLimit, 3, None, 30_000),
        (RetryClass::RateLimit, 1, text(29.159), 30_159),
        (RetryClass::RateLimit, 1, text(300.0), 60_000),
    ] {
        assert_eq!(waits(&policy, class, retry, asked), Some([expected; 2]), "{class:?} {retry}");
    }
}

#[test]
fn the_gateway_policy_takes_the_longer_of_hint_and_backoff() {
    let policy = preset(Preset::Gateway);
    assert_eq!((policy.max_retries(), policy.scope), (2, Scope::Request));
    for (retry, asked, expected) in [
        (1, None, [500, 1500]),
        (2, None, [1000, 3000]),
        (9, None, [15_000, 45_000]),
        (1, Some(100), [500, 1500]),
        (1, Some(1000), [1000, 1500]),
        (1, Some(3_600_000), [3_600_000, 3_600_000]),
    ] {
        let asked = asked.map(|asked| hint(ms(asked)));
        assert_eq!(waits(&policy, RetryClass::RateLimit, retry, asked), Some(expected), "{retry} {asked:?}");
    }
}

#[test]
fn presets_differ_on_a_silent_provider() {
    for (one, again) in [
        (Preset::Standard, false),
        (Preset::BoundedForeground, false),
        (Preset::Transport, false),
        (Preset::DualBudget, true),
        (Preset::Ladder, true),
        (Preset::Gateway, true),
    ] {
        let expected = DispositionRules::default().with_retry_on_silence(again);
        assert_eq!(*preset(one).rules(), expected, "{one:?}");
    }
    // A preset's word goes over the rules that are given, whatever else they say, and a deployment's over the preset's.
    let quota = DispositionRules::default().with_fallback_on(FallbackOn::Quota);
    let builder = RetryPolicy::preset(Preset::Ladder).rules(quota);
    assert_eq!(*builder.clone().build().unwrap().rules(), quota.with_retry_on_silence(true));
    assert_eq!(*builder.retry_on_silence(false).build().unwrap().rules(), quota);
}

fn refusal(kind: FailureKind, headers: &[(&'static str, &'static str)], body: &'static str) -> Failure {
    let headers: HeaderMap =
        headers.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect();
    let sources = HintSources::default();
    let hint = RetryHint::read(&headers, body.as_bytes(), SystemTime::now(), sources);
    let status = StatusCode::TOO_MANY_REQUESTS;
    let reply = ProviderReply { status, headers, body: Bytes::from_static(body.as_bytes()), complete: true };
    Failure::new(kind).with_phase(Phase::BeforeOutput).with_hint(hint).with_reply(reply)
}

#[test]
fn hints_are_taken_from_where_the_policy_says_and_in_its_order() {
    let prose = r#"{"error":{"message":"Rate limit reached. Please try again in 29.159s."}}"#;
    let headers = [("retry-after-ms", "1500"), ("retry-after", "4"), ("x-ratelimit-reset-requests", "7s")];
    let all = refusal(FailureKind::RateLimited, &headers, prose);
    let only_prose = refusal(FailureKind::RateLimited, &[], prose);
    let window = refusal(FailureKind::ServerError, &[("x-ratelimit-reset-requests", "7s")], "{}");
    let quiet = refusal(FailureKind::RateLimited, &[], "{}");
    for (failure, order, expected) in [
        (&all, None, Some(1500)),
        (&all, Some(&[RetryAfterMs, RetryAfter][..]), Some(1500)),
        (&all, Some(&[RetryAfter, RetryAfterMs]), Some(4000)),
        (&all, Some(&[RateLimitReset]), Some(7000)),
        (&all, Some(&[Text, RetryAfter]), Some(29_159)),
        (&all, Some(&[]), None),
        (&only_prose, None, None),
        (&only_prose, Some(&[RetryAfter, Text]), Some(29_159)),
        (&window, Some(&[RateLimitReset]), None),
        (&quiet, Some(&[Text]), None),
    ] {
        let builder = RetryPolicy::builder();
        let policy = match order {
            Some(order) => builder.hints(order.iter().copied()),
            None => builder,
        };
        let found = policy.build().unwrap().hint(failure).map(|hint| hint.delay().as_millis());
        assert_eq!(found, expected, "{order:?}");
    }
}

#[test]
fn an_error_inside_of_a_stream_is_read_for_its_words() {
    let in_band = Failure::new(FailureKind::RateLimited)
        .with_phase(Phase::BeforeOutput)
        .with_message("Rate limit reached. Please try again in 2.5s.");
    let policy = RetryPolicy::builder().hints([HintSource::Text]).build().unwrap();
    assert_eq!(policy.hint(&in_band).map(RetryHint::delay), Some(ms(2500)));
    assert_eq!(RetryPolicy::default().hint(&in_band), None);
}

proptest! {
    #[test]
    fn a_hint_is_never_shortened_unless_the_policy_says_so(nanos in 1_u64..90_000_000_000, retry in 1_u32..20) {
        let asked = Duration::from_nanos(nanos);
        for class in CLASSES {
            match RetryPolicy::default().wait(RecoveryMode::Standard, class, retry, Some(hint(asked)), || 0.0) {
                Some(wait) => {
                    prop_assert!(asked <= wait && wait < asked + ms(1));
                    prop_assert_eq!(wait.subsec_nanos() % 1_000_000, 0);
                }
                None => prop_assert!(asked > Duration::from_secs(60)),
            }
        }
    }

    #[test]
    fn no_preset_waits_longer_than_it_says(
        which in 0_usize..6,
        class in prop::sample::select(&CLASSES[..]),
        bounded in any::<bool>(),
        retry in 1_u32..100,
        random in 0.0_f64..=1.0,
        asked in prop::option::of(1_u64..10_000_000),
    ) {
        let one = Preset::ALL[which];
        let longest = match one {
            Preset::Standard | Preset::BoundedForeground | Preset::Transport | Preset::Ladder => ms(60_000),
            Preset::DualBudget => ms(30_000),
            // As long as the provider asks for.
            Preset::Gateway => ms(45_000.max(asked.unwrap_or(0))),
        };
        let mode = MODES[usize::from(bounded)];
        let wait = preset(one).wait(mode, class, retry, asked.map(|asked| hint(ms(asked))), || random);
        prop_assert!(wait.is_none_or(|wait| wait <= longest), "{one:?} {wait:?}");
    }
}
