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
    CacheRetention, Call, CommitPolicy, Context, Dialect, DispositionRules, Failure, Framing, Selected, StreamRecord,
};
use stanchion_wire::{render, request as wire_request, synthesize};
use tokio::time::{Instant, Sleep, sleep_until};
use tower_service::Service;

use crate::{
    EdgeBody, EdgeLayer,
    collect::{CollectError, Collected},
    events::Listener,
    identity::{self, Said},
    layer::Heartbeats,
    live::{Live, is_plain},
    refused::Refused,
};

/// The largest whole reply that is turned into a stream; what is held of a document before it commits is no larger.
pub(crate) const MAX_SYNTHESIZED: usize = 8 * 1024 * 1024;

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
    upload_timeout: Duration,
    array: bool,
    rules: DispositionRules,
    dialect: Dialect,
    context: Context,
    commit: Option<CommitPolicy>,
    retention: Option<CacheRetention>,
    heartbeats: Heartbeats,
    // Whether the client asks for the events of its request.
    tells: bool,
    // Where they wait, if it may have them.
    listener: Option<Listener>,
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
            // When the whole body has to be there; told once the client keeps us waiting.
            deadline: Option<Instant>,
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
        // As Calling, once; then the client is told that its stream has begun.
        Beginning { live: Option<Pin<Box<Live<F, R>>>> },
        // The provider sent a whole document to a client that wants a stream.
        Converting {
            #[pin]
            body: R,
            collected: Collected,
            head: Option<response::Parts>,
        },
    }
}

impl<S, B, F, R> State<S, B, F, R> {
    fn converting(head: response::Parts, body: R) -> Self {
        Self::Converting { body, collected: Collected::default(), head: Some(head) }
    }
}

impl<S, B, R> EdgeFuture<S, B, R>
where
    S: Service<Request<Full<Bytes>>>,
{
    pub(crate) fn new(request: Request<B>, service: S, layer: &EdgeLayer) -> Self {
        let (head, body) = request.into_parts();
        let said = Said::by(&head.headers, layer);
        let context = head.extensions.get().cloned().unwrap_or_else(|| said.context(layer));
        let (commit, retention, tells) = (said.commit_policy(), said.cache_retention(), said.wants_events());
        let route = wire_request::route(head.uri.path());
        let dialect = route.as_ref().map_or(Dialect::OpenAiChat, |route| route.dialect);
        // Gemini streams one JSON array unless it is asked for events.
        let events = head.uri.query().is_some_and(|query| query.split('&').any(|pair| pair == "alt=sse"));
        let settings = Settings {
            max_request_bytes: layer.max_request_bytes,
            upload_idle: layer.upload_idle,
            upload_timeout: layer.upload_timeout,
            array: dialect == Dialect::GeminiGenerateContent && !events,
            rules: layer.rules,
            dialect,
            context,
            commit,
            retention,
            heartbeats: layer.heartbeats.clone(),
            tells,
            listener: None,
        };
        let state = match route {
            None => {
                let text = format!("nothing is served at {} {}", head.method, head.uri.path());
                let response = render::local_error(dialect, StatusCode::NOT_FOUND, "not_found", &text);
                State::Answered { response: Some(Refused::UnknownPath.mark(response)) }
            }
            Some(_) if head.method != Method::POST => {
                let text = format!("{} is not allowed here: use POST", head.method);
                let mut response =
                    render::local_error(dialect, StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", &text);
                response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
                State::Answered { response: Some(Refused::WrongMethod.mark(response)) }
            }
            Some(route) => State::Collecting {
                body,
                collected: Collected::default(),
                idle: None,
                pieces_end: 0,
                deadline: None,
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
    type Output = Result<Response<EdgeBody<S::Future, R>>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let settings = this.settings;
        loop {
            let next = match this.state.as_mut().project() {
                StateProjection::Answered { response } => {
                    let response = response.take().expect("polled after it was ready");
                    return Poll::Ready(Ok(response.map(EdgeBody::whole)));
                }
                StateProjection::Collecting {
                    body,
                    collected,
                    mut idle,
                    pieces_end,
                    deadline,
                    head,
                    route,
                    service,
                } => {
                    let outcome = match collected.poll(body, settings.max_request_bytes, cx) {
                        Poll::Ready(outcome) => outcome,
                        Poll::Pending => {
                            if idle.is_none() || *pieces_end != collected.len() {
                                *pieces_end = collected.len();
                                let now = Instant::now();
                                let deadline = *deadline.get_or_insert_with(|| now + settings.upload_timeout);
                                idle.set(Some(sleep_until(deadline.min(now + settings.upload_idle))));
                            }
                            ready!(idle.as_mut().as_pin_mut().expect("just armed").poll(cx));
                            let is_late = deadline.is_some_and(|deadline| deadline <= Instant::now());
                            Err(if is_late { CollectError::Slow } else { CollectError::Stalled })
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
                        let call = request.extensions().get::<Call>();
                        let stream = call.is_some_and(|call| call.stream);
                        let heartbeat = call.and_then(|call| settings.heartbeat(call));
                        let inner = service.call(request);
                        match heartbeat {
                            None => State::Calling { inner, stream },
                            Some(every) => {
                                let live = Live::waiting(inner, settings.dialect, every, settings.listener.take());
                                State::Beginning { live: Some(Box::pin(live)) }
                            }
                        }
                    }
                    Err(error) => State::Answered { response: Some(settings.render(&error.into())) },
                },
                StateProjection::Calling { inner, stream } => match ready!(inner.poll(cx)) {
                    Err(error) => State::Answered { response: Some(settings.render(&error.into())) },
                    Ok(response) => match settings.receive(response, *stream) {
                        Received::Whole(head, body) => State::converting(head, body),
                        Received::Ready(response) => return Poll::Ready(Ok(response)),
                    },
                },
                StateProjection::Beginning { live } => {
                    let waiting = live.as_mut().expect("polled after it was ready");
                    match waiting.as_mut().poll_answer(cx) {
                        Poll::Pending => {
                            return Poll::Ready(Ok(begun(live.take().expect("just polled"))));
                        }
                        Poll::Ready(Err(error)) => State::Answered { response: Some(settings.render(&error.into())) },
                        Poll::Ready(Ok(response)) => {
                            settings.listener = waiting.as_mut().take_events();
                            match settings.receive(response, true) {
                                Received::Whole(head, body) => State::converting(head, body),
                                Received::Ready(response) => return Poll::Ready(Ok(response)),
                            }
                        }
                    }
                }
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
                            if settings.array {
                                as_array(document)
                            } else {
                                settings.after_events(&mut head.headers, stream)
                            }
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

/// What is to be done with an answer.
enum Received<F, R> {
    /// A whole document where a stream was asked for: it is to be converted.
    Whole(response::Parts, R),
    Ready(Response<EdgeBody<F, R>>),
}

impl Settings {
    /// Reads the request's body and makes a request that can be replayed.
    #[expect(clippy::result_large_err, reason = "moved once, into the state of the future that it was made for")]
    fn prepare(
        &mut self,
        mut head: request::Parts,
        route: wire_request::Route,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, Response<Bytes>> {
        let peek = wire_request::peek(route.dialect, &body).map_err(|error| {
            let text = error.to_string();
            let response = render::local_error(self.dialect, StatusCode::BAD_REQUEST, "invalid_request", &text);
            Refused::InvalidBody.mark(response)
        })?;
        let mut call = Call::new(route.dialect, route.stream.unwrap_or(peek.stream))
            .with_request_bytes(body.len())
            .with_tokens(wire_request::estimate_tokens(&body))
            .with_output_limit(peek.limits_output);
        if let Some(model) = route.model.as_deref().or(peek.model.as_deref()) {
            call = call.with_model(model);
        }
        if self.tells && self.is_event_stream(&call) {
            let (queue, listener) = Listener::new();
            self.context = self.context.with_observer(queue);
            self.listener = Some(listener);
        }
        head.extensions.insert(call);
        head.extensions.insert(self.context.clone());
        if let Some(policy) = self.commit {
            head.extensions.insert(policy);
        }
        if let Some(retention) = self.retention {
            head.extensions.insert(retention);
        }
        Ok(Request::from_parts(head, Full::new(body)))
    }

    /// Whether the reply to a call is to be a stream of Server-Sent Events.
    fn is_event_stream(&self, call: &Call) -> bool {
        let events = matches!(
            self.dialect,
            Dialect::OpenAiChat
                | Dialect::OpenAiResponses
                | Dialect::AnthropicMessages
                | Dialect::GeminiGenerateContent
        );
        call.stream && events && !self.array
    }

    /// How often the client of a call is told that its connection lives.
    fn heartbeat(&self, call: &Call) -> Option<Duration> {
        self.is_event_stream(call).then(|| self.heartbeats.of(call)).flatten()
    }

    /// Takes an answer in before the client was told anything.
    fn receive<F, R: Body>(&mut self, response: Response<R>, stream: bool) -> Received<F, R> {
        let (mut head, body) = response.into_parts();
        let framing = head.extensions.get::<StreamRecord>().and_then(StreamRecord::framing);
        self.finish_head(&mut head, framing);
        let success = head.status.is_success();
        let whole = framing == Some(Framing::Document) && stream && success;
        if whole && body.size_hint().upper().is_some_and(|upper| upper <= MAX_SYNTHESIZED as u64) {
            return Received::Whole(head, body);
        }
        let says_events = framing.map_or_else(|| is_named(&head.headers), |framing| framing == Framing::Sse);
        if let Some(listener) = self.listener.take_if(|_| success && says_events && is_plain(&head.headers)) {
            identity::tells_events(&mut head.headers);
            head.headers.remove(header::CONTENT_LENGTH);
            let live = Live::answered(&head, body, self.dialect, listener);
            return Received::Ready(Response::from_parts(head, EdgeBody::live(Box::pin(live))));
        }
        let record = head.extensions.get::<StreamRecord>().cloned();
        Received::Ready(Response::from_parts(head, EdgeBody::streamed(body, self.dialect, framing, record)))
    }

    /// The events so far, and then the whole stream.
    fn after_events(&mut self, headers: &mut HeaderMap, stream: Bytes) -> Bytes {
        let Some(listener) = self.listener.take() else { return stream };
        identity::tells_events(headers);
        match listener.take() {
            Some(events) => [events, stream].concat().into(),
            None => stream,
        }
    }

    fn stream_type(&self) -> HeaderValue {
        HeaderValue::from_static(match self.dialect {
            _ if self.array => "application/json",
            Dialect::Ollama => "application/x-ndjson",
            _ => "text/event-stream",
        })
    }

    fn refuse(&self, error: &CollectError) -> Response<Bytes> {
        let (refused, response) = match error {
            CollectError::TooLarge => {
                let text = format!(
                    "the request body is larger than {} bytes; send less, or raise server.max_request_bytes",
                    self.max_request_bytes
                );
                let mut response =
                    render::local_error(self.dialect, StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", &text);
                // The rest of the body is not read.
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                (Refused::BodyTooLarge, response)
            }
            CollectError::Stalled | CollectError::Slow => {
                let text = match error {
                    CollectError::Slow => format!("the request body took more than {:?}", self.upload_timeout),
                    _ => format!("the request body paused for more than {:?}", self.upload_idle),
                };
                let mut response =
                    render::local_error(self.dialect, StatusCode::REQUEST_TIMEOUT, "request_timeout", &text);
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                (Refused::BodyTimeout, response)
            }
            CollectError::Broken => {
                let text = "the request body broke off";
                let response = render::local_error(self.dialect, StatusCode::BAD_REQUEST, "invalid_request", text);
                (Refused::BodyBroken, response)
            }
        };
        refused.mark(response)
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
            let_it_through(&mut head.headers);
        }
        // Relays forget the type.
        if framing == Some(Framing::Sse) && !is_named(&head.headers) {
            head.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        }
    }
}

/// A reply of which nothing is known yet.
fn begun<F, R>(live: Pin<Box<Live<F, R>>>) -> Response<EdgeBody<F, R>> {
    let tells = live.tells_events();
    let mut response = Response::new(EdgeBody::live(live));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    let_it_through(headers);
    if tells {
        identity::tells_events(headers);
    }
    response
}

/// Whether a reply says that it is a stream of events.
fn is_named(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().to_ascii_lowercase().starts_with(b"text/event-stream"))
}

/// Proxies before us hold back what they are not told to let through.
fn let_it_through(headers: &mut HeaderMap) {
    insert_missing(headers, header::CACHE_CONTROL, "no-cache, no-transform");
    insert_missing(headers, header::HeaderName::from_static("x-accel-buffering"), "no");
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
