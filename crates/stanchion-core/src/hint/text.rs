//! Delays in prose.

use std::time::{Duration, SystemTime};

use super::{
    number::{HOUR, MINUTE, SECOND, settle, split_decimal},
    parse::{beijing_time, go_unit, split_unit},
};

/// What comes before a delay, in lower case. `Please retry in` and `Please try again in` are among these.
const PHRASES: [&str; 4] = ["try again in ", "retry in ", "retry after ", "reset after "];

/// The first delay that follows `try again in`, `retry in`, `retry after` or `reset after`, in any case.
///
/// It is a duration of Go's (`1.5s`, `20ms`, `10h17m5.72s`) or is spelt out (`26 seconds`, `1 minute and 30 seconds`).
/// A number without a unit is no delay.
///
/// Source: the error messages of OpenAI, Groq, Gemini and Azure. Nobody promises their wording, so a missed one is no
/// fault.
pub fn text(message: &str) -> Option<Duration> {
    let lower = message.to_ascii_lowercase();
    PHRASES
        .iter()
        .flat_map(|phrase| lower.match_indices(phrase))
        .filter(|(start, _)| !lower[..*start].ends_with(char::is_alphanumeric))
        .filter_map(|(start, phrase)| Some((start, settle(duration(&lower[start + phrase.len()..])?)?)))
        .min_by_key(|(start, _)| *start)
        .map(|(_, delay)| delay)
}

/// The first time of Beijing in the message of a used-up GLM plan: `Your limit will reset at 2026-09-25 19:32:20`.
///
/// The wording depends on the account's language, so the date is looked for by its shape.
pub(super) fn glm_reset(message: &str, now: SystemTime) -> Option<Duration> {
    message.match_indices('-').find_map(|(dash, _)| {
        // The first dash follows the four digits of the year.
        let start = dash.checked_sub(4)?;
        let end = start + "2026-09-25 19:32:20".len();
        let delay = beijing_time(message.get(start..end)?, now)?;
        // With digits before it is no year; with a zone behind it is no time of Beijing.
        let whole = !message[..start].ends_with(|c: char| c.is_ascii_digit())
            && !message[end..].starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-'));
        whole.then_some(delay)
    })
}

/// The duration at the start of `text`, in nanoseconds: pairs of a number and a unit, as far as they go.
fn duration(text: &str) -> Option<u128> {
    let mut total = None;
    let mut rest = text;
    let mut glued = true;
    while let Some((nanos, after)) = pair(rest) {
        total = Some(total.unwrap_or(0u128).saturating_add(nanos));
        rest = after.trim_start_matches([' ', ',']);
        rest = rest.strip_prefix("and ").unwrap_or(rest);
        glued = rest.len() == after.len();
    }
    // `5s1x` is one token, and no duration; in `5s, 1 of 3` the duration is over.
    total.filter(|_| !(glued && rest.starts_with(|c: char| c.is_alphanumeric() || c == '_')))
}

/// A number, white space or none, and a unit.
fn pair(text: &str) -> Option<(u128, &str)> {
    let (number, after) = split_decimal(text)?;
    let (unit, rest) = split_unit(after.trim_start_matches(' '));
    Some((number.nanos(unit_nanos(unit)?), rest))
}

/// A unit, short or spelt out in lower case, in nanoseconds.
fn unit_nanos(unit: &str) -> Option<u64> {
    match unit {
        "day" | "days" => Some(24 * HOUR),
        "hour" | "hours" | "hr" | "hrs" => Some(HOUR),
        "minute" | "minutes" | "min" | "mins" => Some(MINUTE),
        "second" | "seconds" | "sec" | "secs" => Some(SECOND),
        "millisecond" | "milliseconds" => go_unit("ms"),
        short => go_unit(short),
    }
}
