use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::super::value::{Bytes, Span, Spanned, in_order};

/// What is kept of requests beyond the process.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = in_order::<Self>)]
pub(in super::super) struct Telemetry {
    /// One line of JSON for each request.
    pub(in super::super) records: Option<Records>,
    /// Spans of requests and attempts.
    #[serde(default)]
    pub(in super::super) traces: Traces,
    /// Traces and metrics by OTLP.
    pub(in super::super) otlp: Option<Spanned<Otlp>>,
}

/// One line of JSON for each request that is over, in a file: what was asked for, who was tried with what outcome, waits, times, usage, cost and how it
/// ended, and no word of what was said; see [operating](operating.md#call-records). Off unless the table is there.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = in_order::<Self>)]
pub(in super::super) struct Records {
    /// the file; older ones have a number behind its name, from 1
    pub(in super::super) path: Spanned<String>,
    /// how large it grows before another is begun
    #[schemars(extend("default" = "64MiB", "x-range" = "at least 64 KiB"))]
    pub(in super::super) max_bytes: Option<Spanned<Bytes>>,
    /// how many files there are at most, the current one included; the oldest goes
    #[schemars(range(min = 1, max = 1_000), extend("default" = 8))]
    pub(in super::super) files: Option<Spanned<u32>>,
}

/// W3C Trace Context. A request that comes with a `traceparent` goes on in that trace: a span for the request, one for each attempt, and each provider is told
/// the span of its attempt.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = in_order::<Self>)]
pub(in super::super) struct Traces {
    /// whether a request that comes without a `traceparent` begins a trace
    #[schemars(extend("x-default" = "`true` where traces are sent by OTLP"))]
    pub(in super::super) start: Option<bool>,
    /// whether the log has a line for each span when it is over
    #[schemars(extend("default" = false))]
    pub(in super::super) log: Option<bool>,
}

/// Traces and metrics to a collector by OTLP (HTTP, protobuf). Off unless the table is there; an empty one is enough for a collector on the same
/// machine. No request waits for it. A change takes a restart.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = in_order::<Self>)]
pub(in super::super) struct Otlp {
    /// where the collector is; `/v1/traces` and `/v1/metrics` are added
    #[schemars(extend("default" = "http://127.0.0.1:4318", "x-range" = "http(s) URL"))]
    pub(in super::super) endpoint: Option<Spanned<String>>,
    /// the variable that has headers of each message, such as a key: `name=value,name=value`, as in `OTEL_EXPORTER_OTLP_HEADERS`
    pub(in super::super) headers_env: Option<Spanned<String>>,
    /// whether traces are sent, if they are sampled
    #[schemars(extend("default" = true))]
    pub(in super::super) traces: Option<bool>,
    /// whether metrics are sent
    #[schemars(extend("default" = true))]
    pub(in super::super) metrics: Option<bool>,
    /// how often metrics are sent
    #[schemars(extend("default" = "60s", "x-range" = "1 s to 1 h"))]
    pub(in super::super) metrics_every: Option<Spanned<Span>>,
    /// what else tells this process from others, over `service.name` (`stanchion`), `service.version` and `service.instance.id`
    #[serde(default)]
    pub(in super::super) resource: BTreeMap<String, String>,
}
