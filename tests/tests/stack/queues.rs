use std::time::Duration;

use stanchion::admission::{AdmissionLayer, AdmissionPolicy, AdmissionScheduler};
use stanchion_faults::scenario::{Script, Step};
use stanchion_tests::{
    provider::Provider,
    replies::{done, finish, role, secs, stream, text},
    stack::{Outcome, Stack},
};
use tokio::time::sleep;

/// A provider that takes four seconds for each answer, and a queue for one at a time.
fn slow() -> (Provider, Stack) {
    let last = Step { wait: Some(secs(4)), ..text("Hello.") };
    let provider = Provider::new([Script { repeat: true, ..stream([role(), last, finish("stop"), done()]) }]);
    let policy = AdmissionPolicy::builder().concurrency(1).max_pending(2).build().expect("within the range");
    let stack = Stack::chat(&provider).admission(AdmissionLayer::new(AdmissionScheduler::new(), policy));
    (provider, stack)
}

async fn after(wait: Duration, stack: &Stack, provider: &Provider) -> Outcome {
    sleep(wait).await;
    stack.ask(provider).await
}

/// That the queue was full, and when to come back.
fn turned_away(outcome: &Outcome) -> Option<&str> {
    assert_eq!(outcome.status(), Some(429));
    assert!(outcome.body().contains("queue_full"), "{}", outcome.body());
    outcome.header("retry-after")
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_tells_when_to_come_back_by_the_pace_at_which_it_empties() {
    let (provider, stack) = slow();
    let at = |seconds| after(secs(seconds), &stack, &provider);
    let (first, second, third, early, fourth, late) = tokio::join!(at(0), at(0), at(0), at(1), at(5), at(6));
    assert_eq!(turned_away(&early), None, "nothing is known yet");
    // Two wait, and one is let in every four seconds.
    assert_eq!(turned_away(&late), Some("8"));
    let served = [first, second, third, fourth];
    assert_eq!(served.each_ref().map(|outcome| outcome.took.as_secs()), [4, 8, 12, 11]);
    assert!(served.iter().all(|outcome| outcome.status() == Some(200) && outcome.body().contains("[DONE]")));
    assert_eq!(provider.attempts(), 4, "who was turned away was not heard of there");
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_closes_turns_away_who_waits_and_ends_nothing_that_runs() {
    let (provider, stack) = slow();
    let at = |seconds| after(secs(seconds), &stack, &provider);
    let close = async {
        sleep(secs(2)).await;
        stack.queue().scheduler().close();
    };
    let (runs, waits, late, ()) = tokio::join!(at(0), at(1), at(3), close);
    assert_eq!((runs.status(), runs.took), (Some(200), secs(4)));
    assert!(runs.body().contains("[DONE]"));
    for (outcome, took) in [(&waits, 1), (&late, 0)] {
        assert_eq!((outcome.status(), outcome.took), (Some(503), secs(took)), "{}", outcome.body());
        assert!(outcome.body().contains("queue_closed"), "{}", outcome.body());
    }
    assert_eq!(provider.attempts(), 1);
}
