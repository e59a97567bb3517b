//! Connections within the process, for the tests of what keeps them.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::{connection::Connection, origin::Origin, stream::Tracked};

/// A connection that is driven, and the server's side of it.
pub(super) async fn connection() -> (Connection, DuplexStream) {
    let (client, server) = tokio::io::duplex(4096);
    let stream = Tracked::wrap(TokioIo::new(client));
    let history = stream.inner().history().clone();
    let (mut sender, connection) = http1::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    sender.ready().await.unwrap();
    (Connection::http1(sender, history), server)
}

/// A response whose body is not at its end.
pub(super) async fn begun(
    connection: &mut Connection,
    server: &mut DuplexStream,
    origin: &Origin,
) -> Response<Incoming> {
    let request = Request::post("http://provider:8080/").body(Full::new(Bytes::new())).unwrap();
    let (response, ()) = tokio::join!(connection.send(request, origin), async {
        server.read_buf(&mut Vec::new()).await.unwrap();
        server.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{").await.unwrap();
    });
    response.unwrap()
}

/// Guards against a test that would never end. Nothing is measured by it.
pub(super) async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("the test hangs")
}

/// Lets all else that can run do so.
pub(super) async fn settle() {
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
}

pub(super) async fn is_closed(mut server: DuplexStream) -> bool {
    settle().await;
    matches!(tokio::time::timeout(Duration::from_millis(1), server.read_u8()).await, Ok(Err(_)))
}
