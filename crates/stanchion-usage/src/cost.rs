//! What tokens cost, by who answered.

use stanchion_core::{Family, Usage};

use crate::{Money, Price};

/// How whoever answered bills the prompt cache, as multiples of the price of fresh input.
///
/// | who answered | a read | a write | a write for an hour |
/// |---|---|---|---|
/// | [`Anthropic`](Self::Anthropic) | 0.1 | 1.25 | 2 |
/// | [`Gemini`](Self::Gemini) | 0.25 | 0 | 0 |
/// | [`Other`](Self::Other) | 1 | 1.25 | 2 |
///
/// The rule behind it is never to understate. How much others take off for a read changes from model to model, so that
/// none is assumed; and a write that somebody else reports can only come from Anthropic behind a proxy, so that it is
/// billed. Gemini bills its explicit caches by storage, which no reply reports.
///
/// The multiples are those of octos-llm's prices; that of an hour is Anthropic's documentation's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CacheBilling {
    /// Whoever speaks as Anthropic does, or serves its models.
    Anthropic,
    /// Google.
    Gemini,
    /// Everyone else.
    Other,
}

impl CacheBilling {
    /// How a provider bills that speaks `family`, is called `provider` and serves `model`.
    ///
    /// Who speaks as Anthropic or Gemini does bills as they do. Of the others a name tells: one that contains
    /// `anthropic`, is `zai` or `zai-coding`, or is `r9s` while the model begins with `claude-`; one that contains
    /// `gemini`, `vertex` or `google`. The case of a provider's name does not count; that of the model does.
    pub fn of(family: Family, provider: &str, model: &str) -> Self {
        match family {
            Family::Anthropic => Self::Anthropic,
            Family::Gemini => Self::Gemini,
            _ => Self::named(provider, model),
        }
    }

    /// How a provider of this name bills, as far as the name tells.
    pub(crate) fn named(provider: &str, model: &str) -> Self {
        let provider = provider.to_ascii_lowercase();
        let is_anthropic = provider.contains("anthropic")
            || matches!(&*provider, "zai" | "zai-coding")
            || provider == "r9s" && model.starts_with("claude-");
        if is_anthropic {
            Self::Anthropic
        } else if ["gemini", "vertex", "google"].iter().any(|name| provider.contains(name)) {
            Self::Gemini
        } else {
            Self::Other
        }
    }

    /// In hundredths: a read, a write, a write for an hour.
    const fn hundredths(self) -> [u64; 3] {
        match self {
            Self::Anthropic => [10, 125, 200],
            Self::Gemini => [25, 0, 0],
            Self::Other => [100, 125, 200],
        }
    }
}

/// What a token costs, by its kind. The kinds are disjoint: input that was read from the cache or written to it is not
/// counted as fresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// Fresh input.
    pub input: Price,
    /// Output, reasoning included.
    pub output: Price,
    /// Input read from the prompt cache.
    pub cache_read: Price,
    /// Input written to the prompt cache, for five minutes or for a time that nobody tells.
    pub cache_write: Price,
    /// Input written to the prompt cache for an hour.
    pub cache_write_1h: Price,
}

impl Rates {
    /// The rates that follow from the prices of input and output.
    pub const fn new(input: Price, output: Price, billing: CacheBilling) -> Self {
        let [read, write, write_1h] = billing.hundredths();
        Self {
            input,
            output,
            cache_read: input.times(read),
            cache_write: input.times(write),
            cache_write_1h: input.times(write_1h),
        }
    }

    /// What a reply costs. `None` if its input or its output is not known: part of a cost is not the cost. What is not
    /// reported of the cache was not used.
    pub fn cost(&self, usage: &Usage) -> Option<Money> {
        let write = usage.cache_write.unwrap_or(0);
        let write_1h = usage.cache_write_1h.unwrap_or(0).min(write);
        let parts = [
            self.input.of(usage.input?),
            self.output.of(usage.output?),
            self.cache_read.of(usage.cache_read.unwrap_or(0)),
            self.cache_write.of(write - write_1h),
            self.cache_write_1h.of(write_1h),
        ];
        Some(parts.into_iter().sum())
    }
}
