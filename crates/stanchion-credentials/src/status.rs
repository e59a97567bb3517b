use std::{sync::Arc, time::Duration};

use serde::{Serialize, Serializer};
use stanchion_core::CredentialStrategy;
use tokio::time::Instant;

use crate::rotation::{Out, Slot, Why};

/// One pool as it stands, for an operator. Serialises with durations as whole milliseconds, and without what is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PoolStatus {
    /// The provider.
    pub provider: Arc<str>,
    /// How the pool chooses.
    pub strategy: CredentialStrategy,
    /// How many credentials are in service.
    pub ready_count: u32,
    /// The credentials, in the order in which they were given.
    pub credentials: Vec<CredentialStatus>,
}

/// One credential as it stands. Holds its id and nothing else of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CredentialStatus {
    /// The id that the configuration gives it.
    pub id: Arc<str>,
    /// Whether it is in service, or why it is not.
    pub state: CredentialState,
    /// How long until it is back; absent where it is ready, and where only a hand puts it back.
    #[serde(rename = "back_in_ms", skip_serializing_if = "Option::is_none", serialize_with = "optional_milliseconds")]
    pub back_in: Option<Duration>,
    /// How many requests it has served.
    pub usage_count: u64,
    /// How many rate limits it has met.
    pub rate_limit_count: u64,
    /// How many requests use it now, up to the ends of their replies.
    pub in_flight: u32,
    /// How long ago it served last; absent if it has not.
    #[serde(
        rename = "last_used_ago_ms",
        skip_serializing_if = "Option::is_none",
        serialize_with = "optional_milliseconds"
    )]
    pub last_used_ago: Option<Duration>,
}

/// See [`CredentialStatus::state`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CredentialState {
    /// In service.
    Ready,
    /// In service, and used only where no other is: it may not do what was asked, or its circuit is open.
    PassedOver,
    /// Out, because its rate is limited.
    RateLimited,
    /// Out, because its account has no quota or money left.
    Exhausted,
    /// Out, because the provider does not take it.
    Refused,
    /// Taken out by hand.
    Parked,
}

impl CredentialStatus {
    pub(crate) fn of(id: Arc<str>, slot: &Slot, now: Instant) -> Self {
        let (state, until) = match (slot.out, slot.passed_over) {
            (Some(Out { why, until }), _) => (CredentialState::of(why), until),
            (None, Some((until, _))) => (CredentialState::PassedOver, Some(until)),
            (None, None) => (CredentialState::Ready, None),
        };
        Self {
            id,
            state,
            back_in: until.map(|until| until.saturating_duration_since(now)),
            usage_count: slot.usage,
            rate_limit_count: slot.rate_limits,
            in_flight: slot.in_flight,
            last_used_ago: slot.last_used.map(|at| now.saturating_duration_since(at)),
        }
    }
}

impl CredentialState {
    fn of(why: Why) -> Self {
        match why {
            Why::Limited => Self::RateLimited,
            Why::Exhausted => Self::Exhausted,
            Why::Refused => Self::Refused,
            Why::ByHand => Self::Parked,
        }
    }
}

#[expect(clippy::ref_option, reason = "the signature that serde calls")]
fn optional_milliseconds<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    let milliseconds = duration.unwrap_or_default().as_nanos().div_ceil(1_000_000);
    serializer.serialize_u64(u64::try_from(milliseconds).unwrap_or(u64::MAX))
}
