//! The layer around a provider whose usage is scripted, on a paused clock.

mod drops;
mod replies;
mod requests;

use std::{
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context as Wakes, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full};
use stanchion_cache_break::{CacheBreak, CacheBreakLayer, CacheBreakPolicy};
use stanchion_core::{Call, Candidate, Context, Dialect, Failure, Selected, StreamRecord, StreamRecorder, Usage};
use stanchion_testkit::{Contract, Events, ScriptedBody, Step, request_in};
use tower::{Layer, Service, ServiceExt, util::BoxCloneService};

type Req = Request<Full<Bytes>>;
type Inner = BoxCloneService<Req, Response<Observed>, Failure>;

/// What an observing layer's body is: a frame that says so tells usage, or the end.
struct Observed {
    inner: ScriptedBody,
    recorder: StreamRecorder,
}

impl Body for Observed {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Wakes<'_>) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        let frame = std::task::ready!(Pin::new(&mut self.inner).poll_frame(cx));
        if let Some(Ok(frame)) = &frame {
            let text = frame.data_ref().map(|data| String::from_utf8_lossy(data).into_owned()).unwrap_or_default();
            if let Some(count) = text.strip_prefix("read ") {
                let cache_read: u64 = count.parse().unwrap();
                let input = Some(50_000 - cache_read);
                self.recorder.usage(&Usage { input, cache_read: Some(cache_read), ..Usage::default() });
            } else if let Some(count) = text.strip_prefix("wrote ") {
                let cache_write = Some(count.parse().unwrap());
                self.recorder.usage(&Usage { input: Some(0), cache_read: Some(0), cache_write, ..Usage::default() });
            } else if text == "input" {
                self.recorder.usage(&Usage { input: Some(50_000), ..Usage::default() });
            } else if text == "done" {
                self.recorder.terminal();
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }
}

/// A provider that plays one script after the other, and what it was sent.
#[derive(Clone)]
struct Provider {
    scripts: Arc<Mutex<Vec<Vec<Step>>>>,
    candidates: Arc<Mutex<Vec<Candidate>>>,
    sent: Arc<Mutex<Vec<Req>>>,
}

impl Provider {
    fn new<const N: usize>(scripts: [&[&'static str]; N]) -> Self {
        let script = |script: &&[&'static str]| script.iter().map(|text| Step::Data((*text).into())).collect();
        Self::playing(scripts.iter().map(script))
    }

    fn playing(scripts: impl IntoIterator<Item = Vec<Step>>) -> Self {
        let scripts = Arc::new(Mutex::new(scripts.into_iter().collect::<Vec<_>>()));
        Self { scripts, candidates: Arc::default(), sent: Arc::default() }
    }

    /// Those who answer, one after the other.
    fn answered_by(self, candidates: impl IntoIterator<Item = Candidate>) -> Self {
        *self.candidates.lock().unwrap() = candidates.into_iter().collect();
        self
    }

    fn service(&self) -> Inner {
        let this = self.clone();
        BoxCloneService::new(tower::service_fn(move |request: Req| {
            this.sent.lock().unwrap().push(request);
            let (record, recorder) = StreamRecord::new();
            let inner = ScriptedBody::new(this.scripts.lock().unwrap().remove(0));
            let mut response = Response::new(Observed { inner, recorder });
            response.extensions_mut().insert(record);
            let mut candidates = this.candidates.lock().unwrap();
            if !candidates.is_empty() {
                response.extensions_mut().insert(Selected::only(candidates.remove(0)));
            }
            async {
                // Two polls: the request is read in between.
                tokio::task::yield_now().await;
                Ok(response)
            }
        }))
    }
}

fn request(context: Context, dialect: Dialect, body: &str) -> Req {
    let mut request = Request::new(Full::new(Bytes::copy_from_slice(body.as_bytes())));
    request.extensions_mut().insert(context);
    request.extensions_mut().insert(Call::new(dialect, true).with_model("m"));
    request
}

fn in_session(events: &Events) -> Context {
    events.context_builder().session("s").build()
}

/// Sends a request, and reads the reply to its end.
async fn exchange(service: &mut CacheBreak<Inner>, request: Req) -> Result<Bytes, Failure> {
    let response = service.ready().await?.call(request).await?;
    Ok(response.into_body().collect().await?.to_bytes())
}

const BODY: &str = r#"{"system":"a","messages":[{"role":"user","content":"Hello?"}]}"#;
const OTHER: &str = r#"{"system":"ab","messages":[{"role":"user","content":"Hello?"}]}"#;

#[tokio::test(start_paused = true)]
async fn it_keeps_the_contract_of_all_layers() {
    let layer = CacheBreakLayer::default();
    Contract::new(layer.clone()).check().await;
    Contract::new(layer).with_request(|| request_in(Context::builder().session("s").build())).check().await;
    let derived = CacheBreakPolicy::builder().derive_sessions(true).build().unwrap();
    Contract::new(CacheBreakLayer::new(derived)).check().await;
}

#[tokio::test(start_paused = true)]
async fn services_of_one_layer_share_their_sessions() {
    let events = Events::new();
    let layer = CacheBreakLayer::default();
    let provider = Provider::new([&["read 6000", "done"], &["read 500", "done"]]);
    stanchion_testkit::shares_state(&layer, provider.service(), async |mut first, mut second| {
        exchange(&mut first, request(in_session(&events), Dialect::AnthropicMessages, BODY)).await.unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
        exchange(&mut second, request(in_session(&events), Dialect::AnthropicMessages, OTHER)).await.unwrap();
    })
    .await;
    assert_eq!(events.lines(), ["B.system_prompt_changed#2~5500(6000>500)"]);
    let shown = format!("{layer:?} {:?}", layer.layer(provider.service()));
    assert!(shown.contains("sessions: 1"), "{shown}");
}
