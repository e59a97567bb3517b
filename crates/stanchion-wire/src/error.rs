//! Error bodies into [`Failure`]s.
//!
//! What an error means is read from its codes first, then from its words, then from its status:
//!
//! 1. A prompt that does not fit, by code or by words, unless a code or the words tell of a rate.
//! 2. An account without quota or money, by code or by words. The bare word "quota" decides nothing: with a short wait,
//!    or in the wording of a rate, it is a rate limit.
//! 3. Codes, in this order: content policy, credential, permission, not found, overload, rate limit.
//! 4. The table of statuses. Words of an outage ("overloaded") count only under 5xx, 429 and in band: a 400 may quote
//!    the prompt.
//!
//! Sources: wire §1.8 for the order, cp §5.2 and os §6.1 beside it ("wire" is the providers' status and code tables,
//! "cp" the control plane, "os" the comparison of systems). Where they differ, the stricter one holds: neither overflow
//! nor quota is ever asked again. The tables name their own.
//!
//! The first two are terminal whatever the status. Whether a status may be asked again after all (`x-should-retry`) is
//! noted beside the kind and judged by [`Disposition`](stanchion_core::Disposition).
//!
//! ```
//! use std::time::SystemTime;
//!
//! use stanchion_core::{Dialect, FailureKind};
//! use stanchion_wire::error;
//!
//! let data = br#"{"error":{"message":"Context size has been exceeded.","type":"server_error","code":500}}"#;
//! let failure = error::in_band(Dialect::OpenAiChat, None, data, None, SystemTime::now()).unwrap();
//! assert_eq!(failure.kind(), FailureKind::ContextOverflow);
//!
//! let fine = br#"{"type":"response.created","response":{"error":null}}"#;
//! assert!(error::in_band(Dialect::OpenAiResponses, None, fine, None, SystemTime::now()).is_none());
//! ```

mod classify;
mod code_table;
mod codes;
mod ids;
mod message;
pub(crate) mod object;
mod phrases;
mod shape;
mod status;

use std::time::SystemTime;

use http::{HeaderMap, StatusCode, header::CONTENT_TYPE};
use serde_json::value::RawValue;
use stanchion_core::{Dialect, Failure, FailureKind, HintSource, HintSources, Phase, ProviderReply, RetryHint};

pub use self::classify::{classify, finish_fault};
use self::{codes::Codes, shape::Report};
pub(crate) use self::{ids::REQUEST_IDS, status::kind as kind_of_status};

/// How much of a body that is no JSON is looked at.
const TEXT: usize = 2 * 1024;

/// What a reply means that is no success: not 2xx, or 2xx with an error object or no reply of a model in it.
///
/// Sets the kind, the status, the provider's code, words and request id, the hint, `x-should-retry` and the reply
/// itself. Words that are no JSON are kept only if they decided the kind: a gateway's page is not the provider's word.
pub fn classify_reply(dialect: Dialect, reply: ProviderReply, now: SystemTime) -> Failure {
    let status = reply.status;
    let body = String::from_utf8_lossy(&reply.body);
    let text = trim(&body);
    let hint = RetryHint::read(&reply.headers, &reply.body, now, hint_sources(status));
    let named = reply.headers.get("x-amzn-errortype").and_then(|value| value.to_str().ok()).map(str::to_owned);

    let read = shape::read(sse_data(text).unwrap_or(text), !status.is_success());
    let page = text.starts_with('<') || read.is_none() && has_html_type(&reply.headers);
    let failure = match read {
        _ if status.is_informational() || status.is_redirection() => Failure::new(FailureKind::NotModelReply),
        Some(mut report) => {
            report.codes.splice(0..0, named);
            of_report(status, report, hint)
        }
        None if status.is_success() => Failure::new(no_reply(text, page)),
        None => of_text(status, if page { "" } else { text }, named, hint),
    };
    let failure = failure.with_phase(Phase::BeforeOutput).with_hint(hint);
    with_headers(failure, dialect, &reply.headers).with_reply(reply)
}

/// The failure inside the JSON of a frame or document; `None` if it holds no error.
///
/// Knows every shape of an error after HTTP 200, and the flat ones: nested (OpenAI, Anthropic, Google, Google in an
/// array, `response.failed`), text (Ollama, xAI), `{"type":"error"}` (Responses), `{"object":"error"}` (Mistral, vLLM),
/// `{"code","message"}` (AWS, DashScope). `"error": null` is none. `event` is the name of the SSE event, if it has one:
/// under `error` everything is an error, even bare text. `headers` are those of the reply, if they are at hand.
///
/// The failure's status is the 200 that the error came with. A code that is a status in disguise (503, "429") stands in
/// for the status where codes and words decide nothing.
pub fn in_band(
    dialect: Dialect,
    event: Option<&str>,
    data: &[u8],
    headers: Option<&HeaderMap>,
    now: SystemTime,
) -> Option<Failure> {
    let text = String::from_utf8_lossy(data);
    let text = trim(&text);
    let certain = event == Some("error");
    let report = shape::read(text, certain).or_else(|| certain.then(|| Report::of_text(text)))?;
    let none = HeaderMap::new();
    let headers = headers.unwrap_or(&none);
    let hint = RetryHint::read(headers, data, now, hint_sources(StatusCode::OK));
    let failure = of_report(StatusCode::OK, report, hint).with_phase(Phase::BeforeOutput).with_hint(hint);
    Some(with_headers(failure, dialect, headers))
}

fn of_report(status: StatusCode, report: Report, hint: Option<RetryHint>) -> Failure {
    let effective = match status.as_u16() {
        200..=299 | 500 => report.status.unwrap_or(status),
        // Bedrock: what the model behind said of the request counts more than that it failed.
        424 => report.original.filter(StatusCode::is_client_error).unwrap_or(status),
        _ => status,
    };
    let codes: Vec<&str> = report.codes.iter().map(String::as_str).collect();
    let words = format!("{}{}", report.message.as_deref().unwrap_or(""), report.more);
    let kind = classify(effective, &codes, &words, hint.map(RetryHint::delay));
    let mut failure = Failure::new(kind).with_status(status);
    if let Some(code) = Codes(&codes).best() {
        failure = failure.with_code(&code);
    }
    if let Some(message) = report.message {
        failure = failure.with_message(message);
    }
    match report.request_id {
        Some(id) => failure.with_request_id(&id),
        None => failure,
    }
}

/// A body that is no JSON, under a status that is no success.
fn of_text(status: StatusCode, text: &str, named: Option<String>, hint: Option<RetryHint>) -> Failure {
    let text = if text.len() > TEXT { "" } else { text };
    let code = named.as_deref().unwrap_or("");
    let kind = classify(status, &[code], text, hint.map(RetryHint::delay));
    let failure = Failure::new(kind).with_code(&Codes(&[code]).best().unwrap_or_default());
    if kind == classify(status, &[code], "", None) { failure } else { failure.with_message(text) }
}

/// Where a hint is looked for. Windows of rate limits are reported with every reply, and matter only to one that
/// refuses.
fn hint_sources(status: StatusCode) -> HintSources {
    if matches!(status.as_u16(), 429 | 498 | 503 | 529) {
        return HintSources::default();
    }
    HintSources::default().without(HintSource::RateLimitReset).without(HintSource::AnthropicReset)
}

/// A 2xx body without an error: why it is no reply.
fn no_reply(text: &str, page: bool) -> FailureKind {
    let json = text.starts_with(['{', '[']);
    if text.is_empty() {
        FailureKind::EmptyReply
    } else if json && !page && serde_json::from_str::<&RawValue>(text).is_err() {
        FailureKind::MalformedReply
    } else {
        FailureKind::NotModelReply
    }
}

fn with_headers(failure: Failure, dialect: Dialect, headers: &HeaderMap) -> Failure {
    let failure = failure.with_should_retry(should_retry(headers));
    match ids::request_id(dialect, headers) {
        Some(id) => failure.with_request_id(id),
        None => failure,
    }
}

/// `x-should-retry`, if it is exactly `true` or `false`.
fn should_retry(headers: &HeaderMap) -> Option<bool> {
    let value = headers.get("x-should-retry")?.as_bytes();
    match () {
        () if value.eq_ignore_ascii_case(b"true") => Some(true),
        () if value.eq_ignore_ascii_case(b"false") => Some(false),
        () => None,
    }
}

fn has_html_type(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("").to_ascii_lowercase();
    kind.contains("html")
}

/// Without the byte order mark that some proxies write, and without the space around.
fn trim(text: &str) -> &str {
    let text = text.trim();
    text.strip_prefix('\u{feff}').unwrap_or(text).trim()
}

/// The data of the first event, where an error body is written as a stream.
fn sse_data(text: &str) -> Option<&str> {
    let stream = ["data:", "event:", "id:", "retry:", ":"].iter().any(|field| text.starts_with(field));
    if !stream {
        return None;
    }
    text.lines().find_map(|line| line.strip_prefix("data:")).map(str::trim)
}

#[cfg(test)]
mod tests;
