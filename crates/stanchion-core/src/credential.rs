use std::{fmt, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use crate::event::optional_milliseconds;

/// What a failure says about the credential that it was sent with. A column of the table,
/// [`Disposition`](crate::Disposition).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialOutcome {
    /// Nothing: it is about the request, the provider or the network.
    Untouched,
    /// This request is better sent with another. Others may go through with this one: it is not forbidden what they
    /// ask for, or its circuit will close.
    PassOver,
    /// Its rate is limited for now.
    Limited,
    /// Its account is out of quota or money.
    Exhausted,
    /// The provider does not take it.
    Refused,
}

/// How a provider's pool of credentials stands after a [`Failure`](crate::Failure), as far as it matters to whoever
/// would ask again. Set by the layer that has the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolState {
    /// The failure is that of one credential, and another is ready: see
    /// [`Failure::with_another_credential`](crate::Failure::with_another_credential).
    AnotherReady,
    /// None was ready, and the provider was not asked: see
    /// [`Failure::with_no_credential`](crate::Failure::with_no_credential).
    NoneReady,
}

/// How a pool chooses among the credentials that are ready. Default: one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CredentialStrategy {
    /// The first of the list, for as long as it is ready.
    FillFirst,
    /// One after the other.
    #[default]
    RoundRobin,
    /// Any.
    Random,
    /// The one that has served the fewest.
    LeastUsed,
}

impl CredentialStrategy {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::FillFirst, Self::RoundRobin, Self::Random, Self::LeastUsed];

    /// The name used in configuration and events.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FillFirst => "fill_first",
            Self::RoundRobin => "round_robin",
            Self::Random => "random",
            Self::LeastUsed => "least_used",
        }
    }
}

impl fmt::Display for CredentialStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why the credentials in service change. See [`CredentialRotation::reason`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RotationReason {
    /// The pool was asked for the first time, and chose this one.
    Initial,
    /// The provider limits its rate: it is out until the cooldown is over.
    RateLimitCooldown,
    /// The provider refused it: it is out.
    AuthFailure,
    /// Its account is out of quota or money: it is out.
    Quota,
    /// It was out, its time is over, and it is chosen again.
    Returned,
    /// It was taken out or put back by hand.
    Manual,
}

impl RotationReason {
    /// The name used in events.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Initial => "initial",
            Self::RateLimitCooldown => "rate_limit_cooldown",
            Self::AuthFailure => "auth_failure",
            Self::Quota => "quota",
            Self::Returned => "returned",
            Self::Manual => "manual",
        }
    }
}

/// See [`Event::CredentialRotation`](crate::Event::CredentialRotation). Names a credential by the id that the
/// configuration gives it, and tells nothing else of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CredentialRotation {
    /// Why.
    pub reason: RotationReason,
    /// The provider whose pool it is.
    pub provider: Arc<str>,
    /// For which candidate it was used, as `provider/model`; absent where a hand did it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidate: Option<Arc<str>>,
    /// The id of the credential that comes or goes.
    pub credential_id: Arc<str>,
    /// How the pool chooses.
    pub strategy: CredentialStrategy,
    /// For how long it is out; absent where it comes, and where no time is set.
    #[serde(rename = "cooldown_ms", skip_serializing_if = "Option::is_none", serialize_with = "optional_milliseconds")]
    pub cooldown: Option<Duration>,
    /// How many of the pool are in service now.
    pub ready_count: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_agree_with_serde() {
        use RotationReason::{AuthFailure, Initial, Manual, Quota, RateLimitCooldown, Returned};
        for strategy in CredentialStrategy::ALL {
            assert_eq!(serde_json::to_value(strategy).unwrap(), strategy.as_str());
            assert_eq!(strategy.to_string(), strategy.as_str());
        }
        for reason in [Initial, RateLimitCooldown, AuthFailure, Quota, Returned, Manual] {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
        }
    }
}
