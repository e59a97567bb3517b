//! Whatever is dropped, wherever it is, leaves nothing behind.

use http_body::Body;
use stanchion_core::RequestClass;
use stanchion_testkit::{Events, request};

use super::*;

fn slow() -> Probe {
    Probe::new(|| {
        Response::new(ScriptedBody::new([Step::Pending, Step::Data("a".into()), Step::Pending, Step::Data("b".into())]))
    })
}

/// Goes so many polls with a request, and drops it. The permit is free before poll `freed`, if that comes.
async fn polls(layer: &AdmissionLayer, polls: usize, freed: Option<usize>) {
    let mut running = if freed.is_some() { Some(holder(layer).await) } else { None };
    let mut call = call(layer, &slow(), request()).await;
    let mut body = None;
    for poll in 0..polls {
        if freed == Some(poll) {
            running = None;
        }
        match &mut body {
            None => {
                if let std::task::Poll::Ready(response) = call.poll() {
                    body = Some(Box::pin(response.unwrap().into_body()));
                }
            }
            Some(body) => {
                let mut frame = task::spawn(std::future::poll_fn(|cx| body.as_mut().poll_frame(cx)));
                let _ = frame.poll();
            }
        }
    }
    drop((call, body));
    assert_eq!(counts(layer), (u32::from(running.is_some()), 0), "after {polls} polls, freed before {freed:?}");
    drop(running);
    assert!(is_idle(layer));
}

#[tokio::test(start_paused = true)]
async fn a_request_dropped_at_any_poll_leaves_nothing() {
    let layer = layer(one_at_a_time());
    for freed in [None, Some(0), Some(1), Some(2), Some(99)] {
        for count in 0..14 {
            polls(&layer, count, freed).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_leaves_while_it_queues_frees_its_place_and_tells_nothing() {
    let (layer, events) = (layer(one_at_a_time()), Events::new());
    let running = holder(&layer).await;
    let mut first = call(&layer, &provider(), told(&events)).await;
    let mut second = call(&layer, &provider(), of("b", RequestClass::Foreground)).await;
    assert!(settle(&mut first).is_none() && settle(&mut second).is_none());
    assert!(layer.scheduler().status().pending_bytes > 0);
    drop(first);
    assert_eq!(counts(&layer), (1, 1));
    assert_eq!(events.lines(), ["A.queued#1/1~0(domain)"]);
    drop(running);
    assert!(settle(&mut second).unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_nobody_takes_goes_to_the_next() {
    let layer = layer(one_at_a_time());
    let running = holder(&layer).await;
    let mut first = call(&layer, &provider(), of("a", RequestClass::Foreground)).await;
    let mut second = call(&layer, &provider(), of("b", RequestClass::Foreground)).await;
    assert!(settle(&mut first).is_none() && settle(&mut second).is_none());
    drop(running);
    assert!(first.is_woken() && !second.is_woken());
    drop(first);
    assert!(second.is_woken());
    assert!(settle(&mut second).unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_request_may_be_dropped_outside_of_any_runtime() {
    let layer = layer(one_at_a_time());
    let running = holder(&layer).await;
    let mut waiting = call(&layer, &provider(), request()).await;
    assert!(settle(&mut waiting).is_none());
    std::thread::spawn(move || drop((waiting, running))).join().unwrap();
    assert!(is_idle(&layer));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_panics_gives_its_permit_back() {
    let layer = layer(one_at_a_time());
    let panics = tower::service_fn(|_: Req| -> std::future::Ready<Result<Response<ScriptedBody>, Failure>> {
        panic!("a bug further in")
    });
    let mut service = layer.layer(panics);
    let call = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(service.call(request()))));
    assert!(call.is_err());
    assert!(is_idle(&layer));
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "polled after its end")]
async fn a_finished_call_is_not_polled_again() {
    let layer = layer(one_at_a_time());
    let mut call = call(&layer, &provider(), request()).await;
    assert!(format!("{call:?}").contains("calling"));
    assert!(settle(&mut call).unwrap().is_ok());
    assert!(format!("{call:?}").contains("over"));
    let _ = call.poll();
}
