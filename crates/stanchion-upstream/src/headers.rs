//! Which headers pass, in both directions.

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_TYPE},
};
use stanchion_core::{Candidate, Family, Secret};

use crate::Unsendable;

const API_KEY: HeaderName = HeaderName::from_static("api-key");
const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const X_GOOG_API_KEY: HeaderName = HeaderName::from_static("x-goog-api-key");
const ANTHROPIC_VERSION: HeaderName = HeaderName::from_static("anthropic-version");

/// Whether a client's header stays with us.
fn stays(name: &str) -> bool {
    matches!(
        name,
        // What concerns the client's own connection only (RFC 9110, 7.6.1), and what is made anew for ours.
        "connection" | "keep-alive" | "te" | "trailer" | "transfer-encoding" | "upgrade" | "http2-settings"
        | "host" | "content-length" | "accept-encoding" | "expect"
        // The client's credentials. They are for us; the candidate has its own.
        | "authorization" | "x-api-key" | "api-key" | "x-goog-api-key" | "ocp-apim-subscription-key"
        | "cookie" | "cookie2"
        // What selects an account under that credential. With another credential it would be refused.
        | "openai-organization" | "openai-project" | "x-goog-user-project"
        // Where the client is. Cloudflare, which many providers stand behind, refuses its own headers from outside.
        | "forwarded" | "x-real-ip" | "x-client-ip" | "true-client-ip"
    ) || ["proxy-", "x-forwarded-", "x-stanchion-", "cf-"].iter().any(|prefix| name.starts_with(prefix))
}

/// What a candidate sets in each of its requests, over what the client says.
pub(crate) fn own(candidate: &Candidate) -> Result<HeaderMap, Unsendable> {
    let mut own = HeaderMap::new();
    own.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    if let Some(version) = candidate.api_version().filter(|_| candidate.family() == Family::Anthropic) {
        let version = HeaderValue::from_str(version).map_err(|_| Unsendable::ApiVersion)?;
        own.insert(ANTHROPIC_VERSION, version);
    }
    if let Some(credential) = candidate.credential() {
        let (name, value) = authorization(candidate, credential)?;
        own.insert(name, value);
    }
    for name in candidate.headers().keys() {
        own.remove(name);
    }
    for (name, value) in candidate.headers() {
        own.append(name, value.clone());
    }
    Ok(own)
}

/// The headers of the provider's request, made from the client's and the candidate's [own](own).
pub(crate) fn for_provider(mut headers: HeaderMap, family: Family, own: &HeaderMap) -> HeaderMap {
    let connection: Vec<HeaderValue> = headers.get_all(CONNECTION).iter().cloned().collect();
    let stays = |name: &&HeaderName| stays(name.as_str()) || named_in(&connection, name.as_str());
    let ours: Vec<HeaderName> = headers.keys().filter(stays).cloned().collect();
    for name in ours {
        headers.remove(name);
    }
    let mut last = None;
    for (name, value) in own {
        // The values of one name follow one another.
        if last.replace(name) == Some(name) {
            headers.append(name, value.clone());
        } else {
            headers.insert(name, value.clone());
        }
    }
    headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
    if family == Family::Anthropic {
        headers.entry(ANTHROPIC_VERSION).or_insert(HeaderValue::from_static("2023-06-01"));
    }
    headers
}

fn authorization(candidate: &Candidate, credential: &Secret) -> Result<(HeaderName, HeaderValue), Unsendable> {
    let (name, value) = match candidate.family() {
        Family::Anthropic => (X_API_KEY, HeaderValue::from_str(credential.expose())),
        // Azure, whose API with versions holds what follows "Bearer" to be a token of its directory.
        Family::OpenAi if candidate.api_version().is_some() => (API_KEY, HeaderValue::from_str(credential.expose())),
        Family::Gemini => (X_GOOG_API_KEY, HeaderValue::from_str(credential.expose())),
        _ => (AUTHORIZATION, HeaderValue::try_from(format!("Bearer {}", credential.expose()))),
    };
    let mut value = value.map_err(|_| Unsendable::Credential)?;
    value.set_sensitive(true);
    Ok((name, value))
}

/// Removes from the provider's response what concerns its own connection and host only, and its cookies.
pub(crate) fn from_provider(headers: &mut HeaderMap) {
    if !headers.keys().any(|name| is_the_providers_own(name.as_str())) {
        return;
    }
    let connection: Vec<HeaderValue> = headers.get_all(CONNECTION).iter().cloned().collect();
    let own = |name: &&HeaderName| is_the_providers_own(name.as_str()) || named_in(&connection, name.as_str());
    let own: Vec<HeaderName> = headers.keys().filter(own).cloned().collect();
    for name in own {
        headers.remove(name);
    }
}

fn is_the_providers_own(name: &str) -> bool {
    matches!(
        name,
        "connection"
            | "keep-alive"
            | "proxy-connection"
            | "proxy-authenticate"
            | "proxy-authentication-info"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
            | "set-cookie"
            | "set-cookie2"
            | "alt-svc"
            | "strict-transport-security"
    )
}

fn named_in(connection: &[HeaderValue], name: &str) -> bool {
    connection.iter().flat_map(tokens).any(|token| token.eq_ignore_ascii_case(name))
}

pub(crate) fn tokens(value: &HeaderValue) -> impl Iterator<Item = &str> {
    value.to_str().unwrap_or_default().split(',').map(str::trim).filter(|token| !token.is_empty())
}
