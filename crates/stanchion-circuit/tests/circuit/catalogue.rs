//! The catalogue of a circuit's behaviour, line by line.

use std::collections::HashSet;

use http::{HeaderName, HeaderValue};
use stanchion_circuit::{CircuitLayer, CircuitPolicy, CircuitRegistry, CircuitState};
use stanchion_core::{Candidate, CircuitPhase, FailureKind, Family, RetryReason, Secret};
use stanchion_testkit::candidate;
use tokio::time::Instant;

use super::{One, fail, hinted, layer, ms, overloaded, pass, status, succeed};

fn default() -> One {
    One::new(CircuitPolicy::builder())
}

#[test]
fn the_constants_of_production() {
    let policy = CircuitPolicy::default();
    assert_eq!((policy.open(), policy.probe_lease()), (ms(10_000), ms(300_000)));
    assert_eq!((policy.consecutive_threshold(), policy.is_off()), (0, false));
    assert_eq!((CircuitRegistry::MAX_CIRCUITS, CircuitPolicy::MAX_SAMPLES), (128, 256));
    assert_eq!(CircuitRegistry::IDLE, ms(1_800_000));
    let shown = format!("{policy:?}");
    for constant in ["window: 60s", "min_samples: 4", "max_samples: 256", "failure_rate: 0.8"] {
        assert!(shown.contains(constant), "{shown}");
    }
    assert_eq!((CircuitPolicy::MIN_PROBE_LEASE, CircuitPolicy::MAX_PROBE_LEASE), (ms(300_000), ms(600_000)));
}

#[tokio::test(start_paused = true)]
async fn four_failures_open() {
    let one = default();
    for _ in 0..3 {
        assert!(one.fail().is_none());
    }
    let change = one.fail().expect("the fourth opens");
    assert_eq!((change.phase(), change.circuit().next_probe), (CircuitPhase::Opened, Instant::now() + ms(10_000)));
    assert_eq!(one.handle.status().unwrap().next_probe, Some(ms(10_000)));
    pass(3_250).await;
    let open = one.denied();
    assert_eq!(open.retry_after(Instant::now()), ms(6_750));
    assert_eq!((open.reason, open.status_code, open.open_for), (RetryReason::ServerError, Some(503), ms(10_000)));
    assert_eq!((open.failure_count, open.sample_count), (4, 4));
    assert_eq!(open.candidate.as_deref(), Some("primary/gpt-x"));
}

#[tokio::test(start_paused = true)]
async fn preflight_claims_nothing() {
    let one = default();
    assert!(one.preflight().is_ok());
    one.open();
    assert_eq!(one.preflight().unwrap_err().retry_after(Instant::now()), ms(10_000));
    pass(10_000).await;
    assert!(one.preflight().is_ok() && one.preflight().is_ok());
    assert_eq!(one.state(), CircuitState::Open);
    let probe = one.probe();
    assert_eq!(one.preflight().unwrap_err().retry_after(Instant::now()), ms(50));
    drop(probe);
    assert!(one.preflight().is_ok());
}

#[tokio::test(start_paused = true)]
async fn while_a_probe_is_under_way_the_wait_is_a_guess_that_never_outlasts_its_lease() {
    let one = default();
    one.open();
    pass(10_000).await;
    let probe = one.probe();
    pass(300_000 - 20).await;
    assert_eq!(one.denied().retry_after(Instant::now()), ms(20));
    drop(probe);
}

#[tokio::test(start_paused = true)]
async fn three_failures_of_four_stay_closed_and_four_of_five_open() {
    let one = default();
    for _ in 0..3 {
        assert!(one.fail().is_none());
    }
    assert!(succeed(one.allowed()).is_none());
    assert_eq!((one.state(), one.counts()), (CircuitState::Closed, (3, 4)));

    let one = default();
    succeed(one.allowed());
    one.open();
    assert_eq!((one.state(), one.counts()), (CircuitState::Open, (4, 5)));
}

#[tokio::test(start_paused = true)]
async fn the_window_is_capped() {
    let one = One::new(CircuitPolicy::builder().max_samples(5).min_samples(5).failure_rate(1.0));
    for _ in 0..6 {
        one.fail();
        succeed(one.allowed());
    }
    assert_eq!(one.counts(), (2, 5));
    pass(60_001).await;
    one.fail();
    assert_eq!(one.counts(), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_server_stretches_the_opening() {
    let one = default();
    for _ in 0..3 {
        one.fail();
    }
    let change = fail(one.allowed(), hinted(status(FailureKind::RateLimited, 429), 45_000)).unwrap();
    let open = change.circuit();
    assert_eq!((open.next_probe, open.open_for), (Instant::now() + ms(45_000), ms(45_000)));
    assert_eq!((open.reason, open.status_code), (RetryReason::RateLimit, Some(429)));
    pass(10_000).await;
    assert_eq!(one.denied().retry_after(Instant::now()), ms(35_000));
}

#[tokio::test(start_paused = true)]
async fn of_many_at_once_one_is_the_probe() {
    let one = default();
    one.open();
    pass(10_000).await;
    let checks: Vec<_> = (0..32).map(|_| one.check()).collect();
    assert_eq!(checks.iter().flatten().filter(|token| token.is_probe()).count(), 1);
    assert_eq!(checks.iter().filter(|check| check.is_err()).count(), 31);
    assert_eq!(one.state(), CircuitState::HalfOpen);
}

#[tokio::test(start_paused = true)]
async fn what_a_probe_comes_to_decides() {
    let one = default();
    for (outcome, phase) in [
        (None, CircuitPhase::Closed),
        (Some(status(FailureKind::InvalidRequest, 400)), CircuitPhase::Closed),
        (Some(status(FailureKind::Transport, 200)), CircuitPhase::Reopened),
    ] {
        one.handle.reset();
        one.open();
        pass(10_000).await;
        let probe = one.probe();
        let change = match outcome {
            None => succeed(probe),
            Some(failure) => fail(probe, failure),
        }
        .expect("it decides");
        assert_eq!((change.phase(), change.opens()), (phase, phase == CircuitPhase::Reopened));
        let open = change.circuit();
        if change.opens() {
            // No sample comes of a probe.
            assert_eq!((open.reason, open.status_code), (RetryReason::Transport, Some(200)));
            assert_eq!((open.next_probe, one.counts()), (Instant::now() + ms(10_000), (4, 4)));
        } else {
            assert_eq!((one.state(), one.counts(), open.sample_count), (CircuitState::Closed, (0, 0), 0));
            assert_eq!((open.reason, open.status_code), (RetryReason::ServerError, Some(503)));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_probe_the_configured_time_applies_again() {
    let one = default();
    for _ in 0..3 {
        one.fail();
    }
    fail(one.allowed(), hinted(overloaded(), 45_000));
    pass(45_000).await;
    let closed = succeed(one.probe()).unwrap();
    assert_eq!(closed.circuit().open_for, ms(10_000));
    assert_eq!(one.open().circuit().open_for, ms(10_000));
}

#[tokio::test(start_paused = true)]
async fn a_token_of_another_circuit_or_time_counts_for_nothing() {
    // A token is used up by what is said with it, and none can be made: what is left are those of the past.
    let one = default();
    let old = one.allowed();
    one.open();
    pass(10_000).await;
    succeed(one.probe());
    one.fail();
    assert!(fail(old, overloaded()).is_none());
    assert_eq!(one.counts(), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_probe_is_replaced_at_once() {
    let one = default();
    one.open();
    pass(10_000).await;
    for _ in 0..3 {
        let probe = one.probe();
        one.denied();
        drop(probe);
    }
    // So it is by what the table says teaches nothing.
    for nothing in [
        status(FailureKind::IdleTimeout, 200),
        status(FailureKind::TotalTimeout, 200),
        overloaded().with_kind(FailureKind::Cancelled),
        super::failure(FailureKind::Unprocessed),
        super::failure(FailureKind::Misconfigured),
    ] {
        assert!(fail(one.probe(), nothing).is_none());
        assert_eq!(one.state(), CircuitState::HalfOpen);
    }
    assert!(succeed(one.probe()).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_ran_out_is_taken_over() {
    let one = default();
    for outcome in [None, Some(overloaded())] {
        one.handle.reset();
        one.open();
        pass(10_000).await;
        let old = one.probe();
        pass(299_999).await;
        one.denied();
        pass(1).await;
        let new = one.probe();
        let stale = match outcome {
            None => succeed(old),
            Some(failure) => fail(old, failure),
        };
        assert!(stale.is_none());
        assert_eq!(one.state(), CircuitState::HalfOpen);
        one.denied();
        assert_eq!(succeed(new).map(|change| change.phase()), Some(CircuitPhase::Closed));
    }
    // And the old owner's dropping does not end the new lease.
    one.open();
    pass(10_000).await;
    let old = one.probe();
    pass(300_000).await;
    let _new = one.probe();
    drop(old);
    one.denied();
}

#[tokio::test(start_paused = true)]
async fn a_failure_in_flight_moves_nothing_after_the_opening() {
    let one = default();
    let late = one.allowed();
    let opened = one.open();
    pass(1_000).await;
    assert!(fail(late, hinted(overloaded(), 300_000)).is_none());
    assert_eq!(one.denied().next_probe, opened.circuit().next_probe);
    assert_eq!(one.counts(), (4, 4));
}

#[tokio::test(start_paused = true)]
async fn an_open_time_of_zero_is_no_circuit() {
    let one = One::new(CircuitPolicy::builder().open(ms(0)));
    for _ in 0..10 {
        assert!(one.handle.check(Instant::now()).unwrap().is_none());
        assert!(one.preflight().is_ok());
    }
    assert!(one.layer.policy().is_off() && one.layer.registry().is_empty() && one.handle.status().is_none());
    assert!(!one.handle.force_open());
}

/// A candidate that leads to an address.
fn at(base_url: &str) -> Candidate {
    Candidate::new("p", Family::OpenAi, base_url).with_model("m")
}

fn with_header(candidate: Candidate, name: &'static str, value: &'static str) -> Candidate {
    candidate.with_header(HeaderName::from_static(name), HeaderValue::from_static(value))
}

#[tokio::test(start_paused = true)]
async fn what_leads_elsewhere_has_a_circuit_of_its_own() {
    const URL: &str = "https://provider.example/v1";
    let policy = |seconds: u64| CircuitPolicy::builder().open(ms(1000 * seconds)).build().unwrap();
    let registry = CircuitRegistry::new();
    let layer = CircuitLayer::new(registry.clone(), policy(10));
    let first = One::of(layer.clone(), at(URL));
    first.open();
    let others = [
        One::of(layer.clone(), at("https://other.example/v1")),
        One::of(layer.clone(), at(URL).with_model("n")),
        One::of(layer.clone(), with_header(at(URL), "x-tier", "priority")),
        One::of(layer.clone(), with_header(at(URL), "api-version", "2026-08-16")),
        One::of(layer.clone(), at(URL).with_credential(Secret::new("k"))),
        One::of(layer, with_header(at(URL), "x-route", "a")),
        One::of(CircuitLayer::new(registry.clone(), policy(11)), at(URL)),
    ];
    for other in &others {
        succeed(other.allowed());
        assert_eq!(other.counts(), (0, 1));
    }
    assert_eq!(registry.len(), 8);
}

#[tokio::test(start_paused = true)]
async fn what_leads_to_the_same_place_shares_a_circuit() {
    let layer = layer(CircuitPolicy::builder());
    let both = |candidate| with_header(with_header(candidate, "x-b", "2"), "x-a", "1");
    let turned = |candidate| with_header(with_header(candidate, "x-a", " 1 "), "x-b", "2");
    One::of(layer.clone(), both(at("https://provider.example/v1"))).open();
    for same in
        ["https://PROVIDER.example:443/v1/", " https://provider.example/v1#here ", "https://provider.example/v1?"]
    {
        One::of(layer.clone(), turned(at(same))).denied();
    }
    // A second layer of the registry under an equal policy knows them, too.
    let second = CircuitLayer::new(layer.registry().clone(), CircuitPolicy::default());
    One::of(second, both(at("https://provider.example/v1"))).denied();
    assert_eq!(layer.registry().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn nothing_shows_what_a_circuit_is_known_by() {
    let secret = Candidate::new("p", Family::OpenAi, "https://user:hunter2@private.example/v1")
        .with_model("m")
        .with_credential(Secret::new("sk-live"));
    let secret = with_header(secret, "x-tenant", "acme");
    let digests: HashSet<String> =
        [secret.domain(&stanchion_core::DomainSecret::from_bytes([7; 32]), &[]).to_hex()].into();
    let one = One::of(layer(CircuitPolicy::builder()), secret);
    let token = one.allowed();
    let token_shown = format!("{token:?}");
    drop(token);
    let change = one.open();
    let denied = one.denied();
    let shown = format!(
        "{token_shown} {change:?} {denied:?} {:?} {:?} {:?} {:?} {} {:?} {}",
        one.layer,
        one.layer.preflight(),
        one.handle,
        one.layer.registry(),
        serde_json::to_string(&one.layer.registry().status()).unwrap(),
        one.layer.registry().status(),
        denied.refuse(Instant::now()),
    );
    assert!(shown.contains("p/m"));
    for word in ["hunter2", "private.example", "sk-live", "acme"] {
        assert!(!shown.contains(word), "{shown}");
    }
    assert!(digests.iter().all(|digest| !shown.contains(&**digest)));
    // Nothing in it looks like a digest at all.
    assert!(!shown.split(|c: char| !c.is_ascii_hexdigit()).any(|word| word.len() >= 32), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn settings_are_held_to_their_ranges() {
    let invalid = |policy: stanchion_circuit::CircuitPolicyBuilder| policy.build().unwrap_err();
    let builder = CircuitPolicy::builder;
    for (policy, setting) in [
        (builder().open(ms(999)), "open"),
        (builder().open(ms(300_001)), "open"),
        (builder().window(ms(999)), "window"),
        (builder().window(ms(3_600_001)), "window"),
        (builder().window(ms(0)), "window"),
        (builder().max_samples(0), "max_samples"),
        (builder().max_samples(257), "max_samples"),
        (builder().min_samples(0), "min_samples"),
        (builder().min_samples(6).max_samples(5), "min_samples"),
        (builder().failure_rate(0.0), "failure_rate"),
        (builder().failure_rate(1.1), "failure_rate"),
        (builder().failure_rate(f64::NAN), "failure_rate"),
        (builder().max_open_share(-0.1), "max_open_share"),
        (builder().max_open_share(f64::NAN), "max_open_share"),
        (builder().slow_call(ms(3_600_001)), "slow_call"),
    ] {
        assert_eq!(invalid(policy).setting(), setting);
    }
    assert_eq!(
        invalid(builder().open(ms(1))).to_string(),
        "the circuit setting `open` must be 0, or between 1 s and 5 min"
    );
    for policy in [
        builder().open(ms(1000)),
        builder().open(ms(300_000)),
        builder().window(ms(0)).consecutive(1),
        builder().window(ms(0)).force_open_on(stanchion_core::ForceOpenOn::Auth),
        builder().max_open_share(0.0),
        builder().max_samples(1).min_samples(1),
    ] {
        assert!(policy.build().is_ok());
    }
    for (asked, lease) in [(0, 300_000), (300_001, 300_001), (900_000, 600_000)] {
        assert_eq!(builder().probe_lease(ms(asked)).build().unwrap().probe_lease(), ms(lease));
    }
    for (registry, setting) in [
        (CircuitRegistry::builder().max_circuits(0), "max_circuits"),
        (CircuitRegistry::builder().max_circuits(65_537), "max_circuits"),
        (CircuitRegistry::builder().idle(ms(999)), "idle"),
        (CircuitRegistry::builder().idle(ms(86_400_001)), "idle"),
    ] {
        assert_eq!(registry.build().unwrap_err().setting(), setting);
    }
    assert_eq!(candidate("primary").name().as_ref(), "primary/gpt-x");
}
