//! How long a provider asks us to wait.
//!
//! Providers say it in a dozen ways: two standard headers, rate-limit windows in five notations, fields of the error
//! body, and prose. [`RetryHint::read`] knows them all and picks one; [`parse`] has the notations one by one.
//!
//! # Order of precedence
//!
//! The first place that gives a usable delay wins; a place that is absent, malformed, zero, negative or past is passed
//! over.
//!
//! | # | source | where | notation |
//! |---|---|---|---|
//! | 1 | [`RetryAfterMs`](HintSource::RetryAfterMs) | `retry-after-ms` | decimal milliseconds |
//! | 2 | [`RetryAfter`](HintSource::RetryAfter) | `retry-after` | decimal seconds or an HTTP date |
//! | 3 | [`RetryInfo`](HintSource::RetryInfo) | body, `error.details[]` of type `google.rpc.RetryInfo` | `retryDelay`, such as `34.07s` |
//! | 4 | [`ResetsAt`](HintSource::ResetsAt) | body, at the top or under `error` | `resets_in_seconds`, else `resets_at`, else `next_flush_time` |
//! | 5 | [`RateLimitReset`](HintSource::RateLimitReset), [`AnthropicReset`](HintSource::AnthropicReset) | reset headers of rate-limit windows | durations, seconds, epochs, RFC 3339 |
//! | 6 | [`Text`](HintSource::Text), off by default | the message of the error body, or a plain text body | `try again in 1.5s` |
//!
//! The headers of 1 and 2 and the body fields of 3 and 4 are written for the reply at hand. Reset headers come on every
//! reply, a good one too, and describe windows, so they stand behind; prose is a guess and stands last.
//!
//! If a header comes more than once with different values, or a field stands in more than one place, the largest usable
//! one counts: too short a wait buys another refusal.
//!
//! # Which window, if several are reported
//!
//! A window's reset says when it is *full* again. That matters only if the window is what refused us, which its
//! `remaining` header tells:
//!
//! * `remaining` above 0: not the reason, passed over;
//! * `remaining` 0: exhausted. The next request has to pass all exhausted windows, so the **largest** of their resets
//!   counts;
//! * `remaining` absent or unreadable (Azure sends -1): unknown, looked at only if no window is known to be exhausted.
//!   Then the **smallest** reset counts: a provider may report a window of a minute beside one of a day, and while the
//!   smallest risks one more refusal, which brings fresh headers, the largest would give up on the provider for hours.
//!
//! # What a hint is
//!
//! A delay is at least 1 ms, is rounded up to whole milliseconds, and is cut at [`RetryHint::MAX_DELAY`], so that no
//! sum of it and a clock can overflow. It is otherwise as the provider said: whether it is too long to wait is for the
//! caller to judge, who should then neither sleep nor shorten it, but leave the target alone until it is over.
//!
//! Numbers are read strictly: the whole token must be `DIGITS` or `DIGITS.DIGITS` in decimal. `3abc`, `1e3`, `+5`,
//! `1_000`, `NaN` and an ISO date in `retry-after` are no hints, where lenient parsers read 3 seconds, or 2026.

mod body;
mod number;
pub mod parse;
mod source;
mod text;
mod window;

#[cfg(test)]
mod tests;

use std::{
    cell::LazyCell,
    time::{Duration, SystemTime},
};

use http::HeaderMap;

use self::body::Body;
pub use self::source::{HintSource, HintSources};

/// How long a provider asks us to wait, and where it said so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryHint {
    delay: Duration,
    source: HintSource,
}

impl RetryHint {
    /// Ten years of 365 days: what a longer delay is cut to.
    ///
    /// Far above any limit that a caller sets, and small enough to be added to any clock.
    pub const MAX_DELAY: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

    /// A hint of one's own, taken as it is. [`read`](Self::read) gives delays of 1 ms to [`MAX_DELAY`](Self::MAX_DELAY)
    /// only.
    pub const fn new(delay: Duration, source: HintSource) -> Self {
        Self { delay, source }
    }

    /// How long to wait, counted from the moment at which the reply came.
    pub const fn delay(self) -> Duration {
        self.delay
    }

    /// Where the provider said so.
    pub const fn source(self) -> HintSource {
        self.source
    }

    /// Reads a refusal's headers, then its body, for a hint from one of the allowed `sources`.
    ///
    /// In this order, and the first that is usable wins: `retry-after-ms`, `retry-after`, Google's `RetryInfo`, the
    /// reset fields of the body, the reset headers of rate-limit windows, and prose. Malformed, zero, negative and past
    /// values give no hint. The documentation of the module tells it all.
    ///
    /// `now` is the wall clock, and serves only to turn dates and epochs into delays. Of the body at most the first
    /// 64 KiB are looked at, and only if the two standard headers give nothing. A longer JSON body gives no hint.
    ///
    /// Meant for replies that refuse: a reply that succeeded has reset headers too, and waiting for those would be
    /// wrong.
    ///
    /// ```
    /// # use std::time::{Duration, SystemTime};
    /// # use stanchion_core::{HintSource, HintSources, RetryHint};
    /// let mut headers = http::HeaderMap::new();
    /// headers.insert("retry-after-ms", "1500".parse().unwrap());
    /// headers.insert("retry-after", "2".parse().unwrap());
    /// let hint = RetryHint::read(&headers, b"", SystemTime::now(), HintSources::default()).unwrap();
    /// assert_eq!((hint.delay(), hint.source()), (Duration::from_millis(1500), HintSource::RetryAfterMs));
    /// ```
    pub fn read(headers: &HeaderMap, body: &[u8], now: SystemTime, sources: HintSources) -> Option<Self> {
        // Most refusals that give a hint give it in a standard header: the body is then never parsed.
        let body = LazyCell::new(|| Body::parse(body));
        let from = |source, delay: &dyn Fn() -> Option<Duration>| {
            sources.contains(source).then(delay).flatten().map(|delay| Self::new(delay, source))
        };
        from(HintSource::RetryAfterMs, &|| largest(headers, "retry-after-ms", parse::retry_after_ms))
            .or_else(|| {
                from(HintSource::RetryAfter, &|| largest(headers, "retry-after", |v| parse::retry_after(v, now)))
            })
            .or_else(|| from(HintSource::RetryInfo, &|| body.retry_info()))
            .or_else(|| from(HintSource::ResetsAt, &|| body.resets(now)))
            .or_else(|| window::read(headers, now, sources))
            .or_else(|| from(HintSource::Text, &|| body.text(now)))
    }
}

/// The values of a header that are text.
fn values<'h>(headers: &'h HeaderMap, name: &str) -> impl Iterator<Item = &'h str> {
    headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok())
}

/// The largest usable delay among the values of a header.
fn largest(headers: &HeaderMap, name: &str, parse: impl Fn(&str) -> Option<Duration>) -> Option<Duration> {
    values(headers, name).filter_map(parse).max()
}
