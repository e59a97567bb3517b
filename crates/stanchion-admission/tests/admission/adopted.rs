//! Limits that change while requests run and wait.

use stanchion_admission::{Adaptive, AdmissionLayer, AdmissionPolicy, AdmissionScheduler};
use stanchion_core::RequestClass;

use super::*;

fn global(requests: u32) -> AdmissionScheduler {
    scheduler(AdmissionScheduler::builder().global_concurrency(requests))
}

fn layer_of(scheduler: &AdmissionScheduler) -> AdmissionLayer {
    AdmissionLayer::new(scheduler.clone(), AdmissionPolicy::default())
}

#[tokio::test(start_paused = true)]
async fn whoever_may_run_under_wider_limits_runs_at_once() {
    let layer = layer_of(&global(1));
    let running = holder(&layer).await;
    let mut waiting = Vec::new();
    for owner in ["a", "b", "c"] {
        let mut next = call(&layer, &provider(), of(owner, RequestClass::Foreground)).await;
        assert!(settle(&mut next).is_none());
        waiting.push(next);
    }
    layer.scheduler().adopt(&global(3));
    assert_eq!(waiting.iter().map(Call::is_woken).collect::<Vec<_>>(), [true, true, false]);
    let replies: Vec<Reply> = waiting.iter_mut().take(2).map(|call| settle(call).unwrap().unwrap()).collect();
    assert_eq!(counts(&layer), (3, 1));
    drop((running, replies));
    assert!(waiting[2].is_woken() && settle(&mut waiting[2]).unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn what_runs_goes_on_under_narrower_ones_and_is_given_back_once() {
    let layer = layer_of(&global(4));
    let mut running = Vec::new();
    for _ in 0..4 {
        running.push(holder(&layer).await);
    }
    layer.scheduler().adopt(&global(2));
    let mut waiting = call(&layer, &provider(), of("a", RequestClass::Foreground)).await;
    for in_flight in [4, 3, 2] {
        assert!(settle(&mut waiting).is_none(), "{in_flight} are in flight, and 2 may be");
        assert_eq!(counts(&layer), (in_flight, 1));
        running.pop();
    }
    let last = settle(&mut waiting).unwrap().unwrap();
    assert_eq!(counts(&layer), (2, 0));
    drop((running, last));
    assert_eq!(counts(&layer), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_has_become_too_long_is_kept_and_takes_nobody_more() {
    let built = |pending| scheduler(AdmissionScheduler::builder().global_concurrency(1).max_pending(pending));
    let layer = layer_of(&built(8));
    let running = holder(&layer).await;
    let mut waiting = Vec::new();
    for owner in ["a", "b", "c"] {
        let mut next = call(&layer, &provider(), of(owner, RequestClass::Foreground)).await;
        assert!(settle(&mut next).is_none());
        waiting.push(next);
    }
    layer.scheduler().adopt(&built(1));
    let mut turned_away = call(&layer, &provider(), of("d", RequestClass::Foreground)).await;
    assert!(settle(&mut turned_away).unwrap().is_err());
    assert_eq!(counts(&layer), (1, 3));
    drop(running);
    for mut next in waiting {
        assert!(settle(&mut next).unwrap().is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn owners_have_their_new_weights_and_a_closed_queue_stays_closed() {
    let layer = layer_of(&global(1));
    let mut running = holder(&layer).await;
    let mut queue = Vec::new();
    for (name, owner) in [("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b"), ("b3", "b")] {
        let mut next = call(&layer, &provider(), of(owner, RequestClass::Foreground)).await;
        assert!(settle(&mut next).is_none());
        queue.push((name, next));
    }
    layer.scheduler().adopt(&scheduler(AdmissionScheduler::builder().global_concurrency(1).weight("b", 2)));
    let mut order = Vec::new();
    while !queue.is_empty() {
        drop(running);
        let woken = queue.iter().position(|(_, call)| call.is_woken()).unwrap();
        let (name, mut next) = queue.remove(woken);
        order.push(name);
        running = settle(&mut next).unwrap().unwrap();
    }
    assert_eq!(order, ["a1", "b1", "b2", "a2", "b3"]);
    layer.scheduler().close();
    layer.scheduler().adopt(&global(9));
    assert!(layer.scheduler().status().closed);
}

#[tokio::test(start_paused = true)]
async fn layers_are_on_or_off_by_the_limits_of_their_time() {
    let scheduler = AdmissionScheduler::new();
    let before = layer_of(&scheduler);
    scheduler.adopt(&global(1));
    let during = layer_of(&scheduler);
    let running = holder(&during).await;
    scheduler.adopt(&AdmissionScheduler::new());
    let after = layer_of(&scheduler);
    assert_eq!((before.is_off(), during.is_off(), after.is_off()), (true, false, true));
    // What was counted is given back.
    drop(running);
    assert_eq!(counts(&during), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn what_adaptive_limits_came_to_can_be_forgotten() {
    let adapts = |ceiling| Adaptive::builder().ceiling(ceiling).build().unwrap();
    let scheduler = AdmissionScheduler::new();
    let policy = |ceiling| AdmissionPolicy::builder().adaptive(adapts(ceiling)).build().unwrap();
    let narrow = AdmissionLayer::new(scheduler.clone(), policy(1));
    let running = holder(&narrow).await;
    let mut waiting = call(&narrow, &provider(), of("a", RequestClass::Foreground)).await;
    assert!(settle(&mut waiting).is_none());
    scheduler.forget_adapted();
    assert!(waiting.is_woken(), "nothing limits it any more");
    let reply = settle(&mut waiting).unwrap().unwrap();
    let wide = AdmissionLayer::new(scheduler.clone(), policy(3));
    let third = holder(&wide).await;
    let mut fourth = call(&wide, &provider(), of("a", RequestClass::Foreground)).await;
    assert!(settle(&mut fourth).is_none(), "three run, and three may");
    drop((running, reply, third));
}

#[tokio::test(start_paused = true)]
async fn what_one_providers_limits_came_to_can_be_forgotten_alone() {
    let scheduler = AdmissionScheduler::new();
    let adaptive = Adaptive::builder().ceiling(10).build().unwrap();
    let layer =
        || AdmissionLayer::new(scheduler.clone(), AdmissionPolicy::builder().adaptive(adaptive).build().unwrap());
    let of = |provider: &str| request_for(candidate(provider), Context::default());
    let limits = || {
        let domains = scheduler.status().domains.into_iter();
        let mut limits: Vec<_> = domains.map(|domain| (domain.candidate.to_string(), domain.adaptive_limit)).collect();
        limits.sort();
        limits
    };
    let limited = |a, b| [("a", a), ("b", b)].map(|(provider, limit)| (candidate(provider).name().to_string(), limit));
    let before = layer();
    for provider in ["a", "b"] {
        let refusing = provider_that_refuses();
        assert!(settle(&mut call(&before, &refusing, of(provider)).await).unwrap().is_err());
    }
    assert_eq!(limits(), limited(Some(5), Some(5)));
    // While layers know the domains, and once nobody does.
    scheduler.forget_adapted_of("a");
    assert_eq!(limits(), limited(None, Some(5)));
    drop(before);
    assert!(limits().is_empty());
    scheduler.forget_adapted_of("a");
    let after = layer();
    let mut running = Vec::new();
    for name in ["a", "b"] {
        running.push(settle(&mut call(&after, &provider(), of(name)).await).unwrap().unwrap());
    }
    assert_eq!(limits(), limited(Some(10), Some(5)));
    drop((running, after));
    scheduler.forget_adapted_of("b");
    let after = layer();
    let running = settle(&mut call(&after, &provider(), of("b")).await).unwrap().unwrap();
    assert_eq!(limits()[0].1, Some(10));
    drop(running);
}

fn provider_that_refuses() -> stanchion_testkit::Probe {
    provider().failing([stanchion_core::FailureKind::RateLimited])
}
