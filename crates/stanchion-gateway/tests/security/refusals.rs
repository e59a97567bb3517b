//! Whoever is turned away at the door is counted, by why.

use std::{collections::BTreeMap, time::Duration};

use stanchion::telemetry::{Metrics, MetricsFormat};
use stanchion_gateway::gateway::Refusal;
use tokio::net::TcpStream;

use crate::{
    peers::{Client, Listening, Provider, chat, config, statuses},
    tls::{Authority, Folder, connect},
};

/// How many there were of each reason, without those of which there was none.
fn counted(metrics: &Metrics) -> BTreeMap<String, u64> {
    let text = metrics.encode(MetricsFormat::Prometheus);
    let samples: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("stanchion_refusals_total{reason=\"")).collect();
    assert_eq!(samples.len(), Refusal::ALL.len(), "each is there from the start: {text}");
    let count = |sample: &str| {
        let (reason, count) = sample.split_once("\"} ").unwrap();
        (reason.to_owned(), count.parse::<f64>().unwrap() as u64)
    };
    samples.into_iter().map(count).filter(|(_, count)| *count > 0).collect()
}

/// A client sends this, is answered with this status, or with none, and is counted for this reason and for no other.
async fn refuse(gateway: &Listening, metrics: &Metrics, bytes: &str, status: &[&str], reason: Refusal) {
    let mut expected = counted(metrics);
    *expected.entry(reason.as_str().to_owned()).or_default() += 1;
    let mut client = gateway.connect().await;
    client.send(bytes).await;
    let replies = client.rest().await;
    assert_eq!(statuses(&replies), status, "{reason:?}: {replies}");
    until(metrics, &expected).await;
}

/// The connection is over a moment before it is counted.
async fn until(metrics: &Metrics, expected: &BTreeMap<String, u64>) {
    let counting = async {
        while counted(metrics) != *expected {
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(crate::peers::SOON, counting).await;
    assert!(waited.is_ok(), "{:?} is not {expected:?}", counted(metrics));
}

#[tokio::test]
async fn each_reason_is_counted_and_no_request_that_came_in_is() {
    let provider = Provider::start().await;
    let limits = "limits = { headers = 20, header_bytes = \"8KiB\", header_timeout = \"300ms\", body_idle = \"300ms\" }\n\
        max_request_bytes = 100";
    let clients = "[clients.one]\nkey = \"k\"\n[clients.few]\nkey = \"few\"\nrequests_per_minute = 1\n\
        [clients.single]\nkey = \"single\"\nconcurrency = 1\n";
    let (gateway, metrics) = Listening::counting(&(config(limits, &provider) + clients)).await;
    assert_eq!(counted(&metrics), BTreeMap::new());
    let with = |key: &str, head: &str| chat(&format!("connection: close\r\nx-api-key: {key}\r\n{head}"));
    let own =
        |line: &str, rest: &str| format!("{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-api-key: k\r\n{rest}");
    let post = |rest: &str| own("POST /v1/chat/completions", rest);

    for key in ["k", "few"] {
        let mut client = gateway.connect().await;
        client.send(with(key, "")).await;
        assert_eq!(statuses(&client.rest().await), ["200"]);
    }
    provider.answers(false);
    let mut running = gateway.connect().await;
    running.send(with("single", "")).await;
    let mut asked = 0;
    while asked < 3 {
        asked += provider.asked().len();
        tokio::task::yield_now().await;
    }
    let many = (0..20).map(|number| format!("x-{number}: y\r\n")).collect::<Vec<_>>().concat();
    let large = format!("x-large: {}\r\n", "y".repeat(9000));
    for (bytes, status, reason) in [
        ("POST / HTTP/1.1\r\nhost:".to_owned(), &[][..], Refusal::HeadTimeout),
        (with("k", &many), &["431"], Refusal::HeadTooLarge),
        (with("k", &large), &["431"], Refusal::HeadTooLarge),
        ("POST / HTTP/1.1\r\nno header\r\n\r\n".to_owned(), &["400"], Refusal::HeadMalformed),
        (with("k-stranger", ""), &["401"], Refusal::UnknownKey),
        (chat("connection: close\r\n"), &["401"], Refusal::UnknownKey),
        (with("few", ""), &["429"], Refusal::Rate),
        (with("single", ""), &["429"], Refusal::Concurrency),
        (own("POST /v1/nothing", "content-length: 0\r\n\r\n"), &["404"], Refusal::UnknownPath),
        (own("PUT /v1/chat/completions", "content-length: 0\r\n\r\n"), &["405"], Refusal::WrongMethod),
        (post("content-length: 101\r\n\r\n"), &["413"], Refusal::BodyTooLarge),
        (post("content-length: 9\r\n\r\n{"), &["408"], Refusal::BodyTimeout),
        (post("transfer-encoding: chunked\r\n\r\nno number\r\n"), &["400"], Refusal::BodyBroken),
        (post("content-length: 1\r\n\r\n["), &["400"], Refusal::BodyInvalid),
    ] {
        refuse(&gateway, &metrics, &bytes, status, reason).await;
    }
    provider.answers(true);
    assert_eq!(statuses(&running.rest().await), ["200"]);
    assert_eq!(counted(&metrics).values().sum::<u64>(), 14);
    let text = metrics.encode(MetricsFormat::Prometheus);
    for key in ["k-stranger", "single", "few"] {
        assert!(!text.contains(key), "{key}");
    }
}

#[tokio::test]
async fn pages_connections_and_handshakes_are_counted_too() {
    let provider = Provider::start().await;
    let (gateway, metrics) = Listening::counting(&config("limits = { connections = 2 }", &provider)).await;
    let page = chat("connection: close\r\norigin: https://evil.example\r\n");
    refuse(&gateway, &metrics, &page, &["403"], Refusal::ForeignPage).await;
    let mut clients = Vec::new();
    for connections in [0, 1] {
        let mut client = gateway.connect().await;
        client.send(chat("")).await;
        client.reply().await;
        clients.push(client);
        let expected = [("connections", connections), ("foreign_page", 1)];
        let expected = expected.into_iter().filter(|(_, count)| *count > 0);
        until(&metrics, &expected.map(|(reason, count)| (reason.to_owned(), count)).collect()).await;
        let told = metrics.encode(MetricsFormat::Prometheus);
        assert!(told.contains(&format!("stanchion_connections {}.0\n", connections + 1)), "{told}");
        assert!(told.contains("stanchion_connections_limit 2.0\n"), "{told}");
    }

    let (folder, ours) = (Folder::new("refusals"), Authority::new());
    let signed = ours.sign();
    let (cert, key) = (folder.write("cert.pem", &signed.cert), folder.write("key.pem", &signed.key));
    let limits = "limits = { header_timeout = \"200ms\" }";
    let server = format!("tls = {{ cert = {cert:?}, key = {key:?} }}\n{limits}");
    let (gateway, metrics) = Listening::counting(&config(&server, &provider)).await;
    let tls = |count| [(Refusal::Tls.as_str().to_owned(), count)].into();
    // Who only looks whether somebody listens is no trouble.
    drop(TcpStream::connect(gateway.address).await.unwrap());
    let reset = TcpStream::connect(gateway.address).await.unwrap();
    socket2::SockRef::from(&reset).set_linger(Some(Duration::ZERO)).unwrap();
    drop(reset);
    drop(connect(gateway.address, &ours, None, &[]).await.unwrap());
    assert!(connect(gateway.address, &Authority::new(), None, &[]).await.is_err(), "it does not trust us");
    until(&metrics, &tls(1)).await;
    let mut plain = Client::of(TcpStream::connect(gateway.address).await.unwrap());
    plain.send(chat("")).await;
    plain.rest().await;
    until(&metrics, &tls(2)).await;
    let mut silent = gateway.connect().await;
    silent.rest().await;
    until(&metrics, &tls(3)).await;
}

#[test]
fn the_documentation_names_every_reason() {
    let page = include_str!("../../../../docs/operating.md");
    for reason in Refusal::ALL {
        let row = page.lines().find(|line| line.starts_with("| `") && line.contains(&format!("`{}`", reason.as_str())));
        assert!(row.is_some(), "{reason:?}");
    }
}
