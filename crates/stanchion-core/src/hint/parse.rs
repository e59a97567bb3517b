//! The notations, one by one.
//!
//! Each function takes one whole token, such as a header's value, trims ASCII white space around it and reads all of
//! the rest, or gives `None`. `None` also stands for a delay that is zero, negative or past: "no hint", never "at
//! once". What is given is at least 1 ms, in whole milliseconds (rounded up) and at most
//! [`RetryHint::MAX_DELAY`](super::RetryHint::MAX_DELAY).

use std::time::{Duration, SystemTime};

use super::number::{
    Decimal, HOUR, MILLISECOND, MINUTE, SECOND, decimal, settle, split_decimal, split_digits, until, until_epoch,
};
pub use super::{text::text, window::rate_limit};

/// `retry-after-ms`: decimal milliseconds, such as `1500` or `20.5`.
///
/// Source: the client libraries of OpenAI and Azure, which read this header before `retry-after`.
pub fn retry_after_ms(value: &str) -> Option<Duration> {
    settle(decimal(value)?.nanos(MILLISECOND))
}

/// `retry-after`: seconds, or an HTTP date in any of its three forms.
///
/// Source: RFC 9110, 10.2.3 (whole seconds) and 5.6.7 (dates). Decimal seconds, such as `0.25`, are no part of it, but
/// are sent.
pub fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    match decimal(value) {
        Some(seconds) => settle(seconds.nanos(SECOND)),
        None => until(httpdate::parse_http_date(value.trim_ascii()).ok()?, now),
    }
}

/// Decimal seconds from now: `x-ratelimit-reset-after`, `ratelimit-reset`, and `t` of the `ratelimit` field.
///
/// Source: draft-ietf-httpapi-ratelimit-headers (whole seconds); providers send fractions too.
pub fn delta_seconds(value: &str) -> Option<Duration> {
    settle(decimal(value)?.nanos(SECOND))
}

/// Seconds since 1970: `anthropic-ratelimit-unified-reset` and its `-5h-reset` and `-7d-reset`.
///
/// Source: the replies to Claude subscriptions. A number above 10^12 is taken for milliseconds.
pub fn epoch_seconds(value: &str, now: SystemTime) -> Option<Duration> {
    until_epoch(decimal(value)?.nanos(SECOND), now)
}

/// `x-ratelimit-reset`: above 10^12 milliseconds since 1970 (OpenRouter), above 10^9 seconds since 1970, else seconds
/// from now.
///
/// Source: no standard; each provider has chosen for itself, so the magnitude decides. 10^9 seconds are 31 years, and
/// 2001.
pub fn rate_limit_reset(value: &str, now: SystemTime) -> Option<Duration> {
    let nanos = decimal(value)?.nanos(SECOND);
    if nanos > 1_000_000_000 * u128::from(SECOND) { until_epoch(nanos, now) } else { settle(nanos) }
}

/// A duration as Go writes it: `1s`, `20ms`, `6m0s`, `2m59.56s`, `1h2m3s`. The units are `h`, `m`, `s`, `ms`, `us`,
/// `µs` and `ns`.
///
/// Source: Go's `time.Duration`, used in `x-ratelimit-reset-requests` and `-tokens` by OpenAI and Groq. A number
/// without a unit is no duration.
pub fn go_duration(value: &str) -> Option<Duration> {
    let mut rest = value.trim_ascii();
    let mut nanos = 0u128;
    // An empty value gives 0, which is no hint.
    while !rest.is_empty() {
        let (number, after) = split_decimal(rest)?;
        let (unit, after) = split_unit(after);
        nanos = nanos.saturating_add(number.nanos(go_unit(unit)?));
        rest = after;
    }
    settle(nanos)
}

/// `x-ratelimit-reset-requests` and `-tokens`: a [`go_duration`], or a bare number as in [`rate_limit_reset`].
///
/// Source: OpenAI and Groq document durations; Azure sends whole seconds under the same name.
pub fn window_reset(value: &str, now: SystemTime) -> Option<Duration> {
    go_duration(value).or_else(|| rate_limit_reset(value, now))
}

/// A protobuf duration in its JSON form: decimal seconds and `s`, such as `34s` or `34.074824224s`.
///
/// Source: the JSON mapping of `google.protobuf.Duration`, used in `retryDelay` of Google's `RetryInfo`.
pub fn protobuf_duration(value: &str) -> Option<Duration> {
    let seconds = value.trim_ascii().strip_suffix('s')?;
    // `decimal` would trim the space of `34 s`.
    if seconds.ends_with(|last: char| last.is_ascii_digit()) { delta_seconds(seconds) } else { None }
}

/// A date and time of RFC 3339, such as `2026-08-16T12:00:00Z`, with any fraction and offset.
///
/// Source: Anthropic's documentation of `anthropic-ratelimit-{requests,tokens,input-tokens,output-tokens}-reset`.
pub fn rfc3339(value: &str, now: SystemTime) -> Option<Duration> {
    let (seconds, rest) = value.trim_ascii().split_at_checked(19)?;
    let at = civil(seconds, b'T')?;
    let (fraction, zone) = match rest.strip_prefix('.') {
        Some(rest) => {
            let (digits, zone) = split_digits(rest)?;
            (Decimal::fraction(digits).nanos(SECOND), zone)
        }
        None => (0, rest),
    };
    let at = at + Duration::from_nanos(fraction as u64);
    let at = match zone.as_bytes() {
        [b'Z'] => at,
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (two_digits(*h1, *h2)?, two_digits(*m1, *m2)?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            let offset = Duration::from_secs((hours * 60 + minutes) * 60);
            if *sign == b'+' { at.checked_sub(offset)? } else { at.checked_add(offset)? }
        }
        _ => return None,
    };
    until(at, now)
}

/// A local time of Beijing, `2026-09-25 19:32:20`, which is UTC+8 all year round.
///
/// Source: GLM's `next_flush_time`, which names no zone; replies compared with the clock show that it is Beijing's.
pub fn beijing_time(value: &str, now: SystemTime) -> Option<Duration> {
    until(civil(value.trim_ascii(), b' ')?.checked_sub(Duration::from_secs(8 * 60 * 60))?, now)
}

/// `YYYY-MM-DD?HH:MM:SS` and nothing else, with `separator` for `?`, read as UTC. Years 1970 to 9999.
fn civil(text: &str, separator: u8) -> Option<SystemTime> {
    (text.len() == 19 && text.as_bytes()[10] == separator).then(|| humantime::parse_rfc3339_weak(text).ok()).flatten()
}

fn two_digits(tens: u8, ones: u8) -> Option<u64> {
    (tens.is_ascii_digit() && ones.is_ascii_digit()).then(|| u64::from(tens - b'0') * 10 + u64::from(ones - b'0'))
}

/// The letters at the start of `text`, which may be none, and what follows.
pub(super) fn split_unit(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_alphabetic()).unwrap_or(text.len()))
}

/// A unit of Go's, in nanoseconds. It writes the micro sign, and reads the Greek letter too.
pub(super) fn go_unit(unit: &str) -> Option<u64> {
    Some(match unit {
        "h" => HOUR,
        "m" => MINUTE,
        "s" => SECOND,
        "ms" => MILLISECOND,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1000,
        "ns" => 1,
        _ => return None,
    })
}
