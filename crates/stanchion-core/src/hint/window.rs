//! The reset headers of rate-limit windows. The rule by which one is chosen stands at the top of the module above.

use std::time::{Duration, SystemTime};

use http::HeaderMap;

use super::{HintSource, HintSources, RetryHint, largest, number::decimal, parse, values};

/// What a window has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    Nothing,
    Something,
    Unknown,
}

/// How a reset header is written.
type Notation = fn(&str, SystemTime) -> Option<Duration>;

/// A window of the common kind: its reset header, its remaining header and the notation of its reset.
const WINDOWS: [(HintSource, &str, &str, Notation); 9] = [
    (HintSource::RateLimitReset, "x-ratelimit-reset-requests", "x-ratelimit-remaining-requests", parse::window_reset),
    (HintSource::RateLimitReset, "x-ratelimit-reset-tokens", "x-ratelimit-remaining-tokens", parse::window_reset),
    (HintSource::RateLimitReset, "x-ratelimit-reset", "x-ratelimit-remaining", parse::rate_limit_reset),
    (HintSource::RateLimitReset, "x-ratelimit-reset-after", "x-ratelimit-remaining", |v, _| parse::delta_seconds(v)),
    (HintSource::RateLimitReset, "ratelimit-reset", "ratelimit-remaining", |v, _| parse::delta_seconds(v)),
    (
        HintSource::AnthropicReset,
        "anthropic-ratelimit-requests-reset",
        "anthropic-ratelimit-requests-remaining",
        parse::rfc3339,
    ),
    (
        HintSource::AnthropicReset,
        "anthropic-ratelimit-tokens-reset",
        "anthropic-ratelimit-tokens-remaining",
        parse::rfc3339,
    ),
    (
        HintSource::AnthropicReset,
        "anthropic-ratelimit-input-tokens-reset",
        "anthropic-ratelimit-input-tokens-remaining",
        parse::rfc3339,
    ),
    (
        HintSource::AnthropicReset,
        "anthropic-ratelimit-output-tokens-reset",
        "anthropic-ratelimit-output-tokens-remaining",
        parse::rfc3339,
    ),
];

/// A window of a Claude subscription: its reset, status and utilization headers.
const SUBSCRIPTION: [(&str, &str, &str); 2] = [
    (
        "anthropic-ratelimit-unified-5h-reset",
        "anthropic-ratelimit-unified-5h-status",
        "anthropic-ratelimit-unified-5h-utilization",
    ),
    (
        "anthropic-ratelimit-unified-7d-reset",
        "anthropic-ratelimit-unified-7d-status",
        "anthropic-ratelimit-unified-7d-utilization",
    ),
];

/// The choice among the windows seen so far.
struct Choice<T> {
    exhausted: Option<(Duration, T)>,
    unknown: Option<(Duration, T)>,
}

impl<T> Choice<T> {
    fn new() -> Self {
        Self { exhausted: None, unknown: None }
    }

    fn see(&mut self, left: Left, delay: Duration, origin: T) {
        let (best, better): (_, fn(&Duration, &Duration) -> bool) = match left {
            Left::Nothing => (&mut self.exhausted, Duration::gt),
            Left::Unknown => (&mut self.unknown, Duration::lt),
            Left::Something => return,
        };
        if best.as_ref().is_none_or(|(other, _)| better(&delay, other)) {
            *best = Some((delay, origin));
        }
    }

    fn take(self) -> Option<(Duration, T)> {
        self.exhausted.or(self.unknown)
    }
}

/// The hint that the reset headers give, from the allowed sources.
pub(super) fn read(headers: &HeaderMap, now: SystemTime, sources: HintSources) -> Option<RetryHint> {
    let mut choice = Choice::new();
    for (source, reset, remaining, notation) in WINDOWS {
        if sources.contains(source)
            && let Some(delay) = largest(headers, reset, |value| notation(value, now))
        {
            choice.see(left(headers, remaining), delay, source);
        }
    }
    if sources.contains(HintSource::RateLimitReset) {
        for (left, delay) in values(headers, "ratelimit").flat_map(items) {
            choice.see(left, delay, HintSource::RateLimitReset);
        }
    }
    if sources.contains(HintSource::AnthropicReset) {
        subscription(headers, now, &mut choice);
    }
    choice.take().map(|(delay, source)| RetryHint::new(delay, source))
}

/// The `RateLimit` field: `"default";r=0;t=30`, or several such items with commas between them.
///
/// `t` is in seconds, `r` is what remains. Of several items the delay is chosen as among windows.
///
/// Source: draft-ietf-httpapi-ratelimit-headers from version 8 on.
pub fn rate_limit(value: &str) -> Option<Duration> {
    let mut choice = Choice::new();
    items(value).for_each(|(left, delay)| choice.see(left, delay, ()));
    choice.take().map(|(delay, ())| delay)
}

/// The items of a `RateLimit` field that have a usable `t`.
fn items(value: &str) -> impl Iterator<Item = (Left, Duration)> {
    split(value, ',').filter_map(|item| {
        let (mut left, mut delay) = (Left::Unknown, None);
        for (name, value) in split(item, ';').skip(1).filter_map(|parameter| parameter.split_once('=')) {
            match name.trim_ascii() {
                "r" => left = left_of(value),
                "t" => delay = parse::delta_seconds(value),
                _ => {}
            }
        }
        Some((left, delay?))
    })
}

/// Splits at `separator`, but not within a quoted string of RFC 9651.
fn split(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let (mut quoted, mut escaped) = (false, false);
    text.split(move |c| {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ => return c == separator && !quoted,
        }
        false
    })
}

/// A Claude subscription tells no count but a status, and a utilization of which 1 is all.
///
/// `unified-reset` is that of the window which decides, so where it is given, the other two count only if known to be
/// exhausted.
fn subscription(headers: &HeaderMap, now: SystemTime, choice: &mut Choice<HintSource>) {
    let reset = |name| largest(headers, name, |value| parse::epoch_seconds(value, now));
    let unified = reset("anthropic-ratelimit-unified-reset");
    if let Some(delay) = unified {
        choice.see(left_by_status(headers, "anthropic-ratelimit-unified-status"), delay, HintSource::AnthropicReset);
    }
    for (name, status, utilization) in SUBSCRIPTION {
        let Some(delay) = reset(name) else { continue };
        let left = match left_by_status(headers, status) {
            Left::Unknown => values(headers, utilization)
                .find_map(decimal)
                .map_or(Left::Unknown, |used| if used.is_below_one() { Left::Something } else { Left::Nothing }),
            known => known,
        };
        if left != Left::Unknown || unified.is_none() {
            choice.see(left, delay, HintSource::AnthropicReset);
        }
    }
}

fn left_by_status(headers: &HeaderMap, name: &str) -> Left {
    values(headers, name).next().map_or(Left::Unknown, |status| match status.trim_ascii() {
        "rejected" => Left::Nothing,
        "allowed" | "allowed_warning" => Left::Something,
        _ => Left::Unknown,
    })
}

/// What a remaining header says. Nothing is believed over something.
fn left(headers: &HeaderMap, name: &str) -> Left {
    values(headers, name).map(left_of).fold(Left::Unknown, |known, left| match (known, left) {
        (Left::Nothing, _) | (_, Left::Nothing) => Left::Nothing,
        (Left::Something, _) | (_, Left::Something) => Left::Something,
        _ => Left::Unknown,
    })
}

fn left_of(remaining: &str) -> Left {
    match decimal(remaining) {
        Some(number) if number.is_zero() => Left::Nothing,
        Some(_) => Left::Something,
        None => Left::Unknown,
    }
}
