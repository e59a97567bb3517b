use schemars::JsonSchema;
use serde::Deserialize;

use super::super::value::{Bytes, Span, Spanned, in_order};

/// What the requests to one candidate queue for. Of each key, the model's own goes first, then that of the candidate's provider
/// (`[providers.NAME.admission]`), then the default.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = in_order::<Self>)]
pub(in super::super) struct CandidateAdmission {
    /// requests in flight to one candidate
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(in super::super) concurrency: Option<Spanned<u32>>,
    /// how long a request queues; with zero it fails at once, or goes to the next candidate
    #[schemars(extend("default" = "180s", "x-range" = "1 s to 10 min, or `\"0s\"`"))]
    pub(in super::super) max_wait: Option<Spanned<Span>>,
    /// how many may queue for one candidate
    #[schemars(range(min = 1, max = 1_000_000), extend("default" = 32))]
    pub(in super::super) max_pending: Option<Spanned<u32>>,
    /// what those may hold
    #[schemars(extend("default" = "64MiB", "x-range" = "64 KiB to 128 MiB"))]
    pub(in super::super) max_pending_bytes: Option<Spanned<Bytes>>,
    /// A limit that follows what the provider can take.
    pub(in super::super) adaptive: Option<Adaptive>,
}

/// A limit that follows what the provider can take: lower after a 429, an overload, or when first outputs become slow; and higher again while it
/// is used. Off unless the table is there; an empty table has the defaults. Its keys are picked like the others of `admission`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = in_order::<Self>)]
pub(in super::super) struct Adaptive {
    /// turns off, for a model or a provider, what another table turns on
    #[schemars(extend("default" = true))]
    pub(in super::super) enabled: Option<bool>,
    /// the highest that the limit goes, and where it begins; `concurrency` holds all the same
    #[schemars(range(min = 1, max = 1_000_000), extend("default" = 64))]
    pub(in super::super) ceiling: Option<Spanned<u32>>,
    /// the lowest
    #[schemars(extend("default" = 1, "x-range" = "1 to `ceiling`"))]
    pub(in super::super) floor: Option<Spanned<u32>>,
    /// what of the requests in flight the limit leaves room for after a decrease, but no less than half of the limit at once (or this much of it, where that is less)
    #[schemars(range(min = 0.1, max = 0.99), extend("default" = 0.7))]
    pub(in super::super) decrease: Option<Spanned<f64>>,
    /// how many times slower than usual first outputs may become; with 0 slowness decreases nothing
    #[schemars(extend("default" = 2.0, "x-range" = "1.1 to 100, or 0"))]
    pub(in super::super) tolerance: Option<Spanned<f64>>,
}
