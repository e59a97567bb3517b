//! The provider, byte by byte.

use std::io::ErrorKind;
use std::time::Duration;

use stanchion_faults::scenario::Scenario;
use stanchion_faults::upstream::Upstream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

const REQUEST: &[u8] = b"POST /s/a/v1/x HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\nhi";
const HEAD: &str = "HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
/// Longer than anything here takes on a busy machine.
const SOON: Duration = Duration::from_secs(10);

/// A provider whose candidate `a` of scenario `s` has these scripts.
async fn upstream(scripts: &str) -> Upstream {
    let scenario = Scenario::parse("s", &format!("name = 's'\nupstream.a = [{scripts}]")).unwrap();
    Upstream::start(&[scenario]).await.unwrap()
}

async fn connect(upstream: &Upstream) -> TcpStream {
    TcpStream::connect(upstream.address()).await.unwrap()
}

/// Everything up to the end of the connection, and how that came.
async fn read_all(socket: &mut TcpStream) -> (String, Result<(), ErrorKind>) {
    let mut bytes = Vec::new();
    let end = timeout(SOON, socket.read_to_end(&mut bytes)).await.expect("an end");
    (String::from_utf8_lossy(&bytes).into_owned(), end.map(|_| ()).map_err(|error| error.kind()))
}

async fn ask(scripts: &str) -> (String, Result<(), ErrorKind>) {
    let upstream = upstream(scripts).await;
    let mut socket = connect(&upstream).await;
    socket.write_all(REQUEST).await.unwrap();
    read_all(&mut socket).await
}

async fn read_exactly(socket: &mut TcpStream, wanted: &str) {
    let mut bytes = vec![0; wanted.len()];
    timeout(SOON, socket.read_exact(&mut bytes)).await.expect("so many bytes").unwrap();
    assert_eq!(String::from_utf8_lossy(&bytes), wanted);
}

/// Waits until something holds.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let poll = async {
        while !holds() {
            sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(SOON, poll).await.unwrap_or_else(|_| panic!("{what}"));
}

#[tokio::test]
async fn each_end_is_exact() {
    let chunk = |text: &str| format!("{HEAD}{:x}\r\n{text}\r\n", text.len());
    let reset = Err(ErrorKind::ConnectionReset);
    for (script, wire, end) in [
        ("{ before = 'close' }", String::new(), Ok(())),
        ("{ before = 'reset' }", String::new(), reset),
        ("{ before = 'hang', hang = '5ms', delay = '5ms' }", String::new(), Ok(())),
        ("{ body = [{ sse = 'x' }], end = 'truncate' }", chunk("data: x\n\n"), Ok(())),
        ("{ body = [{ text = '1234567890abcdef!' }], end = 'hang', hang = '5ms' }", chunk("1234567890abcdef!"), Ok(())),
        ("{ body = [{ text = 'ab' }, { wait = '20ms' }], end = 'reset' }", chunk("ab"), reset),
        (
            "{ body = [{ text = \"a\\r\\rb\" }], end = 'close', status = 503 }",
            "HTTP/1.1 503 X\r\ncontent-type: application/json\r\nconnection: close\r\n\r\na\r\rb".to_owned(),
            Ok(()),
        ),
        (
            "{ headers = { content-length = 9 }, body = [{ fill = 3 }], end = 'truncate' }",
            "HTTP/1.1 200 X\r\ncontent-length: 9\r\ncontent-type: text/event-stream\r\n\r\nxxx".to_owned(),
            Ok(()),
        ),
    ] {
        assert_eq!(ask(script).await, (wire, end), "{script}");
    }
}

#[tokio::test]
async fn split_and_repeated_steps_are_chunks_of_their_own() {
    let (wire, _) =
        ask("{ body = [{ hex = 'e29c93', split = 2 }, { text = 'a', times = 2 }, { text = '' }], end = 'truncate' }")
            .await;
    // Half a character is no text; the marks stand for its bytes.
    assert_eq!(wire, format!("{HEAD}2\r\n\u{fffd}\r\n1\r\n\u{fffd}\r\n1\r\na\r\n1\r\na\r\n"));
}

#[tokio::test]
async fn a_whole_reply_leaves_the_connection_open_for_the_next() {
    let upstream =
        upstream("{ body = [{ text = 'a' }] }, { headers = { content-length = 1 }, body = [{ text = 'b' }] }").await;
    let mut socket = connect(&upstream).await;
    socket.write_all(REQUEST).await.unwrap();
    read_exactly(&mut socket, &format!("{HEAD}1\r\na\r\n0\r\n\r\n")).await;
    socket.write_all(REQUEST).await.unwrap();
    read_exactly(&mut socket, "HTTP/1.1 200 X\r\ncontent-length: 1\r\ncontent-type: text/event-stream\r\n\r\nb").await;
    socket.write_all(REQUEST).await.unwrap();
    let told =
        r#"{"error":{"message":"unexpected extra request","type":"invalid_request_error","code":"script_exhausted"}}"#;
    let head = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{told}",
        told.len()
    );
    read_exactly(&mut socket, &head).await;
    let requests = upstream.requests("s", "a");
    let seen: Vec<_> = requests.iter().map(|request| (request.connection, request.reused, request.overrun)).collect();
    assert_eq!(seen, [(1, false, false), (1, true, false), (1, true, true)]);
    assert!(requests[..2].iter().all(|request| request.ended_at.is_some() && request.gone_at.is_none()));
    assert_eq!((upstream.connections(), upstream.peak_in_flight("s")), (1, 1));
}

#[tokio::test]
async fn the_last_script_may_repeat() {
    let upstream = upstream("{ status = 500, end = 'close' }, { status = 503, end = 'close', repeat = true }").await;
    let mut statuses = Vec::new();
    for _ in 0..4 {
        let mut socket = connect(&upstream).await;
        socket.write_all(REQUEST).await.unwrap();
        statuses.push(read_all(&mut socket).await.0[9..12].to_owned());
    }
    assert_eq!(statuses, ["500", "503", "503", "503"]);
}

#[tokio::test]
async fn requests_are_remembered_as_they_came() {
    let upstream = upstream("{ end = 'close', repeat = true }").await;
    let mut socket = connect(&upstream).await;
    let chunked =
        b"POST /s/a/v1/x?y=/z HTTP/1.1\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\nX-A: 1\r\n\r\n";
    socket.write_all(chunked).await.unwrap();
    read_exactly(&mut socket, "HTTP/1.1 100 Continue\r\n\r\n").await;
    socket.write_all(b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nx-trailer: 1\r\n\r\n").await.unwrap();
    assert!(read_all(&mut socket).await.0.starts_with("HTTP/1.1 200 X"));
    let [request] = upstream.requests("s", "a").try_into().unwrap();
    assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/s/a/v1/x?y=/z"));
    assert_eq!((request.body.as_ref(), request.headers.get("x-a")), (&b"abcde"[..], Some("1")));
    assert!(request.at.elapsed() < SOON);
}

#[tokio::test]
async fn other_methods_and_paths_count_for_nothing() {
    let upstream = upstream("{}").await;
    let mut socket = connect(&upstream).await;
    for line in ["GET /s/a/v1/models", "POST /s/b/v1/x", "POST /other/a", "HEAD /"] {
        socket.write_all(format!("{line} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
        let list = r#"{"object":"list","data":[]}"#;
        let reply = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 27\r\n\r\n{list}");
        read_exactly(&mut socket, &reply).await;
    }
    assert!(upstream.requests("s", "a").is_empty());
}

#[tokio::test]
async fn a_client_that_leaves_is_noticed_while_the_script_waits_or_writes() {
    for script in [
        "{ before = 'hang', hang = '60s' }",
        "{ delay = '60s' }",
        "{ body = [{ wait = '60s', text = 'x' }] }",
        "{ body = [{ fill = 100000, times = 4000 }] }",
        "{ end = 'hang', hang = '60s' }",
    ] {
        let upstream = upstream(script).await;
        let mut socket = connect(&upstream).await;
        socket.write_all(REQUEST).await.unwrap();
        until("the request", || upstream.requests("s", "a").len() == 1).await;
        let request = || upstream.requests("s", "a").remove(0);
        assert!(request().gone_at.is_none() && request().ended_at.is_none(), "{script}");
        drop(socket);
        until(script, || request().gone_at.is_some() && request().ended_at.is_some()).await;
    }
}

#[tokio::test]
async fn a_request_sent_ahead_is_no_farewell() {
    let upstream = upstream("{ delay = '20ms', body = [{ text = 'a' }] }, { end = 'close' }").await;
    let mut socket = connect(&upstream).await;
    socket.write_all(&REQUEST.repeat(2)).await.unwrap();
    let (wire, _) = read_all(&mut socket).await;
    assert_eq!(wire.matches("HTTP/1.1 200 X").count(), 2);
    assert!(upstream.requests("s", "a").iter().all(|request| request.gone_at.is_none()));
}

#[tokio::test]
async fn open_exchanges_are_counted() {
    let upstream = upstream("{ before = 'hang', hang = '60s', repeat = true }").await;
    let mut sockets = Vec::new();
    for _ in 0..3 {
        let mut socket = connect(&upstream).await;
        socket.write_all(REQUEST).await.unwrap();
        sockets.push(socket);
    }
    until("three at once", || upstream.peak_in_flight("s") == 3).await;
    assert_eq!(upstream.connections(), 3);
}

#[tokio::test]
async fn nothing_listens_at_a_refused_candidate() {
    let scenario = Scenario::parse("s", "name = 's'\nrefuse = { a = true, b = false }\nupstream.c = [{}]").unwrap();
    let upstream = Upstream::start(&[scenario]).await.unwrap();
    let refusing = upstream.refusing_address().unwrap();
    assert_eq!(upstream.base_url("s", "a"), format!("http://{refusing}/s/a"));
    assert_eq!(TcpStream::connect(refusing).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    for candidate in ["b", "c"] {
        assert_eq!(upstream.base_url("s", candidate), format!("http://{}/s/{candidate}", upstream.address()));
    }
}

#[tokio::test]
async fn dropping_the_provider_ends_all_that_it_does() {
    let upstream = upstream("{ before = 'hang', hang = '60s' }").await;
    let address = upstream.address();
    let mut socket = connect(&upstream).await;
    socket.write_all(REQUEST).await.unwrap();
    until("the request", || upstream.requests("s", "a").len() == 1).await;
    drop(upstream);
    assert_eq!(read_all(&mut socket).await, (String::new(), Ok(())));
    let again = Upstream::start_on(address, &[]).await.unwrap();
    assert_eq!(again.address(), address);
}
