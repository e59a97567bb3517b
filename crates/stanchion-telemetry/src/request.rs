use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use serde::{Serialize, Serializer};
use stanchion_core::{Dialect, Event, Observer, RequestClass, Selected, SpanId, StreamRecord, TraceContext, TraceId};
use tokio::time::Instant;

use crate::{
    Sink,
    progress::{Progress, Standing},
    record::{End, time},
};

/// The number of a logical request, shown as 16 hexadecimal digits. Drawn at random: for people and tools to tell requests apart,
/// in one process and across several.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(u64);

impl RequestId {
    /// The id of this number.
    pub const fn new(id: u64) -> Self {
        Self(id)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for RequestId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What is known of a request when it comes. Nothing of who asks, with which key, and for what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RequestBegan {
    /// The request.
    pub id: RequestId,
    /// When it came, by the wall clock.
    #[serde(rename = "time", serialize_with = "time")]
    pub at: SystemTime,
    /// The configured name of the model that is asked for, or [`OTHER`](Self::OTHER): one of few, whatever clients send.
    pub model: Arc<str>,
    /// The model as the client named it, cut after [`MAX_MODEL`](Self::MAX_MODEL) bytes; absent if it named none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_model: Option<Arc<str>>,
    /// The wire form; absent if nobody has looked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dialect: Option<Dialect>,
    /// Whether a stream was asked for.
    pub stream: bool,
    /// Who waits.
    pub class: RequestClass,
    /// The size of the request's body in bytes; 0 if nobody has measured it.
    pub request_bytes: u64,
    /// Where it stands in a trace.
    #[serde(flatten)]
    pub trace: Option<RequestTrace>,
}

impl RequestBegan {
    /// What stands for every model that is not configured.
    pub const OTHER: &'static str = "other";

    /// How much of a model's name is kept as the client sent it, in bytes.
    pub const MAX_MODEL: usize = 128;
}

/// The name, or as much of it as is kept.
pub(crate) fn cut(name: &Arc<str>) -> Arc<str> {
    if name.len() <= RequestBegan::MAX_MODEL {
        return name.clone();
    }
    let end = (0..=RequestBegan::MAX_MODEL).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
    name[..end].into()
}

/// Where a request stands in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RequestTrace {
    /// The trace.
    pub trace_id: TraceId,
    /// The request's own span.
    pub span_id: SpanId,
    /// The caller's span; absent if the trace begins here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_span_id: Option<SpanId>,
    /// Whether the trace is recorded.
    pub sampled: bool,
}

impl RequestTrace {
    /// The span of the request's attempt of this number, from 1: what the provider is told.
    pub fn attempt(&self, number: u32) -> SpanId {
        self.span_id.child(number)
    }
}

impl From<&TraceContext> for RequestTrace {
    fn from(trace: &TraceContext) -> Self {
        Self {
            trace_id: trace.trace_id(),
            span_id: trace.span_id(),
            parent_span_id: trace.parent(),
            sampled: trace.sampled(),
        }
    }
}

/// A request that is being served: what is known of it, and where it stands now.
///
/// The layer writes it; whoever has it may read. `Debug` shows what [`RequestBegan`] does.
pub struct InFlight {
    began: RequestBegan,
    started: Instant,
    /// Written by the one who polls the body.
    bytes: AtomicU64,
    progress: Mutex<Progress>,
    sinks: Arc<[Arc<dyn Sink>]>,
}

impl InFlight {
    pub(crate) fn begin(began: RequestBegan, sinks: Arc<[Arc<dyn Sink>]>) -> Arc<Self> {
        let started = Instant::now();
        let progress = Mutex::new(Progress::new(started));
        let request = Arc::new(Self { began, started, bytes: AtomicU64::new(0), progress, sinks });
        for sink in &*request.sinks {
            sink.began(&request);
        }
        request
    }

    /// What was known when it came.
    pub fn began(&self) -> &RequestBegan {
        &self.began
    }

    /// The request.
    pub fn id(&self) -> RequestId {
        self.began.id
    }

    /// How long it has been served.
    pub fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// How many bytes of the reply have passed.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Where it stands now.
    pub fn standing(&self) -> Standing {
        self.progress().standing(Instant::now())
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count(&self, bytes: usize) {
        // One writer: a load and a store need no read-modify-write.
        self.bytes.store(self.bytes.load(Ordering::Relaxed) + bytes as u64, Ordering::Relaxed);
    }

    /// There is a reply.
    pub(crate) fn replied(&self, status: http::StatusCode, selected: Option<&Selected>) {
        self.progress().replied(status, selected);
    }

    /// Takes down when the reply's first chunk and first output came, and tells what was not told yet. Says whether both were.
    pub(crate) fn passed(&self, record: Option<&StreamRecord>, chunk: bool) -> bool {
        let (news, all) = self.progress().passed(record, chunk, Instant::now());
        for sink in &*self.sinks {
            if let Some(after) = news.first_chunk {
                sink.first_chunk(self, after);
            }
            if let Some(after) = news.first_output {
                sink.first_output(self, after);
            }
        }
        all
    }

    /// It is over. Only the first call counts.
    pub(crate) fn end(&self, end: End<'_>) {
        let Some(record) = self.progress().end(end, self.bytes(), &self.began, Instant::now()) else { return };
        let record = Arc::new(record);
        for sink in &*self.sinks {
            sink.ended(&record);
        }
    }
}

impl Observer for InFlight {
    fn observe(&self, event: &Event) {
        if self.progress().observe(event, Instant::now()) {
            for sink in &*self.sinks {
                sink.event(self, event);
            }
        }
    }
}

impl fmt::Debug for InFlight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlight").field("began", &self.began).field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}
