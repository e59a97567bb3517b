//! What the codes of the providers mean.

use stanchion_core::FailureKind;

use super::code_table::{DECISIVE, GENERAL, SHARE};

/// The words of a provider, as they stand in codes, types, statuses and reasons.
#[derive(Clone, Copy)]
pub(super) struct Codes<'a>(pub(super) &'a [&'a str]);

impl Codes<'_> {
    fn any(self, words: &[&str]) -> bool {
        self.0.iter().any(|code| words.iter().any(|word| plain(code).eq_ignore_ascii_case(word)))
    }

    /// Whether a decisive code says that it is `kind`.
    pub(super) fn say(self, kind: FailureKind) -> bool {
        let listed = DECISIVE.iter().any(|(of, words)| *of == kind && self.any(words));
        listed || kind == FailureKind::RateLimited && self.throttles()
    }

    /// What the first decisive code in the order of the table says, overflow and quota apart.
    pub(super) fn decide(self) -> Option<FailureKind> {
        let mut kinds = DECISIVE.iter().map(|(kind, _)| *kind);
        kinds
            .find(|kind| !matches!(kind, FailureKind::ContextOverflow | FailureKind::QuotaExhausted) && self.say(*kind))
    }

    /// What a general code says, or the beginning of one that is not listed.
    pub(super) fn suggest(self) -> Option<FailureKind> {
        let listed = GENERAL.iter().find(|(_, words)| self.any(words)).map(|(kind, _)| *kind);
        let blames_request = |code: &&str| ["invalid_", "unsupported_", "missing_"].iter().any(|p| code.starts_with(p));
        listed.or_else(|| self.0.iter().any(blames_request).then_some(FailureKind::InvalidRequest))
    }

    /// DashScope's `Throttling.RateQuota` and its like, and AWS's `ThrottlingException`.
    fn throttles(self) -> bool {
        self.0.iter().any(|code| plain(code).get(..10).is_some_and(|start| start.eq_ignore_ascii_case("throttling")))
    }

    /// Codes under which words about tokens tell of a rate.
    pub(super) fn excludes_overflow(self) -> bool {
        self.throttles() || self.any(&["rate_limit_error"])
    }

    /// Google's status for both a rate and a quota.
    pub(super) fn resource_exhausted(self) -> bool {
        self.any(&["RESOURCE_EXHAUSTED"])
    }

    /// OpenRouter's 402 that passes: too much is in flight for what the account holds.
    pub(super) fn in_flight_budget(self) -> bool {
        self.any(&["openrouter_in_flight_budget"])
    }

    /// A code that names a quota and not its kind.
    pub(super) fn share(self) -> bool {
        self.any(SHARE)
    }

    /// Google's `quotaId`s tell their window: `GenerateRequestsPerDayPerProjectPerModel-FreeTier`.
    pub(super) fn window(self, name: &str) -> bool {
        self.0.iter().any(|code| code.contains(name))
    }

    /// The code to show: the first that is more than a status.
    pub(super) fn best(self) -> Option<String> {
        let first = |telling: fn(&str) -> bool| self.0.iter().map(|code| plain(code)).find(|code| telling(code));
        first(|code| super::status::from_code(code).is_none() && !code.is_empty())
            .or_else(|| first(|_| true))
            .map(Into::into)
    }
}

/// AWS writes `namespace#Code:http://…`.
fn plain(code: &str) -> &str {
    let code = code.split(':').next().unwrap_or(code);
    code.rsplit('#').next().unwrap_or(code).trim()
}
