use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Serialize, Serializer};

use crate::{
    CredentialRotation, FailureKind, Phase, PromptCacheBreak, PromptCacheVolatile, RecoveryMode, RequestClass,
    RetryReason, Usage, UsageQuality,
};

/// What an operator or a user interface may want to see as it happens.
///
/// Events are transient control data: never part of a reply, and they hold no prompt, output, tool name, credential or identity.
/// Durations serialise as whole milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// A physical attempt began, failed, or came to its first output.
    ProviderAttempt(ProviderAttempt),
    /// The life of a retry.
    ProviderRetry(ProviderRetry),
    /// What a circuit does, or does to a request.
    ProviderCircuit(ProviderCircuit),
    /// A request queues for its turn, gets it, or is turned away.
    ProviderAdmission(ProviderAdmission),
    /// A provider has shown no progress for a while, or goes on after that.
    ProviderStall(ProviderStall),
    /// Another candidate takes over.
    ModelFallback(FallbackEvent),
    /// A provider's credential comes into service, or goes out of it. Not told of every choice among those that are in.
    CredentialRotation(CredentialRotation),
    /// A frame of a stream was broken or beyond a limit.
    StreamFrame(FrameEvent),
    /// A reply outgrew what may be held back before its first output, and was let go.
    CommitHold(HoldEvent),
    /// A session's reply read much less from the prompt cache than the one before it.
    PromptCacheBreak(Box<PromptCacheBreak>),
    /// A session's system prompt is another on every call, so that no prompt cache can help. Told once a session.
    PromptCacheVolatile(PromptCacheVolatile),
    /// What a reply has used, and what it costs; told once for each reply, when it ends in whatever way, and before that
    /// for each attempt that was thrown away and is paid for all the same.
    Usage(UsageEvent),
}

/// See [`Event::ProviderAttempt`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProviderAttempt {
    /// What happened.
    pub phase: AttemptPhase,
    /// `provider/model`.
    pub candidate: Arc<str>,
    /// The number of the attempt within the logical request, from 1.
    pub attempt: u32,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureKind>,
    /// How far it had come when it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_in: Option<Phase>,
    /// The provider's status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_code: Option<u16>,
    /// Time since the attempt began.
    #[serde(rename = "elapsed_ms", serialize_with = "milliseconds")]
    pub elapsed: Duration,
}

/// See [`ProviderAttempt::phase`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AttemptPhase {
    /// The request is about to be sent.
    Started,
    /// The first real output is at hand: from here on nothing is replayed.
    Committed,
    /// The attempt failed.
    Failed,
}

/// See [`Event::ProviderRetry`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProviderRetry {
    /// What happened.
    pub phase: RetryPhase,
    /// `provider/model`, where a candidate is selected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidate: Option<Arc<str>>,
    /// The number of the retry, from 1; 0 if none was made. Where candidates share a budget of attempts, the number of
    /// the attempt after the first, over all of them.
    pub attempt: u32,
    /// How many retries the policy allows.
    pub max_retries: u32,
    /// Why a retry is made.
    pub reason: RetryReason,
    /// The provider's status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_code: Option<u16>,
    /// How long the retry is put off, from when it was scheduled; with `scheduled` and `waiting` only.
    #[serde(rename = "delay_ms", skip_serializing_if = "Option::is_none", serialize_with = "optional_milliseconds")]
    pub delay: Option<Duration>,
    /// When the retry will be made, as milliseconds of the epoch; with `scheduled` and `waiting` only.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "optional_epoch_milliseconds")]
    pub next_retry_at: Option<SystemTime>,
    /// How the request recovers.
    pub mode: RecoveryMode,
    /// The state of the recovery budget; in bounded foreground only.
    #[serde(flatten)]
    pub recovery: Option<RecoverySnapshot>,
    /// What ended the retries, where a limit did; with `exhausted` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exhausted_by: Option<ExhaustedBy>,
    /// How often the caller's own client library says that it has retried this request before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_retries: Option<u32>,
}

impl ProviderRetry {
    /// An event with nothing else known.
    pub const fn new(phase: RetryPhase, reason: RetryReason) -> Self {
        Self {
            phase,
            candidate: None,
            attempt: 0,
            max_retries: 0,
            reason,
            status_code: None,
            delay: None,
            next_retry_at: None,
            mode: RecoveryMode::Standard,
            recovery: None,
            exhausted_by: None,
            client_retries: None,
        }
    }
}

/// See [`ProviderRetry::phase`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RetryPhase {
    /// A retry will be made after a delay.
    Scheduled,
    /// The delay goes on; told every 15 s.
    Waiting,
    /// The retry is being made.
    Attempt,
    /// The first real output came after a retry.
    Recovered,
    /// No further retry will be made.
    Exhausted,
}

/// What ended the retries. See [`ProviderRetry::exhausted_by`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ExhaustedBy {
    /// As many attempts were made as the request may have. Told in bounded foreground only, by the last candidate or
    /// where the attempts that all share are used up.
    AttemptLimit,
    /// The time for recovery is spent.
    RecoveryBudget,
    /// Too many requests to the same provider were retried lately: another retry would add to its load.
    RetryBudget,
}

/// The state of a recovery budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RecoverySnapshot {
    /// The whole budget.
    #[serde(rename = "recovery_budget_ms", serialize_with = "milliseconds")]
    pub budget: Duration,
    /// What is spent of it; nothing before its clock has started.
    #[serde(rename = "recovery_elapsed_ms", serialize_with = "milliseconds")]
    pub elapsed: Duration,
    /// What is left of it.
    #[serde(rename = "recovery_remaining_ms", serialize_with = "milliseconds")]
    pub remaining: Duration,
}

/// See [`Event::ProviderCircuit`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProviderCircuit {
    /// What happened.
    pub phase: CircuitPhase,
    /// `provider/model`, where a candidate is selected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidate: Option<Arc<str>>,
    /// Why the circuit opened.
    pub reason: RetryReason,
    /// The status of the failure that opened it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_code: Option<u16>,
    /// How long until the next probe; not with `probe` and `closed`.
    #[serde(
        rename = "retry_after_ms",
        skip_serializing_if = "Option::is_none",
        serialize_with = "optional_milliseconds"
    )]
    pub retry_after: Option<Duration>,
    /// When the next probe may be made, as milliseconds of the epoch; not with `probe` and `closed`.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "optional_epoch_milliseconds")]
    pub next_probe_at: Option<SystemTime>,
    /// For how long the circuit opens.
    #[serde(rename = "open_duration_ms", serialize_with = "milliseconds")]
    pub open_duration: Duration,
    /// The samples in its window.
    pub sample_count: u32,
    /// Those of them that failed.
    pub failure_count: u32,
    /// What is left of the recovery budget; in bounded foreground only.
    #[serde(
        rename = "recovery_remaining_ms",
        skip_serializing_if = "Option::is_none",
        serialize_with = "optional_milliseconds"
    )]
    pub recovery_remaining: Option<Duration>,
}

/// See [`ProviderCircuit::phase`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CircuitPhase {
    /// A failure opened the circuit.
    Opened,
    /// A request waits for the circuit; told every 15 s.
    Waiting,
    /// A request is let through to see whether the provider works again.
    Probe,
    /// The probe succeeded.
    Closed,
    /// The probe failed.
    Reopened,
    /// A request was turned away.
    Rejected,
}

/// See [`Event::ProviderAdmission`]. Tells counts of requests; never bytes, and never whose they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProviderAdmission {
    /// What happened.
    pub phase: AdmissionPhase,
    /// `provider/model`, where a candidate is selected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidate: Option<Arc<str>>,
    /// Who waits.
    pub request_class: RequestClass,
    /// What there was not enough of.
    pub resource: AdmissionResource,
    /// Whose limit it is.
    pub scope: AdmissionScope,
    /// Why the request queues or was turned away; not with `admitted`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<AdmissionReason>,
    /// The request's place, from 1, among those that wait in this scope; 0 if it does not wait.
    pub queue_position: u64,
    /// How many requests wait, in all scopes.
    pub queue_depth: u64,
    /// How many are in flight in this scope. Where as many wait as may wait, how many wait. With `admitted`, how many
    /// are in flight in all scopes.
    pub in_flight: u64,
    /// How many may be; [`UNLIMITED`](Self::UNLIMITED) if there is no limit.
    pub limit: u64,
    /// How long the request has waited.
    #[serde(rename = "wait_ms", serialize_with = "milliseconds")]
    pub wait: Duration,
    /// How long it may wait: its limit, or what is left of a recovery budget that runs, if that is less.
    #[serde(rename = "max_wait_ms", serialize_with = "milliseconds")]
    pub max_wait: Duration,
    /// What is left of the recovery budget; in bounded foreground only.
    #[serde(
        rename = "recovery_remaining_ms",
        skip_serializing_if = "Option::is_none",
        serialize_with = "optional_milliseconds"
    )]
    pub recovery_remaining: Option<Duration>,
}

impl ProviderAdmission {
    /// What [`limit`](Self::limit) is where there is none: the largest number that every reader of JSON keeps exact.
    pub const UNLIMITED: u64 = (1 << 53) - 1;
}

/// See [`ProviderAdmission::phase`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AdmissionPhase {
    /// The request waits; told again every 15 s.
    Queued,
    /// A request that has waited goes on.
    Admitted,
    /// The request was turned away.
    Rejected,
}

/// See [`ProviderAdmission::resource`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AdmissionResource {
    /// Requests in flight.
    Stream,
    /// Requests that wait.
    PendingCount,
    /// The memory of requests that wait.
    PendingBytes,
}

/// See [`ProviderAdmission::scope`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AdmissionScope {
    /// All requests together.
    Global,
    /// Those of one failure domain.
    Domain,
    /// Those of one owner.
    Owner,
    /// Those of one class, in whichever scope.
    Class,
}

/// See [`ProviderAdmission::reason`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AdmissionReason {
    /// All permits are in use.
    Capacity,
    /// As much waits as may wait.
    QueueFull,
    /// The request has waited for as long as it may.
    WaitTimeout,
    /// No more requests are let in.
    Closed,
}

/// See [`Event::ProviderStall`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProviderStall {
    /// What happened.
    pub phase: StallPhase,
    /// `provider/model`, where a candidate is selected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidate: Option<Arc<str>>,
    /// The number of the stall within the attempt, from 1.
    pub stall_count: u32,
    /// How long there was no progress.
    #[serde(rename = "duration_ms", serialize_with = "milliseconds")]
    pub duration: Duration,
    /// After how long a stall is told.
    #[serde(rename = "warning_after_ms", serialize_with = "milliseconds")]
    pub warning_after: Duration,
    /// After how long without progress the attempt ends; absent where nothing ends it.
    #[serde(rename = "timeout_ms", skip_serializing_if = "Option::is_none", serialize_with = "optional_milliseconds")]
    pub timeout: Option<Duration>,
    /// Whether output had begun.
    pub output_started: bool,
}

/// See [`ProviderStall::phase`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StallPhase {
    /// There has been no progress for as long as the warning says.
    Detected,
    /// Progress came after all.
    Recovered,
}

/// See [`Event::ModelFallback`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FallbackEvent {
    /// The candidate that failed, as `provider/model`.
    pub from: Arc<str>,
    /// The candidate that takes over.
    pub to: Arc<str>,
}

/// See [`Event::StreamFrame`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FrameEvent {
    /// What is wrong with the frame.
    pub fault: FrameFault,
    /// Its size, in bytes.
    pub bytes: u64,
}

/// See [`FrameEvent::fault`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FrameFault {
    /// It claims to be JSON and is cut short; it was dropped.
    MalformedDropped,
    /// It claims to be JSON and is cut short; it was passed on.
    MalformedPassed,
    /// It is larger than the ceiling for one event.
    TooLarge,
}

/// See [`Event::CommitHold`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HoldEvent {
    /// How many bytes were held back.
    pub bytes: u64,
}

/// See [`Event::Usage`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UsageEvent {
    /// The candidate that answered, as `provider/model`, where one was selected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidate: Option<Arc<str>>,
    /// The model that the provider was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Arc<str>>,
    /// Who waited.
    pub request_class: RequestClass,
    /// How the counts came to be known.
    pub quality: UsageQuality,
    /// The counts. What nobody knows is absent, and is not zero.
    pub tokens: Usage,
    /// What the reply costs, in billionths of a US dollar, rounded; absent where a price or a count is not known. An
    /// estimate, if the counts are one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_nanodollars: Option<u64>,
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

#[expect(clippy::ref_option, reason = "the signature that serde calls")]
fn optional_epoch_milliseconds<S: Serializer>(at: &Option<SystemTime>, serializer: S) -> Result<S::Ok, S::Error> {
    milliseconds(&at.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default(), serializer)
}

/// What the wall clock will show after `delay`, for people to read: no decision is made by it.
pub(crate) fn wall_clock_after(delay: Duration) -> SystemTime {
    let now = SystemTime::now();
    now.checked_add(delay).unwrap_or(now)
}

impl Event {
    /// The name of the event, as it is serialised.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::ProviderAttempt(_) => "provider_attempt",
            Self::ProviderRetry(_) => "provider_retry",
            Self::ProviderCircuit(_) => "provider_circuit",
            Self::ProviderAdmission(_) => "provider_admission",
            Self::ProviderStall(_) => "provider_stall",
            Self::ModelFallback(_) => "model_fallback",
            Self::CredentialRotation(_) => "credential_rotation",
            Self::StreamFrame(_) => "stream_frame",
            Self::CommitHold(_) => "commit_hold",
            Self::PromptCacheBreak(_) => "prompt_cache_break",
            Self::PromptCacheVolatile(_) => "prompt_cache_volatile",
            Self::Usage(_) => "usage",
        }
    }

    /// Writes the event to `tracing`, under the target `stanchion`.
    #[cfg(feature = "tracing")]
    pub(crate) fn trace(&self) {
        match self {
            Self::ProviderAttempt(event) => tracing::info!(
                target: "stanchion",
                phase = ?event.phase, candidate = %event.candidate, attempt = event.attempt, failure = ?event.failure, status = event.status_code,
                elapsed_ms = event.elapsed.as_millis() as u64, "provider_attempt"
            ),
            Self::ProviderRetry(event) => tracing::info!(
                target: "stanchion",
                phase = ?event.phase, candidate = event.candidate.as_deref(), attempt = event.attempt, max_retries = event.max_retries,
                reason = ?event.reason, status = event.status_code, delay_ms = event.delay.map(|delay| delay.as_millis() as u64),
                exhausted_by = event.exhausted_by.map(tracing::field::debug), client_retries = event.client_retries, "provider_retry"
            ),
            Self::ProviderCircuit(event) => tracing::info!(
                target: "stanchion",
                phase = ?event.phase, candidate = event.candidate.as_deref(), reason = ?event.reason, status = event.status_code,
                retry_after_ms = event.retry_after.map(|wait| wait.as_millis() as u64), samples = event.sample_count,
                failures = event.failure_count, "provider_circuit"
            ),
            Self::ProviderAdmission(event) => tracing::info!(
                target: "stanchion",
                phase = ?event.phase, candidate = event.candidate.as_deref(), class = event.request_class.as_str(), resource = ?event.resource,
                scope = ?event.scope, reason = event.reason.map(tracing::field::debug), position = event.queue_position,
                depth = event.queue_depth, in_flight = event.in_flight, limit = event.limit, wait_ms = event.wait.as_millis() as u64,
                "provider_admission"
            ),
            Self::ProviderStall(event) => tracing::info!(
                target: "stanchion",
                phase = ?event.phase, candidate = event.candidate.as_deref(), stall_count = event.stall_count,
                duration_ms = event.duration.as_millis() as u64, output_started = event.output_started, "provider_stall"
            ),
            Self::ModelFallback(event) => {
                tracing::info!(target: "stanchion", from = %event.from, to = %event.to, "model_fallback");
            }
            Self::CredentialRotation(event) => tracing::info!(
                target: "stanchion",
                reason = event.reason.as_str(), provider = %event.provider, candidate = event.candidate.as_deref(),
                credential_id = %event.credential_id, strategy = event.strategy.as_str(),
                cooldown_ms = event.cooldown.map(|cooldown| cooldown.as_millis() as u64), ready = event.ready_count, "credential_rotation"
            ),
            Self::StreamFrame(event) => {
                tracing::warn!(target: "stanchion", fault = ?event.fault, bytes = event.bytes, "stream_frame");
            }
            Self::CommitHold(event) => tracing::warn!(target: "stanchion", bytes = event.bytes, "commit_hold"),
            Self::PromptCacheBreak(event) => tracing::warn!(
                target: "stanchion",
                reason = event.reason.as_str(), candidate = event.candidate.as_deref(), call_number = event.call_number,
                previous_cache_read_tokens = event.previous_cache_read_tokens, cache_read_tokens = event.cache_read_tokens,
                cache_write_tokens = event.cache_write_tokens, lost_tokens = event.lost_tokens,
                lost_nanodollars = event.lost_nanodollars, elapsed_ms = event.elapsed.as_millis() as u64,
                first_changed_message = event.first_changed_message, message_count = event.message_count,
                volatile_prefix = event.volatile_prefix, "prompt_cache_break"
            ),
            Self::PromptCacheVolatile(event) => tracing::warn!(
                target: "stanchion",
                candidate = event.candidate.as_deref(), call_number = event.call_number, change_count = event.change_count,
                system_char_delta = event.system_char_delta, "prompt_cache_volatile"
            ),
            Self::Usage(event) => tracing::info!(
                target: "stanchion",
                candidate = event.candidate.as_deref(), class = event.request_class.as_str(), quality = event.quality.as_str(),
                input = event.tokens.input, cache_read = event.tokens.cache_read, cache_write = event.tokens.cache_write,
                output = event.tokens.output, reasoning = event.tokens.reasoning, cost_nanodollars = event.cost_nanodollars, "usage"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CredentialStrategy, RotationReason};

    #[test]
    fn events_serialise_flat_with_whole_milliseconds() {
        let retry = ProviderRetry {
            candidate: Some("primary/gpt-x".into()),
            attempt: 1,
            max_retries: 2,
            status_code: Some(503),
            delay: Some(Duration::from_millis(500)),
            ..ProviderRetry::new(RetryPhase::Scheduled, RetryReason::ServerError)
        };
        assert_eq!(
            serde_json::to_string(&Event::ProviderRetry(retry.clone())).unwrap(),
            r#"{"type":"provider_retry","phase":"scheduled","candidate":"primary/gpt-x","attempt":1,"max_retries":2,"reason":"server_error","status_code":503,"delay_ms":500,"mode":"standard"}"#
        );
        let exhausted = ProviderRetry {
            phase: RetryPhase::Exhausted,
            candidate: None,
            delay: None,
            mode: RecoveryMode::BoundedForeground,
            recovery: Some(RecoverySnapshot {
                budget: Duration::from_secs(30),
                elapsed: Duration::from_secs(30),
                remaining: Duration::ZERO,
            }),
            exhausted_by: Some(ExhaustedBy::RecoveryBudget),
            ..retry
        };
        assert_eq!(
            serde_json::to_string(&Event::ProviderRetry(exhausted.clone())).unwrap(),
            r#"{"type":"provider_retry","phase":"exhausted","attempt":1,"max_retries":2,"reason":"server_error","status_code":503,"mode":"bounded_foreground","recovery_budget_ms":30000,"recovery_elapsed_ms":30000,"recovery_remaining_ms":0,"exhausted_by":"recovery_budget"}"#
        );
        let at = UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
        let circuit = Event::ProviderCircuit(ProviderCircuit {
            phase: CircuitPhase::Opened,
            candidate: Some("a/x".into()),
            reason: RetryReason::RateLimit,
            status_code: None,
            retry_after: Some(Duration::from_secs(10)),
            next_probe_at: Some(at),
            open_duration: Duration::from_secs(10),
            sample_count: 4,
            failure_count: 4,
            recovery_remaining: None,
        });
        assert_eq!(
            serde_json::to_string(&circuit).unwrap(),
            r#"{"type":"provider_circuit","phase":"opened","candidate":"a/x","reason":"rate_limit","retry_after_ms":10000,"next_probe_at":1700000000123,"open_duration_ms":10000,"sample_count":4,"failure_count":4}"#
        );
        let admission = Event::ProviderAdmission(ProviderAdmission {
            phase: AdmissionPhase::Queued,
            candidate: Some("a/x".into()),
            request_class: RequestClass::Background,
            resource: AdmissionResource::Stream,
            scope: AdmissionScope::Owner,
            reason: Some(AdmissionReason::Capacity),
            queue_position: 1,
            queue_depth: 3,
            in_flight: 2,
            limit: 2,
            wait: Duration::ZERO,
            max_wait: Duration::from_secs(180),
            recovery_remaining: None,
        });
        assert_eq!(
            serde_json::to_string(&admission).unwrap(),
            r#"{"type":"provider_admission","phase":"queued","candidate":"a/x","request_class":"background","resource":"stream","scope":"owner","reason":"capacity","queue_position":1,"queue_depth":3,"in_flight":2,"limit":2,"wait_ms":0,"max_wait_ms":180000}"#
        );
        let fallback = Event::ModelFallback(FallbackEvent { from: "a".into(), to: "b".into() });
        let rotation = Event::CredentialRotation(CredentialRotation {
            reason: RotationReason::RateLimitCooldown,
            provider: "a".into(),
            candidate: Some("a/x".into()),
            credential_id: "A_KEY_1".into(),
            strategy: CredentialStrategy::RoundRobin,
            cooldown: Some(Duration::from_secs(20)),
            ready_count: 1,
        });
        assert_eq!(
            serde_json::to_string(&rotation).unwrap(),
            r#"{"type":"credential_rotation","reason":"rate_limit_cooldown","provider":"a","candidate":"a/x","credential_id":"A_KEY_1","strategy":"round_robin","cooldown_ms":20000,"ready_count":1}"#
        );
        let frame = Event::StreamFrame(FrameEvent { fault: FrameFault::TooLarge, bytes: 1 });
        let hold = Event::CommitHold(HoldEvent { bytes: 1 });
        let usage = Event::Usage(UsageEvent {
            candidate: Some("a/x".into()),
            model: Some("x".into()),
            request_class: RequestClass::Foreground,
            quality: UsageQuality::Measured,
            tokens: Usage { input: Some(10), cache_read: Some(0), output: Some(2), ..Usage::default() },
            cost_nanodollars: Some(60_000),
        });
        assert_eq!(
            serde_json::to_string(&usage).unwrap(),
            r#"{"type":"usage","candidate":"a/x","model":"x","request_class":"foreground","quality":"measured","tokens":{"input":10,"cache_read":0,"output":2},"cost_nanodollars":60000}"#
        );
        for event in [Event::ProviderRetry(exhausted), rotation, circuit, admission, fallback, frame, hold, usage] {
            let told = serde_json::to_value(&event).unwrap();
            assert_eq!(told["type"], event.name());
        }
    }
}
