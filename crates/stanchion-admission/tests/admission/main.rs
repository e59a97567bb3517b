//! Requests that queue for a mock provider, on a paused clock.

mod adopted;
mod bodies;
mod calls;
mod drops;
mod footprints;
mod laws;
mod limits;
mod settings;
mod traces;

use std::{pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use stanchion_admission::{
    Admission, AdmissionBody, AdmissionFuture, AdmissionLayer, AdmissionPolicy, AdmissionPolicyBuilder,
    AdmissionScheduler, AdmissionSchedulerBuilder,
};
use stanchion_core::{Candidate, Context, Failure, RequestClass, Selected};
use stanchion_testkit::{Events, Probe, ScriptedBody, Step, candidate, request_in};
use tokio::time::advance;
use tokio_test::task::{self, Spawn};
use tower::{Layer, Service};

type Req = Request<Full<Bytes>>;
type Call = Spawn<Pin<Box<AdmissionFuture<Probe, Full<Bytes>>>>>;
type Reply = Response<AdmissionBody<ScriptedBody>>;

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn scheduler(builder: AdmissionSchedulerBuilder) -> AdmissionScheduler {
    builder.build().unwrap()
}

fn one_at_a_time() -> AdmissionPolicyBuilder {
    AdmissionPolicy::builder().concurrency(1)
}

/// A layer with a scheduler of its own.
fn layer(policy: AdmissionPolicyBuilder) -> AdmissionLayer {
    AdmissionLayer::new(AdmissionScheduler::new(), policy.build().unwrap())
}

/// Replies with a frame, and then nothing for ever.
fn provider() -> Probe {
    Probe::new(|| Response::new(ScriptedBody::new([Step::Data("text".into()), Step::Hang])))
}

fn request_for(candidate: Candidate, context: Context) -> Req {
    let mut request = request_in(context);
    request.extensions_mut().insert(Selected { candidate: Arc::new(candidate), index: 0, last: true });
    request
}

fn of(owner: &str, class: RequestClass) -> Req {
    request_in(Context::builder().owner(owner).class(class).build())
}

/// Readies a service of the layer, and calls it.
async fn call(layer: &AdmissionLayer, probe: &Probe, request: Req) -> Call {
    let mut service: Admission<Probe> = layer.layer(probe.clone());
    std::future::poll_fn(|cx| Service::<Req>::poll_ready(&mut service, cx)).await.unwrap();
    task::spawn(Box::pin(service.call(request)))
}

/// Goes on as long as something is to be done at this instant.
fn settle(call: &mut Call) -> Option<Result<Reply, Failure>> {
    loop {
        match call.poll() {
            std::task::Poll::Ready(result) => return Some(result),
            std::task::Poll::Pending if call.is_woken() => {}
            std::task::Poll::Pending => return None,
        }
    }
}

/// One that runs, and holds its permit.
async fn holder(layer: &AdmissionLayer) -> Reply {
    let mut call = call(layer, &provider(), of("holder", RequestClass::Foreground)).await;
    settle(&mut call).expect("there is room").unwrap()
}

/// How many run, and how many wait.
fn counts(layer: &AdmissionLayer) -> (u32, u32) {
    let status = layer.scheduler().status();
    (status.in_flight, status.queued)
}

fn is_idle(layer: &AdmissionLayer) -> bool {
    let status = layer.scheduler().status();
    (status.in_flight, status.queued, status.pending_bytes) == (0, 0, 0)
        && (status.owner_count, status.domain_count) == (0, 0)
}

/// Time goes on in steps of a second, so that every timer is served at its time.
async fn pass(seconds: u64, call: &mut Call) -> Option<Result<Reply, Failure>> {
    for _ in 0..seconds {
        advance(s(1)).await;
        if call.is_woken()
            && let Some(result) = settle(call)
        {
            return Some(result);
        }
    }
    None
}

/// A request whose events are collected.
fn told(events: &Events) -> Req {
    request_in(events.context_builder().owner("told").build())
}

fn other_candidate() -> Candidate {
    candidate("spare")
}
