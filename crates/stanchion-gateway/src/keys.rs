//! Which clients may come in.

use std::{fmt, sync::Arc};

use http::{HeaderMap, Uri};
use sha2::{Digest, Sha256};
use stanchion::core::Secret;

/// The keys that clients must present. Without any, everybody may come in.
#[derive(Clone, Default)]
pub struct ClientKeys {
    digests: Arc<[[u8; 32]]>,
}

impl ClientKeys {
    /// These keys and no others.
    pub fn new<'a>(keys: impl IntoIterator<Item = &'a Secret>) -> Self {
        let keys = keys.into_iter().filter(|key| !key.expose().is_empty());
        Self { digests: keys.map(|key| digest(key.expose().as_bytes())).collect() }
    }

    /// Whether everybody may come in.
    pub fn is_empty(&self) -> bool {
        self.digests.is_empty()
    }

    /// Whether a request presents one of the keys, in any of the ways in which the dialects' client libraries do.
    pub fn admit(&self, headers: &HeaderMap, uri: &Uri) -> bool {
        if self.digests.is_empty() {
            return true;
        }
        let header = |name: &str| headers.get(name).map(http::HeaderValue::as_bytes);
        let bearer =
            header("authorization").and_then(|value| value.strip_prefix(b"Bearer ").or(value.strip_prefix(b"bearer ")));
        let query = uri
            .query()
            .and_then(|query| query.split('&').find_map(|pair| pair.strip_prefix("key=")))
            .map(str::as_bytes);
        [bearer, header("x-api-key"), header("x-goog-api-key"), header("api-key"), query]
            .into_iter()
            .flatten()
            .any(|presented| self.knows(presented))
    }

    /// Compares digests, each to the end: how long it takes tells nothing of the keys.
    fn knows(&self, presented: &[u8]) -> bool {
        let presented = digest(presented);
        self.digests.iter().fold(false, |known, key| {
            let differ = key.iter().zip(presented).fold(0, |differ, (a, b)| differ | (a ^ b));
            known | (std::hint::black_box(differ) == 0)
        })
    }
}

fn digest(key: &[u8]) -> [u8; 32] {
    Sha256::digest(key).into()
}

impl fmt::Debug for ClientKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientKeys").field("count", &self.digests.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admits(keys: &ClientKeys, name: &'static str, value: &str, uri: &str) -> bool {
        let mut headers = HeaderMap::new();
        if !name.is_empty() {
            headers.insert(name, value.parse().unwrap());
        }
        keys.admit(&headers, &uri.parse().unwrap())
    }

    #[test]
    fn a_key_is_taken_as_every_client_library_sends_it_and_no_other_is() {
        let keys = ClientKeys::new(&[Secret::new("k1"), Secret::new("k2")]);
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
}
