//! A failure in the client's own dialect: as a response, or in band once the response has begun.
//!
//! | what failed | what the client gets |
//! |---|---|
//! | the caller's own mistake, told by the provider in JSON | the provider's status and body, verbatim |
//! | a prompt that does not fit | 400 in the dialect's typed form, by which clients know that they must shorten it |
//! | anything else | the dialect's error object: our own line (what, where, how often, what to do) and the provider's |
//! | after output | one more frame with that object, at which the official client libraries raise |
//!
//! To a client that asks for them, [`control_event`] tells what else happens to its request.
//!
//! A page or other text that is no JSON is never passed on: the error names its status and content type.
//!
//! ```
//! use stanchion_core::{Dialect, DispositionRules, Failure, FailureKind};
//! use stanchion_wire::render;
//!
//! let failure = Failure::new(FailureKind::Overloaded).with_candidate("primary/claude-x").with_attempts(3);
//! let response = render::response(Dialect::AnthropicMessages, &failure, &DispositionRules::default());
//! assert_eq!(response.status(), 503);
//! assert_eq!(response.headers()["x-should-retry"], "false");
//! assert!(response.body().starts_with(br#"{"type":"error","error":{"type":"overloaded_error""#));
//! ```

mod body;

use std::time::Duration;

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Response, StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER},
};
use serde::de::IgnoredAny;
use stanchion_core::{
    Dialect, Disposition, DispositionRules, Event, Failure, FailureKind, Family, Phase, ProviderReply, RetryHint,
};

use self::body::Told;
use crate::error;
pub use crate::frame::Framing;

const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// The response that a client of this dialect gets for a failure.
///
/// Every failure that asking again at once cannot help says `x-should-retry: false`, so that client libraries do not
/// multiply the retries that were made here.
pub fn response(dialect: Dialect, failure: &Failure, rules: &DispositionRules) -> Response<Bytes> {
    let status = Disposition::of(failure, rules).status;
    let mut response = match failure.reply().filter(|reply| status.is_client_error() && is_callers_mistake(reply)) {
        Some(reply) => verbatim(reply),
        None => error_response(status, body::object(dialect, &told(dialect, failure, status), None)),
    };
    let headers = response.headers_mut();
    if let Some(hint) = failure.hint()
        && !headers.contains_key(RETRY_AFTER)
        && !headers.contains_key(RETRY_AFTER_MS)
    {
        retry_after(dialect, headers, hint.delay());
    }
    if !may_ask_again(failure) {
        headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
    }
    if let Some(id) = failure.request_id().and_then(|id| HeaderValue::from_str(id).ok()) {
        headers.entry(request_id_header(dialect)).or_insert(id);
    }
    response
}

/// The frame that tells a failure after output has begun; `None` for a document, which has no frames.
///
/// It must stand at the border of a frame, and nothing may follow it. `sequence` is the next `sequence_number` of a
/// stream of Responses; other dialects have none.
pub fn in_band(dialect: Dialect, framing: Framing, failure: &Failure, sequence: u64) -> Option<Bytes> {
    let status = Disposition::of(failure, &DispositionRules::default()).status;
    let object = body::object(dialect, &told(dialect, failure, status), Some(sequence));
    let frame = match framing {
        Framing::Sse => match dialect {
            Dialect::OpenAiResponses | Dialect::AnthropicMessages => format!("event: error\ndata: {object}\n\n"),
            Dialect::GeminiGenerateContent => format!("data: {object}\r\n\r\n"),
            _ => format!("data: {object}\n\n"),
        },
        Framing::Ndjson => format!("{object}\n"),
        Framing::JsonArray => format!(",\r\n{object}]"),
        Framing::Document => return None,
    };
    Some(frame.into())
}

/// A control event as a Server-Sent Event with the name `stanchion.` and [`Event::name`]; its data is the event as JSON.
///
/// It must stand at the border of a frame. It is no part of the reply, and goes only to clients that asked for it.
///
/// ```
/// use stanchion_core::{Event, FallbackEvent};
/// use stanchion_wire::render;
///
/// let event = Event::ModelFallback(FallbackEvent { from: "a/x".into(), to: "b/y".into() });
/// let told = render::control_event(&event);
/// assert!(told.starts_with("event: stanchion.model_fallback\ndata: {\"type\":\"model_fallback\","));
/// assert!(told.ends_with("}\n\n"));
/// ```
pub fn control_event(event: &Event) -> String {
    let data = serde_json::to_string(event).expect("an event can be written as JSON");
    format!("event: stanchion.{}\ndata: {data}\n\n", event.name())
}

/// An error of our own, without a provider: a bad route, broken JSON, an unknown model.
pub fn local_error(dialect: Dialect, status: StatusCode, code: &str, message: &str) -> Response<Bytes> {
    let told = Told {
        kind: error::kind_of_status(status),
        status,
        code,
        message: message.to_owned(),
        request_id: None,
        wait: None,
    };
    let mut response = error_response(status, body::object(dialect, &told, None));
    response.headers_mut().insert(SHOULD_RETRY, HeaderValue::from_static("false"));
    response
}

/// Whether a failure passes by itself so soon that the client may ask again at once: it never reached a provider.
fn may_ask_again(failure: &Failure) -> bool {
    match failure.kind() {
        FailureKind::QueueFull | FailureKind::QueueTimeout | FailureKind::QueueClosed => true,
        // Another instance answers, and nothing of this one was shown.
        FailureKind::ShuttingDown => failure.phase() != Phase::AfterOutput,
        // A failure of an attempt that opened the circuit comes as that circuit, too.
        FailureKind::CircuitOpen => failure.phase() == Phase::Connect,
        _ => false,
    }
}

/// Whether a provider's reply can be given back as it is: it blames the caller, is whole, and is JSON.
fn is_callers_mistake(reply: &ProviderReply) -> bool {
    reply.status.is_client_error() && reply.complete && is_json(&reply.body)
}

fn is_json(body: &[u8]) -> bool {
    let text = body.trim_ascii();
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    serde_json::from_slice::<IgnoredAny>(text).is_ok()
}

fn verbatim(reply: &ProviderReply) -> Response<Bytes> {
    let mut response = Response::new(reply.body.clone());
    *response.status_mut() = reply.status;
    let headers = response.headers_mut();
    for (name, value) in &reply.headers {
        if is_passed_on(name) {
            headers.append(name, value.clone());
        }
    }
    headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
    response
}

/// The headers of a reply that tell the client something: what it is, how long to wait, which limits hold, whom to ask.
fn is_passed_on(name: &HeaderName) -> bool {
    let name = name.as_str();
    matches!(name, "content-type" | "retry-after" | "retry-after-ms" | "ratelimit")
        || ["x-ratelimit-", "anthropic-ratelimit-", "ratelimit-"].iter().any(|prefix| name.starts_with(prefix))
        || error::REQUEST_IDS.contains(&name)
}

fn error_response(status: StatusCode, object: String) -> Response<Bytes> {
    let mut response = Response::new(object.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Rounded up: a client that comes back too early is refused again.
fn retry_after(dialect: Dialect, headers: &mut HeaderMap, delay: Duration) {
    let millis = delay.as_nanos().div_ceil(1_000_000);
    headers.insert(RETRY_AFTER, HeaderValue::from(u64::try_from(millis.div_ceil(1_000)).unwrap_or(u64::MAX)));
    if dialect.family() == Family::OpenAi {
        headers.insert(RETRY_AFTER_MS, HeaderValue::from(u64::try_from(millis).unwrap_or(u64::MAX)));
    }
}

fn request_id_header(dialect: Dialect) -> &'static str {
    if dialect.family() == Family::Anthropic { "request-id" } else { "x-request-id" }
}

/// What is told of a failure: our own line, then the provider's words.
fn told(dialect: Dialect, failure: &Failure, status: StatusCode) -> Told<'_> {
    let kind = failure.kind();
    let overflow = kind == FailureKind::ContextOverflow;
    Told {
        kind,
        status,
        code: if overflow { kind.code() } else { failure.code().unwrap_or(kind.code()) },
        message: if overflow { overflow_message(dialect, failure) } else { message(failure) },
        request_id: failure.request_id(),
        wait: failure.hint().map(RetryHint::delay),
    }
}

fn message(failure: &Failure) -> String {
    if let Some(words) = failure.message() {
        // No candidate was asked: the words are our own.
        if failure.candidate().is_none() && failure.status().is_none() {
            return words.to_owned();
        }
        return format!("{failure}. The provider says: {words}");
    }
    match failure.reply().filter(|reply| !is_json(&reply.body)) {
        Some(reply) => format!("{failure}. {}", outline(reply)),
        None => failure.to_string(),
    }
}

/// The provider's words first: clients look for them, and for the numbers in them, to know how much to shorten.
fn overflow_message(dialect: Dialect, failure: &Failure) -> String {
    let mut parts = Vec::new();
    let words = failure.message().unwrap_or("");
    if let Some(opening) = body::overflow_opening(dialect)
        && !words.to_ascii_lowercase().contains(&opening.to_ascii_lowercase())
    {
        parts.push(opening);
    }
    if !words.is_empty() {
        parts.push(words);
    }
    if parts.is_empty() { failure.to_string() } else { format!("{} ({failure})", parts.join(": ")) }
}

/// A reply that is no JSON, without its text.
fn outline(reply: &ProviderReply) -> String {
    let kind = reply.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("no content type");
    let kind: String = kind.split(';').next().unwrap_or("").trim().chars().take(64).collect();
    let size = if reply.body.is_empty() { "an empty body" } else { "a body that is no JSON" };
    format!("The answer was HTTP {} with {size} ({kind})", reply.status.as_u16())
}

#[cfg(test)]
mod tests;
