//! How a model's calls are timed, replayed and recovered.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use stanchion::{
    circuit::{LateFailure, Recovery as CircuitRecovery, SuccessOn},
    core::{CommitPolicy, FallbackOn, ForceOpenOn, HintSource},
    retry::Preset,
};

use super::super::value::{Bytes, Span, Spanned, Words, in_order};

/// How long a foreground request may go on recovering. Off unless the table is there; an empty table has the defaults. Requests of the classes
/// `background` and `internal` (header `x-stanchion-class`) have none.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = in_order::<Self>)]
pub(in super::super) struct Recovery {
    /// from the first failure that is retried, or the first wait for the last candidate's circuit, to the end of the request, reply and all.
    /// Nothing extends it
    #[schemars(extend("default" = "10m", "x-range" = "30 s to 1 h, or `\"0s\"` for off"))]
    pub(in super::super) budget: Option<Spanned<Span>>,
    /// how many attempts may follow the first, over all candidates. A `retry.max_retries` that is set counts for each candidate instead, and so
    /// do the numbers of the presets `dual_budget`, `transport`, `ladder` and `gateway`
    #[schemars(extend("default" = 12))]
    pub(in super::super) max_attempts: Option<u32>,
}

/// How failures before any output are replayed at the same candidate.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = in_order::<Self>)]
pub(in super::super) struct Retry {
    /// the policy of a known system, see below; the other keys of the same table go over it. A preset of a model's own leaves out all of
    /// `[defaults.retry]`
    #[schemars(with = "Option<PresetName>", extend("default" = "standard"))]
    pub(in super::super) preset: Option<Spanned<String>>,
    /// retries after the first attempt; 0 is none of any kind
    #[schemars(extend("default" = 2, "x-default" = "2; while recovering `recovery.max_attempts`"))]
    pub(in super::super) max_retries: Option<u32>,
    /// what that number counts for
    #[schemars(with = "Option<Words<Scope>>", extend("default" = "candidate"))]
    pub(in super::super) scope: Option<Scope>,
    /// backoff before the first retry
    #[schemars(extend("default" = "500ms", "x-range" = "up to `cap`"))]
    pub(in super::super) base: Option<Spanned<Span>>,
    /// growth from one retry to the next
    #[schemars(range(min = 1.0, max = 10.0), extend("default" = 2.0))]
    pub(in super::super) factor: Option<Spanned<f64>>,
    /// longest backoff
    #[schemars(extend("default" = "8s", "x-default" = "`\"8s\"`; 60 s while recovering", "x-range" = "up to 1 h"))]
    pub(in super::super) cap: Option<Spanned<Span>>,
    /// what a backoff is multiplied by at random, from one to the other
    #[schemars(extend("default" = [0.75, 1.0], "x-range" = "0 to 2"))]
    pub(in super::super) jitter: Option<Spanned<(f64, f64)>>,
    /// where the ceiling applies
    #[schemars(with = "Option<Words<CapStage>>", extend("default" = "before_and_after_jitter"))]
    pub(in super::super) cap_stage: Option<CapStage>,
    /// longest hint of a provider that is waited out as it is
    #[schemars(extend("default" = "60s", "x-range" = "up to 24 h"))]
    pub(in super::super) hint_cap: Option<Spanned<Span>>,
    /// what becomes of a longer one
    #[schemars(with = "Option<Words<OverCap>>", extend("default" = "give_up", "x-default" = "`\"give_up\"`; `\"clamp\"` while recovering"))]
    pub(in super::super) over_cap: Option<OverCap>,
    /// what is added to each hint
    #[schemars(extend("default" = "0s", "x-range" = "up to 60 s"))]
    pub(in super::super) hint_pad: Option<Spanned<Span>>,
    /// how hint and backoff become one wait
    #[schemars(with = "Option<Words<Combine>>", extend("default" = "replace"))]
    pub(in super::super) combine: Option<Combine>,
    /// where hints are taken from, in order
    #[schemars(with = "Option<Vec<Words<HintSource>>>", extend("x-default" = "all but `\"text\"`"))]
    pub(in super::super) hints: Option<Vec<HintSource>>,
    /// whether a candidate that was silent for too long is asked again
    #[schemars(extend("default" = false))]
    pub(in super::super) on_silence: Option<bool>,
    /// whether what the client's library has retried by itself (`x-stainless-retry-count` and the like) is taken off the retries
    #[schemars(extend("default" = false))]
    pub(in super::super) heed_client_retries: Option<bool>,
}

/// The names of [`Preset`]s, for the schema.
struct PresetName;

impl JsonSchema for PresetName {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Preset".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "enum": Preset::ALL.map(Preset::as_str) })
    }
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in super::super) enum Scope {
    Candidate,
    Request,
}

#[derive(Debug, Clone, Copy, Deserialize)]
pub(in super::super) enum CapStage {
    #[serde(rename = "before_and_after_jitter")]
    Both,
    #[serde(rename = "before_jitter")]
    Before,
    #[serde(rename = "after_jitter")]
    After,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in super::super) enum OverCap {
    GiveUp,
    Clamp,
    Honour,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in super::super) enum Combine {
    Replace,
    Max,
}

/// A bucket of tokens for each failure domain (provider, address, model, key, headers): what all requests to it together may retry. Models with
/// equal settings share it. It is told as `exhausted` by `retry_budget` when it denies.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = in_order::<Self>)]
pub(in super::super) struct RetryBudget {
    /// whether there is one
    #[schemars(extend("default" = true))]
    pub(in super::super) enabled: Option<bool>,
    /// retries that a full bucket holds
    #[schemars(range(min = 1, max = 1_000_000), extend("default" = 100))]
    pub(in super::super) capacity: Option<Spanned<u32>>,
    /// what a success puts back that needed no retry; one that needed some puts one back
    #[schemars(range(min = 0.0, max = 1.0), extend("default" = 0.1))]
    pub(in super::super) refund: Option<Spanned<f64>>,
    /// what comes back with every second
    #[schemars(range(min = 0.0, max = 1000.0), extend("default" = 1.0))]
    pub(in super::super) per_second: Option<Spanned<f64>>,
}

/// When a candidate is left alone, and how it is taken back.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = in_order::<Self>)]
pub(in super::super) struct Circuit {
    /// for how long it opens; a provider's hint stretches it, up to 5 min
    #[schemars(extend("default" = "10s", "x-range" = "1 s to 5 min, or `\"0s\"` for no circuits"))]
    pub(in super::super) open: Option<Spanned<Span>>,
    /// how long a sample counts
    #[schemars(extend("default" = "60s", "x-range" = "1 s to 1 h, or `\"0s\"` for no rate"))]
    pub(in super::super) window: Option<Spanned<Span>>,
    /// how many the rate wants
    #[schemars(range(min = 1, max = 256), extend("default" = 4))]
    pub(in super::super) min_samples: Option<Spanned<u32>>,
    /// at which share of failures it opens
    #[schemars(range(max = 1.0), extend("default" = 0.8, "exclusiveMinimum" = 0.0))]
    pub(in super::super) failure_rate: Option<Spanned<f64>>,
    /// failures in a row that open it, whatever the rate
    #[schemars(extend("default" = 0, "x-default" = "0 (off)"))]
    pub(in super::super) consecutive: Option<u32>,
    /// requests in flight to one candidate: failures in a row open nothing before there are twice as many
    #[schemars(extend("default" = 0))]
    pub(in super::super) concurrency: Option<u32>,
    /// a first output that takes longer is a failure for the circuit
    #[schemars(extend("default" = "0s", "x-default" = "`\"0s\"` (off)", "x-range" = "up to 1 h"))]
    pub(in super::super) slow_call: Option<Spanned<Span>>,
    /// when a reply counts as a success
    #[schemars(with = "Option<Words<SuccessOn>>", extend("default" = "first_output"))]
    pub(in super::super) success_on: Option<SuccessOn>,
    /// what a failure after output is
    #[schemars(with = "Option<Words<LateFailure>>", extend("default" = "ignore"))]
    pub(in super::super) late_failure: Option<LateFailure>,
    /// classes of failures that open it at once
    #[schemars(with = "Option<Vec<Words<ForceOpenOn>>>", extend("default" = []))]
    pub(in super::super) force_open_on: Option<Vec<ForceOpenOn>>,
    /// how it closes: by one probe at a time, or only when all others are open
    #[schemars(with = "Option<Words<CircuitRecovery>>", extend("default" = "lease"))]
    pub(in super::super) recovery: Option<CircuitRecovery>,
    /// the share of a model's circuits that may turn requests away at once
    #[schemars(range(min = 0.0, max = 1.0), extend("x-default" = "all but one"))]
    pub(in super::super) max_open_share: Option<Spanned<f64>>,
}

/// How long what may take. A limit that is not set is the smaller of its default and the total.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = in_order::<Self>)]
pub(in super::super) struct Timeouts {
    /// other defaults, for models that think: 120 s and 1 s for each thousand tokens of the prompt up to 10 min, idle 5 min, total 1 h
    #[schemars(with = "Option<Words<TimeoutPreset>>", extend("default" = "standard"))]
    pub(in super::super) preset: Option<TimeoutPreset>,
    /// to make a connection
    #[schemars(extend("default" = "10s", "x-range" = "above 0"))]
    pub(in super::super) connect: Option<Spanned<Span>>,
    /// from the start of an attempt to its first real output
    #[schemars(extend("default" = "120s", "x-default" = "`\"120s\"`; the total for a reply that does not stream", "x-range" = "up to `total`, or `\"0s\"`"))]
    pub(in super::super) first_output: Option<Spanned<Span>>,
    /// so much more for each thousand tokens of the prompt, estimated as a quarter of its bytes
    #[schemars(extend("x-default" = "none; `\"1s\"` where only the cap is set"))]
    pub(in super::super) first_output_per_1k: Option<Spanned<Span>>,
    /// the most in any case
    #[schemars(extend("x-default" = "the total", "x-range" = "up to `total`"))]
    pub(in super::super) first_output_cap: Option<Spanned<Span>>,
    /// between two events that show progress
    #[schemars(extend("default" = "300s", "x-range" = "up to `total`, or `\"0s\"`"))]
    pub(in super::super) idle: Option<Spanned<Span>>,
    /// between two bytes of a stream, comments and pings among them
    #[schemars(extend("x-default" = "off", "x-range" = "up to `idle`"))]
    pub(in super::super) liveness: Option<Spanned<Span>>,
    /// one attempt
    #[schemars(extend("default" = "600s", "x-range" = "or `\"0s\"`"))]
    pub(in super::super) total: Option<Spanned<Span>>,
    /// after how long a silence is told; at most half of `idle` counts
    #[schemars(extend("default" = "30s", "x-range" = "or `\"0s\"`"))]
    pub(in super::super) stall_warning: Option<Spanned<Span>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in super::super) enum TimeoutPreset {
    Standard,
    Thinking,
}

/// How candidates follow each other.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = in_order::<Self>)]
pub(in super::super) struct Fallback {
    /// candidates in order; or `"chain"`: the same, and a candidate that failed three times in a row is left out for a minute, but for the least
    /// failed (other defaults of `circuit`: `consecutive = 3`, `window = "0s"`, `open = "60s"`, `success_on = "end"`, `late_failure = "count"`)
    #[schemars(with = "Option<Words<FallbackMode>>", extend("default" = "ordered"))]
    pub(in super::super) mode: Option<FallbackMode>,
    /// a prompt that a provider refuses as too long; `"larger_window"` sends it on to a candidate with a larger `context_window`, over
    /// `on = ["overflow"]`. From a candidate without one it goes nowhere, or by that rule
    #[schemars(with = "Option<Words<Overflow>>", extend("default" = "stop"))]
    pub(in super::super) on_overflow: Option<Overflow>,
    /// candidates are passed over whose `context_window` is too small for the estimated prompt, as long as another fits
    #[schemars(extend("default" = true))]
    pub(in super::super) fit_guard: Option<bool>,
    /// also go on to the next candidate after these
    #[schemars(with = "Option<Vec<Words<FallbackOn>>>", extend("default" = []))]
    pub(in super::super) on: Option<Vec<FallbackOn>>,
}

/// How candidates are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in super::super) enum FallbackMode {
    Ordered,
    Chain,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in super::super) enum Overflow {
    Stop,
    LargerWindow,
}

/// How replies are read.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = in_order::<Self>)]
pub(in super::super) struct Stream {
    /// what becomes of a frame that is cut short
    #[schemars(with = "Option<Words<Malformed>>", extend("default" = "drop"))]
    pub(in super::super) malformed: Option<Malformed>,
    /// the largest single event
    #[schemars(extend("default" = "16MiB", "x-range" = "above 0"))]
    pub(in super::super) max_event: Option<Spanned<Bytes>>,
}

/// When replies leave.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = in_order::<Self>)]
pub(in super::super) struct Commit {
    /// with its first output, after a window, or when it is complete
    #[schemars(with = "Option<Words<CommitPolicy>>", extend("default" = "first_output"))]
    pub(in super::super) policy: Option<CommitPolicy>,
    /// the same for one class
    #[schemars(with = "Option<Words<CommitPolicy>>", extend("x-default" = "`policy`"))]
    pub(in super::super) foreground: Option<CommitPolicy>,
    /// likewise
    #[schemars(with = "Option<Words<CommitPolicy>>", extend("x-default" = "`policy`"))]
    pub(in super::super) background: Option<CommitPolicy>,
    /// likewise
    #[schemars(with = "Option<Words<CommitPolicy>>", extend("x-default" = "`policy`"))]
    pub(in super::super) internal: Option<CommitPolicy>,
    /// the window, in events. It is over with whichever of its limits comes first; where one of them is set, only those count that are
    #[schemars(extend("default" = 20))]
    pub(in super::super) events: Option<u64>,
    /// the window, in bytes
    #[schemars(extend("default" = "16KiB"))]
    pub(in super::super) bytes: Option<Bytes>,
    /// the window, in time
    #[schemars(extend("default" = "2s"))]
    pub(in super::super) time: Option<Span>,
    /// the most that is held back of one reply
    #[schemars(extend("default" = "4MiB"))]
    pub(in super::super) hold_max: Option<Bytes>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in super::super) enum Malformed {
    Pass,
    Drop,
    Fail,
}
