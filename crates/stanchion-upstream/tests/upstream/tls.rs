//! TLS, with a certificate of our own that `SSL_CERT_FILE` makes trusted. The client runs in a process of its own: the
//! environment is read once, and a test may not change it.

use std::{error::Error, path::PathBuf, process::Command, sync::Arc};

use http_body_util::BodyExt;
use stanchion_core::{Dialect, Family};
use stanchion_upstream::Transport;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    },
};

use crate::{
    candidate,
    http2::Http2,
    peer::{PLAIN, Peer, Server, call, within},
    request,
};

const BASE_URL: &str = "STANCHION_TEST_BASE_URL";

/// A certificate for 127.0.0.1, in a file that goes with it.
struct Certificate {
    key: rcgen::CertifiedKey<rcgen::KeyPair>,
    file: PathBuf,
}

impl Certificate {
    fn new(name: &str) -> Self {
        let key = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let file = std::env::temp_dir().join(format!("stanchion-upstream-{}-{name}.pem", std::process::id()));
        std::fs::write(&file, key.cert.pem()).unwrap();
        Self { key, file }
    }

    fn acceptor(&self, protocols: &[&str]) -> TlsAcceptor {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.signing_key.serialize_der()));
        let chain = vec![self.key.cert.der().clone()];
        let mut config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }
}

impl Drop for Certificate {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

/// What the client says to a server at this URL, trusting this file.
async fn client(base_url: String, trusted: PathBuf) -> String {
    let run = move || {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tls::client_in_a_process_of_its_own", "--nocapture"])
            .env(BASE_URL, base_url)
            .env("SSL_CERT_FILE", trusted)
            .env_remove("SSL_CERT_DIR")
            .output()
            .unwrap()
    };
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn client_in_a_process_of_its_own() {
    // Started by the other tests; among them, there is nothing to do.
    let Ok(base_url) = std::env::var(BASE_URL) else { return };
    let request = request(Dialect::OpenAiChat, candidate(Family::OpenAi, &base_url));
    match call(&Transport::builder().build(), request).await {
        Ok(response) => println!("answer: {:?}", response.into_body().collect().await.unwrap().to_bytes()),
        Err(failure) => {
            println!("failure: {failure}");
            let mut source = failure.source();
            while let Some(error) = source {
                println!("source: {error}");
                source = error.source();
            }
        }
    }
}

#[tokio::test]
async fn the_protocol_is_the_one_that_the_server_agrees_to() {
    let certificate = Certificate::new("trusted");
    for (protocols, negotiated) in
        [(&["h2", "http/1.1"][..], Some("h2")), (&["http/1.1"], Some("http/1.1")), (&[], None)]
    {
        let server = Server::start().await;
        let acceptor = certificate.acceptor(protocols);
        let serve = Box::pin(async {
            let stream = acceptor.accept(server.accept().await.stream).await.unwrap();
            assert_eq!(stream.get_ref().1.alpn_protocol(), negotiated.map(str::as_bytes));
            if negotiated == Some("h2") {
                let mut http2 = Http2::greet(Peer::new(stream)).await;
                let stream = http2.request().await;
                http2.answer(stream).await;
                std::future::pending::<()>().await;
            } else {
                let mut peer = Peer::new(stream);
                peer.request().await;
                peer.send(PLAIN).await;
                std::future::pending::<()>().await;
            }
        });
        let said = within(async {
            tokio::select! {
                said = client(format!("https://{}/v1", server.address()), certificate.file.clone()) => said,
                () = serve => unreachable!(),
            }
        })
        .await;
        assert!(said.contains("answer: b\"{}\""), "{protocols:?}: {said}");
    }
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_is_a_connect_failure() {
    let (certificate, other) = (Certificate::new("untrusted"), Certificate::new("other"));
    let server = Server::start().await;
    let acceptor = certificate.acceptor(&[]);
    let (said, accepted) = within(async {
        tokio::join!(client(format!("https://{}/v1", server.address()), other.file.clone()), async {
            acceptor.accept(server.accept().await.stream).await
        })
    })
    .await;
    assert!(accepted.is_err());
    assert!(said.contains("failure: primary/ours: no connection to the provider, while connecting"), "{said}");
    assert!(said.contains("source: invalid peer certificate"), "{said}");
}

#[tokio::test]
async fn without_any_roots_of_trust_plain_http_still_works() {
    let server = Server::start().await;
    let (said, ()) = within(async {
        tokio::join!(client(format!("http://{}/v1", server.address()), "/nonexistent".into()), async {
            let mut peer = server.accept().await;
            peer.request().await;
            peer.send(PLAIN).await;
        })
    })
    .await;
    assert!(said.contains("answer: b\"{}\""), "{said}");
}
