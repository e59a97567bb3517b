//! A stream with lines of our own in it: heartbeats before the reply, control events between its frames.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context as TaskContext, Poll},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode, header, response::Parts};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use stanchion_core::{Dialect, Failure, FailureKind, Framing, Phase, ProviderReply, Selected, StreamRecord};
use stanchion_wire::{error::classify_reply, render, synthesize};
use tokio::time::{Sleep, sleep};

use crate::{border::Border, collect::Collected, events::Listener, future::MAX_SYNTHESIZED};

/// A comment: clients leave it out.
const HEARTBEAT: Bytes = Bytes::from_static(b": waiting\n\n");

/// How long the body of an error is read; what has come by then is judged.
const ERROR_BODY_TIME: Duration = Duration::from_secs(5);

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

pin_project! {
    /// All that this takes, so that it can be boxed at once.
    #[project = LiveProjection]
    pub(crate) struct Live<F, B> {
        #[pin]
        stage: Stage<F, B>,
        // Until the reply begins.
        #[pin]
        heartbeat: Option<Heartbeat>,
        // Whether the client was told that this is a stream before anything was known of the reply.
        promised: bool,
        events: Option<Listener>,
        dialect: Dialect,
        border: Border,
        front: Front,
        // What leaves next, before anything else.
        next: Option<Frame<Bytes>>,
    }
}

pin_project! {
    struct Heartbeat {
        every: Duration,
        #[pin]
        due: Sleep,
    }
}

impl Heartbeat {
    fn new(every: Duration) -> Self {
        Self { every, due: sleep(every) }
    }

    fn restart(self: Pin<&mut Self>) {
        let mut this = self.project();
        this.due.set(sleep(*this.every));
    }
}

/// What the client has got.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Front {
    Nothing,
    /// Lines of our own.
    Ours,
    Reply,
}

pin_project! {
    #[project = StageProjection]
    enum Stage<F, B> {
        // There is no answer.
        Waiting {
            #[pin]
            inner: F,
        },
        Answered {
            #[pin]
            body: B,
            form: Form,
            record: Option<StreamRecord>,
            candidate: Option<Arc<str>>,
        },
        Over,
    }
}

enum Form {
    /// Nothing has come of a success; its content type says what it may be.
    Opening(Framing),
    /// A stream, or what nobody wants to be one. `marked` once the end marker has left.
    Passing { framing: Framing, marked: bool },
    /// A whole document, which is to become a stream.
    Document(Collected),
    /// An error of the provider.
    Refusal(Box<Refusal>),
}

struct Refusal {
    head: Parts,
    collected: Collected,
    until: Pin<Box<Sleep>>,
}

/// What the reply has come to.
enum Step {
    Pending,
    Again,
    Piece(Bytes),
    /// The last piece, made of a whole document.
    Converted(Bytes),
    Trailers(Frame<Bytes>),
    Failed(Failure),
    Ended,
}

impl<F, B> Live<F, B> {
    /// Waits for an answer, and lets the client know that it does.
    pub(crate) fn waiting(inner: F, dialect: Dialect, every: Duration, events: Option<Listener>) -> Self {
        let heartbeat = Some(Heartbeat::new(every));
        Self::new(Stage::Waiting { inner }, dialect, heartbeat, events)
    }

    /// The answer that is at hand: a success, and a stream by its reader or by its own word.
    pub(crate) fn answered(head: &Parts, body: B, dialect: Dialect, events: Listener) -> Self {
        Self::new(Stage::success(head, body), dialect, None, Some(events))
    }

    fn new(stage: Stage<F, B>, dialect: Dialect, heartbeat: Option<Heartbeat>, events: Option<Listener>) -> Self {
        Self {
            stage,
            promised: heartbeat.is_some(),
            heartbeat,
            events,
            dialect,
            border: Border::Open,
            front: Front::Nothing,
            next: None,
        }
    }

    /// The listener, to go with an answer that was at hand.
    pub(crate) fn take_events(self: Pin<&mut Self>) -> Option<Listener> {
        self.project().events.take()
    }

    /// Whether the client gets control events.
    pub(crate) fn tells_events(&self) -> bool {
        self.events.is_some()
    }
}

impl<F, B: Body> Live<F, B> {
    pub(crate) fn is_end_stream(&self) -> bool {
        self.next.is_none()
            && match &self.stage {
                Stage::Over => true,
                Stage::Answered { body, form: Form::Passing { .. }, record, .. } => {
                    let events = self.events.as_ref().filter(|_| is_unmarked(record.as_ref()));
                    body.is_end_stream() && events.is_none_or(Listener::is_empty)
                }
                _ => false,
            }
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        let next = self.next.as_ref().and_then(Frame::data_ref).map_or(0, |data| data.len() as u64);
        let mut hint = SizeHint::new();
        match &self.stage {
            Stage::Over => hint.set_exact(next),
            Stage::Answered { body, form: Form::Passing { .. }, .. } => hint.set_lower(body.size_hint().lower() + next),
            _ => hint.set_lower(next),
        }
        hint
    }
}

impl<F, B, E> Live<F, B>
where
    F: Future<Output = Result<Response<B>, E>>,
    E: Into<Failure>,
    B: Body<Data = Bytes>,
    B::Error: Into<Failure>,
{
    /// The answer, if it comes before the client was told anything.
    pub(crate) fn poll_answer(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Result<Response<B>, E>> {
        match self.project().stage.project() {
            StageProjection::Waiting { inner } => inner.poll(cx),
            _ => unreachable!("asked only while nothing was told"),
        }
    }

    pub(crate) fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        let mut this = self.project();
        if let Some(frame) = this.next.take() {
            return Poll::Ready(Some(Ok(frame)));
        }
        loop {
            return match this.step(cx) {
                Step::Again => continue,
                Step::Pending => this.idle(cx).map(|data| Some(Ok(Frame::data(data)))),
                Step::Piece(piece) => Poll::Ready(Some(Ok(Frame::data(this.pass(piece))))),
                Step::Converted(stream) => {
                    let first = this.pass(stream);
                    this.end();
                    Poll::Ready(Some(Ok(Frame::data(first))))
                }
                Step::Trailers(trailers) => {
                    let last = this.last_events();
                    // Nothing but the end may follow.
                    *this.events = None;
                    this.heartbeat.set(None);
                    Poll::Ready(Some(Ok(match last {
                        Some(events) => {
                            *this.next = Some(trailers);
                            Frame::data(events)
                        }
                        None => trailers,
                    })))
                }
                Step::Failed(failure) => Poll::Ready(Some(this.fail(failure).map(Frame::data))),
                Step::Ended => {
                    let events = this.last_events();
                    this.end();
                    Poll::Ready(events.map(|events| Ok(Frame::data(events))))
                }
            };
        }
    }
}

impl<F, B, E> LiveProjection<'_, F, B>
where
    F: Future<Output = Result<Response<B>, E>>,
    E: Into<Failure>,
    B: Body<Data = Bytes>,
    B::Error: Into<Failure>,
{
    /// Goes on with the reply.
    fn step(&mut self, cx: &mut TaskContext<'_>) -> Step {
        let (body, form, record, candidate) = match self.stage.as_mut().project() {
            StageProjection::Over => return Step::Ended,
            StageProjection::Waiting { inner } => {
                return match inner.poll(cx) {
                    Poll::Pending => Step::Pending,
                    Poll::Ready(Err(error)) => Step::Failed(error.into()),
                    Poll::Ready(Ok(response)) => self.receive(response),
                };
            }
            StageProjection::Answered { body, form, record, candidate } => (body, form, record, candidate),
        };
        let frame = match body.poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => frame,
            Poll::Pending => {
                if let Form::Refusal(refusal) = form
                    && refusal.until.as_mut().poll(cx).is_ready()
                {
                    return Step::Failed(refusal.judge(*self.dialect, candidate.take(), false));
                }
                return Step::Pending;
            }
            Poll::Ready(Some(Err(error))) => {
                return Step::Failed(match form {
                    Form::Refusal(refusal) => refusal.judge(*self.dialect, candidate.take(), false),
                    _ => error.into(),
                });
            }
            Poll::Ready(None) => {
                return match form {
                    Form::Opening(_) | Form::Passing { .. } => Step::Ended,
                    Form::Refusal(refusal) => Step::Failed(refusal.judge(*self.dialect, candidate.take(), true)),
                    Form::Document(collected) => {
                        let document = collected.take();
                        match synthesize::stream(*self.dialect, &document) {
                            Some(stream) => Step::Converted(stream),
                            None => Step::Failed(judge(*self.dialect, unreadable(&document), candidate.take())),
                        }
                    }
                };
            }
        };
        let piece = match frame.into_data() {
            Ok(piece) => piece,
            Err(trailers) if matches!(form, Form::Opening(_) | Form::Passing { .. }) => {
                return Step::Trailers(trailers);
            }
            Err(_) => return Step::Again,
        };
        if let Form::Opening(label) = form {
            if piece.is_empty() {
                return Step::Again;
            }
            let framing = record.as_ref().and_then(StreamRecord::framing).unwrap_or(*label);
            *form = if *self.promised && framing != Framing::Sse {
                Form::Document(Collected::default())
            } else {
                if framing != Framing::Sse {
                    *self.events = None;
                }
                Form::Passing { framing, marked: false }
            };
        }
        match form {
            Form::Opening(_) | Form::Passing { .. } => return Step::Piece(piece),
            Form::Document(collected) => {
                if collected.len() + piece.len() > MAX_SYNTHESIZED {
                    return Step::Failed(failure(FailureKind::MalformedReply, candidate.take()));
                }
                collected.push(piece);
            }
            Form::Refusal(refusal) => {
                let room = ProviderReply::MAX_BODY - refusal.collected.len();
                refusal.collected.push(piece.slice(..piece.len().min(room)));
                if piece.len() > room {
                    return Step::Failed(refusal.judge(*self.dialect, candidate.take(), false));
                }
            }
        }
        Step::Again
    }

    /// The answer has come, and the client was told before that it is a stream.
    fn receive(&mut self, response: Response<B>) -> Step {
        let (head, body) = response.into_parts();
        if !head.status.is_success() {
            let candidate = candidate(&head);
            let until = Box::pin(sleep(ERROR_BODY_TIME));
            let refusal = Box::new(Refusal { head, collected: Collected::default(), until });
            self.stage.set(Stage::Answered { body, form: Form::Refusal(refusal), record: None, candidate });
        } else if is_plain(&head.headers) {
            self.stage.set(Stage::success(&head, body));
        } else {
            // The client cannot be told of the coding any more.
            return Step::Failed(failure(FailureKind::MalformedReply, candidate(&head)));
        }
        Step::Again
    }

    /// While there is nothing of the reply: events, or else a heartbeat when it is due.
    fn idle(&mut self, cx: &mut TaskContext<'_>) -> Poll<Bytes> {
        let may_tell = match self.stage.as_mut().project() {
            StageProjection::Answered { form: Form::Passing { marked, .. }, .. } => !*marked && self.border.is_open(),
            _ => *self.promised,
        };
        let told = match self.events {
            Some(events) if may_tell => events.poll(cx),
            _ => Poll::Pending,
        };
        let Some(mut heartbeat) = self.heartbeat.as_mut().as_pin_mut() else { return told };
        if told.is_ready() {
            heartbeat.restart();
            *self.front = Front::Ours;
            return told;
        }
        heartbeat.as_mut().project().due.poll(cx).map(|()| {
            heartbeat.restart();
            *self.front = Front::Ours;
            HEARTBEAT
        })
    }

    /// A piece of the reply, or the events that happened before it: then the piece is the next.
    fn pass(&mut self, mut piece: Bytes) -> Bytes {
        self.heartbeat.set(None);
        let mut no_mark = false;
        let (marked, record) = match self.stage.as_mut().project() {
            StageProjection::Answered { form: Form::Passing { marked, .. }, record, .. } => (marked, record.as_ref()),
            _ => (&mut no_mark, None),
        };
        let may_tell = !*marked && self.border.is_open();
        let told = self.events.as_ref().filter(|_| may_tell).and_then(Listener::take);
        if *self.front != Front::Reply {
            // It means something at the start of a stream only; anywhere else it spoils the line that it stands in.
            if (*self.front == Front::Ours || told.is_some()) && piece.starts_with(BYTE_ORDER_MARK) {
                piece = piece.slice(BYTE_ORDER_MARK.len()..);
            }
            *self.front = Front::Reply;
        }
        self.border.pass(&piece);
        *marked = record.is_some_and(StreamRecord::terminal);
        match told {
            Some(events) => {
                *self.next = Some(Frame::data(piece));
                events
            }
            None => piece,
        }
    }

    /// The failure in band, after the events that happened before it. Where that cannot be told, the body fails.
    fn fail(&mut self, failure: Failure) -> Result<Bytes, Failure> {
        let (framing, sequence) = match self.stage.as_mut().project() {
            StageProjection::Answered { form: Form::Passing { framing, .. }, record, .. } => {
                (*framing, record.as_ref().map_or(0, StreamRecord::frames))
            }
            _ => (Framing::Sse, 0),
        };
        let told = self.events.as_ref().filter(|_| self.border.may_end()).and_then(Listener::take);
        // After half an event it would be a part of that.
        let error = (framing != Framing::Sse || self.border.may_end())
            .then(|| render::in_band(*self.dialect, framing, &failure, sequence))
            .flatten();
        self.end();
        match (told, error) {
            (None, Some(error)) => Ok(error),
            (Some(events), Some(error)) => {
                *self.next = Some(Frame::data(error));
                Ok(events)
            }
            (_, None) => Err(failure),
        }
    }

    /// The events that are still to be told at a clean end. None after the end marker: a client reads no further than
    /// that.
    fn last_events(&mut self) -> Option<Bytes> {
        let may_tell = match self.stage.as_mut().project() {
            StageProjection::Answered { form: Form::Passing { .. }, record, .. } => is_unmarked(record.as_ref()),
            StageProjection::Answered { .. } => *self.promised,
            StageProjection::Waiting { .. } | StageProjection::Over => false,
        };
        self.events.as_ref().filter(|_| may_tell && self.border.may_end()).and_then(Listener::take)
    }

    /// Nothing more is wanted of the provider: it is dropped at once.
    fn end(&mut self) {
        self.stage.set(Stage::Over);
        self.heartbeat.set(None);
        *self.events = None;
    }
}

impl<F, B> Stage<F, B> {
    fn success(head: &Parts, body: B) -> Self {
        let record = head.extensions.get().cloned();
        Self::Answered { body, form: Form::Opening(label(&head.headers)), record, candidate: candidate(head) }
    }
}

impl Refusal {
    fn judge(&mut self, dialect: Dialect, candidate: Option<Arc<str>>, complete: bool) -> Failure {
        let reply = ProviderReply {
            status: self.head.status,
            headers: std::mem::take(&mut self.head.headers),
            body: self.collected.take(),
            complete,
        };
        judge(dialect, reply, candidate)
    }
}

fn judge(dialect: Dialect, reply: ProviderReply, candidate: Option<Arc<str>>) -> Failure {
    named(classify_reply(dialect, reply, SystemTime::now()), candidate)
}

/// A success whose body is no reply of a model.
fn unreadable(document: &Bytes) -> ProviderReply {
    let kept = document.len().min(ProviderReply::MAX_BODY);
    let (headers, complete) = (HeaderMap::new(), kept == document.len());
    ProviderReply { status: StatusCode::OK, headers, body: document.slice(..kept), complete }
}

fn failure(kind: FailureKind, candidate: Option<Arc<str>>) -> Failure {
    named(Failure::new(kind), candidate)
}

fn named(failure: Failure, candidate: Option<Arc<str>>) -> Failure {
    let failure = failure.with_phase(Phase::BeforeOutput);
    match candidate {
        Some(candidate) => failure.with_candidate(candidate),
        None => failure,
    }
}

fn candidate(head: &Parts) -> Option<Arc<str>> {
    head.extensions.get::<Selected>().map(|selected| selected.candidate.name().clone())
}

/// Whether a stream is read, and no end marker was found in it.
fn is_unmarked(record: Option<&StreamRecord>) -> bool {
    record.is_some_and(|record| !record.terminal())
}

/// How a body is divided by its content type, for want of somebody who reads it.
fn label(headers: &HeaderMap) -> Framing {
    let json = headers.get(header::CONTENT_TYPE).is_some_and(|value| {
        let essence = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
        essence.trim_ascii().eq_ignore_ascii_case(b"application/json")
    });
    if json { Framing::Document } else { Framing::Sse }
}

/// Whether the bytes of a reply are those of its text.
pub(crate) fn is_plain(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_ENCODING)
        .is_none_or(|coding| coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity"))
}
