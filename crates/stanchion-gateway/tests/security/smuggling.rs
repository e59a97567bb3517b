//! One request never becomes two, and what a client says of its connection is not said to the provider.

use crate::peers::{Listening, Provider, chat, statuses};

/// A second request, inside of the first one's body or behind it.
const SMUGGLED: &str = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nx-smuggled: yes\r\ncontent-length: 28\r\n\r\n{\"model\":\"m\",\"messages\":[1]}";
const BODY: &str = r#"{"model":"m","messages":[]}"#;

/// What came back for these bytes until the connection was closed, and what the provider was sent.
async fn send(bytes: impl AsRef<[u8]>) -> (String, Vec<String>) {
    let provider = Provider::start().await;
    let gateway = Listening::start(
        "limits = { keep_alive = \"300ms\", header_timeout = \"300ms\", body_timeout = \"300ms\" }",
        &provider,
    )
    .await;
    let mut client = gateway.connect().await;
    client.send(bytes).await;
    let replies = client.rest().await;
    (replies, provider.asked())
}

fn post(headers: &str, rest: &str) -> String {
    format!("POST /v1/chat/completions HTTP/1.1\r\n{headers}\r\n{rest}")
}

/// Refused with this status, and the end of the connection: whatever follows is nobody's request.
async fn refused(name: &str, bytes: impl AsRef<[u8]>) {
    let (replies, asked) = send(bytes).await;
    assert!(matches!(&statuses(&replies)[..], [] | ["400" | "501" | "505"]), "{name}: {replies}");
    assert!(asked.is_empty(), "{name}: {asked:?}");
}

#[tokio::test]
async fn a_request_of_two_lengths_is_refused() {
    let chunked = format!("{:x}\r\n{BODY}\r\n0\r\n\r\n{SMUGGLED}", BODY.len());
    let length = BODY.len();
    for (name, headers) in [
        ("a chunked that is none", "host: x\r\ntransfer-encoding: xchunked\r\n".to_owned()),
        ("chunked, but not at last", "host: x\r\ntransfer-encoding: chunked, gzip\r\n".to_owned()),
        ("chunked in quotes", "host: x\r\ntransfer-encoding: \"chunked\"\r\n".to_owned()),
        ("chunked behind a control character", "host: x\r\ntransfer-encoding: \x0bchunked\r\n".to_owned()),
        ("a space before the colon", "host: x\r\ntransfer-encoding : chunked\r\n".to_owned()),
        ("a folded header", "host: x\r\ntransfer-encoding:\r\n chunked\r\n".to_owned()),
    ] {
        refused(name, post(&headers, &chunked)).await;
    }
    let plain = format!("{BODY}{SMUGGLED}");
    for (name, headers) in [
        ("two different lengths", format!("host: x\r\ncontent-length: {length}\r\ncontent-length: 5\r\n")),
        ("two lengths in one header", format!("host: x\r\ncontent-length: {length}, 5\r\n")),
        ("a length with a sign", format!("host: x\r\ncontent-length: +{length}\r\n")),
        ("a length below nothing", "host: x\r\ncontent-length: -1\r\n".to_owned()),
        ("a length in hexadecimal", "host: x\r\ncontent-length: 0x1b\r\n".to_owned()),
        ("a length beyond all numbers", "host: x\r\ncontent-length: 18446744073709551643\r\n".to_owned()),
        ("a length that is folded", format!("host: x\r\ncontent-length:\r\n {length}\r\n")),
        ("a space before the colon", format!("host: x\r\ncontent-length : {length}\r\n")),
        ("an empty length", "host: x\r\ncontent-length:\r\n".to_owned()),
    ] {
        refused(name, post(&headers, &plain)).await;
    }
    let old = format!("POST /v1/chat/completions HTTP/1.0\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n{chunked}");
    refused("chunks in HTTP/1.0", old).await;

    // Where both are given the chunks count, and the connection ends with them (RFC 9112, 6.3): whatever somebody before
    // us took for the body, nothing that follows is a request.
    let both = ["transfer-encoding: chunked\r\n".to_owned(), format!("content-length: {length}\r\n")];
    for headers in [format!("{}{}", both[0], both[1]), format!("{}{}", both[1], both[0])] {
        let (replies, asked) = send(post(&format!("host: x\r\n{headers}"), &chunked)).await;
        assert_eq!(statuses(&replies), ["200"], "{replies}");
        assert!(replies.to_lowercase().contains("connection: close"), "{replies}");
        let [asked] = &asked[..] else { panic!("{asked:?}") };
        assert!(asked.ends_with(&format!("\r\n\r\n{BODY}")) && !asked.contains("smuggled"), "{asked}");
        assert_eq!(asked.to_lowercase().matches("content-length").count(), 1, "{asked}");
        assert!(!asked.to_lowercase().contains("transfer-encoding"), "{asked}");
    }
}

#[tokio::test]
async fn chunks_that_are_none_are_refused() {
    let headers = "host: x\r\ntransfer-encoding: chunked\r\n";
    let length = BODY.len();
    for (name, chunks) in [
        ("no number", format!("zz\r\n{BODY}\r\n0\r\n\r\n")),
        ("a negative size", format!("-1\r\n{BODY}\r\n0\r\n\r\n")),
        ("a size with a prefix", format!("0x{length:x}\r\n{BODY}\r\n0\r\n\r\n")),
        ("a size beyond all numbers", format!("fffffffffffffffff\r\n{BODY}\r\n0\r\n\r\n")),
        ("a chunk that is longer than it says", format!("5\r\n{BODY}\r\n0\r\n\r\n")),
        ("a line break alone behind the size", format!("{length:x}\n{BODY}\r\n0\r\n\r\n")),
        ("a line break alone in an extension", format!("{length:x};a\n{BODY}\r\n0\r\n\r\n")),
        ("no end", format!("{length:x}\r\n{BODY}\r\n")),
    ] {
        let (replies, asked) = send(post(headers, &format!("{chunks}{SMUGGLED}"))).await;
        assert!(asked.is_empty(), "{name}: {asked:?}");
        assert!(matches!(&statuses(&replies)[..], [] | ["400" | "408"]), "{name}: {replies}");
    }
}

#[tokio::test]
async fn line_breaks_and_controls_in_a_head_are_refused() {
    let length = BODY.len();
    let with = |line: &str| post(&format!("host: x\r\n{line}\r\ncontent-length: {length}\r\n"), BODY);
    for (name, bytes) in [
        ("a carriage return alone", with("x-a: b\rx-smuggled: yes")),
        ("a zero", with("x-a: b\0c")),
        ("a folded value", with("x-a: b\r\n c")),
        ("no colon", with("x-a")),
        ("no name", with(": b")),
        ("a space in a name", with("x a: b")),
        ("a space before the colon", with("x-a : b")),
        ("a control character in a name", with("x-\x01a: b")),
        (
            "a space before the first header",
            format!("POST /v1/chat/completions HTTP/1.1\r\n host: x\r\ncontent-length: {length}\r\n\r\n{BODY}"),
        ),
        (
            "a space in the path",
            format!("POST /v1/chat/completions x HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{BODY}"),
        ),
        (
            "another version",
            format!("POST /v1/chat/completions HTTP/3.7\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{BODY}"),
        ),
    ] {
        refused(name, bytes).await;
    }
    // A line feed alone ends a line, as RFC 9112 allows: what follows is a header of this request, and of no other.
    let (replies, asked) = send(with("x-a: b\nx-stanchion-owner: forged")).await;
    assert_eq!(asked.len(), usize::from(statuses(&replies) == ["200"]), "{replies}");
    assert!(asked.iter().all(|asked| asked.matches("POST ").count() == 1 && !asked.contains("forged")), "{asked:?}");
}

#[tokio::test]
async fn requests_in_one_stream_are_as_many_as_they_are() {
    // What is honest passes, as two requests.
    let (replies, asked) = send(format!("{}{}", chat(""), chat("connection: close\r\n"))).await;
    assert_eq!((statuses(&replies), asked.len()), (vec!["200", "200"], 2), "{replies}");
    // What is inside of a body is a body.
    let body = format!("{{\"model\":\"m\",\"x\":{SMUGGLED:?}}}");
    let (replies, asked) = send(post(&format!("host: x\r\ncontent-length: {}\r\n", body.len()), &body)).await;
    assert_eq!((statuses(&replies), asked.len()), (vec!["200"], 1), "{replies}");
    // Equal lengths are one, and chunks become a length.
    let length = BODY.len();
    let twice = format!("host: x\r\ncontent-length: {length}\r\ncontent-length: {length}\r\n");
    let chunks = format!("{length:x}; a=b\r\n{BODY}\r\n0\r\nx-trailer: yes\r\nx-stanchion-owner: forged\r\n\r\n");
    for bytes in [post(&twice, BODY), post("host: x\r\ntransfer-encoding: chunked\r\n", &chunks)] {
        let (replies, asked) = send(bytes).await;
        assert!(matches!(&statuses(&replies)[..], ["200" | "400"]), "{replies}");
        for asked in asked {
            let head = asked.split("\r\n\r\n").next().unwrap().to_lowercase();
            assert_eq!(head.matches("content-length:").count(), 1, "{asked}");
            assert!(
                !head.contains("transfer-encoding") && !asked.contains("trailer") && !asked.contains("forged"),
                "{asked}"
            );
        }
    }
}

#[tokio::test]
async fn what_is_said_of_a_connection_goes_no_further() {
    let headers = "connection: keep-alive, x-secret-hop, authorization\r\nx-secret-hop: 1\r\nkeep-alive: timeout=9\r\n\
        te: trailers\r\ntrailer: x-t\r\nupgrade: h2c\r\nhttp2-settings: AAAA\r\nproxy-authorization: Basic eA==\r\n\
        proxy-connection: keep-alive\r\nx-stanchion-owner: forged\r\nx-stanchion-class: internal\r\n\
        x-stanchion-anything: forged\r\nx-forwarded-for: 1.2.3.4\r\nx-forwarded-host: evil.example\r\nforwarded: for=1.2.3.4\r\n\
        x-real-ip: 1.2.3.4\r\ncookie: a=b\r\nauthorization: Bearer sk-client\r\nx-api-key: sk-client\r\nexpect: 100-continue\r\n\
        x-kept: yes\r\n";
    let (replies, asked) = send(chat(headers)).await;
    assert_eq!(statuses(&replies).last(), Some(&"200"), "{replies}");
    let [asked] = &asked[..] else { panic!("{asked:?}") };
    let head = asked.split("\r\n\r\n").next().unwrap().to_lowercase();
    let mut names: Vec<&str> = head.lines().skip(1).filter_map(|line| Some(line.split_once(':')?.0)).collect();
    names.sort_unstable();
    assert_eq!(names, ["accept-encoding", "authorization", "content-length", "content-type", "host", "x-kept"]);
    assert!(head.contains("authorization: bearer sk-provider"), "{head}");
    assert!(!replies.contains("sk-provider") && !replies.contains("h2c"), "{replies}");
}
