//! Every row of the table: how often each kind of failure is tried, and when.

use stanchion_core::{Context, Disposition, DispositionRules, FailureKind, Phase, Retry};

use super::{Reply, failure, play, retries, status};

#[tokio::test(start_paused = true)]
async fn every_kind_is_retried_as_the_table_says() {
    for kind in FailureKind::ALL {
        let at: &[u128] = match Disposition::of(&failure(kind), &DispositionRules::default()).retry {
            Retry::Never => &[0],
            Retry::Once => &[0, 500],
            Retry::Here => &[0, 500, 1500],
            Retry::AtOnce => &[0, 0, 500, 1500],
        };
        let replies: Vec<Reply> = at.iter().map(|_| Err(failure(kind))).collect();
        let outcome = play(retries(2), Context::default(), replies).await;
        assert_eq!(outcome.at, at, "{kind:?}");
        assert_eq!(outcome.failure().kind(), kind);

        let recovered =
            play(retries(2), Context::default(), [Err(failure(kind)), Ok(())].into_iter().take(at.len())).await;
        assert_eq!(recovered.result.is_ok(), at.len() > 1, "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn after_output_nothing_is_retried() {
    for kind in FailureKind::ALL {
        let late = failure(kind).with_phase(Phase::AfterOutput).with_should_retry(Some(true));
        assert_eq!(play(retries(2), Context::default(), [Err(late)]).await.at, [0], "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_zero_allows_no_retry_of_any_kind() {
    for kind in FailureKind::ALL {
        assert_eq!(play(retries(0), Context::default(), [Err(failure(kind))]).await.at, [0], "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn once_is_once_in_a_call_whatever_comes_between() {
    let replies = [
        Err(failure(FailureKind::GatewayTimeout)),
        Err(failure(FailureKind::Overloaded)),
        Err(failure(FailureKind::NotModelReply)),
    ];
    let outcome = play(retries(5), Context::default(), replies).await;
    assert_eq!(outcome.at, [0, 500, 1500]);
    assert_eq!(outcome.failure().kind(), FailureKind::NotModelReply);
}

#[tokio::test(start_paused = true)]
async fn at_once_is_free_once_and_costs_no_backoff() {
    let replies = [
        Err(failure(FailureKind::Overloaded)),
        Err(failure(FailureKind::Unprocessed)),
        Err(failure(FailureKind::Unprocessed)),
        Ok(()),
    ];
    assert_eq!(play(retries(2), Context::default(), replies).await.at, [0, 500, 500, 1500]);
}

#[tokio::test(start_paused = true)]
async fn a_free_retry_is_left_when_the_limit_is_reached() {
    let replies = [Err(failure(FailureKind::Overloaded)), Err(failure(FailureKind::Unprocessed)), Ok(())];
    assert_eq!(play(retries(1), Context::default(), replies).await.at, [0, 500, 500]);
}

#[tokio::test(start_paused = true)]
async fn the_provider_overrules_a_status_both_ways() {
    let no = status(FailureKind::ServerError, 503).with_should_retry(Some(false));
    assert_eq!(play(retries(2), Context::default(), [Err(no)]).await.at, [0]);
    let yes = status(FailureKind::InvalidRequest, 400).with_should_retry(Some(true));
    assert_eq!(play(retries(2), Context::default(), [Err(yes), Ok(())]).await.at, [0, 500]);
}

#[tokio::test(start_paused = true)]
async fn overloads_grow_and_stay_below_the_ceiling() {
    let overloaded = || Err(status(FailureKind::Overloaded, 529));
    let replies: Vec<_> = (0..6).map(|_| overloaded()).chain([Ok(())]).collect();
    let outcome = play(retries(6), Context::default(), replies).await;
    assert_eq!(outcome.at, [0, 500, 1500, 3500, 7500, 15_500, 23_500]);
    assert!(outcome.result.is_ok());
}
