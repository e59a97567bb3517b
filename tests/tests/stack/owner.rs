use std::{convert::Infallible, time::Duration};

use stanchion::{
    core::{FailureKind, RecoveryBudget},
    retry::{RetryLayer, RetryPolicy},
};
use stanchion_faults::scenario::Script;
use stanchion_testkit::Events;
use stanchion_tests::{
    provider::Provider,
    replies::{WithHeader, json, millis, ok, role, stream},
    stack::{Outcome, Stack},
};
use tower::Layer;

fn overloaded() -> Script {
    let body = r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#;
    json(529, body).with("x-should-retry", "true")
}

fn down() -> Script {
    Script { repeat: true, ..json(503, r#"{"error":{"message":"down","code":"x"}}"#) }
}

#[tokio::test(start_paused = true)]
async fn overloads_are_outlasted_with_growing_waits() {
    let provider = Provider::new([overloaded(), overloaded(), overloaded(), ok()]);
    let outcome = Stack::chat(&provider).max_retries(3).ask(&provider).await;
    assert_eq!((outcome.status(), outcome.bytes()), (Some(200), ok().body_bytes().into()));
    assert_eq!((provider.gaps(), outcome.took), (vec![500, 1000, 2000], millis(3500)));
    assert_eq!(outcome.header("x-stanchion-attempts"), Some("4"));
}

#[tokio::test(start_paused = true)]
async fn a_longer_schedule_is_kept_to_and_capped() {
    let policy = RetryPolicy::builder().max_retries(7).base(millis(1500)).cap(Duration::from_secs(30)).build();
    let provider = Provider::new(std::iter::repeat_n(overloaded(), 7).chain([ok()]));
    let stack = Stack::chat(&provider).retry(policy.expect("within the ranges")).without_circuits();
    let outcome = stack.ask(&provider).await;
    assert_eq!(outcome.status(), Some(200));
    assert_eq!(provider.gaps(), [1500, 3000, 6000, 12_000, 24_000, 30_000, 30_000]);
}

#[tokio::test(start_paused = true)]
async fn waits_are_spread_within_their_bounds() {
    let mut firsts = Vec::new();
    for seed in 0..20 {
        let provider = Provider::new([overloaded(), overloaded(), ok()]);
        let outcome = Stack::chat(&provider).seed(seed).ask(&provider).await;
        let gaps = provider.gaps();
        assert!((375..=500).contains(&gaps[0]) && (750..=1000).contains(&gaps[1]), "{gaps:?}");
        assert_eq!(outcome.took.as_millis(), gaps[0] + gaps[1]);
        firsts.push(gaps[0]);
    }
    firsts.sort_unstable();
    firsts.dedup();
    assert!(firsts.len() > 10, "{firsts:?}");
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_the_budget_at_the_latest() {
    let provider = Provider::new([overloaded(), overloaded(), overloaded(), ok()]);
    let budget = RecoveryBudget::new(millis(1200));
    let stack = Stack::chat(&provider).max_retries(5);
    let outcome = stack.ask_inner_in(&provider, |events: &Events| events.context_builder().recovery(budget)).await;
    let failure = outcome.failure.expect("a failure");
    // 500 ms of 1200 are spent; the next wait would be 1000.
    assert_eq!(failure.kind(), FailureKind::RecoveryBudget);
    assert_eq!((outcome.took, provider.attempts()), (millis(1200), 2));
}

#[tokio::test(start_paused = true)]
async fn the_number_of_attempts_is_bounded_and_the_last_error_stops_the_clients_own_retries() {
    let provider = Provider::new([down()]);
    let events = Events::new();
    let stack = Stack::chat(&provider);
    let mut request = stack.request(events.context());
    request.headers_mut().insert("x-stainless-retry-count", http::HeaderValue::from_static("0"));
    let outcome = Outcome::of(stack.service(provider.clone()), request, &events).await;
    assert_eq!((outcome.status(), provider.attempts()), (Some(503), 3));
    assert_eq!(outcome.header("x-should-retry"), Some("false"));
    assert_eq!(outcome.header("x-stanchion-attempts"), Some("3"));
    assert!(outcome.events.contains(&"R.exhausted#2(server_error/503)".to_owned()), "{:?}", outcome.events);
}

#[tokio::test(start_paused = true)]
async fn every_error_that_leaves_says_that_retrying_is_over() {
    for script in [
        down(),
        Script { repeat: true, ..overloaded() },
        Script { repeat: true, ..json(429, "{}") },
        Script { repeat: true, ..json(500, "boom") },
        Script { repeat: true, ..json(504, "") },
        Script { repeat: true, ..json(409, "{}") },
        Script { repeat: true, ..stream([]) },
        Script { repeat: true, ..stream([role()]) },
        Script { repeat: true, before: Some(stanchion_faults::scenario::Before::Reset), ..Script::default() },
        Script { repeat: true, before: Some(stanchion_faults::scenario::Before::Hang), ..Script::default() },
    ] {
        let told = format!("{} {:?} {:?}", script.status, script.before, script.body);
        let provider = Provider::new([script]);
        let outcome = Stack::chat(&provider).ask(&provider).await;
        assert!(outcome.status().is_some_and(|status| status >= 400), "{told}");
        assert_eq!(outcome.header("x-should-retry"), Some("false"), "{told}");
        assert!(provider.attempts() <= 3, "{told}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_owner_around_the_first_multiplies_nothing() {
    let provider = Provider::new([down()]);
    let stack = Stack::chat(&provider);
    let twice = RetryLayer::default().layer(stack.service(provider.clone()).into_inner());
    let thrice = RetryLayer::default().layer(twice);
    let events = Events::new();
    let outcome = Outcome::of(thrice, stack.request(events.context()), &events).await;
    assert_eq!((outcome.kind(), provider.attempts()), (Some(FailureKind::Overloaded), 3));
}

#[tokio::test(start_paused = true)]
async fn a_gateway_behind_a_gateway_multiplies_nothing() {
    // The inner one's last error says x-should-retry: false, and the outer one believes it.
    let provider = Provider::new([down()]);
    let inner = Stack::chat(&provider).service(provider.clone());
    let transport = tower::service_fn(move |mut request: http::Request<http_body_util::Full<bytes::Bytes>>| {
        let mut inner = inner.clone();
        async move {
            *request.extensions_mut() = http::Extensions::new();
            let path = request.uri().path().to_owned();
            *request.uri_mut() = path.parse().expect("a path");
            let answer: Result<_, Infallible> = tower::Service::call(&mut inner, request).await;
            answer
        }
    });
    let outer = Stack::chat(&provider);
    let events = Events::new();
    let outcome = Outcome::of(outer.service(transport), outer.request(events.context()), &events).await;
    assert_eq!((outcome.status(), provider.attempts()), (Some(503), 3));
    assert_eq!(outcome.header("x-should-retry"), Some("false"));
}

#[tokio::test(start_paused = true)]
async fn every_attempt_sends_the_same_bytes() {
    let provider = Provider::new([down()]);
    let _ = Stack::chat(&provider).ask(&provider).await;
    let seen = provider.seen();
    assert_eq!(seen.len(), 3);
    assert!(seen.iter().all(|other| (&other.body, &other.headers) == (&seen[0].body, &seen[0].headers)), "{seen:?}");
    let expected = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"Hello?"}]}"#;
    assert_eq!(seen[0].body, expected);
}
