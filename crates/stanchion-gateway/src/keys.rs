//! Which clients may come in, what they may ask for and how often, and what they may say of themselves.

mod limiter;
mod make;

use std::{
    collections::HashMap,
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use sha2::{Digest, Sha256};
use stanchion::core::Tenant;

pub use self::{
    limiter::{Limiter, Limiters, Running, TooMuch},
    make::{hash_of, make},
};
use crate::{config::Client, gateway::Glob};

const OWNER: HeaderName = HeaderName::from_static("x-stanchion-owner");
const CLASS: HeaderName = HeaderName::from_static("x-stanchion-class");

/// The keys that clients must present. Without any, everybody may come in.
///
/// Only their SHA-256 are known. Whose key it is that is presented is one look into a table, however many there are, and how long it
/// takes tells nothing: the places of the table follow from the digest under a secret of the process, and digests are compared to the end.
#[derive(Clone)]
pub struct ClientKeys {
    known: Arc<HashMap<KeyDigest, Identity>>,
    /// Who everybody is, where no key is needed.
    anybody: Identity,
}

/// What is known of a client by its key. Cheap to clone.
#[derive(Clone)]
pub struct Identity(Arc<Known>);

struct Known {
    believed: bool,
    owner: Option<HeaderValue>,
    class: Option<HeaderValue>,
    models: Option<AllowedModels>,
    limiter: Option<Arc<Limiter>>,
    tenant: Option<Tenant>,
}

/// What a client may ask for. In the extensions of its requests.
#[derive(Debug, Clone)]
pub struct AllowedModels(Arc<[Glob]>);

impl AllowedModels {
    /// These names and patterns.
    pub fn new(patterns: &[String]) -> Self {
        Self(patterns.iter().map(|pattern| Glob::new(pattern)).collect())
    }

    /// Whether it may ask for a model by this name.
    pub fn allow(&self, name: &str) -> bool {
        self.0.iter().any(|glob| glob.matches(name))
    }
}

/// A SHA-256 that is compared to its end.
#[derive(Clone, Copy)]
struct KeyDigest([u8; 32]);

impl KeyDigest {
    fn of(key: &[u8]) -> Self {
        Self(Sha256::digest(key).into())
    }
}

impl PartialEq for KeyDigest {
    fn eq(&self, other: &Self) -> bool {
        let differ = self.0.iter().zip(other.0).fold(0, |differ, (a, b)| differ | (a ^ b));
        std::hint::black_box(differ) == 0
    }
}

impl Eq for KeyDigest {}

impl Hash for KeyDigest {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Identity {
    fn new(known: Known) -> Self {
        Self(Arc::new(known))
    }

    /// Takes out of a request's headers what the client may not say of itself, and puts in what is known.
    pub fn apply(&self, headers: &mut HeaderMap) {
        if !self.0.believed {
            let said: Vec<HeaderName> =
                headers.keys().filter(|name| name.as_str().starts_with("x-stanchion-")).cloned().collect();
            for name in said {
                headers.remove(name);
            }
        }
        for (name, known) in [(OWNER, &self.0.owner), (CLASS, &self.0.class)] {
            if let Some(known) = known {
                headers.insert(name, known.clone());
            }
        }
    }

    /// What it may ask for; `None` for everything.
    pub fn models(&self) -> Option<&AllowedModels> {
        self.0.models.as_ref()
    }

    /// Who it is, whatever it says; `None` where everybody may come in.
    pub fn tenant(&self) -> Option<&Tenant> {
        self.0.tenant.as_ref()
    }

    /// Counts one more request of the client; what is returned is to be kept until the request is over.
    ///
    /// # Errors
    ///
    /// If it asks for more than it may.
    pub fn admit(&self) -> Result<Option<Running>, TooMuch> {
        self.0.limiter.as_ref().map(Limiter::admit).transpose()
    }
}

impl ClientKeys {
    /// These clients and no others; anybody if there is none, and then believed or not.
    pub fn new(clients: &[Client], anybody_is_believed: bool, limiters: &mut Limiters) -> Self {
        limiters.retain(clients);
        let known = clients.iter().map(|client| {
            let identity = Identity::new(Known {
                believed: client.identity_headers,
                owner: client
                    .owner
                    .as_deref()
                    .map(|owner| HeaderValue::from_str(owner).expect("no configuration has an owner that is no name")),
                class: client.class.map(|class| HeaderValue::from_static(class.as_str())),
                models: client.models.as_deref().map(AllowedModels::new),
                limiter: limiters.of(client),
                tenant: Some(Tenant::new(client.name.as_str())),
            });
            (KeyDigest(client.key), identity)
        });
        let known: Arc<HashMap<_, _>> = Arc::new(known.collect());
        let anybody = Known {
            believed: anybody_is_believed,
            owner: None,
            class: None,
            models: None,
            limiter: None,
            tenant: None,
        };
        Self { known, anybody: Identity::new(anybody) }
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
            .filter(|presented| !presented.is_empty())
            .find_map(|presented| self.known.get(&KeyDigest::of(presented)))
    }
}

impl Default for ClientKeys {
    fn default() -> Self {
        Self::new(&[], true, &mut Limiters::default())
    }
}

impl fmt::Debug for ClientKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientKeys").field("count", &self.known.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("believed", &self.0.believed).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
