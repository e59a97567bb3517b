use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    super::value::{Span, Spanned, in_order},
    CandidateAdmission, Circuit, Commit, Fallback, Recovery, Retry, RetryBudget, Stream, Timeouts,
};

/// What clients ask for: who answers, and how.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = in_order::<Self>)]
pub(in super::super) struct Model {
    /// in order of preference: each with a `provider`, and a `model` where it is not what the client asks for
    #[schemars(extend("x-range" = "at least one"))]
    pub(in super::super) candidates: Vec<Spanned<Candidate>>,
    /// further names; a candidate without a `model` is then asked for this model's own name
    #[serde(default)]
    pub(in super::super) aliases: Vec<Spanned<String>>,
    /// patterns of further names, in which `*` stands for any characters; a candidate without a `model` is then asked for what the client
    /// asked for
    #[serde(default, rename = "match")]
    pub(in super::super) patterns: Vec<Spanned<String>>,
    /// what a request of this model counts in the rotation of owners
    #[schemars(range(min = 1, max = 100), extend("default" = 1))]
    pub(in super::super) cost: Option<Spanned<u8>>,
    /// ask providers for usage by streams of chat completions whose client does not; the extra frame is taken out
    #[schemars(extend("default" = false))]
    pub(in super::super) request_usage: Option<bool>,
    /// a client that waits for a stream is answered 200 at once, and sent a comment this often until the reply begins. A failure then comes
    /// in band, and its status is lost: the client's own library does not retry it
    #[schemars(extend("x-default" = "off", "x-range" = "1 s to 10 min, or `\"0s\"`"))]
    pub(in super::super) heartbeat: Option<Spanned<Span>>,
    /// Bounded recovery.
    #[serde(default)]
    pub(in super::super) recovery: Option<Recovery>,
    /// How zero-output failures are replayed.
    #[serde(default)]
    pub(in super::super) retry: Retry,
    /// What all retries to one provider may be together.
    #[serde(default)]
    pub(in super::super) retry_budget: RetryBudget,
    /// When a candidate is left alone.
    #[serde(default)]
    pub(in super::super) circuit: Circuit,
    /// What its requests queue for.
    #[serde(default)]
    pub(in super::super) admission: CandidateAdmission,
    /// The clocks of one attempt.
    #[serde(default)]
    pub(in super::super) timeouts: Timeouts,
    /// How candidates follow each other.
    #[serde(default)]
    pub(in super::super) fallback: Fallback,
    /// How replies are read.
    #[serde(default)]
    pub(in super::super) stream: Stream,
    /// When replies leave.
    #[serde(default)]
    pub(in super::super) commit: Commit,
}

/// One way to serve a model. Its clocks are the model's.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = in_order::<Self>)]
pub(in super::super) struct Candidate {
    /// the name of one of `[providers]`
    pub(in super::super) provider: Spanned<String>,
    /// what it calls the model, where that is not what the client asks for
    pub(in super::super) model: Option<String>,
    /// how many tokens the model takes
    #[schemars(range(min = 1))]
    pub(in super::super) context_window: Option<Spanned<u32>>,
    /// put into the body of this candidate's requests, whatever the client asks for
    #[schemars(range(min = 1))]
    pub(in super::super) max_output_tokens: Option<Spanned<u32>>,
    /// likewise
    #[schemars(range(min = 0.0, max = 2.0))]
    pub(in super::super) temperature: Option<Spanned<f64>>,
    /// likewise (`service_tier`). Not for `gemini` and `ollama`
    pub(in super::super) tier: Option<Spanned<String>>,
    /// set on this candidate's requests, over its provider's
    #[serde(default)]
    pub(in super::super) headers: BTreeMap<String, Spanned<String>>,
    /// over its provider's
    pub(in super::super) api_version: Option<Spanned<String>>,
    /// whether it has of the model's first candidate what it does not set: the `temperature`; the `tier`, if both are of the same provider; and
    /// `max_output_tokens`, `api_version` and `headers`, if they are and it sets none of these three nor a temperature
    #[schemars(extend("default" = true))]
    pub(in super::super) inherit: Option<bool>,
}

/// The tables of `[defaults]`; those of a model override them key by key.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Defaults", transform = in_order::<Self>)]
pub(in super::super) struct Settings {
    /// ask providers for usage by streams of chat completions whose client does not; the extra frame is taken out
    #[schemars(extend("default" = false))]
    pub(in super::super) request_usage: Option<bool>,
    /// a client that waits for a stream is answered 200 at once, and sent a comment this often until the reply begins. A failure then comes
    /// in band, and its status is lost: the client's own library does not retry it
    #[schemars(extend("x-default" = "off", "x-range" = "1 s to 10 min, or `\"0s\"`"))]
    pub(in super::super) heartbeat: Option<Spanned<Span>>,
    /// Bounded recovery.
    #[serde(default)]
    pub(in super::super) recovery: Option<Recovery>,
    /// How zero-output failures are replayed.
    #[serde(default)]
    pub(in super::super) retry: Retry,
    /// What all retries to one provider may be together.
    #[serde(default)]
    pub(in super::super) retry_budget: RetryBudget,
    /// When a candidate is left alone.
    #[serde(default)]
    pub(in super::super) circuit: Circuit,
    /// What requests queue for.
    #[serde(default)]
    pub(in super::super) admission: CandidateAdmission,
    /// The clocks of one attempt.
    #[serde(default)]
    pub(in super::super) timeouts: Timeouts,
    /// How candidates follow each other.
    #[serde(default)]
    pub(in super::super) fallback: Fallback,
    /// How replies are read.
    #[serde(default)]
    pub(in super::super) stream: Stream,
    /// When replies leave.
    #[serde(default)]
    pub(in super::super) commit: Commit,
}
