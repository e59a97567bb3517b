use std::{fmt, sync::Arc};

use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use tokio_rustls::TlsAcceptor;

/// What a listener needs for TLS. Clones are the same, and only they are equal.
#[derive(Clone)]
pub struct ServerTls {
    config: Arc<ServerConfig>,
    asks_for_certificate: bool,
}

/// What of it is wrong. Says nothing of what the files hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidTls {
    /// There is no certificate, or one that is none.
    Certificate,
    /// There is no private key.
    Key,
    /// The key is not the certificate's, or of a kind that is not supported.
    Mismatch,
    /// There is no certificate that could sign those of clients.
    ClientCa,
}

impl ServerTls {
    /// Presents a certificate, with those that lead from it to a root, and lets in only clients with a certificate from `client_ca`, if
    /// that is given. All in PEM. HTTP/2 and HTTP/1.1 are agreed on by ALPN.
    ///
    /// # Errors
    ///
    /// If anything is not what it should be.
    pub fn new(certificate: &str, key: &str, client_ca: Option<&str>) -> Result<Self, InvalidTls> {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .expect("the provider supports the default versions");
        let builder = match client_ca {
            None => builder.with_no_client_auth(),
            Some(pem) => {
                let mut roots = RootCertStore::empty();
                for root in certificates(pem).ok_or(InvalidTls::ClientCa)? {
                    roots.add(root).map_err(|_| InvalidTls::ClientCa)?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build();
                builder.with_client_cert_verifier(verifier.map_err(|_| InvalidTls::ClientCa)?)
            }
        };
        let chain = certificates(certificate).ok_or(InvalidTls::Certificate)?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_| InvalidTls::Key)?;
        let mut config = builder.with_single_cert(chain, key).map_err(|_| InvalidTls::Mismatch)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config), asks_for_certificate: client_ca.is_some() })
    }

    /// Whether nobody comes in without a certificate.
    pub fn asks_for_certificate(&self) -> bool {
        self.asks_for_certificate
    }

    /// The same without HTTP/2, for a listener that speaks HTTP/1.1 only.
    #[must_use]
    pub fn without_http2(self) -> Self {
        let mut config = ServerConfig::clone(&self.config);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Self { config: Arc::new(config), ..self }
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.config.clone())
    }
}

/// At least one, and all of them certificates.
fn certificates(pem: &str) -> Option<Vec<CertificateDer<'static>>> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>().ok()?;
    (!certificates.is_empty()).then_some(certificates)
}

impl PartialEq for ServerTls {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.config, &other.config)
    }
}

impl Eq for ServerTls {}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls").field("asks_for_certificate", &self.asks_for_certificate).finish_non_exhaustive()
    }
}

impl fmt::Display for InvalidTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Certificate | Self::ClientCa => "the file holds no certificates in PEM (-----BEGIN CERTIFICATE-----)",
            Self::Key => "the file holds no private key in PEM (-----BEGIN PRIVATE KEY-----)",
            Self::Mismatch => "the key is not that of the certificate, or of a kind that is not supported",
        })
    }
}

impl std::error::Error for InvalidTls {}
