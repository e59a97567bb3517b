//! Many callers at once.

use std::collections::BTreeMap;

use stanchion_core::CredentialStrategy;
use stanchion_credentials::CredentialState;

use super::{Stage, builder, hello, limited, pass, seconds};

/// So many calls at once, none of which is answered, and how many came with which key.
async fn storm(stage: &mut Stage, calls: usize) -> (BTreeMap<String, usize>, Vec<super::Call>) {
    let calls: Vec<_> = (0..calls).map(|_| stage.begin()).collect();
    let mut keys = BTreeMap::new();
    for _ in 0..calls.len() {
        let (key, answer) = stage.next().await;
        *keys.entry(key).or_default() += 1;
        // Never answered, and not dropped either.
        std::mem::drop(tokio::spawn(async move {
            std::future::pending::<()>().await;
            drop(answer);
        }));
    }
    (keys, calls)
}

#[tokio::test(start_paused = true)]
async fn callers_at_once_do_not_pile_on_one_key() {
    for strategy in CredentialStrategy::ALL {
        let mut stage = Stage::new(builder(["a", "b", "c"]).strategy(strategy).seed(1));
        let (keys, calls) = storm(&mut stage, 90).await;
        let fair = if strategy == CredentialStrategy::Random { 15..=45 } else { 30..=30 };
        assert!(keys.len() == 3 && keys.values().all(|count| fair.contains(count)), "{strategy}: {keys:?}");
        assert_eq!(stage.in_flight().iter().sum::<u32>(), 90);
        for call in &calls {
            call.abort();
        }
        for call in calls {
            assert!(call.await.is_err());
        }
        assert_eq!(stage.in_flight(), [0, 0, 0], "{strategy}");
    }
}

#[tokio::test(start_paused = true)]
async fn fill_first_goes_back_to_the_first_once_it_is_answered_or_takes_too_long() {
    let mut stage = Stage::new(builder(["a", "b", "c"]));
    let first = stage.begin();
    let (key, answer) = stage.next().await;
    assert_eq!(key, "key-a");
    assert_eq!(stage.serve().await, 'b');
    answer.send_response(hello());
    let body = first.await.unwrap().unwrap();
    assert_eq!(stage.serve().await, 'a', "the head has come, though the reply goes on");
    drop(body);

    let _waiting = stage.begin();
    let (key, _unanswered) = stage.next().await;
    assert_eq!(key, "key-a");
    assert_eq!(stage.serve().await, 'b');
    pass(seconds(5)).await;
    assert_eq!(stage.serve().await, 'a');
}

#[tokio::test(start_paused = true)]
async fn one_limit_that_many_meet_is_told_once_and_lasts_as_long_as_the_longest() {
    let mut stage = Stage::new(builder(["a"]));
    let calls: Vec<_> = (0..5).map(|_| stage.begin()).collect();
    for hint in [10, 30, 20, 5, 1] {
        let (_, answer) = stage.next().await;
        answer.send_error(limited(Some(hint)));
    }
    for call in calls {
        assert!(call.await.unwrap().is_err());
    }
    let status = &stage.pools.status()[0].credentials[0];
    assert_eq!((status.state, status.back_in), (CredentialState::RateLimited, Some(seconds(30))));
    assert_eq!(status.rate_limit_count, 5);
    assert_eq!(stage.events.lines().len(), 2);
}
