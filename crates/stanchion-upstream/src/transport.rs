//! The transport of the house.

mod body;
mod chunks;
mod connect;
mod connection;
mod failure;
mod future;
mod head;
mod origin;
#[cfg(test)]
mod peer;
mod pool;
mod stream;
mod tls;

use std::{
    fmt,
    sync::{Arc, RwLock},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::client::conn::{http1, http2};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::connect::HttpConnector,
    rt::{TokioExecutor, TokioTimer},
};
use stanchion_core::Failure;
use tower_service::Service;

pub use self::{
    body::TransportBody,
    future::TransportFuture,
    tls::{ClientTls, InvalidTls},
};
use self::{connect::Connect, origin::Keep, pool::Pool};

/// Pooled HTTP/1.1 and HTTP/2 over TCP, and over TLS for `https`.
///
/// Cheap to clone; clones share the pool. It must be called within a Tokio runtime: each connection (not each request)
/// is driven by a task of its own.
///
/// # Connections
///
/// Over TLS, HTTP/2 is used where the server agrees to it (ALPN), else HTTP/1.1; without TLS HTTP/1.1, unless [prior
/// knowledge](TransportBuilder::http2_prior_knowledge) says otherwise. The roots of trust are the platform's;
/// `SSL_CERT_FILE` and `SSL_CERT_DIR` replace them, and [`ClientTls`] adds to them. Without any, plain `http` still works.
///
/// Over HTTP/1.1 a request takes the connection whose last reply ended last. Where none is free it opens one, and takes
/// what comes first: that, or one that is given back; the other is kept for the next request. Over HTTP/2 all requests
/// share one connection, and with prior knowledge they wait until it is open, and fail together if it cannot be.
///
/// # Pieces
///
/// A frame of a body is what one read of the connection brought, over HTTP/1.1 32 KiB at most, even where a server cut
/// it into many chunks: their borders are taken out on the way to hyper. Nothing waits for more to come. Responses that
/// are not of the plain form (chunk extensions, a length beside the chunks and the like) are left as they are.
///
/// # A stale keep-alive
///
/// A server may close an idle connection at the very moment at which a request is written to it. So if a connection
/// that had answered before dies before any byte of the next response, the request is sent once more, once, on one that
/// was opened after that. That is no new attempt and nothing is told of it but a `debug` line. A fresh
/// connection's death is a failure at once: nothing explains it away. A resend is *very likely*, not provably, the
/// first that the provider sees.
///
/// # Failures
///
/// | what happened | kind | phase |
/// |---|---|---|
/// | name not found, refused, a handshake failed, or none of it within the connect limit | `Connect` | `Connect` |
/// | no `http` or `https` URI with a host, or `CONNECT`: there are no tunnels, and no upgrades | `Misconfigured` | `Connect` |
/// | HTTP/2 `REFUSED_STREAM`, or `GOAWAY` below the request's stream | `Unprocessed` | `Head` |
/// | HTTP/2 `ENHANCE_YOUR_CALM` | `Overloaded`, with a hint of 1 s | `Head` |
/// | any other broken exchange before the response head | `Transport` | `Head` |
/// | any broken exchange after it | `Transport` | `BeforeOutput` |
#[derive(Clone)]
pub struct Transport(Arc<Pool>);

/// How much of an HTTP/1.1 connection is read at once. hyper's own measure begins with 8 KiB and grows, up to 400, with
/// the reads that fill it; joined chunks do not.
const READ: usize = 32 * 1024;

/// Longer than any connection lives, and short enough to be added to any time.
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

impl Transport {
    /// A transport that is yet to be set up.
    pub fn builder() -> TransportBuilder {
        TransportBuilder::default()
    }
}

impl Service<Request<Full<Bytes>>> for Transport {
    type Response = Response<TransportBody>;
    type Error = Failure;
    type Future = TransportFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> TransportFuture {
        TransportFuture::new(self.0.clone(), request)
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport")
            .field("http2_prior_knowledge", &self.0.http2_prior_knowledge)
            .finish_non_exhaustive()
    }
}

/// Builds a [`Transport`].
///
/// | setting | default |
/// |---|---|
/// | [`connect_timeout`](Self::connect_timeout) | 10 s |
/// | [`pool_idle_timeout`](Self::pool_idle_timeout) | 90 s |
/// | [`pool_max_idle_per_host`](Self::pool_max_idle_per_host) | 256 |
/// | [`http2_prior_knowledge`](Self::http2_prior_knowledge) | no |
/// | [`tls`](Self::tls) | the platform's roots, no certificate of our own |
///
/// Fixed: `TCP_NODELAY`; TCP keep-alive after 15 s, every 15 s, 3 times; on Linux `TCP_USER_TIMEOUT` 30 s, so that a
/// request written into a connection that a NAT has forgotten fails in 30 s and not in 15 min; an HTTP/2 ping every 20
/// s while a stream is open, with 20 s for its answer; HTTP/2 receive windows of 512 KiB a stream and 32 MiB a
/// connection, so that one slow reader does not hold up the others; over HTTP/1.1 a response head of 32 KiB at most.
#[derive(Debug, Clone)]
#[must_use]
pub struct TransportBuilder {
    connect_timeout: Duration,
    pool_idle_timeout: Duration,
    pool_max_idle_per_host: usize,
    http2_prior_knowledge: bool,
    tls: ClientTls,
}

impl Default for TransportBuilder {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            pool_idle_timeout: Duration::from_secs(90),
            pool_max_idle_per_host: 256,
            http2_prior_knowledge: false,
            tls: ClientTls::new(),
        }
    }
}

impl TransportBuilder {
    /// How long name lookup, TCP connect and TLS handshake may take in all. Default: 10 s.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// How long an idle connection is kept. Default: 90 s. 0: none is kept.
    ///
    /// A server that closes earlier (5 s for Node and uvicorn, 60 to 75 s for common proxies) is noticed while the
    /// connection is idle; what is left is a race within one round trip, which the free resend covers. A shorter time
    /// would only buy a TLS handshake after each pause of a person. 90 s stay below what forgets connections silently
    /// (240 s and more for the clouds' NATs) and below the 400 s of large providers' edges.
    pub fn pool_idle_timeout(mut self, limit: Duration) -> Self {
        self.pool_idle_timeout = limit;
        self
    }

    /// How many idle connections are kept to one scheme, host and port. Default: 256. 0: none is kept, or shared: each
    /// request has one of its own.
    pub fn pool_max_idle_per_host(mut self, max: usize) -> Self {
        self.pool_max_idle_per_host = max;
        self
    }

    /// Speaks HTTP/2 to every server, without asking: for plain `http` to a server that is known to. Default: no.
    pub fn http2_prior_knowledge(mut self, yes: bool) -> Self {
        self.http2_prior_knowledge = yes;
        self
    }

    /// Whom to trust besides the platform's roots, and the certificate to present. Default: nobody, and none.
    pub fn tls(mut self, tls: ClientTls) -> Self {
        self.tls = tls;
        self
    }

    /// The transport. Reads the platform's roots of trust, which takes some milliseconds.
    pub fn build(self) -> Transport {
        let mut http1 = http1::Builder::new();
        http1.read_buf_exact_size(Some(READ));
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2
            .timer(TokioTimer::new())
            .initial_stream_window_size(512 * 1024)
            .initial_connection_window_size(32 * 1024 * 1024)
            .keep_alive_interval(Duration::from_secs(20))
            .keep_alive_timeout(Duration::from_secs(20));
        Transport(Arc::new(Pool {
            connect: Connect::new(self.https(), self.connect_timeout),
            http1,
            http2,
            http2_prior_knowledge: self.http2_prior_knowledge,
            keep: Keep {
                timeout: self.pool_idle_timeout.min(YEAR),
                max: if self.pool_idle_timeout.is_zero() { 0 } else { self.pool_max_idle_per_host },
            },
            origins: RwLock::default(),
        }))
    }

    fn https(&self) -> HttpsConnector<HttpConnector> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(Duration::from_secs(15)));
        tcp.set_keepalive_interval(Some(Duration::from_secs(15)));
        tcp.set_keepalive_retries(Some(3));
        #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
        tcp.set_tcp_user_timeout(Some(Duration::from_secs(30)));

        let builder = HttpsConnectorBuilder::new().with_tls_config(self.tls.client_config());
        let builder = builder.https_or_http();
        if self.http2_prior_knowledge {
            builder.enable_http2().wrap_connector(tcp)
        } else {
            builder.enable_all_versions().wrap_connector(tcp)
        }
    }
}
