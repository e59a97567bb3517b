//! Who asks, from the request's headers.

use http::{HeaderMap, HeaderName, HeaderValue};
use stanchion_core::{CacheRetention, CommitPolicy, Context, RequestClass};

use crate::EdgeLayer;

pub(crate) const CANDIDATE: HeaderName = HeaderName::from_static("x-stanchion-candidate");
pub(crate) const ATTEMPTS: HeaderName = HeaderName::from_static("x-stanchion-attempts");

const EVENTS: HeaderName = HeaderName::from_static("x-stanchion-events");

/// Whether a text can be the name of an owner, a session or an epoch in a header, as it stands: UTF-8 without control
/// characters, not blank, without spaces around it, and of at most 256 bytes, since names are keys of bounded maps.
///
/// ```
/// assert!(stanchion_edge::is_name("Büro 7"));
/// assert!(!stanchion_edge::is_name(" ") && !stanchion_edge::is_name("a\nb"));
/// ```
pub fn is_name(text: &str) -> bool {
    (1..=256).contains(&text.len()) && text.trim() == text && !text.chars().any(char::is_control)
}

pub(crate) fn context(headers: &HeaderMap, layer: &EdgeLayer) -> Context {
    let mut context = Context::builder();
    if let Some(observer) = &layer.observer {
        context = context.observer(observer.clone());
    }
    if layer.identity_headers {
        let text = |name: &str| {
            let text = std::str::from_utf8(headers.get(name)?.as_bytes()).ok()?.trim();
            is_name(text).then_some(text)
        };
        if let Some(session) = text("x-stanchion-session") {
            context = context.session(session);
        }
        if let Some(owner) = text("x-stanchion-owner") {
            context = context.owner(owner);
        }
        if let Some(class) = text("x-stanchion-class").and_then(RequestClass::parse) {
            context = context.class(class);
        }
        if let Some(epoch) = text("x-stanchion-context-epoch") {
            context = context.context_epoch(epoch);
        }
    }
    context.build()
}

/// When the reply is to leave, where the request says so.
pub(crate) fn commit_policy(headers: &HeaderMap, layer: &EdgeLayer) -> Option<CommitPolicy> {
    let value = headers.get("x-stanchion-commit").filter(|_| layer.identity_headers)?;
    CommitPolicy::parse(value.to_str().ok()?)
}

/// How long the provider is to keep the prompt, where the request says so.
pub(crate) fn cache_retention(headers: &HeaderMap, layer: &EdgeLayer) -> Option<CacheRetention> {
    let value = headers.get("x-stanchion-cache-retention").filter(|_| layer.identity_headers)?;
    CacheRetention::parse(value.to_str().ok()?)
}

/// Whether the client asks for the events of its request.
pub(crate) fn wants_events(headers: &HeaderMap, layer: &EdgeLayer) -> bool {
    let value = headers.get(EVENTS).filter(|_| layer.identity_headers);
    value.is_some_and(|value| value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"sse"))
}

/// Says that the client gets them.
pub(crate) fn tells_events(headers: &mut HeaderMap) {
    headers.insert(EVENTS, HeaderValue::from_static("sse"));
}

/// Says who answered, and after how many attempts.
pub(crate) fn sign(headers: &mut HeaderMap, candidate: Option<&str>, attempts: u32) {
    if let Some(value) = candidate.and_then(|name| HeaderValue::from_str(name).ok()) {
        headers.insert(CANDIDATE, value);
    }
    if attempts > 0 {
        headers.insert(ATTEMPTS, HeaderValue::from(attempts));
    }
}
