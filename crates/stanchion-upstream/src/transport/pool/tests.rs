use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use stanchion_core::{Failure, FailureKind};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    net::TcpListener,
    task::JoinHandle,
};

use super::*;
use crate::transport::{
    Transport, TransportFuture,
    peer::{begun, connection, settle, within},
};

const WHOLE: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";

/// A pool, and a server of it that takes connections and never shakes hands: whoever opens one waits.
async fn pool() -> (Arc<Pool>, TcpListener, Uri) {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = Uri::try_from(format!("https://{}/v1?a=b", server.local_addr().unwrap())).unwrap();
    (Transport::builder().build().0, server, uri)
}

fn ask(pool: &Arc<Pool>, uri: &Uri) -> JoinHandle<Result<Bytes, Failure>> {
    let request = Request::post(uri).body(Full::new(Bytes::from_static(b"{}"))).unwrap();
    let exchange = TransportFuture::new(pool.clone(), request);
    tokio::spawn(async move { Ok(exchange.await?.into_body().collect().await?.to_bytes()) })
}

/// Reads one request.
async fn request(server: &mut DuplexStream) -> String {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n{}") {
        assert_ne!(within(server.read_buf(&mut read)).await.unwrap(), 0, "the client closed too early");
    }
    String::from_utf8(read).unwrap()
}

/// One that has answered a request already.
async fn answered(origin: &Origin) -> (Connection, DuplexStream) {
    let (mut connection, mut server) = connection().await;
    let response = begun(&mut connection, &mut server, origin).await;
    server.write_all(b"}").await.unwrap();
    response.into_body().collect().await.unwrap();
    connection.history().answer();
    settle().await;
    (connection, server)
}

#[tokio::test]
async fn who_opens_a_connection_takes_one_that_is_given_back_before() {
    let (pool, server, uri) = pool().await;
    let asked = ask(&pool, &uri);
    let _opening = within(server.accept()).await.unwrap();
    let (connection, mut kept) = connection().await;
    pool.origin(&uri).unwrap().put(connection);
    let said = request(&mut kept).await;
    assert!(said.starts_with("POST /v1?a=b HTTP/1.1\r\n"), "{said}");
    kept.write_all(WHOLE).await.unwrap();
    assert_eq!(within(asked).await.unwrap().unwrap(), "{}");
    // It is kept for the next.
    let asked = ask(&pool, &uri);
    request(&mut kept).await;
    kept.write_all(WHOLE).await.unwrap();
    assert_eq!(within(asked).await.unwrap().unwrap(), "{}");
}

#[tokio::test]
async fn one_that_was_waited_for_may_turn_out_to_be_stale_as_well() {
    let (pool, server, uri) = pool().await;
    let origin = pool.origin(&uri).unwrap();
    let asked = ask(&pool, &uri);
    let _first = within(server.accept()).await.unwrap();
    let (connection, mut kept) = answered(&origin).await;
    origin.put(connection);
    request(&mut kept).await;
    drop(kept);
    // It is sent again on a fresh one, which has to be opened.
    let _second = within(server.accept()).await.unwrap();
    assert!(!asked.is_finished());
}

#[tokio::test]
async fn one_that_was_waited_for_and_dies_in_its_first_answer_is_not_stale() {
    let (pool, server, uri) = pool().await;
    let origin = pool.origin(&uri).unwrap();
    let asked = ask(&pool, &uri);
    let _first = within(server.accept()).await.unwrap();
    let (connection, mut kept) = connection().await;
    origin.put(connection);
    request(&mut kept).await;
    drop(kept);
    assert_eq!(within(asked).await.unwrap().unwrap_err().kind(), FailureKind::Transport);
}

#[tokio::test]
async fn what_ends_before_a_connection_is_open_leaves_nobody_waiting() {
    let (pool, server, uri) = pool().await;
    let asked = ask(&pool, &uri);
    let opening = within(server.accept()).await.unwrap();
    drop(opening);
    assert_eq!(within(asked).await.unwrap().unwrap_err().kind(), FailureKind::Connect);
    let asked = ask(&pool, &uri);
    let _opening = within(server.accept()).await.unwrap();
    asked.abort();
    assert!(within(asked).await.unwrap_err().is_cancelled());
    assert!(pool.origin(&uri).unwrap().is_empty());
}

#[tokio::test]
async fn a_reply_that_nobody_reads_to_its_end_keeps_no_connection() {
    let (pool, _server, uri) = pool().await;
    let origin = pool.origin(&uri).unwrap();
    let (connection, mut kept) = answered(&origin).await;
    origin.put(connection);
    let exchange = |uri: &Uri| {
        TransportFuture::new(pool.clone(), Request::post(uri).body(Full::new(Bytes::from_static(b"{}"))).unwrap())
    };
    for whole in [WHOLE, b"HTTP/1.1 204 No Content\r\n\r\n"] {
        let exchange = tokio::spawn(exchange(&uri));
        request(&mut kept).await;
        kept.write_all(whole).await.unwrap();
        let mut response = within(exchange).await.unwrap().unwrap();
        if whole == WHOLE {
            response.body_mut().frame().await.unwrap().unwrap();
        }
        settle().await;
        // The body is still there.
        origin.put(origin.take().expect("the connection came back"));
        drop(response);
    }
}

#[tokio::test]
async fn what_has_no_server_or_wants_a_tunnel_is_refused() {
    let (pool, _server, uri) = pool().await;
    for (method, uri) in [
        (Method::POST, Uri::from_static("/v1")),
        (Method::POST, Uri::from_static("ftp://127.0.0.1/v1")),
        (Method::CONNECT, uri),
    ] {
        let request = Request::builder().method(method).uri(uri).body(Full::default()).unwrap();
        let failure = TransportFuture::new(pool.clone(), request).await.unwrap_err();
        assert_eq!(failure.kind(), FailureKind::Misconfigured);
    }
}

#[tokio::test]
async fn origins_to_which_nothing_leads_are_forgotten() {
    let pool = Transport::builder().build().0;
    let uri = |port: u16| Uri::try_from(format!("http://provider:{port}/")).unwrap();
    let held = pool.origin(&uri(1)).unwrap();
    let (connection, _server) = connection().await;
    pool.origin(&uri(2)).unwrap().put(connection);
    for port in 3..2000 {
        pool.origin(&uri(port)).unwrap();
    }
    assert!(pool.origins.read().unwrap().http.len() < 100);
    assert!(Arc::ptr_eq(&held, &pool.origin(&uri(1)).unwrap()));
    assert!(pool.origin(&uri(2)).unwrap().take().is_some());
}
