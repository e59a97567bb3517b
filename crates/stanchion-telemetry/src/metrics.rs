//! Numbers for Prometheus.

mod family;
mod list;
mod page;
mod pulled;

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, prometheus_text, text},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Registry,
};
use stanchion_core::{
    AdmissionPhase, AttemptPhase, CircuitPhase, Dialect, Ending, Event, RetryPhase, StallPhase, UsageEvent,
    UsageQuality,
};

use self::{
    family::{Label, Labels, Series},
    list::Id,
};
pub use self::{
    list::{MetricInfo, MetricKind},
    pulled::{CircuitGauge, Pulled},
};
use crate::{InFlight, RequestBegan, RequestRecord, Sink};

/// A [`Sink`] that counts, and shows its counts as Prometheus reads them.
///
/// Labels are names from the configuration and words of our own: no session, owner or credential, and of what clients send nothing
/// but the [configured name](RequestBegan::model) of a model. Each metric has at most so many label sets; what would need another
/// is not counted, and that is counted in `stanchion_metrics_overflow_total`. A clone is the same one.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    registry: Registry,
    all: Arc<All>,
}

/// Every metric, and who is asked at a scrape.
struct All {
    most: usize,
    series: Vec<Series>,
    sources: Mutex<Vec<Source>>,
}

type Source = Box<dyn Fn(&mut Pulled) + Send + Sync>;

/// How metrics are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MetricsFormat {
    /// Prometheus' own text format, version 0.0.4.
    #[default]
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl MetricsFormat {
    /// What a scrape asks for by its `accept` header: OpenMetrics if it names that, else Prometheus' own.
    pub fn accepted(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") { Self::OpenMetrics } else { Self::Prometheus }
    }

    /// The `content-type` of the answer.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => prometheus_text::CONTENT_TYPE,
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

impl Metrics {
    /// How many label sets a metric may have by default.
    pub const LABEL_SETS: usize = 1_000;

    /// Nothing is counted yet, and each metric may have as many label sets.
    pub fn new() -> Self {
        Self::with_label_sets(Self::LABEL_SETS)
    }

    /// The same with another number of label sets for each metric.
    pub fn with_label_sets(most: usize) -> Self {
        let series = list::ALL.iter().map(|info| Series::new(info, most)).collect();
        let all = Arc::new(All { most, series, sources: Mutex::default() });
        let mut registry = Registry::default();
        registry.register_collector(Box::new(all.clone()));
        Self(Arc::new(Inner { registry, all }))
    }

    /// One more source, asked at each scrape. For what others know anyway, such as the states of circuits and the depth of queues.
    /// It must not block.
    pub fn pull(&self, source: impl Fn(&mut Pulled) + Send + Sync + 'static) {
        self.0.all.sources.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(source));
    }

    /// All metrics that have a value, as text.
    pub fn encode(&self, format: MetricsFormat) -> String {
        let mut out = String::new();
        let written = match format {
            MetricsFormat::Prometheus => prometheus_text::encode(&mut out, &self.0.registry),
            MetricsFormat::OpenMetrics => text::encode(&mut out, &self.0.registry),
        };
        written.expect("a string takes all");
        out
    }

    /// Every metric that there is.
    pub const fn list() -> &'static [MetricInfo] {
        list::ALL
    }

    /// The page of documentation with all of them, in Markdown.
    pub fn page() -> String {
        page::page()
    }

    fn add<const N: usize>(&self, id: Id, labels: [Label; N], value: f64) {
        self.0.all.add(id, labels, value);
    }

    fn count<const N: usize>(&self, id: Id, labels: [Label; N]) {
        self.add(id, labels, 1.0);
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl All {
    fn add<const N: usize>(&self, id: Id, labels: [Label; N], value: f64) {
        let info = id.info();
        if !self.series[id as usize].update(&Labels::new(info, labels), value) {
            let labels = Labels::new(Id::Overflow.info(), [info.name.into()]);
            self.series[Id::Overflow as usize].update(&labels, 1.0);
        }
    }
}

impl Collector for All {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut pulled = Pulled::default();
        for source in self.sources.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            source(&mut pulled);
        }
        for (at, info) in list::ALL.iter().enumerate() {
            let series = &self.series[at];
            let (name, kind) = match info.kind {
                MetricKind::Counter => (info.name.strip_suffix("_total").unwrap_or(info.name), MetricType::Counter),
                MetricKind::Gauge => (info.name, MetricType::Gauge),
                MetricKind::Histogram => (info.name, MetricType::Histogram),
            };
            let mut given = pulled.of(at, self.most).peekable();
            if series.is_empty() && given.peek().is_none() {
                continue;
            }
            let mut metric = encoder.encode_descriptor(name, info.help, None, kind)?;
            for (labels, value) in given {
                let series = metric.encode_family(labels)?;
                match kind {
                    MetricType::Counter => ConstCounter::new(value).encode(series)?,
                    _ => ConstGauge::new(value).encode(series)?,
                }
            }
            series.encode(metric)?;
        }
        Ok(())
    }
}

/// What the conventions call the operation and the provider. The provider is told by what it speaks: who it is behind a base URL,
/// nobody knows.
pub(crate) fn operation_and_provider(dialect: Option<Dialect>) -> [&'static str; 2] {
    let operation = match dialect {
        Some(Dialect::OpenAiEmbeddings) => "embeddings",
        Some(Dialect::GeminiGenerateContent) => "generate_content",
        _ => "chat",
    };
    let provider = match dialect {
        Some(Dialect::OpenAiChat | Dialect::OpenAiResponses | Dialect::OpenAiEmbeddings) => "openai",
        Some(Dialect::AnthropicMessages) => "anthropic",
        Some(Dialect::GeminiGenerateContent) => "gcp.gemini",
        Some(Dialect::Ollama) => "ollama",
        _ => "_OTHER",
    };
    [operation, provider]
}

fn gen_ai(began: &RequestBegan) -> [Label; 3] {
    let [operation, provider] = operation_and_provider(began.dialect);
    [operation.into(), provider.into(), (&began.model).into()]
}

/// The same with one more label.
fn gen_ai_and(began: &RequestBegan, more: Label) -> [Label; 4] {
    let [operation, provider, model] = gen_ai(began);
    [operation, provider, model, more]
}

impl Sink for Metrics {
    fn began(&self, request: &Arc<InFlight>) {
        let began = request.began();
        self.count(Id::InFlight, [(&began.model).into(), began.class.as_str().into()]);
        self.add(Id::RequestBytes, [(&began.model).into()], began.request_bytes as f64);
    }

    fn event(&self, request: &InFlight, event: &Event) {
        match event {
            Event::ProviderAttempt(event) => {
                let candidate = Label::from(&event.candidate);
                match event.phase {
                    AttemptPhase::Started => self.count(Id::Attempts, [candidate]),
                    AttemptPhase::Committed => {
                        self.count(Id::Commits, [candidate.clone()]);
                        self.add(Id::AttemptFirstOutput, [candidate], event.elapsed.as_secs_f64());
                    }
                    AttemptPhase::Failed => {
                        let kind = event.failure.map_or("unknown_failure", |kind| kind.code());
                        let phase = event.failed_in.map_or(Label::Absent, |phase| phase.name().into());
                        self.count(Id::AttemptFailures, [candidate, kind.into(), phase]);
                    }
                    _ => {}
                }
            }
            Event::ProviderRetry(event) => {
                let candidate = Label::from(event.candidate.as_ref());
                match event.phase {
                    RetryPhase::Attempt => self.count(Id::Retries, [candidate, event.reason.name().into()]),
                    RetryPhase::Recovered => self.count(Id::Recoveries, [candidate]),
                    RetryPhase::Exhausted => {
                        let limit = event.exhausted_by.map_or("none", |limit| limit.name());
                        self.count(Id::RetriesExhausted, [candidate, limit.into()]);
                    }
                    _ => {}
                }
            }
            Event::ProviderCircuit(event) => {
                let candidate = Label::from(event.candidate.as_ref());
                match event.phase {
                    CircuitPhase::Rejected => self.count(Id::CircuitRejections, [candidate]),
                    CircuitPhase::Waiting => {}
                    to => self.count(Id::CircuitTransitions, [candidate, to.name().into()]),
                }
            }
            Event::ProviderAdmission(event) => {
                let class = Label::from(event.request_class.as_str());
                if event.phase != AdmissionPhase::Queued {
                    self.add(Id::QueueWait, [class.clone(), event.phase.name().into()], event.wait.as_secs_f64());
                }
                if event.phase == AdmissionPhase::Rejected {
                    let reason = event.reason.map_or("none", |reason| reason.name());
                    self.count(Id::QueueRejections, [class, event.scope.name().into(), reason.into()]);
                }
            }
            Event::ProviderStall(event) if event.phase == StallPhase::Detected => {
                let phase = if event.output_started { "after_output" } else { "before_output" };
                self.count(Id::Stalls, [event.candidate.as_ref().into(), phase.into()]);
            }
            Event::ModelFallback(event) => self.count(Id::Fallbacks, [(&event.from).into(), (&event.to).into()]),
            Event::CredentialRotation(event) => {
                self.count(Id::Rotations, [(&event.provider).into(), event.reason.as_str().into()]);
            }
            Event::StreamFrame(event) => self.count(Id::FrameFaults, [event.fault.name().into()]),
            Event::CommitHold(_) => self.count(Id::Holds, []),
            Event::PromptCacheBreak(event) => {
                let (reason, class) = (event.reason.as_str(), event.request_class.as_str());
                let labels = || [Label::from(event.candidate.as_ref()), reason.into(), class.into()];
                self.count(Id::CacheBreaks, labels());
                self.add(Id::CacheLost, labels(), event.lost_tokens as f64);
                if let Some(lost) = event.lost_nanodollars {
                    self.add(Id::CacheLostDollars, labels(), lost as f64 / 1e9);
                }
            }
            Event::Usage(event) => self.used(request.began(), event),
            Event::PromptCacheVolatile(event) => self.count(Id::CacheVolatile, [event.candidate.as_ref().into()]),
            _ => {}
        }
    }

    fn first_chunk(&self, request: &InFlight, after: Duration) {
        if request.began().stream {
            self.add(Id::TimeToFirstChunk, gen_ai(request.began()), after.as_secs_f64());
        }
    }

    fn first_output(&self, request: &InFlight, after: Duration) {
        self.add(Id::TimeToFirstToken, gen_ai(request.began()), after.as_secs_f64());
    }

    fn ended(&self, record: &Arc<RequestRecord>) {
        let began = &record.began;
        let model = || Label::from(&began.model);
        let class = || Label::from(began.class.as_str());
        self.add(Id::InFlight, [model(), class()], -1.0);
        let dialect = began.dialect.map_or("none", Dialect::as_str);
        self.count(Id::Requests, [model(), class(), dialect.into(), record.ending.as_str().into()]);
        let error = match record.ending {
            Ending::Complete => Label::Absent,
            other => record.failure.map_or(other.as_str(), |kind| kind.code()).into(),
        };
        if matches!(record.ending, Ending::Failed | Ending::Truncated) {
            let phase = record.failed_in.map_or(Label::Absent, |phase| phase.name().into());
            self.count(Id::RequestFailures, [model(), error.clone(), phase]);
        }
        self.add(Id::OperationDuration, gen_ai_and(began, error), record.duration.as_secs_f64());
        self.add(Id::ResponseBytes, [model()], record.bytes as f64);
        let waits = record.waits;
        for (wait, waited) in [("queue", waits.queue), ("backoff", waits.backoff), ("circuit", waits.circuit)] {
            if !waited.is_zero() {
                self.add(Id::WaitSeconds, [model(), wait.into()], waited.as_secs_f64());
            }
        }
    }
}

impl Metrics {
    /// Counts a reply, or an attempt that was thrown away and is paid for all the same.
    fn used(&self, began: &RequestBegan, usage: &UsageEvent) {
        let model = || Label::from(&began.model);
        let tokens = &usage.tokens;
        // The conventions want counts, and no guesses.
        if usage.quality == UsageQuality::Measured {
            for (kind, count) in [("input", tokens.input_total()), ("output", tokens.output)] {
                if let Some(count) = count {
                    self.add(Id::TokenUsage, gen_ai_and(began, kind.into()), count as f64);
                }
            }
        }
        let labels = || [model(), usage.candidate.as_ref().into()];
        if let (Some(read), Some(input)) = (tokens.cache_read, tokens.input_total()) {
            self.add(Id::CacheRead, labels(), read as f64);
            self.add(Id::CacheInput, labels(), input as f64);
        }
        if let Some(written) = tokens.cache_write {
            self.add(Id::CacheWritten, labels(), written as f64);
        }
        match usage.cost_nanodollars {
            Some(cost) => self.add(Id::Cost, [model(), began.class.as_str().into()], cost as f64 / 1e9),
            None => self.count(Id::Unpriced, [model(), began.class.as_str().into()]),
        }
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("label_sets", &self.0.all.most).finish_non_exhaustive()
    }
}

impl fmt::Debug for All {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("All").field("series", &self.series).finish_non_exhaustive()
    }
}
