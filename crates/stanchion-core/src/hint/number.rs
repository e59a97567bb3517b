//! Decimal numbers, exactly. Binary floats would turn `0.1` into a little more, and rounding up would then add a
//! millisecond.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::RetryHint;

pub(super) const MILLISECOND: u64 = 1_000_000;
pub(super) const SECOND: u64 = 1_000_000_000;
pub(super) const MINUTE: u64 = 60 * SECOND;
pub(super) const HOUR: u64 = 60 * MINUTE;

/// Digits of a fraction that are kept: 10^18 times an hour in nanoseconds fits a `u128`.
const FRACTION_DIGITS: usize = 18;
const FRACTION_UNIT: u128 = 10u128.pow(FRACTION_DIGITS as u32);

/// A number that is not negative. Its whole part saturates; digits past the 18th of its fraction count as one more in
/// the 18th.
#[derive(Clone, Copy)]
pub(super) struct Decimal {
    whole: u64,
    fraction: u64,
}

impl Decimal {
    /// `0.DIGITS`.
    pub(super) fn fraction(digits: &str) -> Self {
        let (kept, cut) = digits.split_at(digits.len().min(FRACTION_DIGITS));
        let kept = (0..FRACTION_DIGITS)
            .fold(0, |n, i| n * 10 + kept.as_bytes().get(i).map_or(0, |digit| u64::from(digit - b'0')));
        Self { whole: 0, fraction: kept + u64::from(cut.bytes().any(|digit| digit != b'0')) }
    }

    /// How many nanoseconds this is in a unit of `unit` nanoseconds, rounded up.
    pub(super) fn nanos(self, unit: u64) -> u128 {
        u128::from(self.whole) * u128::from(unit)
            + (u128::from(self.fraction) * u128::from(unit)).div_ceil(FRACTION_UNIT)
    }

    pub(super) fn is_zero(self) -> bool {
        self.whole == 0 && self.fraction == 0
    }

    pub(super) fn is_below_one(self) -> bool {
        self.whole == 0
    }
}

/// A whole token, in white space or not: `DIGITS` or `DIGITS.DIGITS`.
pub(super) fn decimal(token: &str) -> Option<Decimal> {
    split_decimal(token.trim_ascii()).filter(|(_, rest)| rest.is_empty()).map(|(number, _)| number)
}

/// The number at the start of `text` and what follows. A point belongs to the number only if a digit follows it.
pub(super) fn split_decimal(text: &str) -> Option<(Decimal, &str)> {
    let (whole, rest) = split_digits(text)?;
    let whole = whole.bytes().fold(0u64, |n, digit| n.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
    match rest.strip_prefix('.').and_then(split_digits) {
        Some((digits, rest)) => Some((Decimal { whole, ..Decimal::fraction(digits) }, rest)),
        None => Some((Decimal { whole, fraction: 0 }, rest)),
    }
}

/// The digits at the start of `text`, at least one, and what follows.
pub(super) fn split_digits(text: &str) -> Option<(&str, &str)> {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// A delay in nanoseconds as a hint may have it: none if zero, in whole milliseconds, rounded up and bounded.
pub(super) fn settle(nanos: u128) -> Option<Duration> {
    let millis = nanos.div_ceil(u128::from(MILLISECOND)).min(RetryHint::MAX_DELAY.as_millis());
    (millis > 0).then(|| Duration::from_millis(millis as u64))
}

/// From `now` until `at`; none if that is past.
pub(super) fn until(at: SystemTime, now: SystemTime) -> Option<Duration> {
    settle(at.duration_since(now).ok()?.as_nanos())
}

/// From `now` until the epoch time `at`, in nanoseconds if read as seconds; none if that is past.
///
/// Above 10^12 a number of seconds would lie 31,700 years ahead, so it is taken for milliseconds.
pub(super) fn until_epoch(at: u128, now: SystemTime) -> Option<Duration> {
    let at = if at > 1_000_000_000_000 * u128::from(SECOND) { at / 1000 } else { at };
    let now = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    settle(at.checked_sub(now)?)
}
