//! The words that all Stanchion layers share.
//!
//! A layer of this workspace knows this crate and no other layer. What two layers must agree on is a type here, carried in the
//! extensions of a request or a response:
//!
//! | type | carried by | written by | read by |
//! |---|---|---|---|
//! | [`Context`] | request | the edge, or the application | every layer |
//! | [`Call`] | request | the edge, or the application | observe, upstream, edge |
//! | [`CommitPolicy`] | request | the edge, or the application | commit |
//! | [`Selected`] | request | fallback, or the application; credentials puts its choice of key in | retry, credentials, upstream, circuit, admission |
//! | [`WaitsForCircuit`], [`CircuitTurn`] | request | retry | circuit |
//! | [`WithoutOutputLimit`] | request | retry | upstream |
//! | [`RetainedBytes`] | request | admission | commit |
//! | [`HidesUsage`] | request | usage | observe |
//! | [`Attempts`] | request | usage; observe fills it | usage |
//! | [`Tenant`] | request | the application | cache-break |
//! | [`CacheRetention`] | request | the edge, or the application | cache-break |
//! | [`StreamRecord`] | response | observe, alone | commit, attempt, circuit, cache-break, usage, telemetry, edge |
//!
//! Whatever goes wrong is a [`Failure`]; what a failure means stands in one table, [`Disposition`].
//!
//! ```
//! use stanchion_core::{Disposition, DispositionRules, Failure, FailureKind, Phase, Retry};
//!
//! let failure = Failure::new(FailureKind::Overloaded).with_phase(Phase::BeforeOutput).with_candidate("primary/gpt-x");
//! let disposition = Disposition::of(&failure, &DispositionRules::default());
//! assert_eq!(disposition.retry, Retry::Here);
//! assert!(disposition.fallback);
//!
//! // Once output was shown, nothing is replayed, whatever the cause.
//! let late = failure.with_phase(Phase::AfterOutput);
//! assert_eq!(Disposition::of(&late, &DispositionRules::default()).retry, Retry::Never);
//! ```

mod attempts;
mod cache;
mod call;
mod candidate;
mod candidate_cache;
mod circuit;
mod commit;
mod context;
mod credential;
mod disposition;
mod drain;
mod event;
mod failure;
mod failure_domain;
mod failure_kind;
pub mod hint;
mod mix;
mod names;
mod record;
mod recovery;
mod retained;
mod secret;
mod tenant;
mod trace;
mod usage;

pub use attempts::{AttemptEntry, AttemptReply, Attempts};
pub use cache::{CacheBreakReason, CacheRetention, PromptCacheBreak, PromptCacheVolatile};
pub use call::{Call, Dialect, Family, Framing};
pub use candidate::{Candidate, Candidates, Selected, WithoutOutputLimit};
pub use candidate_cache::CandidateCache;
pub use circuit::{CircuitGate, CircuitTurn, OpenCircuit, WaitsForCircuit};
pub use commit::CommitPolicy;
pub use context::{Context, ContextBuilder, Observer, RequestClass, RetryClass};
pub use credential::{CredentialOutcome, CredentialRotation, CredentialStrategy, PoolState, RotationReason};
pub use disposition::{CircuitOutcome, Disposition, DispositionRules, FallbackOn, ForceOpenOn, Retry, RetryReason};
pub use drain::Drain;
pub use event::{
    AdmissionPhase, AdmissionReason, AdmissionResource, AdmissionScope, AttemptPhase, CircuitPhase, Event, ExhaustedBy,
    FallbackEvent, FrameEvent, FrameFault, HoldEvent, ProviderAdmission, ProviderAttempt, ProviderCircuit,
    ProviderRetry, ProviderStall, RecoverySnapshot, RetryPhase, StallPhase, UsageEvent,
};
pub use failure::{BoxError, Failure, ProviderReply};
pub use failure_domain::{DomainCache, DomainScope, DomainSecret, FailureDomain};
pub use failure_kind::{FailureKind, Phase};
pub use hint::{HintSource, HintSources, RetryHint};
pub use mix::{BuildMix, Mix};
pub use record::{Ending, StreamRecord, StreamRecorder};
pub use recovery::{RecoveryBudget, RecoveryMode};
pub use retained::{Retained, RetainedBytes};
pub use secret::Secret;
pub use tenant::Tenant;
pub use trace::{SpanId, TraceContext, TraceId};
pub use usage::{FinishReason, HidesUsage, Usage, UsageQuality};
