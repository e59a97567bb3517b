use std::{fmt, io, net::SocketAddr, pin::pin, time::Duration};

use hyper_util::server::graceful::GracefulShutdown;
use tokio::{net::TcpListener, task::JoinSet};

use super::{
    Lifecycle, Phase,
    connection::{self, Answer, Peer},
};

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

/// An address where connections are taken.
#[derive(Debug)]
pub struct Listener(TcpListener);

impl Listener {
    /// Listens.
    pub async fn bind(address: SocketAddr) -> Result<Self, ServeError> {
        TcpListener::bind(address).await.map(Self).map_err(|error| ServeError::Bind(address, error))
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Has the requests of all connections answered. From [`Draining`](Phase::Draining) on it takes no more connections, closes those
    /// that are idle, and is done once the others have ended. Dropping it drops them all.
    pub async fn serve<A: Answer>(self, answer: A, lifecycle: Lifecycle) {
        let Self(listener) = self;
        let graceful = GracefulShutdown::new();
        let mut connections = JoinSet::new();
        let mut draining = pin!(lifecycle.reached(Phase::Draining));
        loop {
            let accepted = tokio::select! {
                biased;
                () = &mut draining => break,
                Some(_) = connections.join_next(), if !connections.is_empty() => continue,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, address)) => {
                    let peer = Peer { address };
                    let serving =
                        connection::serve(stream, peer, answer.clone(), lifecycle.clone(), graceful.watcher());
                    connections.spawn(serving);
                }
                Err(error) => {
                    // Out of file descriptors, most likely: wait for some to be closed instead of spinning.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
        drop(listener);
        graceful.shutdown().await;
        while connections.join_next().await.is_some() {}
    }
}
