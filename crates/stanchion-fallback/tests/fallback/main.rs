//! The fallback layer around a service that answers as told.

mod best;
mod candidates;
mod drops;
mod laws;
mod table;
mod windows;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    task::{Context as Wakes, Poll},
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use stanchion_core::{BoxError, Failure, FailureKind, Phase, Selected};
use tower::Service;

type Req = Request<Full<Bytes>>;
type Reply = Result<(), Failure>;

fn failure(kind: FailureKind) -> Failure {
    // A circuit turns away who has not come through to the provider.
    let phase = if kind == FailureKind::CircuitOpen { Phase::Connect } else { Phase::BeforeOutput };
    Failure::new(kind).with_phase(phase)
}

/// The column of the table, said once more: after these, before output, the next candidate is asked, whatever the rules.
const PASSED_ON: [FailureKind; 24] = [
    FailureKind::Connect,
    FailureKind::Unprocessed,
    FailureKind::Transport,
    FailureKind::Truncated,
    FailureKind::EmptyReply,
    FailureKind::MalformedReply,
    FailureKind::NotModelReply,
    FailureKind::FirstOutputTimeout,
    FailureKind::IdleTimeout,
    FailureKind::TotalTimeout,
    FailureKind::GatewayTimeout,
    FailureKind::RateLimited,
    FailureKind::Overloaded,
    FailureKind::ServerError,
    FailureKind::RequestTimeout,
    FailureKind::Conflict,
    FailureKind::TooEarly,
    FailureKind::NotSupported,
    FailureKind::CircuitOpen,
    FailureKind::QueueFull,
    FailureKind::QueueTimeout,
    FailureKind::QueueClosed,
    FailureKind::Drained,
    FailureKind::Misconfigured,
];

/// After these it is not, unless a rule says so.
const TERMINAL: [FailureKind; 13] = [
    FailureKind::QuotaExhausted,
    FailureKind::Authentication,
    FailureKind::PermissionDenied,
    FailureKind::NotFound,
    FailureKind::ContextOverflow,
    FailureKind::ContentPolicy,
    FailureKind::InvalidRequest,
    FailureKind::RequestTooLarge,
    FailureKind::EventTooLarge,
    FailureKind::RecoveryBudget,
    FailureKind::ShuttingDown,
    FailureKind::Cancelled,
    FailureKind::Unknown,
];

/// Whether the next candidate is asked, as long as no rule says otherwise.
fn passes(kind: FailureKind) -> bool {
    assert!(PASSED_ON.contains(&kind) != TERMINAL.contains(&kind), "{kind:?} has no line here");
    PASSED_ON.contains(&kind)
}

fn status(kind: FailureKind, status: u16) -> Failure {
    failure(kind).with_status(StatusCode::from_u16(status).unwrap())
}

/// An inner service that plays its answers in order and notes what it was asked. A further call is a panic.
#[derive(Clone)]
struct Script(Arc<Mutex<Played>>);

struct Played {
    replies: VecDeque<Reply>,
    asked: Vec<Req>,
}

impl Script {
    fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self(Arc::new(Mutex::new(Played { replies: replies.into_iter().collect(), asked: Vec::new() })))
    }

    /// The providers that were asked, in order.
    fn asked(&self) -> Vec<String> {
        self.requests().iter().map(|request| selected(request).candidate.provider().to_owned()).collect()
    }

    fn requests(&self) -> Vec<Req> {
        self.0.lock().unwrap().asked.clone()
    }
}

fn selected(request: &Req) -> &Selected {
    request.extensions().get().expect("set by the layer")
}

impl Service<Req> for Script {
    type Response = Response<()>;
    type Error = BoxError;
    type Future = std::future::Ready<Result<Response<()>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Wakes<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let mut played = self.0.lock().unwrap();
        played.asked.push(request);
        let reply = played.replies.pop_front().expect("no further call");
        std::future::ready(reply.map(Response::new).map_err(Into::into))
    }
}
