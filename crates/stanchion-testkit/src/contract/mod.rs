mod body;
mod readiness;
mod release;

use std::{
    fmt,
    future::poll_fn,
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, header::CONTENT_TYPE};
use http_body::Body;
use http_body_util::Full;
use stanchion_core::Failure;
use tower_layer::Layer;
use tower_service::Service;

use crate::{Probe, ScriptedBody, request};

/// Longer than any wait of a layer; no time at all on a paused clock.
const PATIENCE: Duration = Duration::from_secs(3600);

/// An OpenAI stream: role, output, finish, end marker.
const FRAMES: [&str; 4] = [
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"},\"finish_reason\":null}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hello\"},\"finish_reason\":null}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    "data: [DONE]\n\n",
];

/// Checks that a layer keeps what every layer must.
///
/// Each check builds its own services and panics, naming the law, when one is broken. Run them on a paused clock: a
/// layer that waits for ever is found after an hour of tokio's time. [`check`](Self::check) runs them all; a layer with
/// a reason to differ runs the others one by one. A layer that answers errors itself, for instance, cannot pass
/// [`ready_errors`](Self::ready_errors).
#[derive(Clone)]
pub struct Contract<L, F = fn() -> Request<Full<Bytes>>> {
    layer: L,
    request: F,
    frames: Arc<[Bytes]>,
    content_type: HeaderValue,
}

impl<L> Contract<L> {
    /// Checks `layer` with [`request`] and the stream of an OpenAI chat: role, output, finish, end marker.
    pub fn new(layer: L) -> Self {
        let frames = FRAMES.map(|frame| Bytes::from_static(frame.as_bytes()));
        Self { layer, request, frames: frames.into(), content_type: HeaderValue::from_static("text/event-stream") }
    }
}

impl<L, F> Contract<L, F> {
    /// Uses requests of the test's own.
    pub fn with_request<G>(self, request: G) -> Contract<L, G> {
        Contract { layer: self.layer, request, frames: self.frames, content_type: self.content_type }
    }

    /// Uses a reply of the test's own. Its first frames must pass every layer; where it is cut, it is cut before the
    /// last frame.
    #[must_use]
    pub fn with_reply<T: Into<Bytes>>(
        mut self,
        content_type: &'static str,
        frames: impl IntoIterator<Item = T>,
    ) -> Self {
        self.content_type = HeaderValue::from_static(content_type);
        self.frames = frames.into_iter().map(Into::into).collect();
        assert!(self.frames.len() > 1 && self.frames.iter().all(|frame| !frame.is_empty()), "two frames or more");
        self
    }

    /// A probe whose replies are made of the frames by `body`.
    fn probe(&self, body: impl Fn(&[Bytes]) -> ScriptedBody + Send + 'static) -> Probe {
        let (frames, content_type) = (self.frames.clone(), self.content_type.clone());
        Probe::new(move || {
            let mut response = Response::new(body(&frames));
            response.headers_mut().insert(CONTENT_TYPE, content_type.clone());
            response
        })
    }

    fn plain_probe(&self) -> Probe {
        self.probe(|frames| ScriptedBody::frames(frames.to_vec()))
    }

    fn counting_probe(&self, drops: &Arc<AtomicUsize>) -> Probe {
        let drops = drops.clone();
        self.probe(move |frames| ScriptedBody::frames(frames.to_vec()).counts_drops(&drops))
    }
}

impl<L, F, B, R> Contract<L, F>
where
    L: Layer<Probe>,
    L::Service: Service<Request<B>, Response = Response<R>> + Clone,
    <L::Service as Service<Request<B>>>::Error: Into<Failure>,
    F: Fn() -> Request<B>,
    R: Body<Data = Bytes>,
{
    /// Runs every check.
    pub async fn check(&self) {
        self.readiness().await;
        self.no_reservation().await;
        self.ready_errors().await;
        self.body().await;
        self.endings().await;
        self.release().await;
    }

    /// Calls a service that is ready.
    async fn answer(&self, service: &mut L::Service) -> Result<Response<R>, Failure> {
        within("an answer", service.call((self.request)())).await.map_err(Into::into)
    }

    /// Readies a new service around `probe`, and calls it.
    async fn reply(&self, probe: Probe) -> Response<R> {
        let mut service = self.layer.layer(probe);
        ready(&mut service).await;
        self.answer(&mut service).await.expect("the layer makes a failure of a whole reply")
    }
}

impl<L: fmt::Debug, F> fmt::Debug for Contract<L, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contract").field("layer", &self.layer).finish_non_exhaustive()
    }
}

/// Hands two services of one layer to `proof`, which shows by what they do that they share the layer's state.
///
/// State made in `Layer::layer` instead of in the layer is a limit that limits nothing: frameworks call `layer` once
/// for each route, or for each connection.
pub async fn shares_state<L: Layer<S>, S: Clone>(layer: &L, inner: S, proof: impl AsyncFnOnce(L::Service, L::Service)) {
    proof(layer.layer(inner.clone()), layer.layer(inner)).await;
}

async fn within<T>(what: &str, wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("the layer never came to {what}"))
}

/// Waits for readiness, which a probe without an error of its own always comes to.
async fn ready<B, S: Service<Request<B>, Error: Into<Failure>>>(service: &mut S) {
    let ready = within("readiness", poll_fn(|cx| service.poll_ready(cx))).await.map_err(Into::into);
    ready.expect("the layer fails to become ready around a service that does not");
}

/// The data of `frames` behind one another.
fn joined(frames: &[Bytes]) -> Vec<u8> {
    frames.concat()
}
