//! The order of events, and their times.

use stanchion_core::{Event, Failure, FailureKind, RetryReason};
use stanchion_testkit::Events;

use super::{failure, play, retries, status};

fn down() -> Failure {
    status(FailureKind::ServerError, 503)
}

#[tokio::test(start_paused = true)]
async fn a_retry_recovers() {
    let events = Events::new();
    let outcome = play(retries(2), events.context(), [Err(down()), Ok(())]).await;
    assert!(outcome.result.is_ok());
    assert_eq!(events.timed_lines(), ["0 R.scheduled#1~500", "500 R.attempt#1", "500 R.recovered#1"]);
    for event in events.all() {
        let Event::ProviderRetry(event) = event else { panic!("{event:?}") };
        assert_eq!(event.candidate.as_deref(), Some("primary/gpt-x"));
        assert_eq!((event.max_retries, event.reason, event.status_code), (2, RetryReason::ServerError, Some(503)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_zero_is_told_and_means_zero() {
    let events = Events::new();
    let outcome = play(retries(0), events.context(), [Err(down())]).await;
    assert_eq!(outcome.failure().status().unwrap(), 503);
    assert_eq!(events.timed_lines(), ["0 R.exhausted#0(server_error/503)"]);
}

#[tokio::test(start_paused = true)]
async fn retries_end_at_their_limit() {
    let events = Events::new();
    let outcome = play(retries(2), events.context(), [Err(down()), Err(down()), Err(down())]).await;
    assert_eq!((outcome.took.as_millis(), &*outcome.at), (1500, &[0, 500, 1500][..]));
    let failure = outcome.failure();
    assert_eq!((failure.kind(), failure.attempts()), (FailureKind::ServerError, 3));
    assert_eq!(
        events.timed_lines(),
        [
            "0 R.scheduled#1~500",
            "500 R.attempt#1",
            "500 R.scheduled#2~1000",
            "1500 R.attempt#2",
            "1500 R.exhausted#2(server_error/503)"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_terminal_failure_ends_retries_under_the_earlier_reason() {
    let events = Events::new();
    let outcome =
        play(retries(2), events.context(), [Err(down()), Err(status(FailureKind::InvalidRequest, 400))]).await;
    assert_eq!(outcome.failure().kind(), FailureKind::InvalidRequest);
    assert_eq!(events.timed_lines(), ["0 R.scheduled#1~500", "500 R.attempt#1", "500 R.exhausted#1(server_error/503)"]);
}

#[tokio::test(start_paused = true)]
async fn an_exhausting_failure_tells_its_own_reason() {
    let events = Events::new();
    let replies = [Err(down()), Err(status(FailureKind::RateLimited, 429))];
    play(retries(1), events.context(), replies).await.failure();
    assert_eq!(events.lines()[2], "R.exhausted#1(rate_limit/429)");
}

#[tokio::test(start_paused = true)]
async fn without_a_retry_there_is_nothing_to_tell() {
    for reply in [Ok(()), Err(status(FailureKind::InvalidRequest, 400)), Err(failure(FailureKind::CircuitOpen))] {
        let events = Events::new();
        let _ = play(retries(2), events.context(), [reply]).await;
        assert_eq!(events.lines(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_left_is_told_nothing() {
    let events = Events::new();
    play(retries(2), events.context(), [Err(down()), Err(failure(FailureKind::Cancelled))]).await.failure();
    assert_eq!(events.lines(), ["R.scheduled#1~500", "R.attempt#1"]);
}

#[tokio::test(start_paused = true)]
async fn silence_on_a_retry_ends_retries_under_the_earlier_reason() {
    let events = Events::new();
    play(retries(2), events.context(), [Err(down()), Err(failure(FailureKind::IdleTimeout))]).await.failure();
    assert_eq!(events.lines()[2..], ["R.exhausted#1(server_error/503)"]);
}

#[tokio::test(start_paused = true)]
async fn the_free_retry_is_told_as_one_more() {
    let events = Events::new();
    let unprocessed = || Err(failure(FailureKind::Unprocessed));
    let outcome = play(retries(1), events.context(), [unprocessed(), unprocessed(), unprocessed()]).await;
    assert_eq!(outcome.at, [0, 0, 500]);
    assert_eq!(
        events.timed_lines(),
        [
            "0 R.scheduled#1~0",
            "0 R.attempt#1",
            "0 R.scheduled#2~500",
            "500 R.attempt#2",
            "500 R.exhausted#2(transport)"
        ]
    );
    for event in events.all() {
        let Event::ProviderRetry(event) = event else { panic!("{event:?}") };
        assert_eq!(event.max_retries, 2);
    }
}
