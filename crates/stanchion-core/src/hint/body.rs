//! Hints in the body of a refusal.

use std::{
    borrow::Cow,
    time::{Duration, SystemTime},
};

use serde_json::{Map, Value};

use super::{
    number::{SECOND, decimal, settle, until_epoch},
    parse::{beijing_time, protobuf_duration, rfc3339},
    text::{glm_reset, text},
};

/// How much of a body is looked at. What a refusal has to say is far shorter.
const LIMIT: usize = 64 * 1024;

/// What plain text does not begin with: JSON that is broken or cut off, HTML, and event streams, all of which may hold
/// prompts.
const NOT_PLAIN: [&str; 6] = ["{", "[", "<", "data:", "event:", ":"];

/// A refusal's body, parsed as far as it is understood.
pub(super) enum Body<'b> {
    Json(Value),
    Plain(Cow<'b, str>),
    Opaque,
}

impl<'b> Body<'b> {
    pub(super) fn parse(body: &'b [u8]) -> Self {
        let seen = &body[..body.len().min(LIMIT)];
        // Cut-off JSON is no JSON: it would only be parsed in vain.
        if body.len() <= LIMIT
            && let Ok(json) = serde_json::from_slice(seen)
        {
            return Self::Json(json);
        }
        let plain = String::from_utf8_lossy(seen);
        if NOT_PLAIN.iter().any(|start| plain.trim_start().starts_with(start)) {
            Self::Opaque
        } else {
            Self::Plain(plain)
        }
    }

    /// `error.details[].retryDelay` of Google's `RetryInfo`. Google's stream endpoints wrap the error in an array.
    pub(super) fn retry_info(&self) -> Option<Duration> {
        self.roots()
            .filter_map(|root| root.get("error")?.get("details")?.as_array())
            .flatten()
            .filter(|detail| detail["@type"].as_str().is_some_and(|name| name.ends_with("google.rpc.RetryInfo")))
            .filter_map(|detail| protobuf_duration(detail["retryDelay"].as_str()?))
            .max()
    }

    /// `resets_in_seconds`, else `resets_at` (ChatGPT's backend), else `next_flush_time` (GLM), at the top or under
    /// `error`.
    pub(super) fn resets(&self, now: SystemTime) -> Option<Duration> {
        let largest = |name, delay: &dyn Fn(&Value) -> Option<Duration>| {
            self.scopes().filter_map(|scope| delay(scope.get(name)?)).max()
        };
        // The first of the three needs no agreement of clocks.
        largest("resets_in_seconds", &|value| settle(seconds(value)?))
            .or_else(|| largest("resets_at", &|value| until_epoch(seconds(value)?, now)))
            .or_else(|| {
                largest("next_flush_time", &|value| {
                    let value = value.as_str()?;
                    beijing_time(value, now).or_else(|| rfc3339(value, now))
                })
            })
    }

    /// A delay in the provider's message, or in a plain text body; nowhere else, as the rest may quote the caller.
    pub(super) fn text(&self, now: SystemTime) -> Option<Duration> {
        match self {
            Self::Plain(plain) => text(plain),
            Self::Json(Value::String(message)) => text(message),
            Self::Json(_) => self.roots().find_map(|root| {
                messages(root).find_map(|message| {
                    if is_glm_plan_used_up(root) {
                        glm_reset(message, now).or_else(|| text(message))
                    } else {
                        text(message)
                    }
                })
            }),
            Self::Opaque => None,
        }
    }

    /// The object that the body is, or the objects in the array that it is.
    fn roots(&self) -> impl Iterator<Item = &Map<String, Value>> {
        let values = match self {
            Self::Json(Value::Array(values)) => values.as_slice(),
            Self::Json(value) => std::slice::from_ref(value),
            _ => &[],
        };
        values.iter().filter_map(Value::as_object)
    }

    /// The roots and what stands under `error` in them.
    fn scopes(&self) -> impl Iterator<Item = &Map<String, Value>> {
        self.roots().flat_map(|root| root.get("error").and_then(Value::as_object).into_iter().chain([root]))
    }
}

/// Where providers put their message: `error.message`, `error`, `message` or `detail`.
fn messages(root: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let error = root.get("error");
    [error.and_then(|error| error.get("message")), error, root.get("message"), root.get("detail")]
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

/// GLM's codes 1308 (usage limit) and 1310 (weekly or monthly limit), the two that tell when a plan is full again.
fn is_glm_plan_used_up(root: &Map<String, Value>) -> bool {
    match root.get("error").and_then(|error| error.get("code")) {
        Some(Value::String(code)) => matches!(code.as_str(), "1308" | "1310"),
        Some(Value::Number(code)) => matches!(code.as_u64(), Some(1308 | 1310)),
        _ => false,
    }
}

/// A number of seconds, bare or in a string, in nanoseconds. JSON's own notation for numbers has exponents, so they are
/// read here.
fn seconds(value: &Value) -> Option<u128> {
    match value {
        Value::String(token) => Some(decimal(token)?.nanos(SECOND)),
        Value::Number(number) => match number.as_u64() {
            Some(whole) => Some(u128::from(whole) * u128::from(SECOND)),
            // JSON has neither NaN nor infinity: what does not fit a `Duration` is negative or huge.
            None => number
                .as_f64()
                .filter(|seconds| *seconds > 0.0)
                .map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX).as_nanos()),
        },
        _ => None,
    }
}
