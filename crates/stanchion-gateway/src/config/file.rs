//! The file as it is written. Unknown keys are errors.

use std::collections::BTreeMap;

use serde::Deserialize;
use stanchion::{
    circuit::{LateFailure, Recovery as CircuitRecovery, SuccessOn},
    core::{CommitPolicy, CredentialStrategy, FallbackOn, Family, ForceOpenOn, HintSource, RequestClass},
};
use toml::Spanned;

use super::value::{Bytes, Span};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(default)]
    pub(super) server: Server,
    #[serde(default)]
    pub(super) clients: BTreeMap<String, Spanned<Client>>,
    #[serde(default)]
    pub(super) providers: BTreeMap<String, Spanned<Provider>>,
    #[serde(default)]
    pub(super) models: BTreeMap<String, Spanned<Model>>,
    #[serde(default)]
    pub(super) defaults: Settings,
    #[serde(default)]
    pub(super) admission: Admission,
    #[serde(default)]
    pub(super) owners: BTreeMap<String, Owner>,
    #[serde(default)]
    pub(super) usage: Usage,
    #[serde(default)]
    pub(super) cache: Cache,
}

/// What all models' requests queue for together.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Admission {
    pub(super) global_concurrency: Option<Spanned<u32>>,
    pub(super) owner_concurrency: Option<Spanned<u32>>,
    pub(super) max_pending: Option<Spanned<u32>>,
    pub(super) max_pending_bytes: Option<Spanned<Bytes>>,
    pub(super) aging: Option<Spanned<Span>>,
    pub(super) class_limits: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Owner {
    pub(super) weight: Spanned<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Usage {
    pub(super) prices: Option<Spanned<String>>,
}

/// The monitor of prompt caches.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cache {
    pub(super) max_sessions: Option<Spanned<usize>>,
    pub(super) derive_sessions: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Server {
    pub(super) listen: Option<Spanned<String>>,
    pub(super) max_request_bytes: Option<Spanned<Bytes>>,
    pub(super) identity_headers: Option<bool>,
}

/// A secret in one of three places.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Client {
    pub(super) key: Option<Spanned<String>>,
    pub(super) key_env: Option<Spanned<String>>,
    pub(super) key_file: Option<Spanned<String>>,
    pub(super) owner: Option<Spanned<String>>,
    pub(super) class: Option<RequestClass>,
    pub(super) identity_headers: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Provider {
    pub(super) dialect: Family,
    pub(super) base_url: Spanned<String>,
    pub(super) api_key: Option<Spanned<String>>,
    pub(super) api_key_env: Option<Spanned<String>>,
    pub(super) api_key_file: Option<Spanned<String>>,
    pub(super) api_keys_env: Option<Spanned<Vec<String>>>,
    pub(super) credentials: Option<Spanned<ProviderCredentials>>,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    pub(super) repair_opaque_400: Option<Spanned<bool>>,
}

/// How one of several keys is chosen.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProviderCredentials {
    pub(super) strategy: Option<CredentialStrategy>,
    pub(super) cooldown: Option<Spanned<Span>>,
    pub(super) exhausted_for: Option<Spanned<Span>>,
    pub(super) state_file: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Model {
    pub(super) cost: Option<Spanned<u8>>,
    pub(super) candidates: Vec<Spanned<Candidate>>,
    pub(super) heartbeat: Option<Spanned<Span>>,
    #[serde(default)]
    pub(super) recovery: Option<Recovery>,
    #[serde(default)]
    pub(super) retry: Retry,
    #[serde(default)]
    pub(super) retry_budget: RetryBudget,
    #[serde(default)]
    pub(super) circuit: Circuit,
    #[serde(default)]
    pub(super) admission: ModelAdmission,
    pub(super) request_usage: Option<bool>,
    #[serde(default)]
    pub(super) timeouts: Timeouts,
    #[serde(default)]
    pub(super) fallback: Fallback,
    #[serde(default)]
    pub(super) stream: Stream,
    #[serde(default)]
    pub(super) commit: Commit,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Candidate {
    pub(super) provider: Spanned<String>,
    pub(super) model: Option<String>,
    pub(super) context_window: Option<Spanned<u32>>,
    pub(super) max_output_tokens: Option<Spanned<u32>>,
    pub(super) temperature: Option<Spanned<f64>>,
    pub(super) tier: Option<String>,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, Spanned<String>>,
}

/// The tables of `[defaults]`; those of a model override them key by key.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    pub(super) heartbeat: Option<Spanned<Span>>,
    #[serde(default)]
    pub(super) recovery: Option<Recovery>,
    #[serde(default)]
    pub(super) retry: Retry,
    #[serde(default)]
    pub(super) retry_budget: RetryBudget,
    #[serde(default)]
    pub(super) circuit: Circuit,
    #[serde(default)]
    pub(super) admission: ModelAdmission,
    pub(super) request_usage: Option<bool>,
    #[serde(default)]
    pub(super) timeouts: Timeouts,
    #[serde(default)]
    pub(super) fallback: Fallback,
    #[serde(default)]
    pub(super) stream: Stream,
    #[serde(default)]
    pub(super) commit: Commit,
}

/// Bounded recovery. The table alone, even empty, turns it on.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Recovery {
    pub(super) budget: Option<Spanned<Span>>,
    pub(super) max_attempts: Option<u32>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Retry {
    pub(super) preset: Option<Spanned<String>>,
    pub(super) max_retries: Option<u32>,
    pub(super) scope: Option<Scope>,
    pub(super) base: Option<Spanned<Span>>,
    pub(super) factor: Option<Spanned<f64>>,
    pub(super) cap: Option<Spanned<Span>>,
    pub(super) jitter: Option<Spanned<(f64, f64)>>,
    pub(super) cap_stage: Option<CapStage>,
    pub(super) hint_cap: Option<Spanned<Span>>,
    pub(super) hint_pad: Option<Spanned<Span>>,
    pub(super) over_cap: Option<OverCap>,
    pub(super) combine: Option<Combine>,
    pub(super) hints: Option<Vec<HintSource>>,
    pub(super) on_silence: Option<bool>,
    pub(super) heed_client_retries: Option<bool>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Scope {
    Candidate,
    Request,
}

#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) enum CapStage {
    #[serde(rename = "before_and_after_jitter")]
    Both,
    #[serde(rename = "before_jitter")]
    Before,
    #[serde(rename = "after_jitter")]
    After,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OverCap {
    GiveUp,
    Clamp,
    Honour,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Combine {
    Replace,
    Max,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RetryBudget {
    pub(super) enabled: Option<bool>,
    pub(super) capacity: Option<Spanned<u32>>,
    pub(super) refund: Option<Spanned<f64>>,
    pub(super) per_second: Option<Spanned<f64>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Circuit {
    pub(super) open: Option<Spanned<Span>>,
    pub(super) window: Option<Spanned<Span>>,
    pub(super) min_samples: Option<Spanned<u32>>,
    pub(super) failure_rate: Option<Spanned<f64>>,
    pub(super) consecutive: Option<u32>,
    pub(super) concurrency: Option<u32>,
    pub(super) slow_call: Option<Spanned<Span>>,
    pub(super) success_on: Option<SuccessOn>,
    pub(super) late_failure: Option<LateFailure>,
    pub(super) force_open_on: Option<Vec<ForceOpenOn>>,
    pub(super) recovery: Option<CircuitRecovery>,
    pub(super) max_open_share: Option<Spanned<f64>>,
}

/// What the requests to one candidate queue for.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ModelAdmission {
    pub(super) concurrency: Option<Spanned<u32>>,
    pub(super) max_wait: Option<Spanned<Span>>,
    pub(super) max_pending: Option<Spanned<u32>>,
    pub(super) max_pending_bytes: Option<Spanned<Bytes>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Timeouts {
    pub(super) preset: Option<TimeoutPreset>,
    pub(super) connect: Option<Spanned<Span>>,
    pub(super) first_output: Option<Spanned<Span>>,
    pub(super) first_output_per_1k: Option<Spanned<Span>>,
    pub(super) first_output_cap: Option<Spanned<Span>>,
    pub(super) idle: Option<Spanned<Span>>,
    pub(super) liveness: Option<Spanned<Span>>,
    pub(super) total: Option<Spanned<Span>>,
    pub(super) stall_warning: Option<Spanned<Span>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TimeoutPreset {
    Standard,
    Thinking,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fallback {
    pub(super) on: Option<Vec<FallbackOn>>,
    pub(super) mode: Option<FallbackMode>,
    pub(super) on_overflow: Option<Overflow>,
    pub(super) fit_guard: Option<bool>,
}

/// How candidates are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FallbackMode {
    Ordered,
    Chain,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Overflow {
    Stop,
    LargerWindow,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stream {
    pub(super) malformed: Option<Malformed>,
    pub(super) max_event: Option<Spanned<Bytes>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Commit {
    pub(super) policy: Option<CommitPolicy>,
    pub(super) foreground: Option<CommitPolicy>,
    pub(super) background: Option<CommitPolicy>,
    pub(super) internal: Option<CommitPolicy>,
    pub(super) events: Option<u64>,
    pub(super) bytes: Option<Bytes>,
    pub(super) time: Option<Span>,
    pub(super) hold_max: Option<Bytes>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Malformed {
    Pass,
    Drop,
    Fail,
}
