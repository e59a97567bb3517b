use std::{error::Error, fmt};

use stanchion_core::{Failure, FailureKind, Family, Phase};
use stanchion_wire::request::BadTarget;

/// Why a request cannot be made: the source of a [`FailureKind::Misconfigured`] failure. `Display` names the problem
/// and holds no secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unsendable {
    /// The request's extensions hold no [`Selected`](stanchion_core::Selected).
    NoCandidate,
    /// The request's extensions hold no [`Call`](stanchion_core::Call).
    NoCall,
    /// The candidate does not speak what the client speaks.
    Family {
        /// What the candidate speaks.
        candidate: Family,
        /// What the client speaks.
        call: Family,
    },
    /// The candidate's credential holds what no header may hold, such as a line break.
    Credential,
    /// The candidate's API version holds what no header may hold.
    ApiVersion,
    /// There is no URI for the call.
    Target(BadTarget),
}

impl fmt::Display for Unsendable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCandidate => {
                f.write_str("the request's extensions hold no `Selected`: no layer has chosen a candidate")
            }
            Self::NoCall => {
                f.write_str("the request's extensions hold no `Call`: no layer has read the client's request")
            }
            Self::Family { candidate, call } => {
                write!(
                    f,
                    "the candidate speaks {candidate}, and the client speaks {call}: nothing translates between them"
                )
            }
            Self::Credential => f.write_str("the credential is no valid header value: does it end in a line break?"),
            Self::ApiVersion => f.write_str("the API version is no valid header value"),
            Self::Target(problem) => problem.fmt(f),
        }
    }
}

impl Error for Unsendable {}

impl From<BadTarget> for Unsendable {
    fn from(problem: BadTarget) -> Self {
        Self::Target(problem)
    }
}

impl From<Unsendable> for Failure {
    fn from(problem: Unsendable) -> Self {
        let failure = match problem {
            // Of all that can be wrong, this comes from the client.
            Unsendable::Target(BadTarget::ModelName) => {
                Self::new(FailureKind::InvalidRequest).with_message(problem.to_string())
            }
            _ => Self::new(FailureKind::Misconfigured),
        };
        failure.with_phase(Phase::Connect).with_source(problem)
    }
}
