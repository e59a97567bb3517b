use serde::Serialize;

/// How a [`Usage`] came to be known. The worse is the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum UsageQuality {
    /// The provider reported it, and had said everything.
    Measured,
    /// The input, the output or both are an estimate, since the provider did not come to report them.
    Estimated,
    /// The input, the output or both are not known, and nothing is there to estimate them by.
    Unknown,
}

impl UsageQuality {
    /// The name used in events and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Estimated => "estimated",
            Self::Unknown => "unknown",
        }
    }
}

/// Says, in the extensions of a request, that the provider was asked for usage and the client did not ask for it: a
/// frame that holds nothing else is read and not passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HidesUsage;

/// The tokens of one reply, normalised over the dialects.
///
/// Every count is an `Option`: a provider that reports nothing has not reported zero. `input` excludes what was read from or written
/// to the prompt cache, and `output` includes `reasoning`, whatever the provider's own convention.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Input tokens that were neither read from nor written to the cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    /// Input tokens read from the prompt cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<u64>,
    /// Input tokens written to the prompt cache, over all lifetimes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
    /// The part of `cache_write` that lives for five minutes (Anthropic).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_5m: Option<u64>,
    /// The part of `cache_write` that lives for an hour (Anthropic).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_1h: Option<u64>,
    /// Output tokens, reasoning included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
    /// The part of `output` that was reasoning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
}

impl Usage {
    /// Whether the provider reported nothing at all.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// All input tokens: fresh, read from the cache and written to it. `None` if the provider did not report its input.
    pub fn input_total(&self) -> Option<u64> {
        let fresh = self.input?;
        Some(fresh.saturating_add(self.cache_read.unwrap_or(0)).saturating_add(self.cache_write.unwrap_or(0)))
    }

    /// Lays a later report over this one, field by field: reports are cumulative, so the last one wins and silence changes nothing.
    pub fn merge(&mut self, later: &Self) {
        fn take(into: &mut Option<u64>, from: Option<u64>) {
            if from.is_some() {
                *into = from;
            }
        }
        take(&mut self.input, later.input);
        take(&mut self.cache_read, later.cache_read);
        take(&mut self.cache_write, later.cache_write);
        take(&mut self.cache_write_5m, later.cache_write_5m);
        take(&mut self.cache_write_1h, later.cache_write_1h);
        take(&mut self.output, later.output);
        take(&mut self.reasoning, later.reasoning);
    }
}

/// Why a model stopped, normalised over the dialects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FinishReason {
    /// The model came to its own end, or met a stop sequence.
    Stop,
    /// A token limit ended the answer.
    Length,
    /// The model wants tools to be run.
    ToolCalls,
    /// A content filter or the model itself refused.
    ContentFilter,
    /// The provider paused a long turn that the caller is to continue.
    Pause,
    /// The provider reports a fault in the place of a finish reason.
    Error,
    /// A reason that this crate does not know.
    Other,
}

#[cfg(test)]
mod tests {
    use super::{Usage, UsageQuality};

    #[test]
    fn what_is_not_known_is_not_told() {
        let usage = Usage { input: Some(1), cache_read: Some(0), ..Usage::default() };
        assert_eq!(serde_json::to_string(&usage).unwrap(), r#"{"input":1,"cache_read":0}"#);
        for quality in [UsageQuality::Measured, UsageQuality::Estimated, UsageQuality::Unknown] {
            assert_eq!(serde_json::to_value(quality).unwrap(), quality.as_str());
        }
    }

    #[test]
    fn missing_is_not_zero() {
        assert_eq!(Usage::default().input_total(), None);
        let zero = Usage { input: Some(0), ..Usage::default() };
        assert_eq!(zero.input_total(), Some(0));
        assert!(!zero.is_empty());
    }

    #[test]
    fn the_last_report_wins_and_silence_changes_nothing() {
        let mut usage = Usage { input: Some(10), cache_read: Some(900), output: Some(1), ..Usage::default() };
        usage.merge(&Usage { output: Some(42), ..Usage::default() });
        assert_eq!(usage, Usage { input: Some(10), cache_read: Some(900), output: Some(42), ..Usage::default() });
        assert_eq!(usage.input_total(), Some(910));
    }
}
