//! The HTTP/2 provider, asked by a bare HTTP/2 client.

use std::time::Duration;

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use http::{Request, StatusCode};
use stanchion_faults::http2::{Attempt, Ending, Http2Request, Http2Upstream, LastStream, Reason};
use stanchion_faults::scenario::Step;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// Longer than anything here takes on a busy machine.
const SOON: Duration = Duration::from_secs(10);

async fn connect(upstream: &Http2Upstream) -> SendRequest<Bytes> {
    let socket = TcpStream::connect(upstream.address()).await.unwrap();
    let (client, connection) = h2::client::handshake(socket).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn send(client: &mut SendRequest<Bytes>, upstream: &Http2Upstream) -> ResponseFuture {
    let uri = format!("{}/v1/x", upstream.base_url());
    let request = Request::post(uri).header("x-a", "1").body(()).unwrap();
    let mut ready = client.clone().ready().await.unwrap();
    let (response, mut body) = ready.send_request(request, false).unwrap();
    body.send_data(Bytes::from_static(b"hello"), true).unwrap();
    response
}

/// The status, the body as far as it came, and the error that ended it.
async fn read(response: ResponseFuture) -> (Option<StatusCode>, String, Option<h2::Error>) {
    let read = async {
        let (head, mut body) = match response.await {
            Ok(response) => response.into_parts(),
            Err(error) => return (None, String::new(), Some(error)),
        };
        let mut text = Vec::new();
        while let Some(data) = body.data().await {
            match data {
                Ok(data) => {
                    let _ = body.flow_control().release_capacity(data.len());
                    text.extend_from_slice(&data);
                }
                Err(error) => return (Some(head.status), String::from_utf8(text).unwrap(), Some(error)),
            }
        }
        (Some(head.status), String::from_utf8(text).unwrap(), None)
    };
    timeout(SOON, read).await.expect("an end")
}

/// Asks once over a connection of its own; the error is told by its reason and whether it is a goodbye.
async fn ask(attempt: Attempt) -> (Option<StatusCode>, String, Option<(Option<Reason>, bool)>) {
    let upstream = Http2Upstream::start(vec![attempt]).await.unwrap();
    let mut client = connect(&upstream).await;
    let response = send(&mut client, &upstream).await;
    let (status, text, error) = read(response).await;
    (status, text, error.map(|error| (error.reason(), error.is_go_away())))
}

async fn until(upstream: &Http2Upstream, holds: impl Fn(&Http2Request) -> bool) -> Http2Request {
    let poll = async {
        loop {
            if let Some(request) = upstream.requests().into_iter().find(&holds) {
                return request;
            }
            sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(SOON, poll).await.expect("such a request")
}

#[tokio::test]
async fn each_end_is_exact() {
    let half = || Attempt::streaming([Step::sse("a"), Step::sse("b").split(3)]);
    let goaway = |last_stream, reason| Ending::Goaway { last_stream, reason };
    let (ok, whole) = (Some(StatusCode::OK), "data: a\n\ndata: b\n\n");
    for (attempt, status, text, error) in [
        (half(), ok, whole, None),
        (half().after(Duration::from_millis(5)), ok, whole, None),
        (Attempt::json(StatusCode::SERVICE_UNAVAILABLE, "{}"), Some(StatusCode::SERVICE_UNAVAILABLE), "{}", None),
        (half().ending(Ending::Reset(Reason::CANCEL)), ok, whole, Some((Some(Reason::CANCEL), false))),
        (
            Attempt::headless(Ending::Reset(Reason::INTERNAL_ERROR)),
            None,
            "",
            Some((Some(Reason::INTERNAL_ERROR), false)),
        ),
        (Attempt::refused(), None, "", Some((Some(Reason::REFUSED_STREAM), false))),
        (half().ending(goaway(LastStream::Finished, Reason::NO_ERROR)), ok, whole, None),
        (
            half().ending(goaway(LastStream::Before, Reason::ENHANCE_YOUR_CALM)),
            ok,
            whole,
            Some((Some(Reason::ENHANCE_YOUR_CALM), true)),
        ),
        (
            Attempt::headless(goaway(LastStream::Before, Reason::NO_ERROR)),
            None,
            "",
            Some((Some(Reason::NO_ERROR), true)),
        ),
    ] {
        let told = format!("{attempt:?}");
        assert_eq!(ask(attempt).await, (status, text.to_owned(), error), "{told}");
    }
}

#[tokio::test]
async fn a_stream_that_was_looked_at_is_cut_by_the_close() {
    let end = Ending::Goaway { last_stream: LastStream::Cut, reason: Reason::NO_ERROR };
    let (status, text, error) = ask(Attempt::streaming([Step::sse("a")]).ending(end)).await;
    assert_eq!((status, text.as_str()), (Some(StatusCode::OK), "data: a\n\n"));
    assert!(error.is_some());
}

#[tokio::test]
async fn a_goodbye_cuts_off_only_what_comes_after_it() {
    let goodbye = Ending::Goaway { last_stream: LastStream::Before, reason: Reason::NO_ERROR };
    let upstream = Http2Upstream::start(vec![
        Attempt::streaming([Step::sse("a")]),
        Attempt::headless(goodbye),
        Attempt::streaming([Step::sse("b")]),
    ])
    .await
    .unwrap();
    let mut client = connect(&upstream).await;
    let first = send(&mut client, &upstream).await;
    assert_eq!(read(first).await.1, "data: a\n\n");
    let second = send(&mut client, &upstream).await;
    assert!(read(second).await.2.is_some_and(|error| error.is_go_away() && error.is_remote()));
    let mut again = connect(&upstream).await;
    let third = send(&mut again, &upstream).await;
    assert_eq!(read(third).await.1, "data: b\n\n");
    let connections: Vec<_> = upstream.requests().iter().map(|request| request.connection).collect();
    assert_eq!((upstream.connections(), connections), (2, vec![1, 1, 2]));
}

#[tokio::test]
async fn requests_are_remembered_and_a_further_one_is_an_error() {
    let upstream = Http2Upstream::start(vec![Attempt::streaming([])]).await.unwrap();
    let mut client = connect(&upstream).await;
    let first = send(&mut client, &upstream).await;
    assert_eq!(read(first).await.0, Some(StatusCode::OK));
    let second = send(&mut client, &upstream).await;
    let (status, text, _) = read(second).await;
    assert_eq!(status, Some(StatusCode::BAD_REQUEST));
    assert!(text.contains("script_exhausted"));
    let request = upstream.requests().remove(0);
    assert_eq!((request.method.as_str(), request.uri.path(), &request.body[..]), ("POST", "/v1/x", &b"hello"[..]));
    assert_eq!((request.headers["x-a"].as_bytes(), request.abandoned), (&b"1"[..], None));
}

#[tokio::test]
async fn a_client_that_gives_up_is_noticed() {
    let hour = Duration::from_secs(3600);
    for attempt in [
        Attempt::headless(Ending::Hang),
        Attempt::streaming([]).after(hour),
        Attempt::streaming([Step::sse("a").after(hour)]),
        Attempt::streaming([Step::sse("a")]).ending(Ending::Hang),
        Attempt::streaming([Step::text("x".repeat(1 << 20))]),
    ] {
        let told = format!("{:.80}", format!("{attempt:?}"));
        let has_head = attempt.head.is_some() && attempt.delay.is_zero();
        let upstream = Http2Upstream::start(vec![attempt]).await.unwrap();
        let mut client = connect(&upstream).await;
        let response = send(&mut client, &upstream).await;
        until(&upstream, |request| request.body == "hello").await;
        // A stream is given up by dropping its body as well as by dropping the wait for its head.
        if has_head {
            drop(timeout(SOON, response).await.unwrap().unwrap());
        } else {
            drop(response);
        }
        let abandoned = until(&upstream, |request| request.abandoned.is_some()).await.abandoned.unwrap();
        assert_eq!(abandoned.reason, Some(Reason::CANCEL), "{told}");
    }
}

#[tokio::test]
async fn a_client_that_closes_its_connection_is_noticed() {
    let upstream = Http2Upstream::start(vec![Attempt::headless(Ending::Hang)]).await.unwrap();
    let socket = TcpStream::connect(upstream.address()).await.unwrap();
    let (mut client, connection) = h2::client::handshake(socket).await.unwrap();
    let driver = tokio::spawn(connection);
    let _response = send(&mut client, &upstream).await;
    until(&upstream, |request| request.body == "hello").await;
    driver.abort();
    let request = until(&upstream, |request| request.abandoned.is_some()).await;
    assert_eq!(request.abandoned.unwrap().reason, None);
}

#[tokio::test]
async fn contradictory_attempts_are_turned_away() {
    let error = Http2Upstream::start(vec![Attempt::refused(), Attempt::headless(Ending::Fin)]).await.unwrap_err();
    assert_eq!(error.to_string(), "attempt 1: a stream that ends whole has a head");
}
