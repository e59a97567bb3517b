//! Whose request goes on, and when.

use stanchion_admission::{Adaptive, AdmissionLayer, AdmissionPolicy, AdmissionScheduler};
use stanchion_core::{FailureKind, RequestClass, StreamRecord};
use stanchion_testkit::{Events, request};
use tokio::time::{advance, sleep};
use tower::ServiceExt;

use super::*;

#[tokio::test(start_paused = true)]
async fn without_a_limit_everyone_passes_and_nobody_is_counted() {
    let layer = layer(AdmissionPolicy::builder().max_wait(s(0)).max_pending(1).max_pending_bytes(64 << 10));
    assert!(layer.is_off());
    let mut held = Vec::new();
    for _ in 0..100 {
        held.push(holder(&layer).await);
    }
    assert_eq!(counts(&layer), (0, 0));
    layer.scheduler().close();
    held.push(holder(&layer).await);
}

#[tokio::test(start_paused = true)]
async fn any_limit_of_concurrency_turns_it_on() {
    let with = |scheduler: AdmissionSchedulerBuilder, policy: AdmissionPolicyBuilder| {
        AdmissionLayer::new(scheduler.build().unwrap(), policy.build().unwrap())
    };
    let (scheduler, policy) = (AdmissionScheduler::builder, AdmissionPolicy::builder);
    for layer in [
        with(scheduler().global_concurrency(1), policy()),
        with(scheduler().owner_concurrency(1), policy()),
        with(scheduler(), policy().concurrency(1)),
        with(scheduler(), policy().adaptive(Adaptive::builder().ceiling(1).build().unwrap())),
    ] {
        let _running = holder(&layer).await;
        let mut waiting = call(&layer, &provider(), of("holder", RequestClass::Foreground)).await;
        assert!(settle(&mut waiting).is_none());
        assert_eq!(counts(&layer), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_told_of_one_that_need_not_wait() {
    let (layer, events) = (layer(one_at_a_time()), Events::new());
    let mut call = call(&layer, &provider(), told(&events)).await;
    assert!(settle(&mut call).unwrap().is_ok());
    assert_eq!(events.lines(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn the_foreground_goes_before_the_background_and_owners_take_turns() {
    let layer = layer(one_at_a_time());
    let mut running = holder(&layer).await;
    let mut queue = Vec::new();
    for (name, owner, class) in [
        ("background", "a", RequestClass::Background),
        ("a1", "a", RequestClass::Foreground),
        ("a2", "a", RequestClass::Foreground),
        ("b1", "b", RequestClass::Foreground),
    ] {
        queue.push((name, call(&layer, &provider(), of(owner, class)).await));
    }
    for (_, waiting) in &mut queue {
        assert!(settle(waiting).is_none());
    }
    let mut order = Vec::new();
    while !queue.is_empty() {
        drop(running);
        let woken: Vec<usize> = (0..queue.len()).filter(|index| queue[*index].1.is_woken()).collect();
        assert_eq!(woken.len(), 1, "one permit, one wake");
        let (name, mut next) = queue.remove(woken[0]);
        order.push(name);
        running = settle(&mut next).unwrap().unwrap();
    }
    assert_eq!(order, ["a1", "b1", "a2", "background"]);
}

#[tokio::test(start_paused = true)]
async fn equal_candidates_share_a_domain_and_others_do_not() {
    let layer = layer(one_at_a_time());
    let _running = holder(&layer).await;
    let again = request_for(candidate("primary"), Context::default());
    assert!(settle(&mut call(&layer, &provider(), again).await).is_none());
    let other = request_for(other_candidate(), Context::default());
    assert!(settle(&mut call(&layer, &provider(), other).await).unwrap().is_ok());
    let status = layer.scheduler().status();
    let names: Vec<_> = status.domains.iter().map(|domain| (&*domain.candidate, domain.in_flight)).collect();
    assert_eq!(names, [("primary/gpt-x", 1), ("spare/gpt-x", 0)]);
}

#[tokio::test(start_paused = true)]
async fn policies_do_not_split_a_domain() {
    let scheduler = AdmissionScheduler::new();
    let layer = |policy: AdmissionPolicyBuilder| AdmissionLayer::new(scheduler.clone(), policy.build().unwrap());
    let (narrow, wide) = (layer(one_at_a_time()), layer(AdmissionPolicy::builder().concurrency(2).max_pending(7)));
    let _running = holder(&narrow).await;
    let _second = holder(&wide).await;
    let mut third = call(&wide, &provider(), request()).await;
    assert!(settle(&mut third).is_none());
    assert_eq!(scheduler.status().domain_count, 1);
}

#[tokio::test(start_paused = true)]
async fn a_providers_own_policy_goes_before_the_one_for_all() {
    let own = AdmissionPolicy::builder().concurrency(2).max_wait(s(0)).build().unwrap();
    let layer = layer(one_at_a_time()).policy_for("spare", AdmissionPolicy::default()).policy_for("spare", own.clone());
    let spare = || request_for(other_candidate(), Context::default());
    let mut held = vec![holder(&layer).await];
    for _ in 0..2 {
        held.push(settle(&mut call(&layer, &provider(), spare()).await).unwrap().unwrap());
    }
    let failure = settle(&mut call(&layer, &provider(), spare()).await).unwrap().unwrap_err();
    assert_eq!(failure.kind(), FailureKind::QueueTimeout);
    let mut waiting = call(&layer, &provider(), request()).await;
    assert!(settle(&mut waiting).is_none());
    assert_eq!(counts(&layer), (3, 1));
    let spare = Arc::new(other_candidate());
    assert!(layer.handle(&spare).admit(None, RequestClass::Foreground, 0).await.is_err());
    assert_eq!(layer.policy().concurrency(), Some(1));
    // Alone, it turns the layer on.
    assert!(!AdmissionLayer::default().policy_for("spare", own).is_off());
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_adapts_holds_those_of_every_layer_from_then_on() {
    let scheduler = AdmissionScheduler::new();
    let layer = |policy: AdmissionPolicyBuilder| AdmissionLayer::new(scheduler.clone(), policy.build().unwrap());
    let adaptive = Adaptive::builder().ceiling(2).build().unwrap();
    let (plain, adapting) =
        (layer(AdmissionPolicy::builder().concurrency(9)), layer(AdmissionPolicy::builder().adaptive(adaptive)));
    // The domain is in use before anybody adapts.
    let _held = (holder(&plain).await, holder(&adapting).await);
    let mut waiting = call(&plain, &provider(), request()).await;
    assert!(settle(&mut waiting).is_none());
    assert_eq!(counts(&plain), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn requests_without_an_owner_share_the_layers() {
    let scheduler = scheduler(AdmissionScheduler::builder().owner_concurrency(1));
    let layer = AdmissionLayer::new(scheduler.clone(), AdmissionPolicy::default());
    let mut first = call(&layer, &provider(), request()).await;
    let _first = settle(&mut first).unwrap().unwrap();
    let without_context = || {
        let mut request = request();
        request.extensions_mut().remove::<Context>();
        request
    };
    assert!(settle(&mut call(&layer, &provider(), without_context()).await).is_none());
    // Another layer has another.
    let other = AdmissionLayer::new(scheduler.clone(), AdmissionPolicy::default());
    let mut second = call(&other, &provider(), without_context()).await;
    let _second = settle(&mut second).unwrap().unwrap();
    let status = scheduler.status();
    assert_eq!((status.owner_count, status.in_flight, status.internal.in_flight), (2, 2, 1));
}

#[tokio::test(start_paused = true)]
async fn requests_without_a_candidate_are_counted_too() {
    let layer = layer(one_at_a_time());
    let without = || {
        let mut request = request();
        request.extensions_mut().remove::<Selected>();
        request
    };
    let mut first = call(&layer, &provider(), without()).await;
    let _first = settle(&mut first).unwrap().unwrap();
    assert!(settle(&mut call(&layer, &provider(), without()).await).is_none());
    let _other = holder(&layer).await;
    assert!(layer.scheduler().status().domains.iter().all(|domain| &*domain.candidate == "primary/gpt-x"));
}

#[tokio::test(start_paused = true)]
async fn weights_and_costs_share_out() {
    let scheduler = scheduler(AdmissionScheduler::builder().weight("heavy", 3).max_pending(100));
    let layer = AdmissionLayer::new(scheduler, one_at_a_time().build().unwrap());
    let mut running = holder(&layer).await;
    let mut queue = Vec::new();
    for _ in 0..6 {
        for owner in ["heavy", "light"] {
            let mut waiting = call(&layer, &provider(), of(owner, RequestClass::Foreground)).await;
            assert!(settle(&mut waiting).is_none());
            queue.push((owner, waiting));
        }
    }
    let mut order = Vec::new();
    for _ in 0..8 {
        drop(running);
        let next = queue.iter().position(|(_, waiting)| waiting.is_woken()).unwrap();
        let (owner, mut next) = queue.remove(next);
        order.push(owner);
        running = settle(&mut next).unwrap().unwrap();
    }
    assert_eq!(order, ["heavy", "heavy", "heavy", "light", "heavy", "heavy", "heavy", "light"]);
}

#[tokio::test(start_paused = true)]
async fn refusals_of_the_provider_lower_a_limit_that_adapts() {
    let adaptive = Adaptive::builder().ceiling(10).floor(2).build().unwrap();
    let layer = layer(AdmissionPolicy::builder().adaptive(adaptive));
    let limit = |layer: &AdmissionLayer| layer.scheduler().status().domains[0].adaptive_limit;
    let _known = holder(&layer).await;
    assert_eq!(limit(&layer), Some(10));
    let refusing = provider().failing([FailureKind::RateLimited]);
    assert!(settle(&mut call(&layer, &refusing, request()).await).unwrap().is_err());
    assert_eq!(limit(&layer), Some(5));
    // What says nothing of capacity changes nothing.
    let broken = provider().failing([FailureKind::InvalidRequest]);
    assert!(settle(&mut call(&layer, &broken, request()).await).unwrap().is_err());
    assert_eq!(limit(&layer), Some(5));
    for _ in 0..5 {
        let refusing = provider().failing([FailureKind::Overloaded]);
        assert!(settle(&mut call(&layer, &refusing, request()).await).unwrap().is_err());
    }
    assert_eq!(limit(&layer), Some(2));
    let second = holder(&layer).await;
    let mut waiting = call(&layer, &provider(), request()).await;
    assert!(settle(&mut waiting).is_none());
    // Outputs raise it again, and who waits is let in as soon as there is room.
    assert_eq!(counts(&layer), (2, 1));
    drop(second);
    for _ in 0..4 {
        assert!(settle(&mut waiting).is_none_or(|result| result.is_ok()));
        advance(ms(100)).await;
        waiting = call(&layer, &provider(), request()).await;
    }
    assert_eq!(limit(&layer), Some(3));
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_adapts_knows_silence_from_a_head_that_was_held_back() {
    let adaptive = Adaptive::builder().ceiling(10).build().unwrap();
    let layer = layer(AdmissionPolicy::builder().adaptive(adaptive));
    let limit = |layer: &AdmissionLayer| layer.scheduler().status().domains[0].adaptive_limit;
    let _known = holder(&layer).await;
    let ask = async |output_after: Duration, then_head_after: Duration| {
        let service = tower::service_fn(move |_: Req| async move {
            let (record, mut recorder) = StreamRecord::new();
            sleep(output_after).await;
            recorder.output();
            sleep(then_head_after).await;
            let mut response = Response::new(ScriptedBody::new([Step::Data("text".into())]));
            response.extensions_mut().insert(record);
            Ok::<_, Failure>(response)
        });
        layer.layer(service).oneshot(request()).await.unwrap();
    };
    for _ in 0..30 {
        ask(ms(100), ms(100)).await;
    }
    for _ in 0..30 {
        ask(ms(100), ms(4_900)).await;
    }
    assert_eq!(limit(&layer), Some(10), "the whole reply came late, but its output did not");
    let silent = provider().failing([FailureKind::FirstOutputTimeout]);
    assert!(settle(&mut call(&layer, &silent, request()).await).unwrap().is_err());
    assert_eq!(limit(&layer), Some(5));
}

#[tokio::test(start_paused = true)]
async fn a_limit_goes_on_from_where_it_was_when_layers_are_made_anew() {
    let adaptive = Adaptive::builder().ceiling(10).build().unwrap();
    let scheduler = AdmissionScheduler::new();
    let layer =
        || AdmissionLayer::new(scheduler.clone(), AdmissionPolicy::builder().adaptive(adaptive).build().unwrap());
    let limit = || scheduler.status().domains[0].adaptive_limit;
    let before = layer();
    let refusing = provider().failing([FailureKind::RateLimited]);
    assert!(settle(&mut call(&before, &refusing, request()).await).unwrap().is_err());
    assert_eq!(limit(), Some(5));
    // Nothing is in flight: nobody remembers the domain.
    drop((before, refusing));
    assert!(scheduler.status().domains.is_empty());
    let (after, running) = (layer(), holder(&layer()).await);
    assert_eq!(limit(), Some(5));
    drop((after, running));
    scheduler.forget_adapted();
    let _running = holder(&layer()).await;
    assert_eq!(limit(), Some(10));
}

#[tokio::test(start_paused = true)]
async fn the_inner_service_is_asked_for_readiness_again_after_a_wait() {
    let layer = layer(one_at_a_time());
    let running = holder(&layer).await;
    let probe = provider();
    let mut waiting = call(&layer, &probe, request()).await;
    assert!(settle(&mut waiting).is_none());
    drop(running);
    // The probe panics when it is called without readiness of its own.
    assert!(settle(&mut waiting).unwrap().is_ok());
    assert_eq!(probe.calls(), 1);

    let running = holder(&layer).await;
    let failing = provider();
    let mut waiting = call(&layer, &failing, request()).await;
    assert!(settle(&mut waiting).is_none());
    let _unready = failing.clone().failing_ready(FailureKind::Connect);
    drop(running);
    let failure = settle(&mut waiting).unwrap().unwrap_err();
    assert_eq!((failure.kind(), failing.calls()), (FailureKind::Connect, 0));
    // While its caller still has it, too.
    assert!(is_idle(&layer));
}

#[tokio::test(start_paused = true)]
async fn a_handle_admits_without_a_service() {
    let layer = layer(one_at_a_time().max_wait(s(5)));
    let candidate = Arc::new(candidate("primary"));
    let handle = layer.handle(&candidate);
    let permit = handle.admit(Some("a"), RequestClass::Foreground, 10).await.unwrap();
    let mut waiting = task::spawn(handle.admit(None, RequestClass::Internal, 10));
    assert!(waiting.poll().is_pending());
    assert_eq!((counts(&layer), layer.scheduler().status().pending_bytes), ((1, 1), 10));
    drop(permit);
    assert!(waiting.is_woken());
    let std::task::Poll::Ready(Ok(permit)) = waiting.poll() else { panic!("it is its turn") };
    let error = handle.admit(Some("b"), RequestClass::Foreground, 10).await.unwrap_err();
    assert_eq!(error.reason, stanchion_core::AdmissionReason::WaitTimeout);
    drop((permit, waiting));
    assert!(is_idle(&layer));
    assert!(format!("{handle:?}").contains("primary/gpt-x"));
}
