//! What must come of a scenario.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::script::header_fields;
use super::{Count, Told, amount, duration};
use crate::outcome::Outcome;

/// What must come of a scenario. What is not told is not judged, save the outcome.
///
/// A later request may have expectations of its own, of what its client saw: from `outcome` to `not_told`, `within` and
/// `at_least`. The others are about the scenario as a whole.
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
    /// The longest until the status and the header fields are there.
    #[serde(deserialize_with = "duration::optional")]
    pub status_within: Option<Duration>,
    /// Header fields of the reply, with their values.
    #[serde(deserialize_with = "header_fields")]
    pub headers: BTreeMap<String, String>,
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
    /// The body has all of these, each one after the one before.
    #[serde(deserialize_with = "amount::one_or_more")]
    pub body_contains: Vec<String>,
    /// The body has none of these.
    #[serde(deserialize_with = "amount::one_or_more")]
    pub body_lacks: Vec<String>,
    /// The control events that the client was told, each one after the one before; others may stand between them.
    pub told: Vec<Told>,
    /// The names of control events of which the client was told none.
    #[serde(deserialize_with = "amount::one_or_more")]
    pub not_told: Vec<String>,
    /// How many requests reached each candidate.
    pub attempts: BTreeMap<String, Count>,
    /// The shortest time between the first two requests to a candidate, or, as a list, between each and the next.
    #[serde(deserialize_with = "duration::lists_by_name")]
    pub gap_at_least: BTreeMap<String, Vec<Duration>>,
    /// What a candidate's requests are, from the first on.
    pub requests: BTreeMap<String, Vec<Received>>,
    /// The longest that the whole may take.
    #[serde(deserialize_with = "duration::optional")]
    pub within: Option<Duration>,
    /// The shortest that the whole may take.
    #[serde(deserialize_with = "duration::optional")]
    pub at_least: Option<Duration>,
    /// The bytes of the serving candidate's last script arrived unchanged.
    pub verbatim: bool,
    /// The same, apart from what is the gateway's own: comments `: waiting` before the reply, and events whose names begin
    /// with `stanchion.`, where an event of the reply has ended.
    pub verbatim_but_ours: bool,
    /// The candidate that `verbatim` and `verbatim_but_ours` are about (`a`).
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

/// What a request that reached a candidate is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Received {
    /// Its body has all of these.
    #[serde(deserialize_with = "amount::one_or_more")]
    pub contains: Vec<String>,
    /// Its body has none of these.
    #[serde(deserialize_with = "amount::one_or_more")]
    pub lacks: Vec<String>,
    /// Its path, with the query, has all of these.
    #[serde(deserialize_with = "amount::one_or_more")]
    pub path: Vec<String>,
    /// Its header fields, with their values.
    #[serde(deserialize_with = "header_fields")]
    pub headers: BTreeMap<String, String>,
    /// The header fields that it has not.
    #[serde(deserialize_with = "amount::one_or_more")]
    pub headers_lack: Vec<String>,
}

impl Expect {
    /// Whether nothing is expected but of what one client saw.
    pub(super) fn is_of_one_reply(&self) -> bool {
        let Self { outcome, status, status_within, headers, text, text_prefix_of, reasoning, tool_args, .. } = self;
        let Self { finish, error_contains, body_contains, body_lacks, told, not_told, within, at_least, .. } = self;
        let of_one_reply = Self {
            outcome: outcome.clone(),
            status: status.clone(),
            status_within: *status_within,
            headers: headers.clone(),
            text: text.clone(),
            text_prefix_of: text_prefix_of.clone(),
            reasoning: reasoning.clone(),
            tool_args: tool_args.clone(),
            finish: finish.clone(),
            error_contains: error_contains.clone(),
            body_contains: body_contains.clone(),
            body_lacks: body_lacks.clone(),
            told: told.clone(),
            not_told: not_told.clone(),
            within: *within,
            at_least: *at_least,
            ..Self::default()
        };
        of_one_reply == *self
    }
}

impl Default for Expect {
    fn default() -> Self {
        Self {
            outcome: vec![Outcome::Complete],
            prefer: None,
            status: Vec::new(),
            status_within: None,
            headers: BTreeMap::new(),
            text: None,
            text_prefix_of: None,
            reasoning: None,
            tool_args: None,
            finish: None,
            error_contains: None,
            body_contains: Vec::new(),
            body_lacks: Vec::new(),
            told: Vec::new(),
            not_told: Vec::new(),
            attempts: BTreeMap::new(),
            gap_at_least: BTreeMap::new(),
            requests: BTreeMap::new(),
            within: None,
            at_least: None,
            verbatim: false,
            verbatim_but_ours: false,
            served_by: "a".to_owned(),
            upstream_freed_within: None,
            freed: "a".to_owned(),
            peak_inflight_at_most: None,
            each: BTreeMap::new(),
        }
    }
}
