//! The file as it is written. Unknown keys are errors.
//!
//! The documentation of these types is what users read: `stanchion schema` prints it, and `docs/configuration.md` is made of it.
//! `default` is what counts where a key is missing; `x-default` and `x-range` say it in words where a value cannot.

mod admission;
mod model;
mod provider;
mod resilience;
mod server;
mod telemetry;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use stanchion::core::RequestClass;

pub(super) use self::{
    admission::{Adaptive, CandidateAdmission},
    model::{Candidate, Model, Settings},
    provider::Provider,
    resilience::{
        CapStage, Circuit, Combine, Commit, Fallback, FallbackMode, Malformed, OverCap, Overflow, Recovery, Retry,
        RetryBudget, Scope, Stream, TimeoutPreset, Timeouts,
    },
    server::{ListenerLimits, Server, ServerTls},
    telemetry::{Otlp, Records, Telemetry},
};
use super::value::{Bytes, Span, Spanned, Words, in_order};

/// The configuration of Stanchion.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Configuration", transform = in_order::<Self>)]
pub(super) struct File {
    /// Where and how clients connect.
    #[serde(default)]
    pub(super) server: Server,
    /// Where operators look and act; not at all without this table. An empty one is enough on a machine of your own.
    #[serde(default)]
    pub(super) admin: Option<Admin>,
    /// Who may come in, by name.
    #[serde(default)]
    pub(super) clients: BTreeMap<String, Spanned<Client>>,
    /// Who answers, by name.
    #[serde(default)]
    pub(super) providers: BTreeMap<String, Spanned<Provider>>,
    /// What clients ask for, by the name that they ask for.
    #[serde(default)]
    pub(super) models: BTreeMap<String, Spanned<Model>>,
    /// What counts for every model that does not say otherwise.
    #[serde(default)]
    pub(super) defaults: Settings,
    /// What all models' requests queue for together.
    #[serde(default)]
    pub(super) admission: Admission,
    /// Shares of the queue, by the names of owners.
    #[serde(default)]
    pub(super) owners: BTreeMap<String, Owner>,
    /// Prices.
    #[serde(default)]
    pub(super) usage: Usage,
    /// The monitor of prompt caches.
    #[serde(default)]
    pub(super) cache: Cache,
    /// What is kept of requests beyond the process.
    #[serde(default)]
    pub(super) telemetry: Telemetry,
}

/// A listener of its own for the status page, metrics, events and an operator's actions; see [operating](operating.md). Off unless the
/// table is there. At most one of `key_env`, `key_file`, `key_sha256`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = in_order::<Self>)]
pub(super) struct Admin {
    /// beyond loopback only with a key. Without one it answers to `localhost`, `127.0.0.1` and `[::1]` only, and so to nobody's web page
    #[schemars(extend("default" = "127.0.0.1:9090", "x-range" = "IP:PORT"))]
    pub(super) listen: Option<Spanned<String>>,
    /// the variable that has the key
    pub(super) key_env: Option<Spanned<String>>,
    /// the file that has the key
    pub(super) key_file: Option<Spanned<String>>,
    /// the SHA-256 of the key, so that the file does not have it; what `sha256sum` prints for a file of the key without a line break
    #[schemars(extend("x-range" = "64 hexadecimal digits"))]
    pub(super) key_sha256: Option<Spanned<String>>,
    /// How TLS is spoken.
    pub(super) tls: Option<ServerTls>,
}

/// Without any table, everybody may come in who reaches the address. Each needs one of `key_sha256`, `key_env`, `key_file`, `key`. Who asks for
/// more than it may is answered 403 or 429, in its dialect.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = in_order::<Self>)]
pub(super) struct Client {
    /// the SHA-256 of its key, so that the key itself stands nowhere: `stanchion hash-key` makes it
    #[schemars(extend("x-range" = "64 hexadecimal digits"))]
    pub(super) key_sha256: Option<Spanned<String>>,
    /// the variable that has its key
    pub(super) key_env: Option<Spanned<String>>,
    /// the file that has its key
    pub(super) key_file: Option<Spanned<String>>,
    /// its key; only with `server.inline_keys`
    #[schemars(extend("writeOnly" = true))]
    pub(super) key: Option<Spanned<String>>,
    /// what it may ask for: names, aliases and patterns of models, with `*` for any characters
    #[schemars(extend("x-default" = "all"))]
    pub(super) models: Option<Spanned<Vec<String>>>,
    /// how many requests it may make in a minute: so many at once, and then as many as the minute brings back
    #[schemars(range(min = 1, max = 1_000_000), extend("x-default" = "no limit"))]
    pub(super) requests_per_minute: Option<u32>,
    /// how many of its requests may run at one time
    #[schemars(range(min = 1, max = 1_000_000), extend("x-default" = "no limit"))]
    pub(super) concurrency: Option<u32>,
    /// whose capacity its requests use, whatever the client says
    #[schemars(extend("x-default" = "the client's name here if its headers do not count"))]
    pub(super) owner: Option<Spanned<String>>,
    /// whose requests they are, whatever the client says: nobody promotes itself
    #[schemars(with = "Option<Words<RequestClass>>")]
    pub(super) class: Option<RequestClass>,
    /// whether its `x-stanchion-*` headers count: it may then say whose its requests are and of which class. For a service that asks on behalf of others;
    /// who has no such leave has a share of the queue by its own name
    #[schemars(extend("default" = false))]
    pub(super) identity_headers: Option<bool>,
}

/// How many requests may be in flight; others queue. Off unless a limit is set, here or in an `admission` table of a model, a provider or the
/// defaults.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = in_order::<Self>)]
pub(super) struct Admission {
    /// all requests together
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(super) global_concurrency: Option<Spanned<u32>>,
    /// those of one owner: `x-stanchion-owner`, else the session. Who names neither shares one owner with all others who ask for that model
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(super) owner_concurrency: Option<Spanned<u32>>,
    /// how many may queue in all
    #[schemars(range(min = 1, max = 1_000_000), extend("default" = 128))]
    pub(super) max_pending: Option<Spanned<u32>>,
    /// what those may hold; replies that `commit` holds back count toward it
    #[schemars(extend("default" = "128MiB", "x-range" = "64 KiB to 128 MiB"))]
    pub(super) max_pending_bytes: Option<Spanned<Bytes>>,
    /// how many of one owner may queue, and never more than in all
    #[schemars(range(min = 1, max = 1_000_000), extend("default" = 16))]
    pub(super) owner_max_pending: Option<Spanned<u32>>,
    /// what those may hold
    #[schemars(extend("default" = "32MiB", "x-range" = "64 KiB to 128 MiB"))]
    pub(super) owner_max_pending_bytes: Option<Spanned<Bytes>>,
    /// each such wait lifts the rank of a queued request by one
    #[schemars(extend("default" = "30s", "x-range" = "1 s to 30 s"))]
    pub(super) aging: Option<Spanned<Span>>,
    /// whether background and internal requests have limits of their own: 12 in flight, 2 of one owner, 2 internal ones, and in each domain
    /// all permits but one
    #[schemars(extend("default" = false))]
    pub(super) class_limits: Option<bool>,
}

/// An owner's share of the queue.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = in_order::<Self>)]
pub(super) struct Owner {
    /// how large its share is, beside those of others, which are 1
    #[schemars(range(min = 1, max = 100))]
    pub(super) weight: Spanned<u32>,
}

/// What models cost.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = in_order::<Self>)]
pub(super) struct Usage {
    /// a file of prices over those that come with Stanchion; what it lists for reading and writing the cache counts for the `provider` of the row
    pub(super) prices: Option<Spanned<String>>,
}

/// Why a prompt cache broke is told for the conversations that are watched.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = in_order::<Self>)]
pub(super) struct Cache {
    /// how many conversations are watched; each takes up to 25 KiB of memory
    #[schemars(range(min = 1, max = 65_536), extend("default" = 32))]
    pub(super) max_sessions: Option<Spanned<usize>>,
    /// whether a conversation without `x-stanchion-session` is known by its first message
    #[schemars(extend("default" = false))]
    pub(super) derive_sessions: Option<bool>,
}
