//! Serving: connections in, routes, and an end that lets streams finish.

use std::{convert::Infallible, fmt, future::Future, io, net::SocketAddr, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown},
};
use stanchion::{
    core::Dialect,
    credentials::CredentialPools,
    wire::{render, request::route},
};
use tokio::net::{TcpListener, TcpStream};
use tower_service::Service;

use crate::gateway::{Gateway, ModelBody};

/// How long a connection may take to send the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// How long a client may take nothing of what is sent to it.
#[cfg(target_os = "linux")]
const SILENT_CLIENT: Duration = Duration::from_secs(60);
/// How often the state of keys is saved.
const SAVE_EVERY: Duration = Duration::from_secs(10);
/// How long running streams may go on once the process is to end.
const DRAIN_TIME: Duration = Duration::from_secs(30);

/// A body: of a model call, or of our own.
type Body = Either<ModelBody, Full<Bytes>>;

/// Why serving did not begin.
#[derive(Debug)]
pub enum ServeError {
    /// The address would be open to strangers.
    OpenToStrangers(SocketAddr),
    /// The address cannot be had.
    Bind(SocketAddr, io::Error),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OpenToStrangers(address) => write!(
                f,
                "{address} can be reached from other machines and no client key is configured: whoever reaches it can spend your providers' money. \
                 Listen on 127.0.0.1, add a table such as [clients.me] with key_env, or give --open"
            ),
            Self::Bind(address, error) => write!(f, "cannot listen on {address}: {error}"),
        }
    }
}

impl std::error::Error for ServeError {}

/// A gateway that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    gateway: Gateway,
}

impl Server {
    /// Listens. Refuses an address beyond loopback unless clients need a key or `open` is set.
    pub async fn bind(address: SocketAddr, gateway: Gateway, open: bool) -> Result<Self, ServeError> {
        if !address.ip().is_loopback() && gateway.keys.is_empty() && !open {
            return Err(ServeError::OpenToStrangers(address));
        }
        let listener = TcpListener::bind(address).await.map_err(|error| ServeError::Bind(address, error))?;
        Ok(Self { listener, gateway })
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `end` is done; then accepts nothing more and lets running streams end, for at most half a minute.
    pub async fn serve(self, end: impl Future<Output = ()>) {
        let saving = tokio::spawn(keep_saved(self.gateway.credentials.clone()));
        let graceful = GracefulShutdown::new();
        let mut end = std::pin::pin!(end);
        loop {
            let connection = tokio::select! {
                connection = self.listener.accept() => connection,
                () = &mut end => break,
            };
            match connection {
                Ok((stream, _)) => serve_connection(stream, self.gateway.clone(), &graceful),
                Err(error) => {
                    // Out of file descriptors, most likely: wait for some to be closed instead of spinning.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
        drop(self.listener);
        // Who still queues is told at once; what runs may end.
        self.gateway.scheduler.close();
        if tokio::time::timeout(DRAIN_TIME, graceful.shutdown()).await.is_err() {
            tracing::warn!("streams were cut off at the end of the drain time");
        }
        saving.abort();
        save(&self.gateway.credentials);
    }
}

/// Writes the state of keys to their files, where any are wished, now and then.
async fn keep_saved(credentials: CredentialPools) {
    if credentials.iter().next().is_none() {
        return;
    }
    loop {
        tokio::time::sleep(SAVE_EVERY).await;
        let credentials = credentials.clone();
        let _ = tokio::task::spawn_blocking(move || save(&credentials)).await;
    }
}

fn save(credentials: &CredentialPools) {
    for (provider, error) in credentials.save() {
        tracing::warn!(%provider, %error, "the state of its keys cannot be saved");
    }
}

fn serve_connection(stream: TcpStream, gateway: Gateway, graceful: &GracefulShutdown) {
    // A token a frame: nothing may wait for an acknowledgement.
    if let Err(error) = stream.set_nodelay(true).and_then(|()| bound_silence(&stream)) {
        tracing::debug!(%error, "a socket option cannot be set");
    }
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIME);
    builder.http2().timer(TokioTimer::new());
    let service = hyper::service::service_fn(move |request| {
        let gateway = gateway.clone();
        async move { Ok::<_, Infallible>(answer(gateway, request).await) }
    });
    let watcher = graceful.watcher();
    tokio::spawn(async move {
        // The clock of the head starts with its first byte: a connection that never sends one is closed here.
        if !matches!(tokio::time::timeout(HEAD_TIME, stream.readable()).await, Ok(Ok(()))) {
            return;
        }
        let connection = watcher.watch(builder.serve_connection(TokioIo::new(stream), service).into_owned());
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection ended early");
        }
    });
}

/// Ends a connection whose client is gone without a word, or takes nothing of what is sent: its stream would hold the provider for ever.
pub(crate) fn bound_silence(stream: &TcpStream) -> io::Result<()> {
    let socket = socket2::SockRef::from(stream);
    socket.set_tcp_keepalive(
        &socket2::TcpKeepalive::new().with_time(Duration::from_secs(60)).with_interval(Duration::from_secs(15)),
    )?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(SILENT_CLIENT))?;
    Ok(())
}

/// Whether a web page of another site sent the request: browsers say so, and do not ask before they send a plain POST.
fn is_foreign_page(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(header::ORIGIN) else { return false };
    let host = origin
        .to_str()
        .ok()
        .and_then(|origin| url::Url::parse(origin).ok())
        .and_then(|url| url.host_str().map(str::to_owned));
    !matches!(host.as_deref(), Some("localhost" | "127.0.0.1" | "[::1]"))
}

async fn answer(mut gateway: Gateway, mut request: Request<Incoming>) -> Response<Body> {
    let path = request.uri().path();
    if path == "/healthz" {
        return own(text(StatusCode::OK, "text/plain; charset=utf-8", "ok\n".into()));
    }
    let Some(identity) = gateway.keys.identify(request.headers(), request.uri()) else {
        let dialect = route(path).map_or(Dialect::OpenAiChat, |route| route.dialect);
        return own(render::local_error(
            dialect,
            StatusCode::UNAUTHORIZED,
            "invalid_api_key",
            "a client key is needed, and the one presented is not known",
        ));
    };
    if gateway.keys.is_empty() && is_foreign_page(request.headers()) {
        let dialect = route(path).map_or(Dialect::OpenAiChat, |route| route.dialect);
        let text = "web pages of other sites may not ask here, since no client key is configured";
        return own(render::local_error(dialect, StatusCode::FORBIDDEN, "permission_denied", text));
    }
    if path == "/v1/models" && request.method() == Method::GET {
        return own(text(StatusCode::OK, "application/json", gateway.names.list().to_string()));
    }
    identity.apply(request.headers_mut());
    let Ok(response) = gateway.edge.call(request).await;
    response.map(Either::Left)
}

fn own(response: Response<Bytes>) -> Response<Body> {
    response.map(|body| Either::Right(Full::new(body)))
}

fn text(status: StatusCode, content_type: &'static str, body: String) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    response
}
