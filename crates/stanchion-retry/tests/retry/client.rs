//! What the caller's client library has retried by itself.

use http::HeaderValue;
use stanchion_core::{Event, FailureKind, RecoveryBudget};
use stanchion_retry::{RetryLayer, RetryPolicy};
use stanchion_testkit::{Events, request_in};

use super::{Req, play_request, standard, status};

fn retried(events: &Events, retries: &'static str) -> Req {
    let mut request = request_in(events.context());
    request.headers_mut().insert("x-stainless-retry-count", HeaderValue::from_static(retries));
    request
}

fn heeding() -> RetryLayer {
    RetryLayer::new(RetryPolicy::builder().heed_client_retries(true).build().unwrap()).with_random(|| 1.0)
}

#[tokio::test(start_paused = true)]
async fn it_is_told_with_every_event() {
    for (said, told) in [("0", Some(0)), ("2", Some(2)), ("many", None)] {
        let events = Events::new();
        let down = || Err(status(FailureKind::Overloaded, 503));
        let outcome = play_request(standard(), retried(&events, said), [down(), down(), down()]).await;
        assert_eq!(outcome.at.len(), 3, "and changes nothing by default");
        for event in events.all() {
            let Event::ProviderRetry(event) = event else { panic!("{event:?}") };
            assert_eq!(event.client_retries, told);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn where_it_is_heeded_it_is_taken_off_the_retries() {
    for (said, attempts) in [("0", 3), ("1", 2), ("2", 1), ("9", 1), ("many", 3)] {
        let events = Events::new();
        let replies = (0..attempts).map(|_| Err(status(FailureKind::Overloaded, 503)));
        let outcome = play_request(heeding(), retried(&events, said), replies).await;
        assert_eq!(outcome.at.len(), attempts, "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn where_it_is_heeded_it_is_taken_off_shared_attempts_too() {
    let events = Events::new();
    let mut request = retried(&events, "10");
    let context = events.context_builder().recovery(RecoveryBudget::new(RecoveryBudget::DEFAULT)).build();
    request.extensions_mut().insert(context);
    let replies = (0..3).map(|_| Err(status(FailureKind::Overloaded, 503)));
    assert_eq!(play_request(heeding(), request, replies).await.at.len(), 3, "two of twelve are left");
}
