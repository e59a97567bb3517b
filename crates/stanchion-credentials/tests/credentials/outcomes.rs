//! What each outcome does to the credential, and to the failure.

use stanchion_core::{
    CredentialStrategy, Disposition, DispositionRules, Event, Failure, FailureKind, HintSource, Phase, PoolState,
    Retry, RotationReason,
};
use stanchion_credentials::CredentialState::{Exhausted, PassedOver, RateLimited, Ready, Refused};

use super::{Stage, builder, exhausted, failure, hello, hint, limited, pass, refused, seconds};

#[tokio::test(start_paused = true)]
async fn picking_is_told_at_first_and_not_each_time() {
    let mut stage = Stage::new(builder(["a", "b"]).strategy(CredentialStrategy::RoundRobin));
    let mut served = String::new();
    for _ in 0..5 {
        served.push(stage.serve().await);
    }
    assert_eq!(served, "ababa");
    assert_eq!(stage.events.lines(), ["K.initial a(2)"]);
    assert_eq!(stage.usage(), [3, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_cools_the_key_for_its_hint_and_the_other_serves() {
    let mut stage = Stage::new(builder(["a", "b"]));
    let (key, failure) = stage.fail(limited(Some(20))).await;
    assert_eq!((key, failure.pool(), hint(&failure)), ('a', Some(PoolState::AnotherReady), None));
    assert_eq!(Disposition::of(&failure, &DispositionRules::default()).retry, Retry::AtOnce);
    assert_eq!(failure.status().map(|status| status.as_u16()), Some(429));
    assert_eq!(stage.states(), [RateLimited, Ready]);
    assert_eq!(stage.pools.status()[0].credentials[0].back_in, Some(seconds(20)));
    assert_eq!(stage.serve().await, 'b');
    pass(seconds(19)).await;
    assert_eq!(stage.serve().await, 'b');
    pass(seconds(1)).await;
    assert_eq!(stage.serve().await, 'a');
    assert_eq!(stage.events.lines(), ["K.initial a(2)", "K.rate_limit_cooldown a~20000(1)", "K.returned a(2)"]);
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_without_a_hint_cools_for_a_minute_or_as_configured() {
    for (stage, time) in
        [(Stage::new(builder(["a", "b"])), 60), (Stage::new(builder(["a", "b"]).cooldown(seconds(7))), 7)]
    {
        let mut stage = stage;
        stage.fail(limited(None)).await;
        pass(seconds(time - 1)).await;
        assert_eq!(stage.serve().await, 'b');
        pass(seconds(1)).await;
        assert_eq!(stage.serve().await, 'a');
        assert_eq!(stage.pools.status()[0].credentials[0].rate_limit_count, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn when_all_keys_cool_the_provider_is_left_alone_and_the_failure_says_for_how_long() {
    let mut stage = Stage::new(builder(["a", "b"]));
    stage.fail(limited(Some(30))).await;
    pass(seconds(10)).await;
    // The last key's own hint is an hour, and the first key is back in 20 s.
    let (key, last) = stage.fail(limited(Some(3600))).await;
    assert_eq!((key, last.pool()), ('b', None));
    assert_eq!(hint(&last), Some((seconds(20), HintSource::Credentials)));
    assert_eq!(Disposition::of(&last, &DispositionRules::default()).retry, Retry::Here);

    pass(seconds(5)).await;
    let failure = stage.refused().await;
    assert_eq!((failure.kind(), failure.phase()), (FailureKind::RateLimited, Phase::Connect));
    assert_eq!(hint(&failure), Some((seconds(15), HintSource::Credentials)));
    assert_eq!(failure.pool(), Some(PoolState::NoneReady));
    assert_eq!(failure.candidate().map(|name| &**name), Some("primary/gpt-x"));
    pass(seconds(15)).await;
    assert_eq!(stage.serve().await, 'a', "the hint is kept to the instant");
}

#[tokio::test(start_paused = true)]
async fn the_only_key_keeps_the_providers_own_hint() {
    let mut stage = Stage::new(builder(["a"]));
    let (_, failure) = stage.fail(limited(Some(20))).await;
    assert_eq!(hint(&failure), Some((seconds(20), HintSource::RetryAfter)));
    pass(seconds(20)).await;
    let (_, failure) = stage.fail(limited(None)).await;
    assert_eq!(hint(&failure), Some((seconds(60), HintSource::Credentials)));
}

#[tokio::test(start_paused = true)]
async fn a_refused_key_is_parked_and_the_next_is_asked_at_once() {
    let mut stage = Stage::new(builder(["a", "b"]));
    let (key, failure) = stage.fail(refused()).await;
    assert_eq!((key, failure.pool()), ('a', Some(PoolState::AnotherReady)));
    assert_eq!(Disposition::of(&failure, &DispositionRules::default()).retry, Retry::AtOnce);
    assert_eq!(stage.states(), [Refused, Ready]);
    assert_eq!(stage.serve().await, 'b');
    pass(seconds(3600)).await;
    assert_eq!(stage.serve().await, 'a');
    let lines = ["K.initial a(2)", "K.auth_failure a~3600000(1)", "K.returned a(2)"];
    assert_eq!(stage.events.lines(), lines);

    let mut stage = Stage::new(builder(["a"]).refused_for(None));
    let (_, failure) = stage.fail(refused()).await;
    assert_eq!((failure.pool(), hint(&failure)), (None, None));
    pass(seconds(30 * 24 * 3600)).await;
    let failure = stage.refused().await;
    assert_eq!((failure.kind(), hint(&failure)), (FailureKind::Authentication, None));
    assert_eq!(stage.events.lines(), ["K.initial a(1)", "K.auth_failure a(0)"]);
}

#[tokio::test(start_paused = true)]
async fn an_exhausted_account_is_parked_for_an_hour_or_longer_if_it_says_so() {
    let mut stage = Stage::new(builder(["a", "b"]).exhausted_for(seconds(100)));
    let (_, failure) = stage.fail(exhausted()).await;
    assert_eq!(failure.pool(), Some(PoolState::AnotherReady));
    let (_, failure) = stage.fail(exhausted().with_hint(limited(Some(500)).hint())).await;
    assert_eq!(
        (failure.kind(), hint(&failure)),
        (FailureKind::QuotaExhausted, Some((seconds(100), HintSource::Credentials)))
    );
    assert_eq!(stage.states(), [Exhausted, Exhausted]);
    assert_eq!(stage.refused().await.kind(), FailureKind::QuotaExhausted);
    pass(seconds(100)).await;
    assert_eq!(stage.serve().await, 'a');
    assert_eq!(stage.states(), [Ready, Exhausted]);
    let expected = ["K.initial a(2)", "K.quota a~100000(1)", "K.quota b~500000(0)", "K.returned a(1)"];
    assert_eq!(stage.events.lines(), expected);
}

#[tokio::test(start_paused = true)]
async fn where_another_key_only_cools_a_refusal_is_something_to_wait_for() {
    let mut stage = Stage::new(builder(["a", "b"]));
    stage.fail(limited(Some(20))).await;
    let (key, failure) = stage.fail(refused()).await;
    assert_eq!((key, failure.kind()), ('b', FailureKind::RateLimited));
    assert_eq!((failure.phase(), failure.pool()), (Phase::BeforeOutput, None), "the provider was asked");
    assert_eq!(hint(&failure), Some((seconds(20), HintSource::Credentials)));
    let source =
        std::error::Error::source(&failure).and_then(|source| source.downcast_ref::<stanchion_core::Failure>());
    assert_eq!(source.map(stanchion_core::Failure::kind), Some(FailureKind::Authentication));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_may_not_is_passed_over_and_all_keys_are_tried_once() {
    let mut stage = Stage::new(builder(["a", "b"]));
    let (key, denied) = stage.fail(failure(FailureKind::PermissionDenied, 403)).await;
    assert_eq!((key, denied.pool()), ('a', Some(PoolState::AnotherReady)));
    let (key, denied) = stage.fail(failure(FailureKind::PermissionDenied, 403)).await;
    assert_eq!((key, denied.pool(), denied.kind()), ('b', None, FailureKind::PermissionDenied));
    assert_eq!(stage.states(), [PassedOver, PassedOver]);
    // Who asks for what is permitted is served all the same.
    assert_eq!(stage.serve().await, 'a');
    assert_eq!(stage.states(), [Ready, PassedOver]);
    assert_eq!(stage.events.lines(), ["K.initial a(2)"]);
}

#[tokio::test(start_paused = true)]
async fn who_was_not_asked_costs_no_attempt_although_its_key_goes_meanwhile() {
    let mut stage = Stage::new(builder(["a"]));
    let calls = [stage.begin(), stage.begin(), stage.begin()];
    let mut answers = Vec::new();
    for _ in &calls {
        answers.push(stage.next().await.1);
    }
    let turned_away = Failure::new(FailureKind::CircuitOpen).with_phase(Phase::Connect);
    let [limits, turns_away, refuses] = <[_; 3]>::try_from(answers).ok().unwrap();
    limits.send_error(limited(Some(20)));
    let [limited, away, refused] = calls;
    limited.await.unwrap().map(drop).unwrap_err();
    turns_away.send_error(turned_away);
    let away = away.await.unwrap().map(drop).unwrap_err();
    assert_eq!((away.kind(), away.pool()), (FailureKind::RateLimited, Some(PoolState::NoneReady)));
    assert_eq!(hint(&away), Some((seconds(20), HintSource::Credentials)));
    // Its key was looked at, and so was the request.
    refuses.send_error(failure(FailureKind::PermissionDenied, 403));
    let refused = refused.await.unwrap().map(drop).unwrap_err();
    assert_eq!((refused.kind(), refused.pool()), (FailureKind::RateLimited, None));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_about_the_key_changes_nothing() {
    use FailureKind as K;
    for kind in FailureKind::ALL {
        if matches!(kind, K::RateLimited | K::QuotaExhausted | K::Authentication | K::PermissionDenied | K::CircuitOpen)
        {
            continue;
        }
        let mut stage = Stage::new(builder(["a", "b"]));
        let (key, failure) = stage.fail(failure(kind, 500).with_hint(limited(Some(9)).hint())).await;
        assert_eq!((key, failure.kind(), failure.pool()), ('a', kind, None));
        assert_eq!(hint(&failure), Some((seconds(9), HintSource::RetryAfter)));
        assert_eq!(stage.states(), [Ready, Ready]);
        assert_eq!((stage.usage(), stage.in_flight()), (vec![0, 0], vec![0, 0]));
        assert_eq!(stage.serve().await, 'a', "its reservation ended with the failure");
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_that_nobody_has_made_a_failure_of_teaches_nothing() {
    let mut stage = Stage::new(builder(["a", "b"]));
    let mut response = hello();
    *response.status_mut() = http::StatusCode::TOO_MANY_REQUESTS;
    let (key, result) = stage.call(Ok(response)).await;
    assert!(result.is_ok());
    assert_eq!((key, stage.states(), stage.usage()), ('a', vec![Ready, Ready], vec![0, 0]));
    assert_eq!(stage.serve().await, 'a');
}

#[tokio::test(start_paused = true)]
async fn events_tell_ids_and_no_keys() {
    let mut stage = Stage::new(builder(["a", "b"]).strategy(CredentialStrategy::LeastUsed));
    stage.fail(limited(Some(20))).await;
    let all = stage.events.all();
    let [_, Event::CredentialRotation(event)] = &all[..] else { panic!("{all:?}") };
    assert_eq!((event.reason, &*event.credential_id), (RotationReason::RateLimitCooldown, "a"));
    assert_eq!((event.candidate.as_deref(), &*event.provider), (Some("primary/gpt-x"), "primary"));
    assert_eq!((event.strategy, event.cooldown), (CredentialStrategy::LeastUsed, Some(seconds(20))));
    assert!(!format!("{all:?}").contains("key-"));
}
