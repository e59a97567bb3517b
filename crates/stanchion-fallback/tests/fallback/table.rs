//! Every row of the table: which kinds of failure are passed on.

use std::task::Poll;

use http::Response;
use stanchion_core::{BoxError, DispositionRules, Failure, FailureKind, FallbackOn, Phase};
use stanchion_fallback::FallbackLayer;
use stanchion_testkit::{candidates, request};
use tokio_test::{assert_pending, assert_ready_ok, task};
use tower::Layer;
use tower_test::mock::{self, Spawn};

use super::{Req, failure, passes, selected, status};

/// How many of two candidates are asked if the first fails so and the second answers.
async fn asked(rules: DispositionRules, first: Failure) -> usize {
    let kind = first.kind();
    let (inner, mut provider) = mock::pair::<Req, Response<()>>();
    let mut service = Spawn::new(FallbackLayer::new(candidates(["a", "b"])).with_rules(rules).layer(inner));
    provider.allow(1);
    assert_ready_ok!(service.poll_ready());
    let mut call = task::spawn(service.call(request()));
    assert_pending!(call.poll());
    let (asked, reply) = provider.next_request().await.expect("the first is asked");
    assert_eq!((selected(&asked).candidate.provider(), selected(&asked).last), ("a", false));
    reply.send_error(BoxError::from(first));

    if let Poll::Ready(result) = call.poll() {
        let failed = result.expect_err("nobody answered");
        assert_eq!((failed.kind(), failed.candidate().map(|name| &**name)), (kind, Some("a/gpt-x")));
        assert_pending!(provider.poll_request());
        return 1;
    }
    // The second waits for the service, and nobody is asked before.
    assert_pending!(provider.poll_request());
    provider.allow(1);
    assert_pending!(call.poll());
    let (asked, reply) = provider.next_request().await.expect("the second is asked");
    assert_eq!((selected(&asked).candidate.provider(), selected(&asked).last), ("b", true));
    reply.send_response(Response::new(()));
    assert_ready_ok!(call.poll());
    2
}

#[tokio::test]
async fn every_kind_is_passed_on_as_the_table_says() {
    for kind in FailureKind::ALL {
        let expected = 1 + usize::from(passes(kind));
        assert_eq!(asked(DispositionRules::default(), failure(kind)).await, expected, "{kind:?}");
    }
}

#[tokio::test]
async fn after_output_nothing_is_passed_on() {
    for kind in FailureKind::ALL {
        let late = failure(kind).with_phase(Phase::AfterOutput);
        assert_eq!(asked(DispositionRules::default(), late).await, 1, "{kind:?}");
    }
}

#[tokio::test]
async fn disputed_failures_are_passed_on_by_name() {
    for (class, kind) in [
        (FallbackOn::Quota, FailureKind::QuotaExhausted),
        (FallbackOn::Auth, FailureKind::PermissionDenied),
        (FallbackOn::NotFound, FailureKind::NotFound),
        (FallbackOn::Overflow, FailureKind::ContextOverflow),
        (FallbackOn::Policy, FailureKind::ContentPolicy),
    ] {
        assert_eq!(asked(DispositionRules::default().with_fallback_on(class), failure(kind)).await, 2, "{class}");
    }
}

#[tokio::test]
async fn the_provider_overrules_a_status_both_ways() {
    let no = status(FailureKind::ServerError, 503).with_should_retry(Some(false));
    assert_eq!(asked(DispositionRules::default(), no).await, 1);
    let yes = status(FailureKind::InvalidRequest, 400).with_should_retry(Some(true));
    assert_eq!(asked(DispositionRules::default(), yes).await, 2);
}
