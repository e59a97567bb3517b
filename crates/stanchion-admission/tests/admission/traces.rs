//! What a request that queues tells, event by event.

use stanchion_admission::{AdmissionError, AdmissionLayer, AdmissionPolicy, AdmissionScheduler};
use stanchion_core::{
    AdmissionReason, Context, Event, FailureKind, HintSource, Phase, ProviderAdmission, RecoveryBudget, RequestClass,
};
use stanchion_testkit::{Events, candidate, request_in};
use tokio::time::{Instant, advance};

use super::*;

fn admissions(events: &Events) -> Vec<ProviderAdmission> {
    let admission = |event| if let Event::ProviderAdmission(event) = event { Some(event) } else { None };
    events.all().into_iter().filter_map(admission).collect()
}

#[tokio::test(start_paused = true)]
async fn one_that_queues_for_31_seconds() {
    let (layer, events) = (layer(one_at_a_time()), Events::new());
    let running = holder(&layer).await;
    let mut waiting = call(&layer, &provider(), told(&events)).await;
    assert!(settle(&mut waiting).is_none() && pass(31, &mut waiting).await.is_none());
    drop(running);
    assert!(waiting.is_woken());
    assert!(settle(&mut waiting).unwrap().is_ok());
    assert_eq!(
        events.timed_lines(),
        [
            "0 A.queued#1/1~0(domain)",
            "15000 A.queued#1/1~15000(domain)",
            "30000 A.queued#1/1~30000(domain)",
            "31000 A.admitted~31000"
        ]
    );
    let seen = admissions(&events);
    assert_eq!((seen[0].in_flight, seen[0].limit, seen[0].max_wait), (1, 1, s(180)));
    assert_eq!(seen[0].candidate.as_deref(), Some("primary/gpt-x"));
    assert_eq!((seen[3].limit, seen[3].reason), (ProviderAdmission::UNLIMITED, None), "of all");
}

#[tokio::test(start_paused = true)]
async fn one_that_waits_for_as_long_as_it_may() {
    let (layer, events) = (layer(one_at_a_time().max_wait(s(20))), Events::new());
    let _running = holder(&layer).await;
    let mut waiting = call(&layer, &provider(), told(&events)).await;
    assert!(settle(&mut waiting).is_none());
    let failure = pass(21, &mut waiting).await.unwrap().unwrap_err();
    assert_eq!(
        events.timed_lines(),
        ["0 A.queued#1/1~0(domain)", "15000 A.queued#1/1~15000(domain)", "20000 A.rejected~20000(wait_timeout/domain)"]
    );
    assert_eq!(admissions(&events)[2].queue_depth, 1, "itself");
    assert_eq!((failure.kind(), failure.phase()), (FailureKind::QueueTimeout, Phase::Connect));
    assert_eq!((failure.limit(), failure.hint()), (Some(s(20)), None));
    assert_eq!(failure.candidate().map(|name| &**name), Some("primary/gpt-x"));
    assert_eq!(counts(&layer), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn one_that_may_not_wait() {
    let (layer, events) = (layer(one_at_a_time().max_wait(s(0))), Events::new());
    let _running = holder(&layer).await;
    let probe = provider();
    let mut waiting = call(&layer, &probe, told(&events)).await;
    let failure = settle(&mut waiting).unwrap().unwrap_err();
    assert_eq!(events.timed_lines(), ["0 A.rejected~0(wait_timeout/domain)"]);
    assert_eq!((admissions(&events)[0].queue_depth, admissions(&events)[0].max_wait), (0, s(0)));
    assert_eq!((failure.kind(), probe.calls()), (FailureKind::QueueTimeout, 0));
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_is_told_before_a_wait_of_nothing() {
    let scheduler = scheduler(AdmissionScheduler::builder());
    let patient = one_at_a_time().max_pending(1).build().unwrap();
    let layer = AdmissionLayer::new(scheduler.clone(), patient);
    let hasty = one_at_a_time().max_pending(1).max_wait(s(0)).build().unwrap();
    let hasty = AdmissionLayer::new(scheduler, hasty);
    let _running = holder(&layer).await;
    let _waiting = call(&layer, &provider(), of("a", RequestClass::Foreground)).await;
    let events = Events::new();
    let failure = settle(&mut call(&hasty, &provider(), told(&events)).await).unwrap().unwrap_err();
    assert_eq!(failure.kind(), FailureKind::QueueFull);
    assert_eq!(events.lines(), ["A.rejected~0(queue_full/domain)"]);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_says_when_it_will_have_emptied() {
    let layer = layer(one_at_a_time().max_pending(2));
    let mut running = holder(&layer).await;
    let mut queue = Vec::new();
    for owner in ["a", "b"] {
        queue.push(call(&layer, &provider(), of(owner, RequestClass::Foreground)).await);
    }
    let full = async |layer: &AdmissionLayer| {
        let failure = settle(&mut call(layer, &provider(), of("c", RequestClass::Foreground)).await).unwrap();
        failure.unwrap_err()
    };
    let failure = full(&layer).await;
    assert_eq!((failure.kind(), failure.hint()), (FailureKind::QueueFull, None), "nothing is known yet");
    for owner in ["d", "e", "f"] {
        advance(s(4)).await;
        drop(running);
        running = settle(&mut queue.remove(0)).unwrap().unwrap();
        queue.push(call(&layer, &provider(), of(owner, RequestClass::Foreground)).await);
    }
    let failure = full(&layer).await;
    let hint = failure.hint().unwrap();
    assert_eq!((hint.source(), hint.delay()), (HintSource::Admission, s(8)));
    let error = std::error::Error::source(&failure).unwrap().downcast_ref::<AdmissionError>().unwrap();
    assert_eq!((error.reason, error.in_flight, error.limit), (AdmissionReason::QueueFull, 2, 2));
    assert!(error.is_retryable());
    assert_eq!(error.to_string(), "the provider's limit of waiting requests is reached");
}

#[tokio::test(start_paused = true)]
async fn a_closed_queue_turns_every_candidate_away() {
    let (layer, events) = (layer(one_at_a_time()), Events::new());
    layer.scheduler().close();
    let probe = provider();
    let context = events.context();
    for name in ["primary", "spare", "last"] {
        let request = request_for(candidate(name), context.clone());
        let failure = settle(&mut call(&layer, &probe, request).await).unwrap().unwrap_err();
        assert_eq!(failure.kind(), FailureKind::QueueClosed);
        let error = std::error::Error::source(&failure).unwrap().downcast_ref::<AdmissionError>().unwrap();
        assert!(!error.is_retryable());
    }
    assert_eq!(events.lines(), ["A.rejected~0(closed)"; 3]);
    assert_eq!(probe.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn closing_fails_those_who_wait_and_lets_run_what_runs() {
    let (layer, events) = (layer(one_at_a_time()), Events::new());
    let running = holder(&layer).await;
    let mut waiting = call(&layer, &provider(), told(&events)).await;
    assert!(settle(&mut waiting).is_none());
    layer.scheduler().close();
    assert!(waiting.is_woken());
    assert_eq!(settle(&mut waiting).unwrap().unwrap_err().kind(), FailureKind::QueueClosed);
    assert_eq!(events.lines(), ["A.queued#1/1~0(domain)", "A.rejected~0(closed)"]);
    assert_eq!(counts(&layer), (1, 0));
    drop((running, waiting));
    assert!(is_idle(&layer) && layer.scheduler().status().closed);
}

#[tokio::test(start_paused = true)]
async fn a_running_budget_bounds_what_is_told_and_ends_the_wait() {
    let (layer, events) = (layer(one_at_a_time()), Events::new());
    let _running = holder(&layer).await;
    let context = events.context_builder().recovery(RecoveryBudget::new(s(30))).build();
    context.recovery().unwrap().start(Instant::now());
    advance(ms(500)).await;
    let mut waiting = call(&layer, &provider(), request_in(context)).await;
    assert!(settle(&mut waiting).is_none());
    advance(s(15)).await;
    assert!(settle(&mut waiting).is_none());
    advance(ms(14_500)).await;
    let failure = settle(&mut waiting).unwrap().unwrap_err();
    assert_eq!(failure.kind(), FailureKind::RecoveryBudget);
    assert_eq!(
        events.timed_lines(),
        [
            "500 A.queued#1/1~0(domain)",
            "15500 A.queued#1/1~15000(domain)",
            "30000 R.exhausted#0(timeout)!recovery_budget"
        ]
    );
    let told: Vec<_> = admissions(&events).iter().map(|event| (event.max_wait, event.recovery_remaining)).collect();
    assert_eq!(told, [(ms(29_500), Some(ms(29_500))), (ms(29_500), Some(ms(14_500)))]);
    assert_eq!(counts(&layer), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn on_a_tie_the_budget_is_the_cause() {
    for (budget, kind) in [(s(30), FailureKind::RecoveryBudget), (s(31), FailureKind::QueueTimeout)] {
        let layer = layer(one_at_a_time().max_wait(s(30)));
        let _running = holder(&layer).await;
        let context = Context::builder().recovery(RecoveryBudget::new(budget)).build();
        context.recovery().unwrap().start(Instant::now());
        let mut waiting = call(&layer, &provider(), request_in(context)).await;
        assert!(settle(&mut waiting).is_none());
        assert_eq!(pass(30, &mut waiting).await.unwrap().unwrap_err().kind(), kind);
    }
}

#[tokio::test(start_paused = true)]
async fn a_spent_budget_begins_no_wait_and_no_attempt() {
    for max_wait in [s(0), s(180)] {
        let (layer, events) = (layer(one_at_a_time().max_wait(max_wait)), Events::new());
        let running = holder(&layer).await;
        let context = events.context_builder().recovery(RecoveryBudget::new(s(30))).build();
        context.recovery().unwrap().start(Instant::now());
        advance(s(30)).await;
        let probe = provider();
        let mut waiting = call(&layer, &probe, request_in(context)).await;
        drop(running);
        assert_eq!(settle(&mut waiting).unwrap().unwrap_err().kind(), FailureKind::RecoveryBudget);
        assert_eq!(probe.calls(), 0);
        assert!(events.lines().iter().all(|line| !line.starts_with("A.rejected")), "{events:?}");
        drop(waiting);
        assert!(is_idle(&layer));
    }
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_has_not_started_is_told_whole_and_bounds_nothing() {
    let (layer, events) = (layer(one_at_a_time()), Events::new());
    let _running = holder(&layer).await;
    let context = events.context_builder().recovery(RecoveryBudget::new(s(30))).build();
    let mut waiting = call(&layer, &provider(), request_in(context)).await;
    assert!(settle(&mut waiting).is_none() && pass(60, &mut waiting).await.is_none());
    let seen = admissions(&events);
    assert_eq!((seen[0].max_wait, seen[0].recovery_remaining), (s(180), Some(s(30))));
    assert_eq!(seen.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn places_and_scopes_are_told_of_each() {
    let scheduler = scheduler(AdmissionScheduler::builder().owner_concurrency(1));
    let layer = AdmissionLayer::new(scheduler, AdmissionPolicy::builder().concurrency(2).build().unwrap());
    let _first = holder(&layer).await;
    let events = Events::new();
    let request = |owner: &str, class| request_in(events.context_builder().owner(owner).class(class).build());
    let mut second = call(&layer, &provider(), request("b", RequestClass::Foreground)).await;
    let _second = settle(&mut second).unwrap().unwrap();
    let mut queue = Vec::new();
    for owner in ["c", "holder", "holder", "d"] {
        queue.push(call(&layer, &provider(), request(owner, RequestClass::Background)).await);
    }
    assert_eq!(
        events.lines(),
        ["A.queued#1/1~0(domain)", "A.queued#1/2~0(owner)", "A.queued#2/3~0(owner)", "A.queued#4/4~0(domain)"]
    );
    let shown = format!("{:?} {}", events.all(), serde_json::to_string(&events.all()).unwrap());
    assert!(!shown.contains("holder") && !shown.contains("bytes"), "{shown}");
}
