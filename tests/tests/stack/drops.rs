use std::time::Duration;

use http_body_util::BodyExt;
use stanchion::core::Context;
use stanchion_faults::scenario::{Before, End, Script};
use stanchion_tests::{
    provider::Provider,
    replies::{ending, json, millis, ok, refusal, role, secs, stream, text},
    stack::Stack,
};
use tokio::time::{sleep, timeout};
use tower::ServiceExt;

/// Asks, leaves after so long, and waits for what might still come.
async fn leave(stack: &Stack, provider: &Provider, after: Duration) {
    let asking = async {
        let outcome = stack.ask(provider).await;
        panic!("an answer came: {outcome:?}");
    };
    assert!(timeout(after, asking).await.is_err());
    assert_eq!(provider.in_flight(), 0, "something outlives its client");
    let attempts = provider.attempts();
    sleep(secs(3600)).await;
    assert_eq!(provider.attempts(), attempts, "somebody asks for a client that has gone");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_frees_the_provider_in_every_phase() {
    let hang = || Script { before: Some(Before::Hang), ..Script::default() };
    let document = || {
        let half = ending(End::Hang, [stanchion_faults::scenario::Step::text("{\"choices\":[")]);
        Script { headers: [("content-type".to_owned(), "application/json".to_owned())].into(), ..half }
    };
    let refused = || Script { status: 503, ..document() };
    for (script, streams, phase) in [
        (hang(), true, "before the headers"),
        (hang(), false, "before the headers of a document"),
        (Script { delay: Some(secs(30)), ..ok() }, true, "before late headers"),
        (ending(End::Hang, [role()]), true, "while the preamble is held back"),
        (ending(End::Hang, [role(), text("x")]), true, "mid-stream"),
        (document(), false, "within a document"),
        (refused(), true, "within the body of an error"),
    ] {
        let provider = Provider::new([script, ok()]);
        let stack = if streams { Stack::chat(&provider) } else { Stack::chat(&provider).whole() };
        leave(&stack, &provider, secs(1)).await;
        let [seen] = &provider.seen()[..] else { panic!("{phase}: more than one attempt") };
        let over = seen.over.expect("over");
        assert_eq!((over.at - seen.at, over.played), (secs(1), false), "{phase}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_in_a_backoff_is_not_asked_for_again() {
    for wait in ["5", "0.5", "59"] {
        let provider = Provider::new([refusal(503, "retry-after", wait), ok()]);
        leave(&Stack::chat(&provider), &provider, millis(400)).await;
        assert_eq!(provider.attempts(), 1, "{wait}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_at_the_second_candidate_frees_it() {
    let hang = Script { before: Some(Before::Hang), ..Script::default() };
    let provider = Provider::with([("a", vec![json(401, "{}"), ok()]), ("b", vec![hang, ok()])]);
    let rules = stanchion::core::DispositionRules::default().with_fallback_on(stanchion::core::FallbackOn::Auth);
    leave(&Stack::chat(&provider).rules(rules), &provider, secs(1)).await;
    assert_eq!(provider.order(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_dropped_is_over_at_that_very_moment() {
    let provider = Provider::new([ending(End::Hang, [role(), text("x").after(millis(100)).times(600)])]);
    let stack = Stack::chat(&provider);
    let response =
        stack.service(provider.clone()).oneshot(stack.request(Context::default())).await.expect("a response");
    let mut body = response.into_body();
    for _ in 0..3 {
        assert!(body.frame().await.is_some_and(|frame| frame.is_ok()));
    }
    assert_eq!(provider.in_flight(), 1);
    drop(body);
    // Not a single poll later: no task of its own has to be told.
    assert_eq!(provider.in_flight(), 0);
    let over = provider.seen()[0].over.expect("over");
    assert_eq!((over.at - provider.seen()[0].at, over.played), (millis(200), false));
}

#[tokio::test(start_paused = true)]
async fn an_exchange_lasts_until_its_body_has_ended_or_gone() {
    let slow = stream(ok().body.into_iter().map(|step| step.after(secs(1))));
    let provider = Provider::new([Script { repeat: true, ..slow }]);
    let stack = Stack::chat(&provider);
    let ask = || stack.service(provider.clone()).oneshot(stack.request(Context::default()));
    let first = ask().await.expect("a response");
    assert_eq!(provider.in_flight(), 1);
    let second = ask().await.expect("a response");
    // Nobody has read a body: the heads alone end nothing.
    sleep(secs(60)).await;
    assert_eq!(provider.in_flight(), 2);
    assert!(first.into_body().collect().await.is_ok());
    assert_eq!(provider.in_flight(), 1);
    drop(second);
    assert_eq!(provider.in_flight(), 0);
    assert_eq!(provider.seen().iter().filter(|seen| seen.over.is_some_and(|over| over.played)).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_clients_that_leave_leave_nothing_behind() {
    let endless = ending(End::Hang, [role(), text("x").after(millis(50)).times(1000)]);
    let provider = Provider::new([Script { repeat: true, ..endless }]);
    let stack = Stack::chat(&provider);
    let service = stack.service(provider.clone());
    for round in 1..=1000 {
        let response = service.clone().oneshot(stack.request(Context::default())).await.expect("a response");
        let mut body = response.into_body();
        for _ in 0..2 {
            assert!(body.frame().await.is_some_and(|frame| frame.is_ok()));
        }
        drop(body);
        assert_eq!((provider.in_flight(), provider.attempts()), (0, round));
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_client_is_served_at_once_after_one_has_left() {
    let endless = ending(End::Hang, [role(), text("x").after(millis(50)).times(1000)]);
    let provider = Provider::new([endless, ok()]);
    let stack = Stack::chat(&provider);
    let left = timeout(millis(120), stack.ask(&provider)).await;
    assert!(left.is_err());
    let outcome = stack.ask(&provider).await;
    assert_eq!((outcome.status(), outcome.took), (Some(200), Duration::ZERO));
    assert_eq!(outcome.bytes(), ok().body_bytes());
}
