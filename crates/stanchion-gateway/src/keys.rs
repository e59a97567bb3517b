//! Which clients may come in, and what they may say of themselves.

use std::{fmt, sync::Arc};

use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use sha2::{Digest, Sha256};

use crate::config::Client;

const OWNER: HeaderName = HeaderName::from_static("x-stanchion-owner");
const CLASS: HeaderName = HeaderName::from_static("x-stanchion-class");

/// The keys that clients must present. Without any, everybody may come in.
#[derive(Clone)]
pub struct ClientKeys {
    known: Arc<[([u8; 32], Identity)]>,
    /// Who everybody is, where no key is needed.
    anybody: Identity,
}

/// What is known of a client by its key.
#[derive(Clone)]
pub struct Identity {
    believed: bool,
    owner: Option<HeaderValue>,
    class: Option<HeaderValue>,
}

impl Identity {
    /// Takes out of a request's headers what the client may not say of itself, and puts in what is known.
    pub fn apply(&self, headers: &mut HeaderMap) {
        if !self.believed {
            let said: Vec<HeaderName> =
                headers.keys().filter(|name| name.as_str().starts_with("x-stanchion-")).cloned().collect();
            for name in said {
                headers.remove(name);
            }
        }
        for (name, known) in [(OWNER, &self.owner), (CLASS, &self.class)] {
            if let Some(known) = known {
                headers.insert(name, known.clone());
            }
        }
    }
}

impl ClientKeys {
    /// These clients and no others; anybody if there is none, and then believed or not.
    pub fn new(clients: &[Client], anybody_is_believed: bool) -> Self {
        let known = clients.iter().filter(|client| !client.key.expose().is_empty());
        let known = known.map(|client| {
            let identity = Identity {
                believed: client.identity_headers,
                owner: client.owner.as_deref().and_then(|owner| HeaderValue::from_str(owner).ok()),
                class: client.class.map(|class| HeaderValue::from_static(class.as_str())),
            };
            (digest(client.key.expose().as_bytes()), identity)
        });
        let anybody = Identity { believed: anybody_is_believed, owner: None, class: None };
        Self { known: known.collect(), anybody }
    }

    /// Whether everybody may come in.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Who a request is from, by the key that it presents in any of the ways in which the dialects' client libraries do.
    /// `None` if it may not come in.
    pub fn identify(&self, headers: &HeaderMap, uri: &Uri) -> Option<&Identity> {
        if self.known.is_empty() {
            return Some(&self.anybody);
        }
        let header = |name: &str| headers.get(name).map(HeaderValue::as_bytes);
        let bearer =
            header("authorization").and_then(|value| value.strip_prefix(b"Bearer ").or(value.strip_prefix(b"bearer ")));
        let query = uri
            .query()
            .and_then(|query| query.split('&').find_map(|pair| pair.strip_prefix("key=")))
            .map(str::as_bytes);
        [bearer, header("x-api-key"), header("x-goog-api-key"), header("api-key"), query]
            .into_iter()
            .flatten()
            .find_map(|presented| self.whose(presented))
    }

    /// Compares digests, each to the end: how long it takes tells nothing of the keys.
    fn whose(&self, presented: &[u8]) -> Option<&Identity> {
        let presented = digest(presented);
        self.known.iter().fold(None, |found, (key, identity)| {
            let differ = key.iter().zip(presented).fold(0, |differ, (a, b)| differ | (a ^ b));
            if std::hint::black_box(differ) == 0 { Some(identity) } else { found }
        })
    }
}

impl Default for ClientKeys {
    fn default() -> Self {
        Self::new(&[], true)
    }
}

fn digest(key: &[u8]) -> [u8; 32] {
    Sha256::digest(key).into()
}

impl fmt::Debug for ClientKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientKeys").field("count", &self.known.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("believed", &self.believed).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use stanchion::core::{RequestClass, Secret};

    use super::*;

    fn client(key: &str) -> Client {
        Client { key: Secret::new(key), owner: None, class: None, identity_headers: true }
    }

    fn admits(keys: &ClientKeys, name: &'static str, value: &str, uri: &str) -> bool {
        let mut headers = HeaderMap::new();
        if !name.is_empty() {
            headers.insert(name, value.parse().unwrap());
        }
        keys.identify(&headers, &uri.parse().unwrap()).is_some()
    }

    #[test]
    fn a_key_is_taken_as_every_client_library_sends_it_and_no_other_is() {
        let keys = ClientKeys::new(&[client("k1"), client("k2")], true);
        for (name, value, uri, expected) in [
            ("authorization", "Bearer k1", "/v1/messages", true),
            ("authorization", "bearer k2", "/v1/messages", true),
            ("x-api-key", "k2", "/v1/messages", true),
            ("x-goog-api-key", "k1", "/v1beta/models/m:generateContent", true),
            ("", "", "/v1beta/models/m:generateContent?alt=sse&key=k1", true),
            ("authorization", "k1", "/v1/messages", false),
            ("authorization", "Bearer k3", "/v1/messages", false),
            ("authorization", "Bearer ", "/v1/messages", false),
            ("", "", "/v1/messages", false),
        ] {
            assert_eq!(admits(&keys, name, value, uri), expected, "{name} {value} {uri}");
        }
        assert!(admits(&ClientKeys::default(), "", "", "/v1/messages"));
        assert!(!format!("{keys:?}").contains("k1"));
    }

    #[test]
    fn a_key_may_say_whose_requests_they_are_over_what_the_client_says() {
        let pinned = Client {
            owner: Some("team".into()),
            class: Some(RequestClass::Background),
            identity_headers: false,
            ..client("k1")
        };
        let keys = ClientKeys::new(&[pinned, Client { owner: Some("root".into()), ..client("k2") }], true);
        let said = || {
            let mut headers = HeaderMap::new();
            for name in
                ["x-stanchion-owner", "x-stanchion-class", "x-stanchion-session", "x-stanchion-events", "accept"]
            {
                headers.insert(name, HeaderValue::from_static("mine"));
            }
            headers
        };
        let told = |key: &str| {
            let mut headers = said();
            headers.insert("x-api-key", key.parse().unwrap());
            keys.identify(&headers.clone(), &"/".parse().unwrap()).unwrap().apply(&mut headers);
            let mut told: Vec<String> = headers
                .iter()
                .filter(|(name, _)| name.as_str() != "x-api-key")
                .map(|(name, value)| format!("{name}={}", value.to_str().unwrap()))
                .collect();
            told.sort();
            told
        };
        assert_eq!(told("k1"), ["accept=mine", "x-stanchion-class=background", "x-stanchion-owner=team"]);
        assert_eq!(
            told("k2"),
            [
                "accept=mine",
                "x-stanchion-class=mine",
                "x-stanchion-events=mine",
                "x-stanchion-owner=root",
                "x-stanchion-session=mine"
            ]
        );
        let mut headers = said();
        ClientKeys::new(&[], false).identify(&said(), &"/".parse().unwrap()).unwrap().apply(&mut headers);
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["accept"]);
    }
}
