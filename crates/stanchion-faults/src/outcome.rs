//! How a request ended, as its client saw it.

use std::fmt;

use serde::Deserialize;

/// How a request ended, as its client saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Status 200, the end marker and no error.
    Complete,
    /// An error status, or an error inside the stream.
    Error,
    /// The transport broke: the client knows that something is missing, and not why.
    Cut,
    /// A well-formed end without end marker and without error: half an answer that looks whole.
    Silent,
    /// The client left of its own accord, as its script says.
    GaveUp,
    /// The client's own limit passed.
    Timeout,
    /// Nothing listened.
    Refused,
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Complete => "complete",
            Self::Error => "error",
            Self::Cut => "cut",
            Self::Silent => "silent",
            Self::GaveUp => "gave-up",
            Self::Timeout => "timeout",
            Self::Refused => "refused",
        })
    }
}
