use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use serde::{Serialize, Serializer};
use stanchion_core::{
    CacheBreakReason, Ending, Failure, FailureKind, Phase, SpanId, StreamRecord, Usage, UsageQuality,
};

use crate::RequestBegan;

/// What became of one logical request.
///
/// Holds counts, times and names from the configuration: no owner, session, key, prompt, output or tool name. Durations serialise
/// as whole milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RequestRecord {
    /// What was known when it came.
    #[serde(flatten)]
    pub began: RequestBegan,
    /// How it ended, for the one who asked.
    pub ending: Ending,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureKind>,
    /// How far it had come when it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_in: Option<Phase>,
    /// The provider's status: of the reply, or of the failure that nothing came after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_code: Option<u16>,
    /// Whether there was a reply. One that was cancelled without never got an answer.
    pub replied: bool,
    /// Who answered, or was asked last, as `provider/model`; absent if nobody was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidate: Option<Arc<str>>,
    /// The model that the provider was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_model: Option<Arc<str>>,
    /// From the request to its end.
    #[serde(rename = "duration_ms", serialize_with = "milliseconds")]
    pub duration: Duration,
    /// From the request to the first byte of the answering provider's reply.
    #[serde(
        rename = "first_chunk_ms",
        skip_serializing_if = "Option::is_none",
        serialize_with = "optional_milliseconds"
    )]
    pub first_chunk: Option<Duration>,
    /// From the request to the first real output of that reply: text, reasoning, a tool call, media.
    #[serde(
        rename = "first_output_ms",
        skip_serializing_if = "Option::is_none",
        serialize_with = "optional_milliseconds"
    )]
    pub first_output: Option<Duration>,
    /// How long it has waited, for what.
    pub waits: Waits,
    /// How many retries were made.
    pub retries: u32,
    /// How often another candidate took over.
    pub fallbacks: u32,
    /// How often another credential came into service, or one went out of it, on account of this request.
    pub rotations: u32,
    /// How often a provider showed no progress for a while.
    pub stalls: u32,
    /// The size of the reply, as far as it went, in bytes.
    pub bytes: u64,
    /// What the reply has used, together with attempts that were thrown away and are paid for all the same; absent if
    /// nobody has told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<UsageRecord>,
    /// Why the prompt cache was not read as before; absent if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_break: Option<CacheBreakRecord>,
    /// The physical attempts, in order; at most [`MAX_ATTEMPTS`](Self::MAX_ATTEMPTS), of which the last is the last that was made.
    pub attempts: Vec<AttemptRecord>,
    /// How many attempts before the last were left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub attempts_omitted: u32,
}

impl RequestRecord {
    /// How many attempts are kept.
    pub const MAX_ATTEMPTS: usize = 32;

    /// When the request came, by the wall clock.
    pub fn at(&self) -> SystemTime {
        self.began.at
    }

    /// When it ended, by the wall clock.
    pub fn ended_at(&self) -> SystemTime {
        self.after(self.duration)
    }

    /// What the wall clock showed so long after the request came.
    pub fn after(&self, duration: Duration) -> SystemTime {
        self.began.at.checked_add(duration).unwrap_or(self.began.at)
    }
}

/// How long a request has waited, for what. See [`RequestRecord::waits`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Waits {
    /// For its turn.
    #[serde(rename = "queue_ms", serialize_with = "milliseconds")]
    pub queue: Duration,
    /// For the time of a retry.
    #[serde(rename = "backoff_ms", serialize_with = "milliseconds")]
    pub backoff: Duration,
    /// For a circuit.
    #[serde(rename = "circuit_ms", serialize_with = "milliseconds")]
    pub circuit: Duration,
}

/// What a reply has used. See [`RequestRecord::usage`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct UsageRecord {
    /// How the counts came to be known.
    pub quality: UsageQuality,
    /// The counts. What nobody knows is absent, and is not zero.
    #[serde(flatten)]
    pub tokens: Usage,
    /// What the reply costs, in billionths of a US dollar; absent where a price or a count is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_nanodollars: Option<u64>,
}

impl UsageRecord {
    /// What two attempts of one request have used together. What one of them does not tell is what the other tells;
    /// what both cost is known only where each does.
    pub(crate) fn and(&self, other: &Self) -> Self {
        let sum = |count: fn(&Usage) -> Option<u64>| match (count(&self.tokens), count(&other.tokens)) {
            (Some(one), Some(two)) => Some(one.saturating_add(two)),
            (one, two) => one.or(two),
        };
        let (one, two) = (self.cost_nanodollars, other.cost_nanodollars);
        Self {
            quality: self.quality.max(other.quality),
            tokens: Usage {
                input: sum(|tokens| tokens.input),
                cache_read: sum(|tokens| tokens.cache_read),
                cache_write: sum(|tokens| tokens.cache_write),
                cache_write_5m: sum(|tokens| tokens.cache_write_5m),
                cache_write_1h: sum(|tokens| tokens.cache_write_1h),
                output: sum(|tokens| tokens.output),
                reasoning: sum(|tokens| tokens.reasoning),
            },
            cost_nanodollars: one.zip(two).map(|(one, two)| one.saturating_add(two)),
        }
    }
}

/// See [`RequestRecord::cache_break`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CacheBreakRecord {
    /// What most likely broke the cache.
    pub reason: CacheBreakReason,
    /// How many tokens were paid for anew.
    pub lost_tokens: u64,
    /// What they cost above the price of a read, in billionths of a US dollar; absent if no price is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_nanodollars: Option<u64>,
}

/// One physical attempt. See [`RequestRecord::attempts`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AttemptRecord {
    /// Its number within the request, from 1.
    pub number: u32,
    /// Who was asked, as `provider/model`.
    pub candidate: Arc<str>,
    /// Its span, where the request is in a trace: the one that the provider was told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub span_id: Option<SpanId>,
    /// From the request to the beginning of the attempt; see [`RequestRecord::after`].
    #[serde(rename = "started_after_ms", serialize_with = "milliseconds")]
    pub started_after: Duration,
    /// From the beginning of the attempt to its first output; absent if there was none.
    #[serde(
        rename = "first_output_ms",
        skip_serializing_if = "Option::is_none",
        serialize_with = "optional_milliseconds"
    )]
    pub first_output: Option<Duration>,
    /// From the beginning of the attempt to its end.
    #[serde(rename = "duration_ms", skip_serializing_if = "Option::is_none", serialize_with = "optional_milliseconds")]
    pub duration: Option<Duration>,
    /// What came of it.
    pub outcome: AttemptOutcome,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureKind>,
    /// How far it had come when it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_in: Option<Phase>,
    /// The provider's status, where it failed with one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_code: Option<u16>,
}

/// See [`AttemptRecord::outcome`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AttemptOutcome {
    /// Its reply is the request's.
    Answered,
    /// It failed.
    Failed,
    /// It was given up before it came to anything: the caller left, or a limit outside of it was reached.
    Abandoned,
}

impl AttemptOutcome {
    /// The name used in records and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Failed => "failed",
            Self::Abandoned => "abandoned",
        }
    }
}

/// How a request came to its end.
pub(crate) enum End<'a> {
    /// The body ended.
    Over(Option<&'a StreamRecord>),
    /// There was no reply, or its body broke off.
    Failed(&'a Failure),
    /// Whoever asked has gone.
    Dropped(Option<&'a StreamRecord>),
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

pub(crate) fn milliseconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

#[expect(clippy::ref_option, reason = "the signature that serde calls")]
pub(crate) fn optional_milliseconds<S: Serializer>(
    duration: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    milliseconds(&duration.unwrap_or_default(), serializer)
}

/// RFC 3339, in UTC, to the millisecond.
pub(crate) fn time<S: Serializer>(at: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    // What lies before the epoch cannot be shown by the formatter.
    let at = (*at).max(SystemTime::UNIX_EPOCH);
    serializer.collect_str(&humantime::format_rfc3339_millis(at))
}
