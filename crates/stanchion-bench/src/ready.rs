//! A provider within the process that is always ready, and requests for it.

use std::{
    future::{Ready, ready},
    pin::Pin,
    sync::{Arc, LazyLock},
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use stanchion::core::{Call, Candidate, Dialect, Failure, Family, Secret, Selected};
use tower_service::Service;

/// Answers every request at once, with the same reply.
#[derive(Debug, Clone)]
pub struct Provider(Arc<Reply>);

#[derive(Debug)]
struct Reply {
    status: StatusCode,
    content_type: HeaderValue,
    pieces: Arc<[Bytes]>,
    falls_silent: bool,
}

impl Provider {
    fn answering(status: StatusCode, content_type: &'static str, pieces: impl IntoIterator<Item = Bytes>) -> Self {
        let content_type = HeaderValue::from_static(content_type);
        let pieces = pieces.into_iter().collect();
        Self(Arc::new(Reply { status, content_type, pieces, falls_silent: false }))
    }

    fn of_events(pieces: impl IntoIterator<Item = Bytes>) -> Self {
        Self::answering(StatusCode::OK, "text/event-stream", pieces)
    }

    /// Streams of so many events with text, each a piece of its own.
    pub fn streaming(events: usize) -> Self {
        Self::of_events((0..events).map(event).chain([finish()]))
    }

    /// The same in pieces of so many bytes.
    pub fn streaming_in(events: usize, piece: usize) -> Self {
        let all = Self::streaming(events).0.pieces.concat();
        Self::of_events(all.chunks(piece).map(Bytes::copy_from_slice))
    }

    /// Streams of so many events with pieces of a tool's arguments.
    pub fn calling_a_tool(events: usize) -> Self {
        Self::of_events((0..events).map(tool_event).chain([finish()]))
    }

    /// Streams that begin, with so many events, and never go on.
    pub fn falling_silent(events: usize) -> Self {
        let content_type = HeaderValue::from_static("text/event-stream");
        let pieces = (0..events).map(event).collect();
        Self(Arc::new(Reply { status: StatusCode::OK, content_type, pieces, falls_silent: true }))
    }

    /// A reply that comes whole.
    pub fn whole() -> Self {
        let document = r#"{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"I am fine, thank you. How can I help you today?","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":12,"total_tokens":21,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}}"#;
        Self::answering(StatusCode::OK, "application/json", [Bytes::from_static(document.as_bytes())])
    }

    /// Refuses, with an error as OpenAI tells one that no other attempt could cure.
    pub fn refusing() -> Self {
        let document = r#"{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#;
        Self::answering(StatusCode::BAD_REQUEST, "application/json", [Bytes::from_static(document.as_bytes())])
    }

    /// The pieces of a reply.
    pub fn iter(&self) -> impl Iterator<Item = &Bytes> {
        self.0.pieces.iter()
    }

    /// How many pieces a reply has.
    pub fn pieces(&self) -> usize {
        self.0.pieces.len()
    }

    /// How large a reply is, in bytes.
    pub fn bytes(&self) -> usize {
        self.0.pieces.iter().map(Bytes::len).sum()
    }

    /// The body of a reply.
    pub fn body(&self) -> ReadyBody {
        ReadyBody { pieces: self.0.pieces.clone(), next: 0, falls_silent: self.0.falls_silent }
    }
}

/// One event with text, of about 180 bytes as OpenAI sends them.
fn event(number: usize) -> Bytes {
    format!(
        "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"word {number} \"}},\"finish_reason\":null}}]}}\n\n"
    )
    .into()
}

/// One event with a piece of a tool's arguments.
fn tool_event(number: usize) -> Bytes {
    format!(
        "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{{\"tool_calls\":[{{\"index\":0,\"function\":{{\"arguments\":\"word {number} \"}}}}]}},\"finish_reason\":null}}]}}\n\n"
    )
    .into()
}

fn finish() -> Bytes {
    Bytes::from_static(b"data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
}

/// The body of a [`Provider`]'s reply.
#[derive(Debug)]
pub struct ReadyBody {
    pieces: Arc<[Bytes]>,
    next: usize,
    falls_silent: bool,
}

impl Body for ReadyBody {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        let piece = self.pieces.get(self.next).cloned();
        if piece.is_none() && self.falls_silent {
            return Poll::Pending;
        }
        self.next += 1;
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        !self.falls_silent && self.next >= self.pieces.len()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

impl Service<Request<Full<Bytes>>> for Provider {
    type Response = Response<ReadyBody>;
    type Error = Failure;
    type Future = Ready<Result<Response<ReadyBody>, Failure>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Full<Bytes>>) -> Self::Future {
        let mut response = Response::new(self.body());
        *response.status_mut() = self.0.status;
        response.headers_mut().insert(CONTENT_TYPE, self.0.content_type.clone());
        // As `Upstream` does: who answered is part of the answer.
        if let Some(selected) = request.extensions_mut().remove::<Selected>() {
            response.extensions_mut().insert(selected);
        }
        ready(Ok(response))
    }
}

/// The candidate that requests are for.
pub fn candidate() -> Candidate {
    Candidate::new("provider", Family::OpenAi, "http://provider.test/v1")
        .with_model("m")
        .with_credential(Secret::new("k"))
}

/// A request for a stream as it enters the edge.
pub fn request() -> Request<Full<Bytes>> {
    request_with(r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"How are you today?"}]}"#)
}

/// The same for a reply that comes whole.
pub fn whole_request() -> Request<Full<Bytes>> {
    request_with(r#"{"model":"m","messages":[{"role":"user","content":"How are you today?"}]}"#)
}

fn request_with(body: &'static str) -> Request<Full<Bytes>> {
    Request::post("/v1/chat/completions")
        .header("content-type", "application/json")
        .header("authorization", "Bearer sk-x")
        .header("user-agent", "OpenAI/Python 3.57.0")
        .header("content-length", body.len())
        .body(Full::from(body))
        .expect("a request")
}

/// The candidate in the form that requests carry: one for all requests, as in a gateway.
static SELECTED: LazyLock<Selected> = LazyLock::new(|| Selected::only(candidate()));

/// The same as it enters a layer further inside, with what the layers outside of that put into it.
pub fn inner_request(context: stanchion::core::Context) -> Request<Full<Bytes>> {
    let mut request = request();
    let call = Call::new(Dialect::OpenAiChat, true).with_model("m").with_request_bytes(90).with_output_limit(false);
    request.extensions_mut().insert(call);
    request.extensions_mut().insert(context);
    request.extensions_mut().insert(SELECTED.clone());
    request
}
