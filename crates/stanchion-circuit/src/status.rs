use std::{sync::Arc, time::Duration};

use serde::{Serialize, Serializer};
use stanchion_core::RetryReason;
use tokio::time::Instant;

use crate::{
    entry::Entry,
    machine::{Phase, View},
};

/// One circuit as it stands, for an operator. Holds the candidate's name and nothing else of it.
///
/// Serialises with durations as whole milliseconds, and without what is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CircuitStatus {
    /// The candidate, as `provider/model`.
    pub candidate: Arc<str>,
    /// What it does just now.
    pub state: CircuitState,
    /// Whether it was opened by hand, and stays open until a hand closes it.
    pub by_hand: bool,
    /// The samples in its window.
    pub sample_count: u32,
    /// Those of them that failed.
    pub failure_count: u32,
    /// The failures since the last success.
    pub consecutive_failures: u32,
    /// How many requests wait for it.
    pub waiting: usize,
    /// How long until the next probe may be made; absent where it is closed or was opened by hand. While a probe is
    /// under way, a guess: its end decides.
    #[serde(
        rename = "next_probe_ms",
        skip_serializing_if = "Option::is_none",
        serialize_with = "optional_milliseconds"
    )]
    pub next_probe: Option<Duration>,
    /// For how long it opened; absent where it is closed.
    #[serde(
        rename = "open_duration_ms",
        skip_serializing_if = "Option::is_none",
        serialize_with = "optional_milliseconds"
    )]
    pub open_for: Option<Duration>,
    /// Why it opened; absent where it is closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<RetryReason>,
    /// The status of the failure that opened it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_code: Option<u16>,
}

/// See [`CircuitStatus::state`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CircuitState {
    /// Everyone is let through.
    Closed,
    /// Nobody is let through, unless the others of its model are open, too.
    Open,
    /// One request at a time is let through, to see whether the provider works again.
    HalfOpen,
}

impl CircuitStatus {
    pub(crate) fn of(entry: &Entry, now: Instant) -> Self {
        let (view, waiting) = entry.view(now);
        let View { phase, cause, wait, open_for, samples, failures, consecutive, by_hand } = view;
        let is_open = phase != Phase::Closed;
        Self {
            candidate: entry.name().clone(),
            state: match phase {
                Phase::Closed => CircuitState::Closed,
                Phase::Open => CircuitState::Open,
                Phase::HalfOpen => CircuitState::HalfOpen,
            },
            by_hand,
            sample_count: samples,
            failure_count: failures,
            consecutive_failures: consecutive,
            waiting,
            next_probe: (is_open && !by_hand).then_some(wait),
            open_for: is_open.then_some(open_for),
            reason: is_open.then_some(cause.reason),
            status_code: cause.status.filter(|_| is_open),
        }
    }
}

#[expect(clippy::ref_option, reason = "the signature that serde calls")]
fn optional_milliseconds<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    let milliseconds = duration.unwrap_or_default().as_nanos().div_ceil(1_000_000);
    serializer.serialize_u64(u64::try_from(milliseconds).unwrap_or(u64::MAX))
}
