//! What fails together, as an identity that gives nothing away.
//!
//! A circuit or a pool of permits belongs to a *failure domain*: everything that decides where a request ends up and
//! under whose account. Two candidates with equal scopes share one, so that what is learnt from one protects the other;
//! if they differ in anything that may lead elsewhere, such as a routing header or the credential, they do not.
//!
//! The scope holds credentials and private addresses, so it is never kept: a [`FailureDomain`] is its HMAC-SHA-256
//! under a [`DomainSecret`], which is random and lives as long as the process. Nobody without the secret can test a
//! guess at a credential, and a domain means nothing to another process or after a restart.
//!
//! # The canonical text
//!
//! What is hashed is a compact JSON array of nine elements:
//!
//! | # | element | canonical form |
//! |---|---|---|
//! | 1 | provider | trimmed; case matters |
//! | 2 | wire API | trimmed; case matters |
//! | 3 | base URL | see below |
//! | 4 | model | trimmed; case matters |
//! | 5 | tier | trimmed; absent is empty |
//! | 6 | API version | trimmed; absent is empty |
//! | 7 | credential | exactly as given; absent is empty |
//! | 8 | headers | array of `[name, value]`, the name trimmed and in lower case, the value trimmed, sorted by name; equal names stay in order |
//! | 9 | policy | object, its members in the order given |
//!
//! The base URL is parsed as the WHATWG says, which takes out surrounding white space and a port that is the scheme's
//! own. Then the fragment goes, the host is put in lower case, the query is sorted by name (equal names stay in order)
//! and goes if it is empty, and all slashes at the end of the path go, unless the path is just `/`. Scheme, user info
//! and the case of the path matter. What does not parse is trimmed, and loses the slashes at its end.

mod cache;
mod canonical;

#[cfg(test)]
mod tests;

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

pub use self::cache::DomainCache;

/// The identity of a failure domain. Equal for scopes that fail together, and of no meaning outside its
/// [`DomainSecret`].
///
/// `Debug` prints `FailureDomain(..)`: a digest in a log would let domains be told apart, and would outlive its use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FailureDomain([u8; 32]);

impl FailureDomain {
    /// The digest as 64 lower-case hexadecimal digits. For tests and test vectors only: never log it, send it or store
    /// it.
    pub fn to_hex(self) -> String {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        self.0
            .iter()
            .flat_map(|byte| [byte >> 4, byte & 15])
            .map(|digit| char::from(DIGITS[usize::from(digit)]))
            .collect()
    }
}

impl fmt::Debug for FailureDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FailureDomain(..)")
    }
}

/// What makes up a failure domain. All of it may be secret, so `Debug` prints `DomainScope(..)`.
///
/// Default: everything empty or absent. An absent value and an empty one are the same.
#[derive(Clone, Copy, Default)]
pub struct DomainScope<'a> {
    /// The provider's name.
    pub provider: &'a str,
    /// Which API of the provider's is spoken, such as `openai-completions`.
    pub wire_api: &'a str,
    /// Where the provider is. Compared as an address, not as text.
    pub base_url: &'a str,
    /// The provider's name for the model.
    pub model: &'a str,
    /// The service tier.
    pub tier: Option<&'a str>,
    /// The version of the API.
    pub api_version: Option<&'a str>,
    /// The key or token, not trimmed: white space may be part of it.
    pub credential: Option<&'a str>,
    /// Headers that are set on every request, as they may route it. The order of different names is of no matter.
    pub headers: &'a [(&'a str, &'a str)],
    /// The settings that a domain is kept under, by name; none by default. Domains with different policies are
    /// different.
    pub policy: &'a [(&'a str, u64)],
}

impl fmt::Debug for DomainScope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DomainScope(..)")
    }
}

/// The key under which domains are made: 32 bytes that never leave the process.
///
/// Each registry of circuits or permits has one of its own, so that its domains cannot be matched with another's.
/// `Debug` prints `DomainSecret(..)`.
pub struct DomainSecret([u8; 32]);

impl DomainSecret {
    /// A new secret from the operating system's source of randomness.
    ///
    /// # Panics
    ///
    /// If the operating system has no randomness to give. A predictable key would open the credentials to guessing.
    pub fn random() -> Self {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).expect("the operating system gives randomness");
        Self(secret)
    }

    /// A given secret, for tests.
    pub const fn from_bytes(secret: [u8; 32]) -> Self {
        Self(secret)
    }

    /// The failure domain of a scope.
    ///
    /// ```
    /// use stanchion_core::{DomainScope, DomainSecret};
    ///
    /// let secret = DomainSecret::random();
    /// let scope = DomainScope { provider: "acme", base_url: "https://acme.example/v1", ..DomainScope::default() };
    /// let same = DomainScope { base_url: "https://ACME.example:443/v1/", ..scope };
    /// let other = DomainScope { credential: Some("another account's"), ..scope };
    /// assert_eq!(secret.domain(&scope), secret.domain(&same));
    /// assert_ne!(secret.domain(&scope), secret.domain(&other));
    /// ```
    pub fn domain(&self, scope: &DomainScope<'_>) -> FailureDomain {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes a key of any length");
        // Hashed as it is written, so that no copy of the credential stays behind in freed memory.
        canonical::write(scope, |bytes| mac.update(bytes));
        FailureDomain(mac.finalize().into_bytes().into())
    }
}

impl fmt::Debug for DomainSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DomainSecret(..)")
    }
}
