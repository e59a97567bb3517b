//! What must come of a scenario.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::{Count, amount, duration};
use crate::outcome::Outcome;

/// What must come of a scenario. What is not told is not judged, save the outcome.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Expect {
    /// What the client saw is one of these (`complete`).
    #[serde(deserialize_with = "amount::one_or_more")]
    pub outcome: Vec<Outcome>,
    /// The better of two accepted outcomes; reported apart.
    pub prefer: Option<Outcome>,
    /// The status is one of these; none means any.
    #[serde(deserialize_with = "amount::one_or_more")]
    pub status: Vec<u16>,
    /// The whole text.
    pub text: Option<String>,
    /// The text is a beginning of this.
    pub text_prefix_of: Option<String>,
    /// The whole reasoning.
    pub reasoning: Option<String>,
    /// The arguments of the first tool call, as they came.
    pub tool_args: Option<String>,
    /// The reason for which the reply finished.
    pub finish: Option<String>,
    /// The error, as JSON, contains this in any case of letters.
    pub error_contains: Option<String>,
    /// How many requests reached each candidate.
    pub attempts: BTreeMap<String, Count>,
    /// The shortest time between the first two requests to a candidate.
    #[serde(deserialize_with = "duration::by_name")]
    pub gap_at_least: BTreeMap<String, Duration>,
    /// The longest that the whole may take.
    #[serde(deserialize_with = "duration::optional")]
    pub within: Option<Duration>,
    /// The shortest that the whole may take.
    #[serde(deserialize_with = "duration::optional")]
    pub at_least: Option<Duration>,
    /// The bytes of the serving candidate's last script arrived unchanged.
    pub verbatim: bool,
    /// The candidate that `verbatim` is about (`a`).
    pub served_by: String,
    /// How soon after the client's end the provider's connection was closed.
    #[serde(deserialize_with = "duration::optional")]
    pub upstream_freed_within: Option<Duration>,
    /// The candidate that `upstream_freed_within` is about (`a`).
    pub freed: String,
    /// The most exchanges that were open at once.
    pub peak_inflight_at_most: Option<usize>,
    /// Of many clients, how many ended how.
    pub each: BTreeMap<Outcome, Count>,
}

impl Default for Expect {
    fn default() -> Self {
        Self {
            outcome: vec![Outcome::Complete],
            prefer: None,
            status: Vec::new(),
            text: None,
            text_prefix_of: None,
            reasoning: None,
            tool_args: None,
            finish: None,
            error_contains: None,
            attempts: BTreeMap::new(),
            gap_at_least: BTreeMap::new(),
            within: None,
            at_least: None,
            verbatim: false,
            served_by: "a".to_owned(),
            upstream_freed_within: None,
            freed: "a".to_owned(),
            peak_inflight_at_most: None,
            each: BTreeMap::new(),
        }
    }
}
