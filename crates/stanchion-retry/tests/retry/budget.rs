//! The recovery budget of a bounded request.

use std::time::Duration;

use stanchion_core::{Context, FailureKind, RecoveryBudget};
use stanchion_testkit::Events;
use tokio::time::Instant;

use super::{Reply, failure, hinted, ms, play, retries};

fn bounded(events: &Events, budget: Duration) -> Context {
    events.context_builder().recovery(RecoveryBudget::new(budget)).build()
}

#[tokio::test(start_paused = true)]
async fn a_wait_beyond_the_deadline_is_not_begun() {
    let events = Events::new();
    let context = bounded(&events, ms(3000));
    let replies: Vec<Reply> = (0..3).map(|_| Err(failure(FailureKind::Overloaded))).collect();
    // Attempts at 0, 500 and 1500; the third wait would end at 3500.
    let outcome = play(retries(12), context.clone(), replies).await;
    assert_eq!((&*outcome.at, outcome.took), (&[0, 500, 1500][..], ms(1500)));
    assert_eq!(outcome.failure().kind(), FailureKind::Overloaded);
    assert_eq!(events.lines().last().unwrap(), "R.exhausted#2(server_error)");
    assert_eq!(context.recovery().unwrap().remaining(Instant::now()), ms(1500));
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_with_the_budget_is_not_begun_and_one_just_before_is() {
    for (hint, at) in [(30_000, &[0][..]), (29_999, &[0, 29_999])] {
        let context = bounded(&Events::new(), Duration::from_secs(30));
        let replies = [Err(hinted(FailureKind::RateLimited, 429, ms(hint))), Ok(())];
        assert_eq!(play(retries(2), context, replies.into_iter().take(at.len())).await.at, at);
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_runs_already_counts() {
    let context = bounded(&Events::new(), Duration::from_secs(30));
    context.recovery().unwrap().start(Instant::now());
    tokio::time::advance(ms(29_600)).await;
    let outcome = play(retries(2), context, [Err(failure(FailureKind::Overloaded))]).await;
    assert_eq!(outcome.at, [0]);
}

#[tokio::test(start_paused = true)]
async fn a_spent_budget_allows_no_free_retry_either() {
    let context = bounded(&Events::new(), Duration::from_secs(30));
    context.recovery().unwrap().start(Instant::now());
    tokio::time::advance(Duration::from_secs(30)).await;
    let outcome = play(retries(2), context, [Err(failure(FailureKind::Unprocessed))]).await;
    assert_eq!(outcome.at, [0]);
}

#[tokio::test(start_paused = true)]
async fn the_clock_starts_with_the_first_retry_and_not_before() {
    for (reply, starts) in [
        (failure(FailureKind::Overloaded), true),
        (failure(FailureKind::IdleTimeout), false),
        (failure(FailureKind::InvalidRequest), false),
        (hinted(FailureKind::RateLimited, 429, Duration::from_secs(3600)), false),
    ] {
        let kind = reply.kind();
        let context = bounded(&Events::new(), Duration::from_secs(30));
        let began = Instant::now();
        let replies = [Err(reply), Ok(())].into_iter().take(if starts { 2 } else { 1 });
        let _ = play(retries(2), context.clone(), replies).await;
        let deadline = starts.then(|| began + Duration::from_secs(30));
        assert_eq!(context.recovery().unwrap().deadline(), deadline, "{kind:?}");
    }
}
