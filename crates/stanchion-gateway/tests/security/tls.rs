//! TLS in both directions: who is let in, whom the gateway speaks to, and as whom.

use std::{path::PathBuf, sync::Arc};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    server::WebPkiClientVerifier,
};
use stanchion_gateway::{
    config::Config,
    gateway::Parts,
    reload::{Reloaded, Reloader},
    server::Server,
};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{TlsAcceptor, TlsConnector, client::TlsStream};

use crate::peers::{Client, Listening, Provider, SOON, chat, chat_with, config, statuses};

/// Who signs certificates.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

/// A certificate and its key, in PEM.
pub(crate) struct Signed {
    pub(crate) cert: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    pub(crate) fn sign(&self) -> Signed {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        Signed { cert: params.signed_by(&key, &self.issuer).unwrap().pem(), key: key.serialize_pem() }
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap()).unwrap();
        roots
    }
}

impl Signed {
    fn identity(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let cert = CertificateDer::from_pem_slice(self.cert.as_bytes()).unwrap();
        (vec![cert], PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap())
    }
}

/// A folder that goes with its test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("stanchion-security-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// The path of a file with this content.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Connects as a client that trusts an authority, and perhaps has a certificate.
pub(crate) async fn connect(
    address: std::net::SocketAddr,
    trusted: &Authority,
    own: Option<&Signed>,
    protocols: &[&str],
) -> std::io::Result<TlsStream<TcpStream>> {
    let builder = ClientConfig::builder().with_root_certificates(trusted.roots());
    let mut config = match own {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let (chain, key) = own.identity();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    };
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    timeout(SOON, TlsConnector::from(Arc::new(config)).connect(name, stream)).await.expect("an end of the handshake")
}

/// What a chat over such a connection is answered with; nothing where nobody is let in.
async fn ask(stream: std::io::Result<TlsStream<TcpStream>>) -> String {
    let Ok(stream) = stream else { return String::new() };
    let mut client = Client::of(stream);
    client.send(chat("connection: close\r\n")).await;
    client.rest().await
}

#[tokio::test]
async fn a_listener_speaks_tls_and_a_renewed_certificate_counts_at_once() {
    let (folder, provider) = (Folder::new("listener"), Provider::start().await);
    let (old, new) = (Authority::new(), Authority::new());
    let first = old.sign();
    let (cert, key) = (folder.write("cert.pem", &first.cert), folder.write("key.pem", &first.key));
    let path = folder.write("config.toml", &config(&format!("tls = {{ cert = {cert:?}, key = {key:?} }}"), &provider));
    let mut reloader = Reloader::begin(path.as_ref(), Config::load(path.as_ref()).unwrap(), Parts::new(), None, false);
    let server = Server::bind(reloader.listen(), reloader.current().clone(), false).await.unwrap();
    let address = server.address().unwrap();
    let serving = tokio::spawn(async move {
        server.serve(std::future::pending()).await;
    });

    for (offered, agreed) in [(&["h2", "http/1.1"][..], "h2"), (&["http/1.1"], "http/1.1")] {
        let stream = connect(address, &old, None, offered).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(agreed.as_bytes()));
    }
    assert_eq!(statuses(&ask(connect(address, &old, None, &[]).await).await), ["200"]);
    assert_eq!(provider.asked().len(), 1);
    let mut plain = Client::of(TcpStream::connect(address).await.unwrap());
    plain.send(chat("")).await;
    assert!(!plain.rest().await.contains("HTTP/"), "it is no HTTP");
    let mut kept = Client::of(connect(address, &old, None, &[]).await.unwrap());

    // A key that is not the certificate's changes nothing.
    let second = new.sign();
    folder.write("cert.pem", &second.cert);
    assert_eq!(reloader.reload().await, Reloaded::Refused);
    assert_eq!(statuses(&ask(connect(address, &old, None, &[]).await).await), ["200"]);
    folder.write("key.pem", &second.key);
    assert_eq!(reloader.reload().await, Reloaded::Taken);
    assert!(connect(address, &old, None, &[]).await.is_err(), "the old one is not presented any more");
    assert_eq!(statuses(&ask(connect(address, &new, None, &[]).await).await), ["200"]);
    kept.send(chat("")).await;
    assert!(kept.reply().await.starts_with("HTTP/1.1 200"), "who is connected stays so");
    serving.abort();
}

#[tokio::test]
async fn nobody_comes_in_without_a_certificate_where_one_is_asked_for() {
    let (folder, provider) = (Folder::new("clients"), Provider::start().await);
    let (ours, theirs) = (Authority::new(), Authority::new());
    let server = ours.sign();
    let gateway = Listening::start(
        &format!(
            "tls = {{ cert = {:?}, key = {:?}, client_ca = {:?} }}\nlimits = {{ header_timeout = \"300ms\" }}",
            folder.write("cert.pem", &server.cert),
            folder.write("key.pem", &server.key),
            folder.write("ca.pem", &ours.pem)
        ),
        &provider,
    )
    .await;
    for (own, statuses_) in [(None, &[][..]), (Some(theirs.sign()), &[]), (Some(ours.sign()), &["200"])] {
        let replies = ask(connect(gateway.address, &ours, own.as_ref(), &[]).await).await;
        assert_eq!(statuses(&replies), statuses_, "{replies}");
    }
    assert_eq!(provider.asked().len(), 1);
    // A handshake that does not come is not waited for.
    let mut silent = gateway.connect().await;
    assert_eq!(silent.rest().await, "");
}

#[tokio::test]
async fn a_provider_is_shown_a_certificate_and_trusted_by_its_own_authority() {
    let (folder, ours) = (Folder::new("provider"), Authority::new());
    let (server, own, foreign) = (ours.sign(), ours.sign(), Authority::new().sign());
    let (chain, key) = server.identity();
    let verifier = WebPkiClientVerifier::builder(Arc::new(ours.roots())).build().unwrap();
    let tls = ServerConfig::builder().with_client_cert_verifier(verifier).with_single_cert(chain, key).unwrap();
    let provider = Provider::over_tls(TlsAcceptor::from(Arc::new(tls))).await;
    let ca = folder.write("ca.pem", &ours.pem);
    let identity = |name: &str, signed: &Signed| {
        let cert = folder.write(&format!("{name}.pem"), &signed.cert);
        let key = folder.write(&format!("{name}.key"), &signed.key);
        format!("cert = {cert:?}\nkey = {key:?}\n")
    };
    let mut text = config("", &Provider::start().await);
    // All at one address: none may use the connections of another.
    for (name, tls) in [
        ("right", format!("ca = {ca:?}\n{}", identity("own", &own))),
        ("nameless", format!("ca = {ca:?}\n")),
        ("foreign", format!("ca = {ca:?}\n{}", identity("foreign", &foreign))),
        ("untrusting", identity("own-again", &own)),
    ] {
        text.extend([format!(
            "[models.{name}]\ncandidates = [{{ provider = \"{name}\" }}]\n\
            [providers.{name}]\ndialect = \"openai\"\nbase_url = \"https://{}/v1\"\n[providers.{name}.tls]\n{tls}",
            provider.address
        )]);
    }
    let gateway = Listening::configured(&text).await;
    for (model, status) in
        [("right", "200"), ("nameless", "502"), ("foreign", "502"), ("untrusting", "502"), ("right", "200")]
    {
        let mut client = gateway.connect().await;
        client.send(chat_with(model, "connection: close\r\n")).await;
        let replies = client.rest().await;
        assert_eq!(statuses(&replies), [status], "{model}: {replies}");
        assert!(!replies.contains("PRIVATE") && !replies.contains("CERTIFICATE"), "{replies}");
    }
    assert_eq!(provider.asked().len(), 2);
}
