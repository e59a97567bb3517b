use std::fmt;

use serde::{Deserialize, Serialize};

/// Where a provider said how long to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HintSource {
    /// The header `retry-after-ms` (OpenAI, Azure).
    RetryAfterMs,
    /// The header `retry-after` (RFC 9110, 10.2.3).
    RetryAfter,
    /// A reset header of a rate-limit window: `x-ratelimit-reset…`, `ratelimit-reset` or `ratelimit`.
    RateLimitReset,
    /// A reset header of Anthropic's: `anthropic-ratelimit-…-reset`.
    AnthropicReset,
    /// Google's `RetryInfo` in the error body.
    RetryInfo,
    /// `resets_in_seconds`, `resets_at` or `next_flush_time` in the error body.
    ResetsAt,
    /// The prose of the error message.
    Text,
    /// No provider's word: our own circuit, which is open for so long.
    #[serde(skip_deserializing)]
    Circuit,
    /// No provider's word: our own admission queue, which empties at such a rate.
    #[serde(skip_deserializing)]
    Admission,
    /// No provider's word: our own pool of credentials, the first of which is ready again then.
    #[serde(skip_deserializing)]
    Credentials,
}

impl HintSource {
    /// All places of a reply, in no particular order.
    pub const ALL: [Self; 7] = [
        Self::RetryAfterMs,
        Self::RetryAfter,
        Self::RateLimitReset,
        Self::AnthropicReset,
        Self::RetryInfo,
        Self::ResetsAt,
        Self::Text,
    ];

    /// The name in events and logs, in snake case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RetryAfterMs => "retry_after_ms",
            Self::RetryAfter => "retry_after",
            Self::RateLimitReset => "rate_limit_reset",
            Self::AnthropicReset => "anthropic_reset",
            Self::RetryInfo => "retry_info",
            Self::ResetsAt => "resets_at",
            Self::Text => "text",
            Self::Circuit => "circuit",
            Self::Admission => "admission",
            Self::Credentials => "credentials",
        }
    }
}

impl fmt::Display for HintSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The sources that hints are taken from. Default: all but [`HintSource::Text`].
///
/// Prose is off by default because it is a guess: a message may quote the caller's own input.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HintSources(u16);

impl HintSources {
    /// No source: the provider's word is ignored.
    pub const fn none() -> Self {
        Self(0)
    }

    /// Every source, prose among them.
    pub const fn all() -> Self {
        Self::headers_only().with(HintSource::RetryInfo).with(HintSource::ResetsAt).with(HintSource::Text)
    }

    /// The headers; the body is not read.
    pub const fn headers_only() -> Self {
        Self::none()
            .with(HintSource::RetryAfterMs)
            .with(HintSource::RetryAfter)
            .with(HintSource::RateLimitReset)
            .with(HintSource::AnthropicReset)
    }

    /// These and `source`.
    #[must_use]
    pub const fn with(self, source: HintSource) -> Self {
        Self(self.0 | 1 << source as u16)
    }

    /// These without `source`.
    #[must_use]
    pub const fn without(self, source: HintSource) -> Self {
        Self(self.0 & !(1 << source as u16))
    }

    /// Whether `source` is one of these.
    pub const fn contains(self, source: HintSource) -> bool {
        self.0 & 1 << source as u16 != 0
    }
}

impl Default for HintSources {
    fn default() -> Self {
        Self::all().without(HintSource::Text)
    }
}

impl FromIterator<HintSource> for HintSources {
    fn from_iter<I: IntoIterator<Item = HintSource>>(sources: I) -> Self {
        sources.into_iter().fold(Self::none(), Self::with)
    }
}

impl fmt::Debug for HintSources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(HintSource::ALL.iter().filter(|source| self.contains(**source))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::{HintSource, HintSources};

    #[test]
    fn sets() {
        let members = |set: HintSources| HintSource::ALL.map(|source| set.contains(source));
        assert_eq!(members(HintSources::all()), [true; 7]);
        assert_eq!(members(HintSources::none()), [false; 7]);
        assert_eq!(members(HintSources::default()), [true, true, true, true, true, true, false]);
        assert_eq!(members(HintSources::headers_only()), [true, true, true, true, false, false, false]);
        for source in HintSource::ALL {
            assert!(!HintSources::all().without(source).contains(source));
            assert_eq!(HintSources::none().with(source), [source].into_iter().collect());
            assert_eq!(HintSources::all().without(source).with(source), HintSources::all());
        }
        assert_eq!(format!("{:?}", HintSources::none().with(HintSource::Text)), "{Text}");
    }

    #[test]
    fn names_agree_with_serde() {
        for source in
            HintSource::ALL.into_iter().chain([HintSource::Circuit, HintSource::Admission, HintSource::Credentials])
        {
            assert_eq!(serde_json::to_value(source).unwrap(), source.as_str());
            assert_eq!(source.to_string(), source.as_str());
        }
    }
}
