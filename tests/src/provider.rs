//! A provider within the process, which plays scripts on the test's own clock.

use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, Uri, header::CONTENT_TYPE};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Full};
use stanchion::core::{Failure, FailureKind, Phase};
use stanchion_faults::scenario::{Before, End, Script, Step};
use stanchion_testkit::ScriptedBody;
use tokio::time::{Instant, sleep};
use tower_service::Service;

/// A transport whose other end plays scripts.
///
/// The first label of a request's host says which candidate is meant; the n-th request that reaches a candidate plays
/// its n-th script, and a further one gets status 400. Silence lasts for ever here, whatever the script says.
#[derive(Debug, Clone)]
pub struct Provider(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    scripts: BTreeMap<String, Vec<Script>>,
    seen: Mutex<Vec<Seen>>,
}

/// One request that reached a candidate.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The candidate's name.
    pub candidate: String,
    /// When.
    pub at: Instant,
    /// Where it was sent.
    pub uri: Uri,
    /// Its header fields.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
    /// When the exchange was over, once it is.
    pub over: Option<Over>,
}

/// The end of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Over {
    /// When.
    pub at: Instant,
    /// Whether the script had come to its end; if not, the exchange was dropped before.
    pub played: bool,
}

impl Provider {
    /// A provider with one candidate, `a`.
    pub fn new(scripts: impl IntoIterator<Item = Script>) -> Self {
        Self::with([("a", scripts.into_iter().collect())])
    }

    /// A provider with these candidates and their scripts.
    pub fn with<'a>(candidates: impl IntoIterator<Item = (&'a str, Vec<Script>)>) -> Self {
        let scripts = candidates.into_iter().map(|(name, scripts)| (name.to_owned(), scripts)).collect();
        Self(Arc::new(Shared { scripts, seen: Mutex::default() }))
    }

    /// The candidates' names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.scripts.keys().map(String::as_str)
    }

    /// All requests so far, in order.
    pub fn seen(&self) -> Vec<Seen> {
        self.lock().clone()
    }

    /// How many requests came so far.
    pub fn attempts(&self) -> usize {
        self.lock().len()
    }

    /// Which candidates were asked, in order.
    pub fn order(&self) -> Vec<String> {
        self.seen().into_iter().map(|seen| seen.candidate).collect()
    }

    /// The milliseconds between one request and the next.
    pub fn gaps(&self) -> Vec<u128> {
        self.seen().windows(2).map(|pair| (pair[1].at - pair[0].at).as_millis()).collect()
    }

    /// How many exchanges are open.
    pub fn in_flight(&self) -> usize {
        self.lock().iter().filter(|seen| seen.over.is_none()).count()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Seen>> {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a request, and finds its script.
    fn enter(&self, request: Request<Full<Bytes>>) -> (Exchange, Script, Full<Bytes>) {
        let (head, body) = request.into_parts();
        let candidate = head.uri.host().and_then(|host| host.split('.').next()).unwrap_or_default().to_owned();
        let mut seen = self.lock();
        let before = seen.iter().filter(|other| other.candidate == candidate).count();
        let scripts = self.0.scripts.get(&candidate).map_or(&[][..], Vec::as_slice);
        let script = scripts.get(before).or_else(|| scripts.last().filter(|last| last.repeat)).cloned();
        let script =
            script.unwrap_or_else(|| crate::replies::json(400, r#"{"error":{"message":"no script is left"}}"#));
        let (at, index) = (Instant::now(), seen.len());
        seen.push(Seen { candidate, at, uri: head.uri, headers: head.headers, body: Bytes::new(), over: None });
        drop(seen);
        (Exchange { provider: self.clone(), index }, script, body)
    }
}

/// An open exchange; it is over once this is dropped.
#[derive(Debug)]
struct Exchange {
    provider: Provider,
    index: usize,
}

impl Exchange {
    fn close(&self, played: bool) {
        let over = Over { at: Instant::now(), played };
        if let Some(seen) = self.provider.lock().get_mut(self.index) {
            seen.over.get_or_insert(over);
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.close(false);
    }
}

fn broken() -> Failure {
    Failure::new(FailureKind::Transport)
}

impl Service<Request<Full<Bytes>>> for Provider {
    type Response = Response<PlayedBody>;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Response<PlayedBody>, Failure>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        let (exchange, script, body) = self.enter(request);
        Box::pin(async move {
            let Ok(collected) = body.collect().await;
            if let Some(seen) = exchange.provider.lock().get_mut(exchange.index) {
                seen.body = collected.to_bytes();
            }
            if let Some(delay) = script.delay {
                sleep(delay).await;
            }
            match script.before {
                Some(Before::Hang) => std::future::pending().await,
                Some(Before::Reset | Before::Close) => {
                    exchange.close(true);
                    return Err(broken().with_phase(Phase::Head));
                }
                None => {}
            }
            let mut response = Response::builder().status(script.status);
            for (name, value) in &script.headers {
                response = response.header(name, value);
            }
            if !script.headers.keys().any(|name| name.eq_ignore_ascii_case(CONTENT_TYPE.as_str())) {
                response = response.header(CONTENT_TYPE, content_type(&script));
            }
            let body = PlayedBody { inner: ScriptedBody::new(steps(&script)).hides_end(), exchange };
            Ok(response.body(body).expect("a script's head is a head"))
        })
    }
}

fn content_type(script: &Script) -> &'static str {
    if script.status == 200 { "text/event-stream" } else { "application/json" }
}

/// A script's body, write by write.
fn steps(script: &Script) -> Vec<stanchion_testkit::Step> {
    use stanchion_testkit::Step as Played;
    let mut played = Vec::new();
    for step in &script.body {
        for _ in 0..step.times {
            played.extend(step.wait.map(Played::Delay));
            played.extend(pieces(step).into_iter().map(Played::Data));
        }
    }
    played.push(match script.end {
        End::Fin | End::Close => Played::End,
        End::Truncate | End::Reset => Played::Error(FailureKind::Transport),
        End::Hang => Played::Hang,
    });
    played
}

fn pieces(step: &Step) -> Vec<Bytes> {
    let whole = step.bytes();
    let length = step.split.unwrap_or(whole.len()).max(1);
    (0..whole.len()).step_by(length).map(|at| whole.slice(at..whole.len().min(at + length))).collect()
}

/// The body of a scripted reply. Dropping it ends the exchange.
#[derive(Debug)]
pub struct PlayedBody {
    inner: ScriptedBody,
    exchange: Exchange,
}

impl Body for PlayedBody {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        let frame = std::task::ready!(Pin::new(&mut self.inner).poll_frame(cx));
        if !matches!(frame, Some(Ok(_))) {
            self.exchange.close(true);
        }
        Poll::Ready(frame.map(|frame| frame.map_err(|failure| failure.with_phase(Phase::BeforeOutput))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
