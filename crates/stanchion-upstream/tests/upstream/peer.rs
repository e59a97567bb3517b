//! The other side of a connection, as raw sockets.

use std::{future::Future, net::SocketAddr, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use stanchion_core::{Context, Dialect, Failure, Family};
use stanchion_upstream::{Transport, TransportBody, Upstream, UpstreamBody};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tower::ServiceExt;

use crate::{candidate, request};

pub(crate) const PLAIN: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";

/// Guards against a test that would never end. Nothing is measured by it.
pub(crate) async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("the test hangs")
}

/// A listener that hands out its connections.
pub(crate) struct Server(TcpListener);

impl Server {
    pub(crate) async fn start() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    /// A client's request to this server.
    pub(crate) fn request(&self) -> Request<Full<Bytes>> {
        let mut request =
            request(Dialect::OpenAiChat, candidate(Family::OpenAi, &format!("http://{}/v1", self.address())));
        request.extensions_mut().insert(Context::default());
        request
    }

    pub(crate) async fn accept(&self) -> Peer {
        Peer::new(self.0.accept().await.unwrap().0)
    }

    /// Whether a connection waits to be accepted.
    pub(crate) fn is_called(&self) -> bool {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        self.0.poll_accept(&mut context).is_ready()
    }
}

/// One connection of a client's.
pub(crate) struct Peer<S = TcpStream> {
    pub(crate) stream: S,
    read: Vec<u8>,
}

impl Peer {
    /// Closes at once, so that the client sees a reset.
    pub(crate) fn reset(self) {
        self.stream.set_zero_linger().unwrap();
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Peer<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, read: Vec::new() }
    }

    /// Reads until `enough`, and takes what was read.
    pub(crate) async fn read_until(&mut self, enough: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        while !enough(&self.read) {
            assert_ne!(self.stream.read_buf(&mut self.read).await.unwrap(), 0, "the client closed too early");
        }
        std::mem::take(&mut self.read)
    }

    /// Reads one request, whose body is a JSON object and comes with its length.
    pub(crate) async fn request(&mut self) -> String {
        let whole = |read: &[u8]| {
            let text = String::from_utf8_lossy(read);
            let Some((head, body)) = text.split_once("\r\n\r\n") else {
                return false;
            };
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
            body.len() == length.parse::<usize>().unwrap()
        };
        String::from_utf8(self.read_until(whole).await).unwrap()
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Resolves when the client has closed, whichever way.
    pub(crate) async fn closed(&mut self) {
        loop {
            match self.stream.read_buf(&mut self.read).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
    }
}

pub(crate) type Answer = Result<Response<UpstreamBody<TransportBody>>, Failure>;

pub(crate) async fn call(transport: &Transport, request: Request<Full<Bytes>>) -> Answer {
    Upstream::new(transport.clone()).oneshot(request).await
}
