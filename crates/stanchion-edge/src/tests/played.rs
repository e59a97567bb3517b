//! A service within that plays a script, events included.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Poll, ready},
    time::Duration,
};

use http_body::{Frame, SizeHint};
use stanchion_core::{Event, FallbackEvent, StreamRecorder};
use tokio::time::{Instant, Sleep, sleep};

use super::*;

/// What the service does, before its answer or in its body.
#[derive(Debug, Clone)]
pub(super) enum Act {
    Data(Bytes),
    /// Tells an event with this number.
    Event(u32),
    Wait(u64),
    /// Is pending once.
    Yield,
    /// The end marker is read.
    Mark,
    Trailers,
    Error(FailureKind),
    Hang,
}

/// How a body is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reader {
    /// Nobody reads it.
    None,
    /// It was read before the answer.
    Before(Framing),
    /// It is read as it comes.
    Along(Framing),
}

/// A reply in the making.
#[derive(Debug, Clone)]
pub(super) struct Play {
    pub(super) before: Vec<Act>,
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, &'static str)>,
    pub(super) reader: Reader,
    pub(super) body: Vec<Act>,
    /// What is alive of it.
    pub(super) live: Arc<AtomicUsize>,
}

impl Play {
    /// A stream that is whole.
    pub(super) fn stream(before: Vec<Act>, body: Vec<Act>) -> Self {
        let headers = vec![("content-type", "text/event-stream")];
        Self { before, status: 200, headers, reader: Reader::Before(Framing::Sse), body, live: Arc::default() }
    }

    pub(super) fn document(before: Vec<Act>, body: &str) -> Self {
        let headers = vec![("content-type", "application/json")];
        let body = vec![Act::Data(body.to_owned().into())];
        Self { before, status: 200, headers, reader: Reader::Before(Framing::Document), body, live: Arc::default() }
    }

    pub(super) fn reader(mut self, reader: Reader) -> Self {
        self.reader = reader;
        self
    }

    pub(super) fn answer(self, request: &Request<Full<Bytes>>) -> Played {
        self.live.fetch_add(1, Ordering::SeqCst);
        let context = Context::of(request).unwrap().clone();
        let script = Script { acts: self.before.clone().into(), sleep: None, context, recorder: None };
        Played { script, play: self, answered: false }
    }
}

pub(super) struct Script {
    acts: VecDeque<Act>,
    sleep: Option<Pin<Box<Sleep>>>,
    context: Context,
    recorder: Option<StreamRecorder>,
}

pub(super) fn event(number: u32) -> Event {
    Event::ModelFallback(FallbackEvent { from: number.to_string().into(), to: "b".into() })
}

impl Script {
    /// The next act that somebody else must play.
    fn poll(&mut self, cx: &mut std::task::Context<'_>) -> Poll<Option<Act>> {
        loop {
            if let Some(sleep) = &mut self.sleep {
                ready!(sleep.as_mut().poll(cx));
                self.sleep = None;
            }
            match self.acts.pop_front() {
                Some(Act::Event(number)) => Context::emit(Some(&self.context), || event(number)),
                Some(Act::Wait(seconds)) => self.sleep = Some(Box::pin(sleep(Duration::from_secs(seconds)))),
                Some(Act::Yield) => {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Some(Act::Mark) => self.recorder.as_mut().unwrap().terminal(),
                Some(Act::Hang) => {
                    self.acts.push_front(Act::Hang);
                    return Poll::Pending;
                }
                act => return Poll::Ready(act),
            }
        }
    }
}

pub(super) struct Played {
    script: Script,
    play: Play,
    answered: bool,
}

impl Future for Played {
    type Output = Result<Response<PlayedBody>, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Self::Output> {
        assert!(!self.answered, "polled after it was ready");
        match ready!(self.script.poll(cx)) {
            Some(Act::Error(kind)) => {
                self.answered = true;
                Poll::Ready(Err(Failure::new(kind).with_candidate("primary/m").with_attempts(2)))
            }
            Some(other) => panic!("{other:?} before the answer"),
            None => {
                self.answered = true;
                let play = self.play.clone();
                let (record, mut recorder) = StreamRecord::new();
                if let Reader::Before(framing) = play.reader {
                    recorder.framing(framing);
                }
                let context = self.script.context.clone();
                let script = Script { acts: play.body.into(), sleep: None, context, recorder: Some(recorder) };
                play.live.fetch_add(1, Ordering::SeqCst);
                let body = PlayedBody { script, reader: play.reader, live: play.live };
                let mut response = Response::new(body);
                *response.status_mut() = StatusCode::from_u16(play.status).unwrap();
                for (name, value) in play.headers {
                    response.headers_mut().insert(name, value.parse().unwrap());
                }
                if play.reader != Reader::None {
                    response.extensions_mut().insert(record);
                }
                Poll::Ready(Ok(response))
            }
        }
    }
}

impl Drop for Played {
    fn drop(&mut self) {
        self.play.live.fetch_sub(1, Ordering::SeqCst);
    }
}

pub(super) struct PlayedBody {
    script: Script,
    reader: Reader,
    live: Arc<AtomicUsize>,
}

impl Body for PlayedBody {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        let act = ready!(self.script.poll(cx));
        Poll::Ready(act.map(|act| match act {
            Act::Data(data) => {
                if let Reader::Along(framing) = self.reader {
                    self.script.recorder.as_mut().unwrap().framing(framing);
                }
                // What stands right behind the piece was read with it.
                while let Some(Act::Mark) = self.script.acts.front() {
                    self.script.acts.pop_front();
                    self.script.recorder.as_mut().unwrap().terminal();
                }
                Ok(Frame::data(data))
            }
            Act::Trailers => Ok(Frame::trailers(http::HeaderMap::new())),
            Act::Error(kind) => {
                self.script.acts.clear();
                Err(Failure::new(kind).with_candidate("primary/m"))
            }
            other => panic!("{other:?} in a body"),
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.script.acts.is_empty() && self.script.sleep.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        // Of a stream nothing is promised; of a document all is known.
        if self.reader != Reader::Before(Framing::Document) {
            return SizeHint::default();
        }
        let data = self.script.acts.iter().map(|act| if let Act::Data(data) = act { data.len() as u64 } else { 0 });
        SizeHint::with_exact(data.sum())
    }
}

impl Drop for PlayedBody {
    fn drop(&mut self) {
        self.live.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What a client got, piece by piece, each after the seconds since it asked.
pub(super) struct Got {
    pub(super) head: Response<()>,
    pub(super) head_at: u64,
    pub(super) pieces: Vec<(u64, String)>,
    pub(super) failed: Option<FailureKind>,
}

impl Got {
    pub(super) fn text(&self) -> String {
        self.pieces.iter().map(|(_, text)| &**text).collect()
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        super::header(&self.head, name)
    }
}

/// Asks an edge around `play`, and follows the reply to its end. Checks on the way what holds for every body.
pub(super) async fn got(layer: EdgeLayer, request: Request<Full<Bytes>>, play: Play) -> Got {
    let live = play.live.clone();
    let began = Instant::now();
    let at = || (Instant::now() - began).as_secs();
    let service = layer.layer(service_fn(move |request: Request<Full<Bytes>>| play.clone().answer(&request)));
    let (head, body) = service.oneshot(request).await.unwrap().into_parts();
    let mut got = Got { head: Response::from_parts(head, ()), head_at: at(), pieces: vec![], failed: None };
    let mut body = Box::pin(body);
    let mut hints = vec![];
    loop {
        let (hint, ended) = (body.size_hint(), body.is_end_stream());
        let Some(frame) = body.frame().await else { break };
        assert!(!ended, "an end was told that was none");
        hints.push((hint, got.text().len()));
        match frame {
            Ok(frame) => {
                let text = frame
                    .into_data()
                    .map_or_else(|_| "trailers".to_owned(), |data| String::from_utf8(data.to_vec()).unwrap());
                got.pieces.push((at(), text));
            }
            Err(failure) => got.failed = Some(failure.kind()),
        }
    }
    assert!(body.frame().await.is_none(), "something follows the end");
    assert!(body.is_end_stream() || got.failed.is_none());
    let whole = got.text().len();
    for (hint, before) in hints {
        let left = (whole - before) as u64;
        assert!(hint.lower() <= left && hint.upper().is_none_or(|upper| upper >= left), "{left} bytes, not {hint:?}");
    }
    drop(body);
    assert_eq!(live.load(Ordering::SeqCst), 0, "something outlives the body");
    got
}

/// A request of a dialect that asks for a stream of events.
pub(super) fn streamed(path: &str) -> Request<Full<Bytes>> {
    post(path, r#"{"model":"m","stream":true}"#)
}

pub(super) const GEMINI: &str = "/v1beta/models/m:streamGenerateContent?alt=sse";

/// The paths of the dialects whose streams are events.
pub(super) const EVENT_STREAMS: [(&str, Dialect); 4] = [
    (CHAT, Dialect::OpenAiChat),
    ("/v1/responses", Dialect::OpenAiResponses),
    ("/v1/messages", Dialect::AnthropicMessages),
    (GEMINI, Dialect::GeminiGenerateContent),
];

pub(super) fn data(text: impl Into<String>) -> Act {
    Act::Data(text.into().into())
}
