//! Bounded foreground: a budget of time and of attempts.

use std::time::Duration;

use stanchion_core::{Context, Event, ExhaustedBy, FailureKind, RecoveryBudget, RecoveryMode, RetryPhase};
use stanchion_testkit::Events;
use tokio::time::Instant;

use super::{Reply, candidate, failure, hinted, ms, play, play_request, request_for, retries, standard, status};

const SECONDS_30: Duration = Duration::from_secs(30);

fn bounded(events: &Events, budget: Duration) -> Context {
    events.context_builder().recovery(RecoveryBudget::new(budget)).build()
}

fn down() -> Reply {
    Err(status(FailureKind::Overloaded, 503))
}

#[tokio::test(start_paused = true)]
async fn twelve_attempts_may_follow_the_first_with_ever_longer_waits() {
    let events = Events::new();
    let context = bounded(&events, RecoveryBudget::DEFAULT);
    let outcome = play(standard(), context.clone(), (0..13).map(|_| down())).await;
    assert_eq!(outcome.took.as_millis(), 500 + 1000 + 2000 + 4000 + 8000 + 16_000 + 32_000 + 5 * 60_000);
    let failure = outcome.failure();
    assert_eq!((failure.kind(), failure.attempts()), (FailureKind::Overloaded, 13));
    let lines = events.lines();
    let mut expected = Vec::new();
    for (number, wait) in
        (1..=12).zip([500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000, 60_000, 60_000])
    {
        expected.push(format!("R.scheduled#{number}~{wait}"));
        expected.extend((1..=(wait - 1) / 15_000).map(|_| format!("R.waiting#{number}~{wait}")));
        expected.push(format!("R.attempt#{number}"));
    }
    expected.push("R.exhausted#12(server_error/503)!attempt_limit".into());
    assert_eq!(lines, expected);
    for event in events.all() {
        let Event::ProviderRetry(event) = event else { panic!("{event:?}") };
        assert_eq!((event.mode, event.max_retries), (RecoveryMode::BoundedForeground, 12));
        assert!(event.recovery.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn four_failures_are_survived() {
    let events = Events::new();
    let replies = (0..4).map(|_| down()).chain([Ok(())]);
    let outcome = play(standard(), bounded(&events, RecoveryBudget::DEFAULT), replies).await;
    assert_eq!(outcome.at, [0, 500, 1500, 3500, 7500]);
    let events = events.all();
    let Event::ProviderRetry(last) = events.last().unwrap() else { panic!() };
    assert_eq!((last.phase, last.attempt, last.max_retries), (RetryPhase::Recovered, 4, 12));
    assert_eq!(last.recovery.unwrap().budget, RecoveryBudget::DEFAULT);
}

#[tokio::test(start_paused = true)]
async fn a_long_wait_is_told_every_fifteen_seconds() {
    let events = Events::new();
    let context = bounded(&events, RecoveryBudget::DEFAULT);
    let outcome = play(standard(), context, [Err(hinted(FailureKind::RateLimited, 429, SECONDS_30)), Ok(())]).await;
    assert_eq!(outcome.at, [0, 30_000]);
    assert_eq!(
        events.timed_lines(),
        ["0 R.scheduled#1~30000", "15000 R.waiting#1~30000", "30000 R.attempt#1", "30000 R.recovered#1"]
    );
    let Event::ProviderRetry(waiting) = &events.all()[1] else { panic!() };
    let recovery = waiting.recovery.unwrap();
    assert_eq!((recovery.elapsed, recovery.remaining), (ms(15_000), ms(585_000)));
    assert!(waiting.next_retry_at.is_some());
}

#[tokio::test(start_paused = true)]
async fn waits_are_told_in_standard_mode_too() {
    let events = Events::new();
    let replies = [Err(hinted(FailureKind::RateLimited, 429, Duration::from_secs(45))), Ok(())];
    play(standard(), events.context(), replies).await;
    let waiting = ["0 R.scheduled#1~45000", "15000 R.waiting#1~45000", "30000 R.waiting#1~45000", "45000 R.attempt#1"];
    assert_eq!(events.timed_lines()[..4], waiting);
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_the_budget_at_the_latest_and_the_budget_is_told_once() {
    // The wait that is asked for is longer, as long, and shorter by the least.
    for (asked, at, ends) in [(60_000, &[0][..], true), (30_000, &[0], true), (29_999, &[0, 29_999], false)] {
        let events = Events::new();
        let context = bounded(&events, SECONDS_30);
        let replies = [Err(hinted(FailureKind::RateLimited, 429, ms(asked))), Ok(())];
        let outcome = play(standard(), context, replies.into_iter().take(at.len())).await;
        assert_eq!(outcome.at, at, "{asked}");
        if !ends {
            continue;
        }
        assert_eq!(outcome.took, SECONDS_30);
        assert_eq!(
            events.timed_lines(),
            ["0 R.scheduled#1~30000", "15000 R.waiting#1~30000", "30000 R.exhausted#1(rate_limit/429)!recovery_budget"]
        );
        let failure = outcome.failure();
        assert_eq!((failure.kind(), failure.limit()), (FailureKind::RecoveryBudget, Some(SECONDS_30)));
        // What the provider asked for is of use to the caller still.
        assert_eq!(failure.hint().map(stanchion_core::RetryHint::delay), Some(ms(asked)));
        let Event::ProviderRetry(told) = events.all().pop().unwrap() else { panic!() };
        assert_eq!(told.recovery.unwrap().remaining, Duration::ZERO);
        assert_eq!(told.exhausted_by, Some(ExhaustedBy::RecoveryBudget));
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_runs_already_counts() {
    let context = bounded(&Events::new(), SECONDS_30);
    context.recovery().unwrap().start(Instant::now());
    tokio::time::advance(ms(29_600)).await;
    let outcome = play(standard(), context, [Err(failure(FailureKind::Overloaded))]).await;
    assert_eq!((&*outcome.at, outcome.took), (&[0][..], ms(400)));
    assert_eq!(outcome.failure().kind(), FailureKind::RecoveryBudget);
}

#[tokio::test(start_paused = true)]
async fn a_spent_budget_allows_no_attempt_at_all() {
    let events = Events::new();
    let context = bounded(&events, SECONDS_30);
    context.recovery().unwrap().start(Instant::now());
    tokio::time::advance(SECONDS_30).await;
    let outcome = play(standard(), context, []).await;
    assert_eq!(outcome.failure().kind(), FailureKind::RecoveryBudget);
    assert_eq!(events.lines(), ["R.exhausted#0(timeout)!recovery_budget"]);
}

#[tokio::test(start_paused = true)]
async fn the_clock_starts_with_the_first_retry_and_not_before() {
    for (reply, starts) in [
        (failure(FailureKind::Overloaded), true),
        (failure(FailureKind::Unprocessed), true),
        (hinted(FailureKind::RateLimited, 429, Duration::from_secs(3600)), true),
        (failure(FailureKind::IdleTimeout), false),
        (failure(FailureKind::InvalidRequest), false),
        (failure(FailureKind::QueueFull), false),
    ] {
        let kind = reply.kind();
        let context = bounded(&Events::new(), Duration::from_secs(90));
        let began = Instant::now();
        let replies = [Err(reply), Ok(())].into_iter().take(if starts { 2 } else { 1 });
        let _ = play(standard(), context.clone(), replies).await;
        let deadline = starts.then(|| began + Duration::from_secs(90));
        assert_eq!(context.recovery().unwrap().deadline(), deadline, "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_attempt_may_take_longer_than_the_whole_budget() {
    let context = bounded(&Events::new(), SECONDS_30);
    let (mut service, mut handle) = tower_test::mock::spawn_layer(standard());
    std::future::poll_fn(|_| service.poll_ready()).await.unwrap();
    let call = tokio::spawn(service.call(stanchion_testkit::request_in(context)));
    let (_, send) = handle.next_request().await.unwrap();
    tokio::time::sleep(Duration::from_secs(100)).await;
    send.send_error(failure(FailureKind::Overloaded));
    let (_, send) = handle.next_request().await.unwrap();
    send.send_response(http::Response::new(()));
    assert!(call.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_another_follows_has_two_retries_and_the_last_has_the_rest() {
    let events = Events::new();
    let context = bounded(&events, RecoveryBudget::DEFAULT);
    let first =
        play_request(standard(), request_for(context.clone(), candidate("a", false)), (0..3).map(|_| down())).await;
    assert_eq!(first.at, [0, 500, 1500]);
    let last =
        play_request(standard(), request_for(context.clone(), candidate("b", true)), (0..10).map(|_| down())).await;
    // The backoff goes on where the first candidate left off.
    assert_eq!(last.at[..3], [0, 4000, 12_000]);
    assert_eq!(first.took + last.took, ms(361_500));
    let lines = events.lines();
    assert_eq!(lines[4], "R.exhausted#2(server_error/503)", "no limit of the request's");
    assert_eq!(lines[5], "R.scheduled#4~4000");
    assert_eq!(lines.last().unwrap(), "R.exhausted#12(server_error/503)!attempt_limit");
    // Nothing is left for a third.
    let third = play_request(standard(), request_for(context.clone(), candidate("c", true)), []).await;
    assert_eq!(third.failure().kind(), FailureKind::RecoveryBudget);
    assert!(!context.recovery().unwrap().has_attempts());
}

#[tokio::test(start_paused = true)]
async fn a_number_that_is_set_counts_for_each_candidate() {
    let events = Events::new();
    let context = bounded(&events, RecoveryBudget::DEFAULT);
    for (name, last) in [("a", false), ("b", true)] {
        let request = request_for(context.clone(), candidate(name, last));
        assert_eq!(play_request(retries(1), request, [down(), down()]).await.at, [0, 500]);
    }
    assert_eq!(
        events.lines(),
        [
            "R.scheduled#1~500",
            "R.attempt#1",
            "R.exhausted#1(server_error/503)",
            "R.scheduled#1~500",
            "R.attempt#1",
            "R.exhausted#1(server_error/503)!attempt_limit"
        ]
    );
    assert_eq!(context.recovery().unwrap().attempts(), 0, "nothing is shared");
    let none = Events::new();
    let context = bounded(&none, SECONDS_30);
    play_request(retries(0), request_for(context.clone(), candidate("a", true)), [down()]).await.failure();
    assert_eq!(none.lines(), ["R.exhausted#0(server_error/503)!attempt_limit"]);
    assert_eq!(context.recovery().unwrap().deadline(), None, "the clock has not started");
}

#[tokio::test(start_paused = true)]
async fn what_never_reached_the_candidate_costs_no_attempt() {
    let context = bounded(&Events::new(), SECONDS_30);
    for kind in
        [FailureKind::QueueFull, FailureKind::QueueTimeout, FailureKind::CircuitOpen, FailureKind::Misconfigured]
    {
        play(standard(), context.clone(), [Err(failure(kind))]).await.failure();
        assert_eq!(context.recovery().unwrap().attempts(), 0, "{kind:?}");
    }
    play(standard(), context.clone(), [Err(failure(FailureKind::InvalidRequest))]).await.failure();
    assert_eq!(context.recovery().unwrap().attempts(), 1);
}

#[tokio::test(start_paused = true)]
async fn one_context_for_two_calls_at_once_is_no_panic() {
    // The attempt that the other call gives back comes too late for this one's request.
    let context =
        Events::new().context_builder().recovery(RecoveryBudget::new(RecoveryBudget::DEFAULT).with_attempts(1)).build();
    let (mut service, mut handle) = tower_test::mock::spawn_layer(standard());
    let mut calls = Vec::new();
    for _ in 0..2 {
        std::future::poll_fn(|_| service.poll_ready()).await.unwrap();
        let request = request_for(context.clone(), candidate("a", false));
        calls.push(tokio::spawn(service.call(request)));
    }
    let upstream = async {
        let (_, first): (super::Req, tower_test::mock::SendResponse<http::Response<()>>) =
            handle.next_request().await.unwrap();
        let (_, second) = handle.next_request().await.unwrap();
        first.send_error(failure(FailureKind::QueueFull));
        tokio::time::sleep(ms(1)).await;
        second.send_error(status(FailureKind::Overloaded, 503));
    };
    upstream.await;
    let kinds: Vec<_> = {
        let mut kinds = Vec::new();
        for call in calls {
            kinds.push(call.await.expect("no panic").unwrap_err().kind());
        }
        kinds
    };
    assert_eq!(kinds, [FailureKind::QueueFull, FailureKind::Overloaded]);
}

#[tokio::test(start_paused = true)]
async fn no_attempt_is_made_at_the_last_instant() {
    // The gate opens with the budget's end.
    let events = Events::new();
    let context = bounded(&events, SECONDS_30);
    let gate = std::sync::Arc::new(super::circuit::Gate::default());
    let circuit = super::circuit::open(&gate, SECONDS_30);
    let request = request_for(context, candidate("a", true));
    let outcome = play_request(standard(), request, [super::circuit::turned_away(&circuit)]).await;
    assert_eq!((outcome.took, outcome.at.len()), (SECONDS_30, 1));
    assert_eq!(outcome.failure().kind(), FailureKind::RecoveryBudget);
    assert_eq!(gate.turns(), 0, "the turn is passed on");
}
