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

/// What a request says of itself in our own headers, if it is believed and says anything.
#[derive(Clone, Copy)]
pub(crate) struct Said<'a>(Option<&'a HeaderMap>);

impl<'a> Said<'a> {
    pub(crate) fn by(headers: &'a HeaderMap, layer: &EdgeLayer) -> Self {
        // Most requests say nothing: one look at the names, and none at each of ours.
        let says = layer.identity_headers && headers.keys().any(|name| name.as_str().starts_with("x-stanchion-"));
        Self(says.then_some(headers))
    }

    fn bytes(self, name: &str) -> Option<&'a [u8]> {
        Some(self.0?.get(name)?.as_bytes())
    }

    fn text(self, name: &str) -> Option<&'a str> {
        std::str::from_utf8(self.bytes(name)?).ok()
    }

    fn name(self, name: &str) -> Option<&'a str> {
        self.text(name).map(str::trim).filter(|text| is_name(text))
    }

    /// Who asks.
    pub(crate) fn context(self, layer: &EdgeLayer) -> Context {
        let mut context = Context::builder();
        if let Some(observer) = &layer.observer {
            context = context.observer(observer.clone());
        }
        if let Some(session) = self.name("x-stanchion-session") {
            context = context.session(session);
        }
        if let Some(owner) = self.name("x-stanchion-owner") {
            context = context.owner(owner);
        }
        if let Some(class) = self.name("x-stanchion-class").and_then(RequestClass::parse) {
            context = context.class(class);
        }
        if let Some(epoch) = self.name("x-stanchion-context-epoch") {
            context = context.context_epoch(epoch);
        }
        context.build()
    }

    /// When the reply is to leave, where the request says so.
    pub(crate) fn commit_policy(self) -> Option<CommitPolicy> {
        CommitPolicy::parse(self.text("x-stanchion-commit")?)
    }

    /// How long the provider is to keep the prompt, where the request says so.
    pub(crate) fn cache_retention(self) -> Option<CacheRetention> {
        CacheRetention::parse(self.text("x-stanchion-cache-retention")?)
    }

    /// Whether the client asks for the events of its request.
    pub(crate) fn wants_events(self) -> bool {
        self.bytes(EVENTS.as_str()).is_some_and(|value| value.trim_ascii().eq_ignore_ascii_case(b"sse"))
    }
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
        // One, as nearly always, is there already.
        let value = if attempts == 1 { HeaderValue::from_static("1") } else { HeaderValue::from(attempts) };
        headers.insert(ATTEMPTS, value);
    }
}
