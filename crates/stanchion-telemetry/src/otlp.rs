//! Traces and metrics by OTLP, over HTTP and as protobuf.
//!
//! An [`Otlp`] is a [`Sink`]: it keeps what happens in each request of a sampled trace, and hands it over when that is over, through a bounded queue:
//! no request waits for a collector. An [`OtlpExporter`] sends it, as one span for the request, with its events, and one for each
//! attempt, with the ids that the provider was told; and [`Metrics`](crate::Metrics), as a scrape shows them.

mod exporter;
mod message;
mod numbers;
mod span;

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use http::HeaderMap;
use serde::Serialize;
use stanchion_core::Event;
use tokio::sync::mpsc;

pub use self::exporter::OtlpExporter;
use self::span::{Finished, Told};
use crate::{InFlight, RequestId, RequestRecord, Sink, metrics::Pulled};

/// Settings of [`Otlp`].
#[derive(Clone)]
pub struct OtlpSettings {
    /// Where the collector is: `/v1/traces` and `/v1/metrics` are added.
    pub endpoint: String,
    /// Headers of each message, such as a key. `Debug` does not show them.
    pub headers: HeaderMap,
    /// What tells this process from others: `service.name` and the like.
    pub resource: Vec<(String, String)>,
    /// How often metrics are sent. Default 60 s.
    pub metrics_every: Duration,
    /// How many requests that are over may wait to be sent. Default 4,096, at some KiB; further ones are dropped, and counted.
    pub backlog: usize,
}

impl OtlpSettings {
    /// The defaults, for a collector at this address.
    pub fn new(endpoint: impl Into<String>) -> Self {
        Self {
            endpoint: endpoint.into(),
            headers: HeaderMap::new(),
            resource: Vec::new(),
            metrics_every: Duration::from_secs(60),
            backlog: 4096,
        }
    }
}

impl fmt::Debug for OtlpSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtlpSettings")
            .field("endpoint", &self.endpoint)
            .field("headers", &self.headers.len())
            .field("resource", &self.resource)
            .field("metrics_every", &self.metrics_every)
            .field("backlog", &self.backlog)
            .finish()
    }
}

/// A [`Sink`] whose requests are sent as spans, if their traces are sampled. A clone is the same one.
#[derive(Clone)]
pub struct Otlp(Arc<Shared>);

struct Shared {
    finished: mpsc::Sender<Finished>,
    open: Mutex<HashMap<RequestId, Told>>,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    sent: AtomicU64,
    dropped: AtomicU64,
    failing: AtomicBool,
}

/// How it goes with the spans. See [`Otlp::status`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct OtlpStatus {
    /// How many spans the collector took.
    pub sent: u64,
    /// How many were lost: the queue was full, or the collector did not take them.
    pub dropped: u64,
    /// Whether the last message was not taken.
    pub failing: bool,
}

impl Otlp {
    /// The sink, and what sends: nothing is sent unless that [runs](OtlpExporter::run).
    pub fn new(settings: OtlpSettings) -> (Self, OtlpExporter) {
        let (finished, receiver) = mpsc::channel(settings.backlog.max(1));
        let state = Arc::<State>::default();
        let shared = Shared { finished, open: Mutex::default(), state: state.clone() };
        let started = SystemTime::now();
        (Self(Arc::new(shared)), OtlpExporter { settings, finished: receiver, state, metrics: None, started })
    }

    /// How it goes.
    pub fn status(&self) -> OtlpStatus {
        let State { sent, dropped, failing } = &*self.0.state;
        OtlpStatus {
            sent: sent.load(Ordering::Relaxed),
            dropped: dropped.load(Ordering::Relaxed),
            failing: failing.load(Ordering::Relaxed),
        }
    }

    /// Tells metrics how many spans were sent and lost. For [`Metrics::pull`](crate::Metrics::pull).
    pub fn pull(&self, pulled: &mut Pulled) {
        let OtlpStatus { sent, dropped, .. } = self.status();
        pulled.otlp_spans(sent, dropped);
    }

    fn open(&self) -> MutexGuard<'_, HashMap<RequestId, Told>> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, request: &InFlight, tell: impl FnOnce(&mut Told)) {
        if let Some(told) = self.open().get_mut(&request.id()) {
            tell(told);
        }
    }
}

impl Sink for Otlp {
    fn began(&self, request: &Arc<InFlight>) {
        if request.began().trace.is_some_and(|trace| trace.sampled) {
            self.open().insert(request.id(), Told::default());
        }
    }

    fn event(&self, request: &InFlight, event: &Event) {
        self.tell(request, |told| told.event(event, SystemTime::now()));
    }

    fn first_chunk(&self, request: &InFlight, after: Duration) {
        self.tell(request, |told| told.moment("first_chunk", request.began().at + after));
    }

    fn first_output(&self, request: &InFlight, after: Duration) {
        self.tell(request, |told| told.moment("first_output", request.began().at + after));
    }

    fn ended(&self, record: &Arc<RequestRecord>) {
        let told = self.open().remove(&record.began.id);
        let (Some(told), Some(trace)) = (told, record.began.trace) else { return };
        let finished = Finished { record: record.clone(), trace, told };
        if let Err(error) = self.0.finished.try_send(finished) {
            let (mpsc::error::TrySendError::Full(lost) | mpsc::error::TrySendError::Closed(lost)) = error;
            self.0.state.dropped.fetch_add(lost.spans(), Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for Otlp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Otlp").field("status", &self.status()).finish_non_exhaustive()
    }
}
