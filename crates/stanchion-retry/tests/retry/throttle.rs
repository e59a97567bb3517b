//! The budget that protects a provider from all its callers' retries together.

use std::time::Duration;

use stanchion_core::{Event, ExhaustedBy, FailureKind};
use stanchion_retry::RetryBudget;
use stanchion_testkit::Events;

use super::{Reply, candidate, play_request, request_for, retries, status};

fn down() -> Reply {
    Err(status(FailureKind::Overloaded, 503))
}

fn budget(capacity: u32) -> RetryBudget {
    RetryBudget::builder().capacity(capacity).refund(0.1).per_second(0.0).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_not_multiplied() {
    let layer = retries(2).with_budget(budget(10));
    let selected = candidate("a", true);
    let mut attempts = 0;
    for request in 0..100 {
        let events = Events::new();
        let denied = request >= 5;
        let replies = (0..if denied { 1 } else { 3 }).map(|_| down());
        let outcome = play_request(layer.clone(), request_for(events.context(), selected.clone()), replies).await;
        attempts += outcome.at.len();
        let failure = outcome.failure();
        assert_eq!((failure.kind(), failure.candidate().map(|name| &**name)), (FailureKind::Overloaded, Some("a/x")));
        if denied {
            assert_eq!(events.lines(), ["R.exhausted#0(server_error/503)!retry_budget"]);
            let Event::ProviderRetry(event) = &events.all()[0] else { panic!() };
            assert_eq!(event.exhausted_by, Some(ExhaustedBy::RetryBudget));
        }
    }
    assert_eq!(attempts, 110);
}

#[tokio::test(start_paused = true)]
async fn successes_fill_it_again() {
    let layer = retries(1).with_budget(budget(1));
    let selected = candidate("a", true);
    let ask = async |replies: Vec<Reply>| {
        play_request(layer.clone(), request_for(Events::new().context(), selected.clone()), replies).await.at.len()
    };
    // A retry that succeeds gives back what it took.
    for _ in 0..5 {
        assert_eq!(ask(vec![down(), Ok(())]).await, 2);
    }
    assert_eq!(ask(vec![down(), down()]).await, 2);
    assert_eq!(ask(vec![down()]).await, 1, "it is empty now");
    for _ in 0..11 {
        ask(vec![Ok(())]).await;
    }
    assert_eq!(ask(vec![down(), Ok(())]).await, 2);
}

#[tokio::test(start_paused = true)]
async fn another_provider_has_its_own_and_it_can_be_switched_off() {
    let layer = retries(1).with_budget(budget(1));
    for name in ["a", "b"] {
        let request = request_for(Events::new().context(), candidate(name, true));
        assert_eq!(play_request(layer.clone(), request, [down(), down()]).await.at.len(), 2);
    }
    let off = retries(1).with_budget(None);
    assert!(off.budget().is_none());
    for _ in 0..500 {
        let request = request_for(Events::new().context(), candidate("a", true));
        assert_eq!(play_request(off.clone(), request, [down(), down()]).await.at.len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lone_caller_with_a_failing_provider_keeps_its_retries() {
    let layer = retries(2);
    for _ in 0..200 {
        let request = request_for(Events::new().context(), candidate("a", true));
        let outcome = play_request(layer.clone(), request, [down(), down(), down()]).await;
        assert_eq!((outcome.at.len(), outcome.took), (3, Duration::from_millis(1500)));
        // As an agent does between two of its own attempts.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
