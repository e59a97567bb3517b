//! What sends, beside all requests.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll, ready},
    time::{Duration, SystemTime},
};

use bytes::{Buf, BufMut, Bytes};
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use prost::Message;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, sleep_until, timeout},
};
use tower_service::Service;

use super::{
    OtlpSettings, State,
    message::{
        ExportResponse, KeyValue, MetricsRequest, Resource, ResourceMetrics, ResourceSpans, Scope, ScopeMetrics,
        ScopeSpans, TraceRequest,
    },
    numbers,
    span::Finished,
};
use crate::metrics::Metrics;

/// How many requests go in one message.
const BATCH: usize = 256;
/// How long a request's spans wait for others to go with.
const LINGER: Duration = Duration::from_secs(1);
/// How long one message may take.
const LIMIT: Duration = Duration::from_secs(10);
/// How long to wait before a message is sent once more.
const BACKOFF: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];
/// How much of an answer is read, so that its connection can be used again.
const ANSWER: usize = 64 * 1024;

/// Sends what an [`Otlp`](super::Otlp) is told. Made by [`Otlp::new`](super::Otlp::new); see [`run`](Self::run).
pub struct OtlpExporter {
    pub(super) settings: OtlpSettings,
    pub(super) finished: mpsc::Receiver<Finished>,
    pub(super) state: Arc<State>,
    pub(super) metrics: Option<Metrics>,
    pub(super) started: SystemTime,
}

impl OtlpExporter {
    /// Sends these metrics too.
    #[must_use]
    pub fn metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// Sends through `service` until `end` is done, and then what is left, once. To be run as a task of its own; whoever waits for its
    /// last words does so with a limit.
    pub async fn run<S, B>(mut self, mut service: S, end: impl Future<Output = ()>)
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>>,
        B: Body + Unpin,
    {
        let mut end = End(Some(Box::pin(end)));
        let mut measure_at = Instant::now() + self.settings.metrics_every;
        while !end.has_come() {
            let mut batch = Vec::new();
            tokio::select! {
                biased;
                () = &mut end => break,
                () = sleep_until(measure_at), if self.metrics.is_some() => {
                    measure_at = Instant::now() + self.settings.metrics_every;
                    self.send_metrics(&mut service, &mut end).await;
                }
                received = self.finished.recv_many(&mut batch, BATCH) => {
                    // Without a sender, and without metrics, there will be nothing to send.
                    if received == 0 {
                        end.wait(self.metrics.is_some().then_some(measure_at)).await;
                        continue;
                    }
                    self.gather(&mut batch, &mut end).await;
                    self.send_spans(batch, &mut service, &mut end).await;
                }
            }
        }
        self.finished.close();
        loop {
            let mut batch = Vec::new();
            if self.finished.recv_many(&mut batch, BATCH).await == 0 {
                break;
            }
            self.send_spans(batch, &mut service, &mut end).await;
        }
        self.send_metrics(&mut service, &mut end).await;
    }

    /// Waits for others to go with.
    async fn gather(&mut self, batch: &mut Vec<Finished>, end: &mut End<impl Future<Output = ()>>) {
        let until = Instant::now() + LINGER;
        while batch.len() < BATCH {
            let room = BATCH - batch.len();
            tokio::select! {
                biased;
                () = &mut *end => return,
                () = sleep_until(until) => return,
                received = self.finished.recv_many(batch, room) => if received == 0 { return },
            }
        }
    }

    async fn send_spans<S, B>(&self, batch: Vec<Finished>, service: &mut S, end: &mut End<impl Future<Output = ()>>)
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>>,
        B: Body + Unpin,
    {
        let count: u64 = batch.iter().map(Finished::spans).sum();
        let spans = batch.into_iter().flat_map(Finished::into_spans).collect();
        let scope_spans = vec![ScopeSpans { scope: Some(scope()), spans }];
        let message =
            TraceRequest { resource_spans: vec![ResourceSpans { resource: Some(self.resource()), scope_spans }] };
        let rejected = self.send("v1/traces", message.encode_to_vec().into(), service, end).await;
        let dropped = rejected.map_or(count, |rejected| rejected.min(count));
        self.state.sent.fetch_add(count - dropped, Ordering::Relaxed);
        self.state.dropped.fetch_add(dropped, Ordering::Relaxed);
    }

    async fn send_metrics<S, B>(&self, service: &mut S, end: &mut End<impl Future<Output = ()>>)
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>>,
        B: Body + Unpin,
    {
        let Some(metrics) = &self.metrics else { return };
        let metrics = numbers::metrics(metrics, self.started, SystemTime::now());
        let scope_metrics = vec![ScopeMetrics { scope: Some(scope()), metrics }];
        let message = MetricsRequest {
            resource_metrics: vec![ResourceMetrics { resource: Some(self.resource()), scope_metrics }],
        };
        self.send("v1/metrics", message.encode_to_vec().into(), service, end).await;
    }

    fn resource(&self) -> Resource {
        let attribute = |(key, value): &(String, String)| KeyValue::new(key, value.as_str().into());
        Resource { attributes: self.settings.resource.iter().map(attribute).collect() }
    }

    /// Says how much of it was taken and rejected all the same; `None` if it was not taken. Once the end has come, nothing is tried a
    /// second time.
    async fn send<S, B>(
        &self,
        path: &str,
        message: Bytes,
        service: &mut S,
        end: &mut End<impl Future<Output = ()>>,
    ) -> Option<u64>
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>>,
        B: Body + Unpin,
    {
        for wait in BACKOFF.into_iter().map(Some).chain([None]) {
            let outcome =
                timeout(LIMIT, self.post(path, message.clone(), service)).await.unwrap_or(Outcome::Later("timeout"));
            self.tell(&outcome);
            match (outcome, wait) {
                (Outcome::Taken { rejected }, _) => return Some(rejected),
                (Outcome::Later(_), Some(wait)) if !end.has_come() => tokio::select! {
                    biased;
                    () = &mut *end => return None,
                    () = sleep(wait) => {}
                },
                _ => return None,
            }
        }
        None
    }

    async fn post<S, B>(&self, path: &str, message: Bytes, service: &mut S) -> Outcome
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>>,
        B: Body + Unpin,
    {
        let uri = format!("{}/{path}", self.settings.endpoint.trim_end_matches('/'));
        let Ok(mut request) = Request::post(uri).body(Full::new(message)) else { return Outcome::Never("endpoint") };
        request.headers_mut().extend(self.settings.headers.clone());
        request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        if std::future::poll_fn(|cx| service.poll_ready(cx)).await.is_err() {
            return Outcome::Later("connection");
        }
        let Ok(response) = service.call(request).await else { return Outcome::Later("connection") };
        let status = response.status();
        let (mut body, mut answer) = (response.into_body(), Vec::new());
        while let Some(Ok(frame)) = body.frame().await {
            let Ok(data) = frame.into_data() else { continue };
            if answer.len() + data.remaining() > ANSWER {
                answer.clear();
                break;
            }
            answer.put(data);
        }
        match status {
            status if status.is_success() => Outcome::Taken { rejected: rejected(&answer) },
            // Those that the protocol says may be tried again.
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => Outcome::Later("unavailable"),
            _ => Outcome::Never("refused"),
        }
    }

    /// Tells that it fails, or that it works again: once.
    #[cfg_attr(not(feature = "tracing"), expect(unused_variables, reason = "nobody can be told"))]
    fn tell(&self, outcome: &Outcome) {
        let failing = !matches!(outcome, Outcome::Taken { .. });
        if self.state.failing.swap(failing, Ordering::Relaxed) == failing {
            return;
        }
        #[cfg(feature = "tracing")]
        match outcome {
            Outcome::Taken { .. } => tracing::info!(target: "stanchion", "telemetry is sent by OTLP again"),
            Outcome::Later(reason) | Outcome::Never(reason) => {
                tracing::warn!(target: "stanchion", reason, "telemetry cannot be sent by OTLP; what does not fit into its queue is dropped");
            }
        }
    }
}

/// The end of the process, which can be asked for again once it has come.
struct End<F>(Option<Pin<Box<F>>>);

impl<F: Future<Output = ()>> End<F> {
    fn has_come(&self) -> bool {
        self.0.is_none()
    }

    /// Waits for it, but not beyond this.
    async fn wait(&mut self, until: Option<Instant>) {
        match until {
            None => self.await,
            Some(until) => {
                let _ = tokio::time::timeout_at(until, self).await;
            }
        }
    }
}

impl<F: Future<Output = ()>> Future for End<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(end) = &mut self.0 {
            ready!(end.as_mut().poll(cx));
            self.0 = None;
        }
        Poll::Ready(())
    }
}

/// What came of a message.
enum Outcome {
    Taken {
        /// How many spans or data points of it the collector did not want.
        rejected: u64,
    },
    /// Another time it may be taken.
    Later(&'static str),
    Never(&'static str),
}

/// How much of what a collector took it rejected all the same. One that says nothing, or nothing that can be read, took all.
fn rejected(answer: &[u8]) -> u64 {
    let partial = ExportResponse::decode(answer).ok().and_then(|answer| answer.partial_success);
    partial.and_then(|partial| partial.rejected.try_into().ok()).unwrap_or(0)
}

fn scope() -> Scope {
    Scope { name: "stanchion".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() }
}

impl fmt::Debug for OtlpExporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtlpExporter").field("settings", &self.settings).finish_non_exhaustive()
    }
}
