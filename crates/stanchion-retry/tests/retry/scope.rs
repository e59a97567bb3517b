//! What the number of retries counts for.

use stanchion_core::{Context, FailureKind, HintSource, RetryHint};
use stanchion_retry::{Preset, RetryLayer, RetryPolicy, RetryPolicyBuilder, Scope};
use stanchion_testkit::Events;

use super::{Reply, candidate, failure, ms, play, play_request, request_for, status};

fn layer(builder: RetryPolicyBuilder) -> RetryLayer {
    RetryLayer::new(builder.build().unwrap()).with_random(|| 1.0)
}

fn down() -> Reply {
    Err(status(FailureKind::Overloaded, 503))
}

fn limited() -> Reply {
    Err(status(FailureKind::RateLimited, 429))
}

#[tokio::test(start_paused = true)]
async fn a_request_may_have_so_many_retries_over_all_its_candidates() {
    let events = Events::new();
    let context = events.context();
    let layer = layer(RetryPolicy::builder().max_retries(3).scope(Scope::Request));
    let first = play_request(
        layer.clone(),
        request_for(context.clone(), candidate("a", false)),
        [down(), limited(), Err(failure(FailureKind::IdleTimeout))],
    )
    .await;
    assert_eq!(first.at, [0, 500, 1500]);
    let second =
        play_request(layer.clone(), request_for(context.clone(), candidate("b", true)), [down(), down()]).await;
    assert_eq!(second.at, [0, 2000], "the third and last");
    assert_eq!(events.lines()[5..], ["R.scheduled#3~2000", "R.attempt#3", "R.exhausted#3(server_error/503)"]);
    let third = play_request(layer, request_for(context, candidate("c", true)), [down()]).await;
    assert_eq!(third.at, [0]);
}

#[tokio::test(start_paused = true)]
async fn otherwise_each_candidate_has_its_own() {
    let context = Context::default();
    for name in ["a", "b"] {
        let layer = layer(RetryPolicy::builder().max_retries(1));
        let outcome = play_request(layer, request_for(context.clone(), candidate(name, false)), [down(), down()]).await;
        assert_eq!(outcome.at, [0, 500]);
    }
}

#[tokio::test(start_paused = true)]
async fn two_budgets_do_not_touch_each_other() {
    let layer = layer(RetryPolicy::builder().max_retries_by_class(1, 2).base(ms(100)).factor(1.0));
    // One rate limit and two faults are forgiven, in any order.
    for replies in [
        [limited(), down(), down(), down()],
        [down(), limited(), down(), limited()],
        [down(), down(), limited(), limited()],
    ] {
        let outcome = play(layer.clone(), Context::default(), replies).await;
        assert_eq!(outcome.at.len(), 4);
    }
    let outcome = play(layer, Context::default(), [limited(), limited()]).await;
    assert_eq!(outcome.at.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn pi_desktops_policy_forgives_eleven_requests_alternating_in_kind() {
    let events = Events::new();
    let layer = layer(RetryPolicy::preset(Preset::DualBudget));
    // The transient budget alone: a broken connection and a silent provider by turns.
    let replies =
        (0..11).map(|n| Err(failure(if n % 2 == 0 { FailureKind::Transport } else { FailureKind::IdleTimeout })));
    let outcome = play(layer, events.context(), replies).await;
    assert_eq!(outcome.at.len(), 11);
    assert_eq!(outcome.took, ms(63_000));
    assert!(events.lines().last().unwrap().starts_with("R.exhausted#10"));
}

#[tokio::test(start_paused = true)]
async fn every_preset_plays_its_schedule() {
    let text = |seconds: f64| {
        let hint = RetryHint::new(std::time::Duration::from_secs_f64(seconds), HintSource::Text);
        Err(status(FailureKind::RateLimited, 429).with_hint(Some(hint)))
    };
    for (preset, replies, at) in [
        (Preset::Standard, vec![down(), down(), down()], vec![0, 500, 1500]),
        (Preset::Transport, vec![down(), down(), down()], vec![0, 500, 1500]),
        (Preset::Ladder, vec![down(), down(), down(), down()], vec![0, 1000, 3000, 7000]),
        (Preset::Ladder, vec![text(2.5), limited(), Ok(())], vec![0, 3500, 33_500]),
        (Preset::DualBudget, vec![limited(), down(), limited(), Ok(())], vec![0, 2500, 3500, 8500]),
        (Preset::Gateway, vec![down(), down(), down()], vec![0, 1500, 4500]),
    ] {
        let outcome = play(layer(RetryPolicy::preset(preset)), Context::default(), replies).await;
        assert_eq!(outcome.at, at, "{preset:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_provider_is_asked_again_where_the_policy_says_so() {
    for (again, attempts) in [(false, 1), (true, 2)] {
        for kind in [FailureKind::FirstOutputTimeout, FailureKind::IdleTimeout] {
            let layer = layer(RetryPolicy::builder().max_retries(1).retry_on_silence(again));
            let replies = (0..attempts).map(|_| Err(failure(kind)));
            assert_eq!(play(layer, Context::default(), replies).await.at.len(), attempts);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_another_candidate_was_retried_refunds_nothing_here() {
    let budget = stanchion_retry::RetryBudget::builder().capacity(1).refund(0.0).per_second(0.0).build().unwrap();
    let layer = layer(RetryPolicy::builder().max_retries(2).scope(Scope::Request)).with_budget(budget.clone());
    let context = Context::default();
    let (a, b) = (candidate("a", false), candidate("b", true));
    assert!(budget.withdraw(Some(&b.candidate), tokio::time::Instant::now()));
    let outcome = play_request(
        layer.clone(),
        request_for(context.clone(), a),
        [down(), Err(failure(FailureKind::InvalidRequest))],
    )
    .await;
    assert_eq!(outcome.at, [0, 500]);
    play_request(layer, request_for(context, b.clone()), [Ok(())]).await;
    assert!(!budget.withdraw(Some(&b.candidate), tokio::time::Instant::now()), "nothing came back");
}
