//! The admin listener: a status page, the status as JSON, metrics, what happens as it happens, and an operator's hand on circuits and
//! candidates.
//!
//! It is a listener of its own, so that what clients can reach and what operators can do are two things. Without a key it listens on
//! loopback and nowhere else.

mod access;
mod board;
mod events;
mod page;
mod routes;
mod status;
#[cfg(test)]
mod tests;

use std::{
    fmt, io,
    net::SocketAddr,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Duration, SystemTime},
};

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use stanchion::telemetry::{Live, Metrics};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{Notify, Semaphore, broadcast, watch},
    task::JoinSet,
};

pub use self::board::{Board, Drains};
use self::{
    access::Access,
    events::{ActionEvent, Update},
    status::{ConfigView, GatewayView, Status},
};
use crate::{
    current::Current,
    gateway::Refusal,
    server::{ServerTls, is_departure},
};

/// How many connections there may be.
const CONNECTIONS: usize = 64;
/// How many of them may listen to what happens.
const SUBSCRIBERS: usize = 32;
/// How long a connection may take to send the head of a request, and for a TLS handshake.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// How long a client may take nothing of what is sent to it.
const SEND_TIMEOUT: Duration = Duration::from_secs(60);
/// How many actions a subscriber may be behind.
const ACTIONS: usize = 64;

/// How the admin listener is set up.
#[derive(Clone)]
pub struct AdminSettings {
    /// Where it listens.
    pub listen: SocketAddr,
    /// The SHA-256 of the key that must be presented; `None` for no key.
    pub key: Option<[u8; 32]>,
    /// How TLS is spoken, if it is: with HTTP/1.1 only.
    pub tls: Option<ServerTls>,
}

impl AdminSettings {
    /// Where it listens unless something else is said: `127.0.0.1:9090`.
    pub const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9090);

    /// What URLs of the listener begin with.
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// Whether all is the same that cannot change while it listens: everything but TLS.
    pub(crate) fn is_same_place(&self, other: &Self) -> bool {
        (self.listen, self.key) == (other.listen, other.key)
    }
}

impl fmt::Debug for AdminSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminSettings")
            .field("listen", &self.listen)
            .field("keyed", &self.key.is_some())
            .field("tls", &self.tls)
            .finish()
    }
}

/// Why it does not listen.
#[derive(Debug)]
pub enum AdminError {
    /// The address would let strangers in.
    OpenToStrangers(SocketAddr),
    /// The address cannot be had.
    Bind(SocketAddr, io::Error),
}

impl fmt::Display for AdminError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OpenToStrangers(address) => write!(
                f,
                "the admin listener at {address} can be reached from other machines and has no key: whoever reaches it can turn your providers \
                 off. Set admin.key_env, admin.key_file or admin.key_sha256, or listen on 127.0.0.1"
            ),
            Self::Bind(address, error) => {
                write!(f, "cannot listen on {address} for the admin listener: {error}")
            }
        }
    }
}

impl std::error::Error for AdminError {}

/// What the admin listener shows, as the rest of the process tells it.
#[derive(Clone)]
pub struct AdminHandle {
    shared: Arc<Shared>,
}

impl AdminHandle {
    /// Another configuration counts from now on.
    pub fn reloaded(&self, board: Board) {
        *self.shared.board.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(board);
    }

    /// How TLS is spoken with those who connect from now on, if it is.
    pub fn speaks(&self, tls: Option<ServerTls>) {
        *self.shared.tls.lock().unwrap_or_else(PoisonError::into_inner) = tls;
    }

    /// Where it is known which configuration is served. To be told once.
    pub fn shows(&self, current: Current) {
        let _ = self.shared.current.set(current);
    }

    /// The gateway takes no new requests any more.
    pub fn draining(&self) {
        self.shared.draining.send_replace(true);
    }
}

impl fmt::Debug for AdminHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminHandle").field("draining", &*self.shared.draining.borrow()).finish_non_exhaustive()
    }
}

/// What all connections have in common.
struct Shared {
    access: Access,
    tls: Mutex<Option<ServerTls>>,
    live: Live,
    board: Mutex<Arc<Board>>,
    current: OnceLock<Current>,
    metrics: Metrics,
    started_at_ms: u64,
    instance: Arc<str>,
    draining: watch::Sender<bool>,
    /// Whether this listener is to end.
    ended: watch::Sender<bool>,
    updates: watch::Sender<Update>,
    actions: broadcast::Sender<ActionEvent>,
    subscribers: Arc<Semaphore>,
    /// A subscriber has come.
    came: Notify,
}

impl Shared {
    fn new(key: Option<[u8; 32]>, tls: Option<ServerTls>, board: Board, live: Live, metrics: Metrics) -> Self {
        let started_at_ms = status::epoch_milliseconds(SystemTime::now());
        Self {
            access: Access::new(key),
            tls: Mutex::new(tls),
            live,
            board: Mutex::new(Arc::new(board)),
            current: OnceLock::new(),
            metrics,
            started_at_ms,
            instance: format!("{:08x}-{started_at_ms:x}", std::process::id()).into(),
            draining: watch::channel(false).0,
            ended: watch::channel(false).0,
            updates: watch::channel(Update::default()).0,
            actions: broadcast::channel(ACTIONS).0,
            subscribers: Arc::new(Semaphore::new(SUBSCRIBERS)),
            came: Notify::new(),
        }
    }

    fn tls(&self) -> Option<ServerTls> {
        self.tls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Somebody was turned away who asked.
    fn refused(&self, refusal: access::Refusal) {
        self.count(match refusal {
            access::Refusal::Key => Refusal::AdminKey,
            access::Refusal::Host | access::Refusal::Page | access::Refusal::Header => Refusal::AdminForeign,
        });
    }

    /// Somebody was turned away.
    fn count(&self, refusal: Refusal) {
        if let Some(current) = self.current.get() {
            current.get().gateway.door.count(refusal);
        }
    }

    fn board(&self) -> Arc<Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn gateway(&self) -> GatewayView {
        GatewayView {
            version: env!("CARGO_PKG_VERSION"),
            instance: self.instance.clone(),
            started_at_ms: self.started_at_ms,
            now_ms: status::epoch_milliseconds(SystemTime::now()),
            state: if *self.draining.borrow() { "draining" } else { "ready" },
            config: self.current.get().map(ConfigView::of),
        }
    }

    fn status(&self, steps: usize) -> String {
        Status::of(&self.board(), &self.live, self.gateway(), steps).to_json()
    }
}

/// The listener, before it serves.
pub struct Admin {
    listener: TcpListener,
    shared: Arc<Shared>,
}

impl Admin {
    /// Listens. Refuses an address beyond loopback without a key.
    pub async fn bind(settings: AdminSettings, board: Board, live: Live, metrics: Metrics) -> Result<Self, AdminError> {
        let AdminSettings { listen, key, tls } = settings;
        if !listen.ip().is_loopback() && key.is_none() {
            return Err(AdminError::OpenToStrangers(listen));
        }
        let listener = TcpListener::bind(listen).await.map_err(|error| AdminError::Bind(listen, error))?;
        Ok(Self { listener, shared: Arc::new(Shared::new(key, tls, board, live, metrics)) })
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Tells it what changes.
    pub fn handle(&self) -> AdminHandle {
        AdminHandle { shared: self.shared.clone() }
    }

    /// Serves until `end` is done. Then subscribers are told so, and every connection is closed.
    pub async fn serve(self, end: impl Future<Output = ()>) {
        let Self { listener, shared } = self;
        let mut tasks = JoinSet::new();
        tasks.spawn(events::publish(shared.clone()));
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        let mut end = std::pin::pin!(end);
        loop {
            let connection = tokio::select! {
                connection = async {
                    let place = places.clone().acquire_owned().await.expect("never closed");
                    (listener.accept().await, place)
                } => connection,
                Some(_) = tasks.join_next() => continue,
                () = &mut end => break,
            };
            match connection {
                (Ok((stream, _)), place) => {
                    let shared = shared.clone();
                    tasks.spawn(async move {
                        accept(stream, shared).await;
                        drop(place);
                    });
                }
                (Err(error), _) => {
                    tracing::warn!(%error, "cannot accept a connection to the admin listener");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
        drop(listener);
        shared.ended.send_replace(true);
        // A page that does not read its goodbye holds nobody up.
        let _ = tokio::time::timeout(Duration::from_millis(500), async {
            // The publisher goes on for ever; it is the last one.
            while tasks.len() > 1 && tasks.join_next().await.is_some() {}
        })
        .await;
        tasks.shutdown().await;
    }
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin").field("listener", &self.listener).finish_non_exhaustive()
    }
}

async fn accept(stream: TcpStream, shared: Arc<Shared>) {
    if let Err(error) = stream.set_nodelay(true).and_then(|()| crate::server::bound_silence(&stream, SEND_TIMEOUT)) {
        tracing::debug!(%error, "a socket option cannot be set");
    }
    let Some(tls) = shared.tls() else { return serve_connection(stream, shared).await };
    let mut ended = shared.ended.subscribe();
    let shaken = tokio::select! {
        shaken = tokio::time::timeout(HEAD_TIME, tls.acceptor().accept(stream)) => shaken,
        () = events::over(&mut ended) => return,
    };
    match shaken {
        Ok(Ok(stream)) => serve_connection(stream, shared).await,
        Ok(Err(error)) => {
            if !is_departure(&error) {
                shared.count(Refusal::AdminTls);
            }
            tracing::debug!(%error, "a TLS handshake with the admin listener failed");
        }
        Err(_) => {
            shared.count(Refusal::AdminTls);
            tracing::debug!("a TLS handshake with the admin listener took too long");
        }
    }
}

async fn serve_connection(stream: impl AsyncRead + AsyncWrite + Unpin, shared: Arc<Shared>) {
    let mut ended = shared.ended.subscribe();
    let service = hyper::service::service_fn(move |request| {
        let shared = shared.clone();
        async move { Ok::<_, std::convert::Infallible>(routes::answer(&shared, request)) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(64 * 1024);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    let over = tokio::select! {
        over = connection.as_mut() => over,
        () = events::over(&mut ended) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = over {
        tracing::debug!(%error, "a connection to the admin listener ended early");
    }
}
