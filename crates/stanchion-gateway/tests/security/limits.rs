//! No client keeps others out by sending too much, or too slowly.

use std::{io, time::Duration};

use bytes::Bytes;
use http::Request;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::peers::{Listening, Provider, SOON, chat, config, statuses};

#[tokio::test]
async fn who_sends_nothing_or_half_a_head_is_closed() {
    let provider = Provider::start().await;
    let gateway = Listening::start("limits = { keep_alive = \"100ms\", header_timeout = \"200ms\" }", &provider).await;
    let mut silent = gateway.connect().await;
    assert_eq!(silent.rest().await, "");

    let mut slow = gateway.connect().await;
    slow.send("POST /v1/chat/completions HTTP/1.1\r\nhost:").await;
    assert_eq!(slow.rest().await, "");

    // A byte now and then buys no time.
    let (mut from, mut to) = gateway.connect().await.stream.into_split();
    let dripping = async {
        to.write_all(b"POST /v1/chat/completions HTTP/1.1\r\nx-long: ").await?;
        let mut pace = tokio::time::interval(Duration::from_millis(10));
        loop {
            pace.tick().await;
            to.write_all(b"x").await?;
        }
    };
    let mut told = Vec::new();
    let closed = async {
        tokio::select! {
            _ = from.read_to_end(&mut told) => {}
            error = dripping => { let _: io::Result<()> = error; }
        }
    };
    timeout(SOON, closed).await.expect("closed");
    assert!(told.is_empty() && provider.asked().is_empty());
}

#[tokio::test]
async fn a_connection_is_kept_for_a_while_and_a_request_for_as_long_as_it_takes() {
    let provider = Provider::start().await;
    let gateway = Listening::start("limits = { keep_alive = \"500ms\", header_timeout = \"500ms\" }", &provider).await;
    provider.answers(false);
    let mut client = gateway.connect().await;
    client.send(chat("")).await;
    // Others come and go for being idle, while it waits.
    for _ in 0..2 {
        assert_eq!(gateway.connect().await.rest().await, "");
    }
    provider.answers(true);
    assert!(client.reply().await.starts_with("HTTP/1.1 200"));
    client.send(chat("")).await;
    assert!(client.reply().await.starts_with("HTTP/1.1 200"), "it was kept");
    assert_eq!(client.rest().await, "", "and then it was not");
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let provider = Provider::start().await;
    let gateway = Listening::start("limits = { header_bytes = \"16KiB\", headers = 20 }", &provider).await;
    let ask = async |headers: &str| {
        let mut client = gateway.connect().await;
        client.send(chat(headers)).await;
        client.reply().await
    };
    let many = |number: usize| (0..number).map(|number| format!("x-{number}: y\r\n")).collect::<Vec<_>>().concat();
    let large = |bytes: usize| format!("x-large: {}\r\n", "y".repeat(bytes));
    for (headers, status) in [(many(18), "200"), (many(19), "431"), (large(15 << 10), "200"), (large(16 << 10), "431")]
    {
        let reply = ask(&headers).await;
        assert_eq!(statuses(&reply), [status], "{} bytes: {reply}", headers.len());
    }
    assert_eq!(provider.asked().len(), 2);

    let mut client = http2(&gateway).await;
    assert_eq!(client.ask(18, 1).await, 200);
    assert_eq!(client.ask(21, 1).await, 431);
    assert_eq!(client.ask(1, 17 << 10).await, 431);
    assert_eq!(provider.asked().len(), 1);
}

#[tokio::test]
async fn what_is_refused_before_its_body_came_says_that_the_connection_ends() {
    let provider = Provider::start().await;
    let clients = "[clients.one]\nkey = \"k\"\nrequests_per_minute = 1\n";
    let gateway = Listening::configured(&(config("", &provider) + clients)).await;
    let upload = |key: &str| {
        format!("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\ncontent-length: 5000000\r\n\r\n")
    };
    let mut spent = gateway.connect().await;
    spent.send(chat("x-api-key: k\r\n")).await;
    assert!(spent.reply().await.starts_with("HTTP/1.1 200"));
    for (key, status) in [("other", "401"), ("k", "429")] {
        let mut client = gateway.connect().await;
        client.send(upload(key)).await;
        let told = client.rest().await;
        assert!(told.contains("connection: close\r\n"), "{told}");
        assert_eq!(statuses(&told), [status]);
    }
    // Whose request is whole may ask again.
    let mut client = gateway.connect().await;
    for _ in 0..2 {
        client.send("GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n").await;
        let told = client.reply().await;
        assert!(told.starts_with("HTTP/1.1 401") && !told.contains("connection:"), "{told}");
    }
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_before_it_has_come() {
    let provider = Provider::start().await;
    let gateway = Listening::start("max_request_bytes = 100", &provider).await;
    for head in ["content-length: 101\r\n\r\n", "transfer-encoding: chunked\r\n\r\n65\r\n"] {
        let mut client = gateway.connect().await;
        client.send(format!("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n{head}")).await;
        if head.contains("chunked") {
            client.send([b'{'; 101]).await;
        }
        let replies = client.rest().await;
        assert_eq!(statuses(&replies), ["413"], "{replies}");
        assert!(replies.contains("server.max_request_bytes"), "{replies}");
    }
    assert!(provider.asked().is_empty());
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let provider = Provider::start().await;
    for (limits, told) in [
        ("body_idle = \"100ms\"", "the request body paused for more than 100ms"),
        ("body_timeout = \"100ms\"", "the request body took more than 100ms"),
    ] {
        let gateway = Listening::start(&format!("limits = {{ {limits} }}"), &provider).await;
        let mut client = gateway.connect().await;
        client.send("POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 30\r\n\r\n{").await;
        let replies = client.rest().await;
        assert_eq!(statuses(&replies), ["408"], "{replies}");
        assert!(replies.contains(told), "{replies}");
    }
    assert!(provider.asked().is_empty());
}

#[tokio::test]
async fn one_connection_too_many_waits_until_another_ends() {
    let provider = Provider::start().await;
    let gateway = Listening::start("limits = { connections = 2 }", &provider).await;
    let (mut first, mut second) = (gateway.connect().await, gateway.connect().await);
    for client in [&mut first, &mut second] {
        client.send(chat("")).await;
        client.reply().await;
    }
    let mut third = gateway.connect().await;
    third.send(chat("")).await;
    // Long enough for an answer to others.
    for client in [&mut second, &mut first] {
        client.send(chat("")).await;
        client.reply().await;
    }
    let nothing = third.stream.try_read(&mut [0; 1]).unwrap_err();
    assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
    assert_eq!(provider.asked().len(), 4);
    drop(first);
    assert!(third.reply().await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn an_http2_client_has_so_many_streams_and_a_while_without_any() {
    let provider = Provider::start().await;
    let gateway = Listening::start("limits = { http2_streams = 3, keep_alive = \"500ms\" }", &provider).await;
    let mut client = http2(&gateway).await;
    assert_eq!(client.ask(1, 1).await, 200);
    assert_eq!(client.requests.current_max_send_streams(), 3);
    let ended = timeout(SOON, client.connection).await.expect("closed").unwrap();
    assert!(ended.is_ok(), "it was told to go: {ended:?}");
}

#[tokio::test]
async fn an_http2_client_that_does_not_read_loses_its_stream_and_no_other() {
    // Many frames: what is one in whole is out of the gateway's hands with its first byte.
    let delta = format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{}\"}}}}]}}\n\n", "y".repeat(1_000));
    let end = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let reply = delta.repeat(1_000) + end;
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
    let provider = Provider::answering(format!("{head}content-length: {}\r\n\r\n{reply}", reply.len())).await;
    let gateway = Listening::start("limits = { send_timeout = \"1s\" }", &provider).await;
    let stream = TcpStream::connect(gateway.address).await.unwrap();
    let mut builder = h2::client::Builder::new();
    // Room for all on the connection, and for a part of a reply on its stream.
    let handshake = builder.initial_connection_window_size(10_000_000).initial_window_size(50_000).handshake(stream);
    let (mut requests, connection) = handshake.await.unwrap();
    tokio::spawn(connection);
    let mut ask = async |reads: bool| {
        std::future::poll_fn(|cx| requests.poll_ready(cx)).await.unwrap();
        let request = Request::post("http://x/v1/chat/completions").body(()).unwrap();
        let (answer, mut body) = requests.send_request(request, false).unwrap();
        body.send_data(Bytes::from_static(br#"{"model":"m","messages":[],"stream":true}"#), true).unwrap();
        let mut answer = timeout(SOON, answer).await.expect("a head").unwrap().into_body();
        let (mut read, mut ended) = (0, None);
        while let Some(piece) = timeout(SOON, answer.data()).await.expect("it goes on, or ends") {
            match piece {
                Ok(piece) if reads => {
                    read += piece.len();
                    answer.flow_control().release_capacity(piece.len()).unwrap();
                }
                Ok(piece) => read += piece.len(),
                Err(error) => {
                    ended = error.reason();
                    break;
                }
            }
        }
        (read, ended)
    };
    assert_eq!(ask(true).await, (reply.len(), None));
    assert_eq!(ask(false).await, (50_000, Some(h2::Reason::CANCEL)));
    assert_eq!(ask(true).await, (reply.len(), None), "the connection goes on");
}

/// What begins a connection of HTTP/2, with settings that leave all as it is.
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

#[tokio::test]
async fn an_http2_client_that_does_not_answer_a_ping_is_closed() {
    let provider = Provider::start().await;
    let gateway =
        Listening::start("limits = { http2_ping = \"50ms\", http2_ping_timeout = \"50ms\" }", &provider).await;
    let mut client = gateway.connect().await;
    client.send(HTTP2).await;
    let told = client.rest().await;
    assert!(!told.is_empty(), "it was spoken to");
}

#[tokio::test]
async fn an_http2_client_that_takes_its_requests_back_is_told_to_calm_down() {
    let provider = Provider::start().await;
    let gateway = Listening::start("", &provider).await;
    let mut client = gateway.connect().await;
    let mut bytes = HTTP2.to_vec();
    for stream in (1_u32..400).step_by(2) {
        // GET / of the host x, and RST_STREAM with CANCEL.
        bytes.extend([0, 0, 6, 1, 5]);
        bytes.extend(stream.to_be_bytes());
        bytes.extend([0x82, 0x86, 0x84, 0x41, 1, b'x', 0, 0, 4, 3, 0]);
        bytes.extend(stream.to_be_bytes());
        bytes.extend([0, 0, 0, 8]);
    }
    client.send(&bytes).await;
    let mut told = Vec::new();
    timeout(SOON, client.stream.read_to_end(&mut told)).await.expect("closed").unwrap();
    assert!(is_told_to_calm_down(&told), "{told:?}");
}

/// Whether there is a GOAWAY with ENHANCE_YOUR_CALM among frames.
fn is_told_to_calm_down(mut frames: &[u8]) -> bool {
    while let [a, b, c, kind, _, _, _, _, _, rest @ ..] = frames {
        let length = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
        let Some((payload, after)) = rest.split_at_checked(length) else { return false };
        if *kind == 7 && payload[4..8] == [0, 0, 0, 11] {
            return true;
        }
        frames = after;
    }
    false
}

struct Http2Client {
    requests: h2::client::SendRequest<Bytes>,
    connection: tokio::task::JoinHandle<Result<(), h2::Error>>,
}

async fn http2(gateway: &Listening) -> Http2Client {
    let stream = TcpStream::connect(gateway.address).await.unwrap();
    let (requests, connection) = h2::client::handshake(stream).await.unwrap();
    Http2Client { requests, connection: tokio::spawn(connection) }
}

impl Http2Client {
    /// The status of a chat with so many headers of so many bytes.
    async fn ask(&mut self, headers: usize, bytes: usize) -> u16 {
        let mut request = Request::post("http://x/v1/chat/completions");
        for number in 0..headers {
            request = request.header(format!("x-{number}"), "y".repeat(bytes));
        }
        let asking = async {
            std::future::poll_fn(|cx| self.requests.poll_ready(cx)).await.unwrap();
            let (reply, mut body) = self.requests.send_request(request.body(()).unwrap(), false).unwrap();
            // It may have been refused by then.
            let _ = body.send_data(Bytes::from_static(br#"{"model":"m","messages":[]}"#), true);
            reply.await.unwrap().status().as_u16()
        };
        timeout(SOON, asking).await.expect("a reply")
    }
}
