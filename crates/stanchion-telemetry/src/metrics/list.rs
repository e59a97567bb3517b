//! The list of all metrics: what is registered, what a scrape shows and what `docs/metrics.md` says come from here.

use serde::Serialize;

/// One metric, as a scrape shows it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MetricInfo {
    /// Its full name, with unit and suffix.
    pub name: &'static str,
    /// What kind of metric it is.
    pub kind: MetricKind,
    /// What it counts or measures, as a word.
    pub unit: &'static str,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// The upper bounds of its buckets; empty unless it is a histogram.
    pub buckets: &'static [f64],
    /// What it means.
    pub help: &'static str,
}

/// See [`MetricInfo::kind`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by size.
    Histogram,
}

impl MetricKind {
    /// The name used in a scrape.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// What the conventions recommend for durations of operations, in seconds.
const DURATIONS: &[f64] = &[0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
/// What they recommend for the time to the first token, in seconds, and two more: reasoning takes longer than they know of.
const FIRST_TOKEN: &[f64] =
    &[0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 30.0, 60.0];
/// What they recommend for counts of tokens.
const TOKENS: &[f64] = &[
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];
/// Seconds in a queue: its longest wait is 180 s by default.
const QUEUE: &[f64] = &[0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 180.0];

const GEN_AI: &[&str] = &["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model"];

macro_rules! metrics {
    ($($id:ident: $kind:ident $name:literal, $unit:literal, $labels:expr, $buckets:expr, $help:literal;)+) => {
        /// Which metric.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Id { $($id),+ }

        /// Every metric, in the order in which a scrape shows them.
        pub(super) const ALL: &[MetricInfo] = &[$(MetricInfo {
            name: $name,
            kind: MetricKind::$kind,
            unit: $unit,
            labels: $labels,
            buckets: $buckets,
            help: $help,
        }),+];
    };
}

metrics! {
    OperationDuration: Histogram "gen_ai_client_operation_duration_seconds", "seconds",
        &["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model", "error_type"], DURATIONS,
        "From a request to its end. An error_type is a kind of failure, or cancelled";
    TimeToFirstChunk: Histogram "gen_ai_client_operation_time_to_first_chunk_seconds", "seconds", GEN_AI, DURATIONS,
        "From a request for a stream to the first byte of the answering provider's reply";
    TimeToFirstToken: Histogram "gen_ai_server_time_to_first_token_seconds", "seconds", GEN_AI, FIRST_TOKEN,
        "From a request to the first output of the answering provider's reply: text, reasoning, a tool call, media";
    TokenUsage: Histogram "gen_ai_client_token_usage", "tokens",
        &["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model", "gen_ai_token_type"], TOKENS,
        "Tokens of a reply, as the provider reported them. Input includes what was read from the prompt cache or written to it";

    Requests: Counter "stanchion_requests_total", "requests", &["model", "class", "dialect", "ending"], &[],
        "Logical requests that are over, by how they ended: complete, truncated, failed, cancelled";
    RequestFailures: Counter "stanchion_request_failures_total", "requests", &["model", "kind", "phase"], &[],
        "Logical requests that failed for the one who asked, by what went wrong and how far they had come";
    InFlight: Gauge "stanchion_requests_in_flight", "requests", &["model", "class"], &[],
        "Logical requests that have begun and are not over";
    WaitSeconds: Counter "stanchion_request_wait_seconds_total", "seconds", &["model", "wait"], &[],
        "How long requests have waited: for a queue, a backoff, or a circuit";
    RequestBytes: Counter "stanchion_request_bytes_total", "bytes", &["model"], &[], "Bytes of the requests' bodies";
    ResponseBytes: Counter "stanchion_response_bytes_total", "bytes", &["model"], &[], "Bytes of the replies' bodies, as far as they went";
    Refusals: Counter "stanchion_refusals_total", "refusals", &["reason"], &[],
        "What was turned away at the door, before a model was asked, by why: it is in no metric of requests";

    Attempts: Counter "stanchion_attempts_total", "attempts", &["candidate"], &[], "Physical attempts that began";
    Commits: Counter "stanchion_commits_total", "attempts", &["candidate"], &[],
        "Physical attempts that came to their first output: from there on nothing is replayed";
    AttemptFailures: Counter "stanchion_attempt_failures_total", "attempts", &["candidate", "kind", "phase"], &[],
        "Physical attempts that failed, by what went wrong and how far they had come";
    AttemptFirstOutput: Histogram "stanchion_attempt_time_to_first_output_seconds", "seconds", &["candidate"], FIRST_TOKEN,
        "From the beginning of an attempt to when its reply could leave";
    Stalls: Counter "stanchion_stalls_total", "stalls", &["candidate", "phase"], &[],
        "Silences long enough to be told, before output and after it";
    Retries: Counter "stanchion_retries_total", "retries", &["candidate", "reason"], &[], "Retries that were made, by why";
    Recoveries: Counter "stanchion_recoveries_total", "requests", &["candidate"], &[], "Requests that a retry has saved";
    RetriesExhausted: Counter "stanchion_retries_exhausted_total", "requests", &["candidate", "limit"], &[],
        "How often no further retry was made, by the limit that ended them: attempt_limit, recovery_budget, retry_budget, or none that was told";
    Fallbacks: Counter "stanchion_fallbacks_total", "requests", &["from", "to"], &[], "How often another candidate took over";

    CircuitState: Gauge "stanchion_circuit_state", "circuits", &["candidate", "state"], &[],
        "How many circuits of a candidate are in this state: closed, open, half_open. There is one for each credential";
    CircuitTransitions: Counter "stanchion_circuit_transitions_total", "transitions", &["candidate", "to"], &[],
        "What circuits did on account of a request: opened, probe, closed, reopened";
    CircuitRejections: Counter "stanchion_circuit_rejections_total", "requests", &["candidate"], &[],
        "Requests that an open circuit turned away";

    QueueDepth: Gauge "stanchion_queue_depth", "requests", &["class"], &[], "Requests that wait for their turn";
    Permits: Gauge "stanchion_permits_in_flight", "permits", &["class"], &[], "Permits in use";
    PermitLimit: Gauge "stanchion_permits_limit", "permits", &[], &[], "How many permits there are in all; absent without a limit";
    CandidateQueue: Gauge "stanchion_candidate_queue_depth", "requests", &["candidate"], &[], "Requests that wait for their turn at a candidate";
    CandidatePermits: Gauge "stanchion_candidate_permits_in_flight", "permits", &["candidate"], &[], "Permits of a candidate in use";
    CandidateLimit: Gauge "stanchion_candidate_permits_limit", "permits", &["candidate"], &[],
        "What the limit of a candidate has come to, where it adapts";
    QueueWait: Histogram "stanchion_queue_wait_seconds", "seconds", &["class", "outcome"], QUEUE,
        "How long requests that queued have waited until they were admitted or rejected";
    QueueRejections: Counter "stanchion_queue_rejections_total", "requests", &["class", "scope", "reason"], &[],
        "Requests that a queue turned away, by whose limit it was and why";

    CacheRead: Counter "stanchion_prompt_cache_read_tokens_total", "tokens", &["model", "candidate"], &[],
        "Input tokens that were read from the prompt cache";
    CacheWritten: Counter "stanchion_prompt_cache_written_tokens_total", "tokens", &["model", "candidate"], &[],
        "Input tokens that were written to the prompt cache";
    CacheInput: Counter "stanchion_prompt_cache_input_tokens_total", "tokens", &["model", "candidate"], &[],
        "All input tokens of the replies that tell what was read from the prompt cache: what the hit rate is a part of. Gemini leaves a zero out: its replies count once their candidate has told any since the configuration was taken";
    CacheBreaks: Counter "stanchion_prompt_cache_breaks_total", "breaks", &["candidate", "reason", "class"], &[],
        "Replies that read much less from the prompt cache than the one before them, by why";
    CacheLost: Counter "stanchion_prompt_cache_lost_tokens_total", "tokens", &["candidate", "reason", "class"], &[],
        "Tokens that were paid for anew on account of that";
    CacheLostDollars: Counter "stanchion_prompt_cache_lost_dollars_total", "US dollars", &["candidate", "reason", "class"], &[],
        "What those tokens cost above the price of a read, as far as it is known";
    CacheVolatile: Counter "stanchion_prompt_cache_volatile_total", "conversations", &["candidate"], &[],
        "Conversations whose system prompt is another on every call";
    Cost: Counter "stanchion_cost_dollars_total", "US dollars", &["model", "class"], &[], "What replies cost, and attempts that were thrown away, as far as it is known";
    Unpriced: Counter "stanchion_unpriced_requests_total", "requests", &["model", "class"], &[],
        "Replies and thrown away attempts whose cost is not known: they are missing from stanchion_cost_dollars_total";

    Rotations: Counter "stanchion_credential_rotations_total", "rotations", &["provider", "reason"], &[],
        "Credentials that came into service or went out of it, by why";
    FrameFaults: Counter "stanchion_stream_frame_faults_total", "frames", &["fault"], &[], "Frames of streams that were broken or beyond a limit";
    Holds: Counter "stanchion_commit_holds_let_go_total", "replies", &[], &[],
        "Replies that outgrew what may be held back before their first output";

    Connections: Gauge "stanchion_connections", "connections", &[], &[], "Connections of clients";
    ConnectionsLimit: Gauge "stanchion_connections_limit", "connections", &[], &[], "How many of them there may be: others wait";
    ReloadSuccessful: Gauge "stanchion_config_last_reload_successful", "1", &[], &[],
        "1 if the configuration that was read last is served; 0 if it was wrong, and what was served before still is";
    ReloadTime: Gauge "stanchion_config_last_reload_success_timestamp_seconds", "seconds", &[], &[],
        "Since when the configuration is served that is, in seconds of the epoch";
    BuildInfo: Gauge "stanchion_build_info", "1", &["version"], &[], "Always 1: which version runs";

    RecordsWritten: Counter "stanchion_call_records_written_total", "records", &[], &[], "Call records that were written";
    RecordsDropped: Counter "stanchion_call_records_dropped_total", "records", &[], &[],
        "Call records that were lost: the disk was too slow, or failed";
    OtlpSent: Counter "stanchion_otlp_spans_sent_total", "spans", &[], &[], "Spans that the collector of OTLP took";
    OtlpDropped: Counter "stanchion_otlp_spans_dropped_total", "spans", &[], &[],
        "Spans that were lost: their queue was full, or the collector did not take them, or only in part";
    Overflow: Counter "stanchion_metrics_overflow_total", "updates", &["metric"], &[],
        "Updates that were not counted, since their metric has as many label sets as it may have";
}

impl Id {
    pub(super) const fn info(self) -> &'static MetricInfo {
        &ALL[self as usize]
    }
}
