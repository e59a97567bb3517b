//! What an operator sees and does.

use stanchion_credentials::CredentialState::{Parked, RateLimited, Ready};

use super::{FailureKind, Stage, builder, limited, pass, refused, seconds};

#[tokio::test(start_paused = true)]
async fn a_key_is_taken_out_and_put_back_by_hand() {
    let mut stage = Stage::new(builder(["a", "b"]));
    let pool = stage.pools.get("primary").unwrap().clone();
    assert!(pool.park("a") && !pool.park("a") && !pool.park("c"));
    assert_eq!(stage.states(), [Parked, Ready]);
    assert_eq!(stage.serve().await, 'b');
    pass(seconds(30 * 24 * 3600)).await;
    assert_eq!(stage.serve().await, 'b');
    assert!(pool.park("b"));
    assert_eq!(stage.refused().await.kind(), FailureKind::Misconfigured);
    assert!(pool.put_back("a") && !pool.put_back("a") && !pool.put_back("c"));
    assert_eq!(stage.serve().await, 'a');
}

#[tokio::test(start_paused = true)]
async fn what_was_sent_before_a_key_was_put_back_does_not_take_it_out_again() {
    let mut stage = Stage::new(builder(["a"]));
    let calls = [stage.begin(), stage.begin()];
    let (_, first) = stage.next().await;
    let (_, second) = stage.next().await;
    first.send_error(refused());
    tokio::task::yield_now().await;
    tokio::task::yield_now().await;
    assert!(stage.pools.get("primary").unwrap().put_back("a"));
    second.send_error(refused());
    for call in calls {
        assert!(call.await.unwrap().is_err());
    }
    assert_eq!(stage.states(), [Ready]);
}

#[tokio::test(start_paused = true)]
async fn a_page_shows_ids_states_and_counts() {
    let mut stage = Stage::new(builder(["a", "b"]));
    stage.fail(limited(Some(20))).await;
    stage.serve().await;
    pass(seconds(5)).await;
    assert_eq!(stage.states(), [RateLimited, Ready]);
    let shown = serde_json::to_string(&stage.pools.status()).unwrap();
    assert_eq!(
        shown,
        concat!(
            r#"[{"provider":"primary","strategy":"fill_first","ready_count":1,"credentials":["#,
            r#"{"id":"a","state":"rate_limited","back_in_ms":15000,"usage_count":0,"rate_limit_count":1,"in_flight":0},"#,
            r#"{"id":"b","state":"ready","usage_count":1,"rate_limit_count":0,"in_flight":0,"last_used_ago_ms":5000}]}]"#
        )
    );
}
