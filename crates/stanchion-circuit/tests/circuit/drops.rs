//! Whatever is dropped, wherever it is, gives its probe back at once.

use http::Response;
use stanchion_circuit::{CircuitLayer, CircuitState};
use stanchion_core::FailureKind;
use stanchion_testkit::{Probe, ScriptedBody, Step, request};
use tokio_test::{assert_pending, task};
use tower::{Layer, Service, ServiceExt};

use super::{Req, layer, pass, touchy};

/// A layer with an open circuit whose probe is due.
async fn due() -> CircuitLayer {
    let layer = layer(touchy());
    let probe = Probe::new(|| Response::new(ScriptedBody::new([]))).failing([FailureKind::Overloaded]);
    assert!(layer.layer(probe).oneshot(request()).await.is_err());
    pass(10_000).await;
    layer
}

fn body() -> ScriptedBody {
    ScriptedBody::new([Step::Pending, Step::Data("".into()), Step::Pending, Step::Data("a".into()), Step::Hang])
}

/// Goes so many steps with the next probe, and drops it. Returns how the circuit stands while it is held and after.
async fn steps(layer: &CircuitLayer, steps: usize) -> (CircuitState, CircuitState) {
    let probe = Probe::new(|| Response::new(body()));
    let mut service = layer.layer(probe.clone());
    std::future::poll_fn(|cx| Service::<Req>::poll_ready(&mut service, cx)).await.unwrap();
    let state = || layer.registry().status()[0].state;
    let mut call = Box::pin(task::spawn(service.call(request())));
    let mut left = steps;
    let response = loop {
        if left == 0 {
            let held = state();
            drop(call);
            assert_eq!(probe.live(), 0);
            return (held, state());
        }
        left -= 1;
        if let std::task::Poll::Ready(response) = call.poll() {
            break response.unwrap();
        }
    };
    let mut body = Box::pin(response.into_body());
    while left > 0 {
        left -= 1;
        let mut frame = task::spawn(std::future::poll_fn(|cx| http_body::Body::poll_frame(body.as_mut(), cx)));
        let _ = frame.poll();
    }
    let held = state();
    drop(body);
    (held, state())
}

#[tokio::test(start_paused = true)]
async fn a_probe_dropped_at_any_poll_makes_room_for_the_next() {
    let layer = due().await;
    // Two polls to the head, a wait, an empty frame, a wait: nothing has come.
    for polled in 0..=5 {
        let (held, after) = steps(&layer, polled).await;
        assert_eq!((held, after), (CircuitState::HalfOpen, CircuitState::HalfOpen), "after {polled} polls");
    }
    // The first bytes close it, and dropping what follows changes nothing.
    for polled in 6..=8 {
        let (held, after) = steps(&layer, polled).await;
        assert_eq!((held, after), (CircuitState::Closed, CircuitState::Closed), "after {polled} polls");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_panics_gives_its_probe_back() {
    let layer = due().await;
    let panics =
        tower::service_fn(|_: Req| -> std::future::Ready<Result<Response<ScriptedBody>, stanchion_core::Failure>> {
            panic!("a bug further in")
        });
    let mut service = layer.layer(panics);
    let call = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(service.call(request()))));
    assert!(call.is_err());
    assert_eq!(steps(&layer, 6).await.1, CircuitState::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_probe_may_be_dropped_outside_of_any_runtime() {
    let layer = due().await;
    let mut service = layer.layer(Probe::new(|| Response::new(body())).hanging());
    std::future::poll_fn(|cx| Service::<Req>::poll_ready(&mut service, cx)).await.unwrap();
    let mut call = task::spawn(service.call(request()));
    assert_pending!(call.poll());
    std::thread::spawn(move || drop(call)).join().unwrap();
    assert_eq!(steps(&layer, 6).await.1, CircuitState::Closed);
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "polled after its end")]
async fn a_finished_call_is_not_polled_again() {
    let layer = due().await;
    let mut service = layer.layer(Probe::new(|| Response::new(body())).failing([FailureKind::Overloaded]));
    std::future::poll_fn(|cx| Service::<Req>::poll_ready(&mut service, cx)).await.unwrap();
    let mut call = task::spawn(service.call(request()));
    assert!(format!("{call:?}").contains("calling"));
    assert_pending!(call.poll());
    assert!(call.poll().is_ready());
    assert!(format!("{call:?}").contains("over"));
    let _ = call.poll();
}
