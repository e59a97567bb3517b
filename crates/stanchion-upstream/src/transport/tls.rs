use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

/// Whom a transport trusts besides the platform's roots, and who it is itself. Cheap to clone.
///
/// ```no_run
/// use stanchion_upstream::{ClientTls, Transport};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let tls = ClientTls::new()
///     .with_roots(&std::fs::read("internal-ca.pem")?)?
///     .with_identity(&std::fs::read("client.pem")?, &std::fs::read("client.key")?)?;
/// let transport = Transport::builder().tls(tls).build();
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ClientTls {
    roots: Arc<[CertificateDer<'static>]>,
    identity: Option<Arc<Identity>>,
}

#[derive(PartialEq, Eq)]
struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl ClientTls {
    /// The platform's roots, and no certificate of our own.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts these certificates too, in PEM.
    ///
    /// # Errors
    ///
    /// If there is none, or one that is none.
    pub fn with_roots(mut self, pem: &[u8]) -> Result<Self, InvalidTls> {
        self.roots = certificates(pem).ok_or(InvalidTls::Roots)?.into();
        let mut store = RootCertStore::empty();
        for root in self.roots.iter() {
            store.add(root.clone()).map_err(|_| InvalidTls::Roots)?;
        }
        Ok(self)
    }

    /// Presents this certificate, with those that lead from it to a root, to servers that ask for one. Both in PEM.
    ///
    /// # Errors
    ///
    /// If there is no certificate or no key, or one is not the other's.
    pub fn with_identity(mut self, certificate: &[u8], key: &[u8]) -> Result<Self, InvalidTls> {
        let chain = certificates(certificate).ok_or(InvalidTls::Certificate)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| InvalidTls::Key)?;
        self.identity = Some(Arc::new(Identity { chain, key }));
        self.config(RootCertStore::empty())?;
        Ok(self)
    }

    /// What rustls makes of it, with the platform's roots.
    pub(super) fn client_config(&self) -> ClientConfig {
        let mut store = RootCertStore::empty();
        let native = rustls_native_certs::load_native_certs();
        store.add_parsable_certificates(native.certs);
        if store.is_empty() && self.roots.is_empty() {
            let error = native.errors.first().map(ToString::to_string);
            tracing::warn!(target: "stanchion", error, "no roots of trust, so no https: set SSL_CERT_FILE");
        }
        store.add_parsable_certificates(self.roots.iter().cloned());
        self.config(store).expect("it was built before")
    }

    fn config(&self, store: RootCertStore) -> Result<ClientConfig, InvalidTls> {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider supports the default versions")
            .with_root_certificates(store);
        match self.identity.as_deref() {
            None => Ok(builder.with_no_client_auth()),
            Some(Identity { chain, key }) => {
                builder.with_client_auth_cert(chain.clone(), key.clone_key()).map_err(|_| InvalidTls::Mismatch)
            }
        }
    }
}

/// At least one, and all of them certificates.
fn certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().ok()?;
    (!certificates.is_empty()).then_some(certificates)
}

impl Hash for ClientTls {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.roots.hash(state);
        self.identity.as_ref().map(|identity| &identity.chain).hash(state);
    }
}

impl fmt::Debug for ClientTls {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTls")
            .field("roots", &self.roots.len())
            .field("identity", &self.identity.is_some())
            .finish()
    }
}

/// What is wrong with certificates and keys. Says nothing of what they hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidTls {
    /// There is no certificate among the roots, or one that is none.
    Roots,
    /// There is no certificate, or one that is none.
    Certificate,
    /// There is no private key.
    Key,
    /// The key is not the certificate's, or of a kind that is not supported.
    Mismatch,
}

impl fmt::Display for InvalidTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Roots | Self::Certificate => "the file holds no certificates in PEM (-----BEGIN CERTIFICATE-----)",
            Self::Key => "the file holds no private key in PEM (-----BEGIN PRIVATE KEY-----)",
            Self::Mismatch => "the key is not that of the certificate, or of a kind that is not supported",
        })
    }
}

impl std::error::Error for InvalidTls {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_certificate_or_another_ones_key_is_refused_and_no_key_is_shown() {
        let made = || rcgen::generate_simple_self_signed(["x".to_owned()]).unwrap();
        let (one, other) = (made(), made());
        let (certificate, key) = (one.cert.pem(), one.signing_key.serialize_pem());
        let tls = ClientTls::new().with_roots(certificate.as_bytes()).unwrap();
        let tls = tls.with_identity(certificate.as_bytes(), key.as_bytes()).unwrap();
        assert_eq!(format!("{tls:?}"), "ClientTls { roots: 1, identity: true }");
        assert_eq!(tls, tls.clone());
        let identity = |certificate: &str, key: &str| {
            ClientTls::new().with_identity(certificate.as_bytes(), key.as_bytes()).unwrap_err()
        };
        assert_eq!(identity(&certificate, &other.signing_key.serialize_pem()), InvalidTls::Mismatch);
        assert_eq!(identity(&certificate, &certificate), InvalidTls::Key);
        assert_eq!(identity(&key, &key), InvalidTls::Certificate);
        let nonsense = certificate.replace("MII", "AAA");
        for roots in ["", "nonsense", &key, &nonsense] {
            assert_eq!(ClientTls::new().with_roots(roots.as_bytes()).unwrap_err(), InvalidTls::Roots);
        }
    }
}
