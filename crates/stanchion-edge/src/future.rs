use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    task::{Context as TaskContext, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header, request, response};
use http_body::Body;
use http_body_util::Full;
use pin_project_lite::pin_project;
use stanchion_core::{
    Call, CommitPolicy, Context, Dialect, DispositionRules, Failure, Framing, Selected, StreamRecord,
};
use stanchion_wire::{render, request as wire_request, synthesize};
use tokio::time::{Sleep, sleep};
use tower_service::Service;

use crate::{
    EdgeBody, EdgeLayer,
    collect::{CollectError, Collected},
    identity,
};

/// The largest whole reply that is turned into a stream; what is held of a document before it commits is no larger.
const MAX_SYNTHESIZED: usize = 8 * 1024 * 1024;

pin_project! {
    /// The future of [`Edge`](crate::Edge).
    pub struct EdgeFuture<S, B, R>
    where
        S: Service<Request<Full<Bytes>>>,
    {
        #[pin]
        state: State<S, B, S::Future, R>,
        settings: Settings,
    }
}

struct Settings {
    max_request_bytes: usize,
    upload_idle: Duration,
    array: bool,
    rules: DispositionRules,
    dialect: Dialect,
    context: Context,
    commit: Option<CommitPolicy>,
}

pin_project! {
    #[project = StateProjection]
    enum State<S, B, F, R> {
        // The answer is known before anything was asked.
        Answered { response: Option<Response<Bytes>> },
        Collecting {
            #[pin]
            body: B,
            collected: Collected,
            // Armed only while the client keeps us waiting; starts anew with every piece.
            #[pin]
            idle: Option<Sleep>,
            pieces_end: usize,
            head: Option<request::Parts>,
            route: Option<wire_request::Route>,
            service: Option<S>,
        },
        Readying { service: S, request: Option<Request<Full<Bytes>>> },
        Calling {
            #[pin]
            inner: F,
            stream: bool,
        },
        // The provider sent a whole document to a client that wants a stream.
        Converting {
            #[pin]
            body: R,
            collected: Collected,
            head: Option<response::Parts>,
        },
    }
}

impl<S, B, R> EdgeFuture<S, B, R>
where
    S: Service<Request<Full<Bytes>>>,
{
    pub(crate) fn new(request: Request<B>, service: S, layer: &EdgeLayer) -> Self {
        let (head, body) = request.into_parts();
        let commit = identity::commit_policy(&head.headers, layer);
        let context = head.extensions.get().cloned().unwrap_or_else(|| identity::context(&head.headers, layer));
        let route = wire_request::route(head.uri.path());
        let dialect = route.as_ref().map_or(Dialect::OpenAiChat, |route| route.dialect);
        // Gemini streams one JSON array unless it is asked for events.
        let events = head.uri.query().is_some_and(|query| query.split('&').any(|pair| pair == "alt=sse"));
        let settings = Settings {
            max_request_bytes: layer.max_request_bytes,
            upload_idle: layer.upload_idle,
            array: dialect == Dialect::GeminiGenerateContent && !events,
            rules: layer.rules,
            dialect,
            context,
            commit,
        };
        let state = match route {
            None => {
                let text = format!("nothing is served at {} {}", head.method, head.uri.path());
                State::Answered {
                    response: Some(render::local_error(dialect, StatusCode::NOT_FOUND, "not_found", &text)),
                }
            }
            Some(_) if head.method != Method::POST => {
                let text = format!("{} is not allowed here: use POST", head.method);
                let mut response =
                    render::local_error(dialect, StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", &text);
                response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
                State::Answered { response: Some(response) }
            }
            Some(route) => State::Collecting {
                body,
                collected: Collected::default(),
                idle: None,
                pieces_end: 0,
                head: Some(head),
                route: Some(route),
                service: Some(service),
            },
        };
        Self { state, settings }
    }
}

impl<S, B, R> Future for EdgeFuture<S, B, R>
where
    S: Service<Request<Full<Bytes>>, Response = Response<R>>,
    S::Error: Into<Failure>,
    B: Body,
    B::Data: Into<Bytes>,
    R: Body<Data = Bytes>,
    R::Error: Into<Failure>,
{
    type Output = Result<Response<EdgeBody<R>>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let settings = this.settings;
        loop {
            let next = match this.state.as_mut().project() {
                StateProjection::Answered { response } => {
                    let response = response.take().expect("polled after it was ready");
                    return Poll::Ready(Ok(response.map(EdgeBody::whole)));
                }
                StateProjection::Collecting { body, collected, mut idle, pieces_end, head, route, service } => {
                    let outcome = match collected.poll(body, settings.max_request_bytes, cx) {
                        Poll::Ready(outcome) => outcome,
                        Poll::Pending => {
                            if idle.is_none() || *pieces_end != collected.len() {
                                *pieces_end = collected.len();
                                idle.set(Some(sleep(settings.upload_idle)));
                            }
                            ready!(idle.as_pin_mut().expect("just armed").poll(cx));
                            Err(CollectError::Stalled)
                        }
                    };
                    match outcome {
                        Ok(bytes) => {
                            let (head, route) = (head.take().expect("taken once"), route.take().expect("taken once"));
                            match settings.prepare(head, route, bytes) {
                                Ok(request) => State::Readying {
                                    service: service.take().expect("taken once"),
                                    request: Some(request),
                                },
                                Err(response) => State::Answered { response: Some(response) },
                            }
                        }
                        Err(error) => State::Answered { response: Some(settings.refuse(&error)) },
                    }
                }
                StateProjection::Readying { service, request } => match ready!(service.poll_ready(cx)) {
                    Ok(()) => {
                        let request = request.take().expect("taken once");
                        let stream = request.extensions().get::<Call>().is_some_and(|call| call.stream);
                        State::Calling { inner: service.call(request), stream }
                    }
                    Err(error) => State::Answered { response: Some(settings.render(&error.into())) },
                },
                StateProjection::Calling { inner, stream } => match ready!(inner.poll(cx)) {
                    Err(error) => State::Answered { response: Some(settings.render(&error.into())) },
                    Ok(response) => {
                        let (mut head, body) = response.into_parts();
                        let framing = head.extensions.get::<StreamRecord>().and_then(StreamRecord::framing);
                        settings.finish_head(&mut head, framing);
                        let whole = framing == Some(Framing::Document) && *stream && head.status.is_success();
                        if whole && body.size_hint().upper().is_some_and(|upper| upper <= MAX_SYNTHESIZED as u64) {
                            State::Converting { body, collected: Collected::default(), head: Some(head) }
                        } else {
                            let record = head.extensions.get::<StreamRecord>().cloned();
                            return Poll::Ready(Ok(Response::from_parts(
                                head,
                                EdgeBody::streamed(body, settings.dialect, framing, record),
                            )));
                        }
                    }
                },
                StateProjection::Converting { body, collected, head } => {
                    let collected = ready!(collected.poll(body, MAX_SYNTHESIZED, cx));
                    let mut head = head.take().expect("taken once");
                    let Ok(document) = collected else {
                        let failure = Failure::new(stanchion_core::FailureKind::Transport);
                        this.state.set(State::Answered { response: Some(settings.render(&failure)) });
                        continue;
                    };
                    // What cannot be converted is given as it is: better than nothing.
                    let bytes = match synthesize::stream(settings.dialect, &document) {
                        Some(stream) => {
                            head.headers.remove(header::CONTENT_LENGTH);
                            head.headers.insert(header::CONTENT_TYPE, settings.stream_type());
                            if settings.array { as_array(document) } else { stream }
                        }
                        None => document,
                    };
                    return Poll::Ready(Ok(Response::from_parts(head, EdgeBody::whole(bytes))));
                }
            };
            this.state.set(next);
        }
    }
}

impl Settings {
    /// Reads the request's body and makes a request that can be replayed.
    #[expect(clippy::result_large_err, reason = "moved once, into the state of the future that it was made for")]
    fn prepare(
        &self,
        mut head: request::Parts,
        route: wire_request::Route,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, Response<Bytes>> {
        let peek = wire_request::peek(route.dialect, &body).map_err(|error| {
            render::local_error(self.dialect, StatusCode::BAD_REQUEST, "invalid_request", &error.to_string())
        })?;
        let mut call = Call::new(route.dialect, route.stream.unwrap_or(peek.stream));
        if let Some(model) = route.model.as_deref().or(peek.model.as_deref()) {
            call = call.with_model(model);
        }
        head.extensions.insert(call);
        head.extensions.insert(self.context.clone());
        if let Some(policy) = self.commit {
            head.extensions.insert(policy);
        }
        Ok(Request::from_parts(head, Full::new(body)))
    }

    fn stream_type(&self) -> HeaderValue {
        HeaderValue::from_static(match self.dialect {
            _ if self.array => "application/json",
            Dialect::Ollama => "application/x-ndjson",
            _ => "text/event-stream",
        })
    }

    fn refuse(&self, error: &CollectError) -> Response<Bytes> {
        match error {
            CollectError::TooLarge => {
                let text = format!(
                    "the request body is larger than {} bytes; send less, or raise server.max_request_bytes",
                    self.max_request_bytes
                );
                let mut response =
                    render::local_error(self.dialect, StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", &text);
                // The rest of the body is not read.
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                response
            }
            CollectError::Stalled => {
                let text = format!("the request body paused for more than {:?}", self.upload_idle);
                let mut response =
                    render::local_error(self.dialect, StatusCode::REQUEST_TIMEOUT, "request_timeout", &text);
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                response
            }
            CollectError::Broken => render::local_error(
                self.dialect,
                StatusCode::BAD_REQUEST,
                "invalid_request",
                "the request body broke off",
            ),
        }
    }

    fn render(&self, failure: &Failure) -> Response<Bytes> {
        let mut response = render::response(self.dialect, failure, &self.rules);
        let attempts = self.context.attempts().max(failure.attempts());
        identity::sign(response.headers_mut(), failure.candidate().map(|name| &**name), attempts);
        response
    }

    fn finish_head(&self, head: &mut response::Parts, framing: Option<Framing>) {
        let selected = head.extensions.get::<Selected>().map(|selected| selected.candidate.clone());
        identity::sign(
            &mut head.headers,
            selected.as_ref().map(|candidate| &**candidate.name()),
            self.context.attempts(),
        );
        if framing.is_some_and(|framing| framing != Framing::Document) {
            insert_missing(&mut head.headers, header::CACHE_CONTROL, "no-cache, no-transform");
            insert_missing(&mut head.headers, header::HeaderName::from_static("x-accel-buffering"), "no");
        }
        // Relays forget the type; proxies before us hold back what they are not told to let through.
        if framing == Some(Framing::Sse) {
            let named = head
                .headers
                .get(header::CONTENT_TYPE)
                .is_some_and(|value| value.as_bytes().to_ascii_lowercase().starts_with(b"text/event-stream"));
            if !named {
                head.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
            }
        }
    }
}

fn insert_missing(headers: &mut HeaderMap, name: header::HeaderName, value: &'static str) {
    headers.entry(name).or_insert(HeaderValue::from_static(value));
}

/// One document as the array that a stream of Gemini's is without `alt=sse`.
fn as_array(document: Bytes) -> Bytes {
    if document.trim_ascii_start().starts_with(b"[") {
        return document;
    }
    [b"[", &document[..], b"]"].concat().into()
}

impl<S, B, R> std::fmt::Debug for EdgeFuture<S, B, R>
where
    S: Service<Request<Full<Bytes>>>,
{
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EdgeFuture").finish_non_exhaustive()
    }
}
