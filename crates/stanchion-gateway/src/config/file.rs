//! The file as it is written. Unknown keys are errors.

use std::collections::BTreeMap;

use serde::Deserialize;
use stanchion::core::{CommitPolicy, FallbackOn, Family};
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
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Server {
    pub(super) listen: Option<Spanned<String>>,
    pub(super) max_request_bytes: Option<Spanned<Bytes>>,
}

/// A secret in one of three places.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Client {
    pub(super) key: Option<Spanned<String>>,
    pub(super) key_env: Option<Spanned<String>>,
    pub(super) key_file: Option<Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Provider {
    pub(super) dialect: Family,
    pub(super) base_url: Spanned<String>,
    pub(super) api_key: Option<Spanned<String>>,
    pub(super) api_key_env: Option<Spanned<String>>,
    pub(super) api_key_file: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Model {
    pub(super) candidates: Vec<Spanned<Candidate>>,
    #[serde(default)]
    pub(super) retry: Retry,
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
}

/// The tables of `[defaults]`; those of a model override them key by key.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    #[serde(default)]
    pub(super) retry: Retry,
    #[serde(default)]
    pub(super) timeouts: Timeouts,
    #[serde(default)]
    pub(super) fallback: Fallback,
    #[serde(default)]
    pub(super) stream: Stream,
    #[serde(default)]
    pub(super) commit: Commit,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Retry {
    pub(super) max_retries: Option<u32>,
    pub(super) base: Option<Spanned<Span>>,
    pub(super) cap: Option<Spanned<Span>>,
    pub(super) hint_cap: Option<Spanned<Span>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Timeouts {
    pub(super) connect: Option<Spanned<Span>>,
    pub(super) first_output: Option<Spanned<Span>>,
    pub(super) idle: Option<Spanned<Span>>,
    pub(super) total: Option<Spanned<Span>>,
    pub(super) stall_warning: Option<Spanned<Span>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fallback {
    pub(super) on: Option<Vec<FallbackOn>>,
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
