use std::{sync::Arc, time::Duration};

use serde::{Serialize, Serializer};

use crate::{FailureKind, Phase, RetryReason};

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
    /// A provider has shown no progress for a while, or goes on after that.
    ProviderStall(ProviderStall),
    /// Another candidate takes over.
    ModelFallback(FallbackEvent),
    /// A frame of a stream was broken or beyond a limit.
    StreamFrame(FrameEvent),
    /// A reply outgrew what may be held back before its first output, and was let go.
    CommitHold(HoldEvent),
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
    /// The number of the retry, from 1; 0 if none was made.
    pub attempt: u32,
    /// How many retries the policy allows.
    pub max_retries: u32,
    /// Why a retry is made.
    pub reason: RetryReason,
    /// The provider's status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_code: Option<u16>,
    /// How long the retry is put off; with `scheduled` only.
    #[serde(rename = "delay_ms", skip_serializing_if = "Option::is_none", serialize_with = "optional_milliseconds")]
    pub delay: Option<Duration>,
}

/// See [`ProviderRetry::phase`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RetryPhase {
    /// A retry will be made after a delay.
    Scheduled,
    /// The retry is being made.
    Attempt,
    /// The first real output came after a retry.
    Recovered,
    /// No further retry will be made.
    Exhausted,
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

fn milliseconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

#[expect(clippy::ref_option, reason = "the signature that serde calls")]
fn optional_milliseconds<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    milliseconds(&duration.unwrap_or_default(), serializer)
}

impl Event {
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
                reason = ?event.reason, status = event.status_code, delay_ms = event.delay.map(|delay| delay.as_millis() as u64), "provider_retry"
            ),
            Self::ProviderStall(event) => tracing::info!(
                target: "stanchion",
                phase = ?event.phase, candidate = event.candidate.as_deref(), stall_count = event.stall_count,
                duration_ms = event.duration.as_millis() as u64, output_started = event.output_started, "provider_stall"
            ),
            Self::ModelFallback(event) => {
                tracing::info!(target: "stanchion", from = %event.from, to = %event.to, "model_fallback");
            }
            Self::StreamFrame(event) => {
                tracing::warn!(target: "stanchion", fault = ?event.fault, bytes = event.bytes, "stream_frame");
            }
            Self::CommitHold(event) => tracing::warn!(target: "stanchion", bytes = event.bytes, "commit_hold"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_serialise_flat_with_whole_milliseconds() {
        let event = Event::ProviderRetry(ProviderRetry {
            phase: RetryPhase::Scheduled,
            candidate: Some("primary/gpt-x".into()),
            attempt: 1,
            max_retries: 2,
            reason: RetryReason::ServerError,
            status_code: Some(503),
            delay: Some(Duration::from_millis(500)),
        });
        assert_eq!(
            serde_json::to_string(&event).unwrap(),
            r#"{"type":"provider_retry","phase":"scheduled","candidate":"primary/gpt-x","attempt":1,"max_retries":2,"reason":"server_error","status_code":503,"delay_ms":500}"#
        );
    }
}
