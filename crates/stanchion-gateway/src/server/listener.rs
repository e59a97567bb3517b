use std::{fmt, io, net::SocketAddr, pin::pin, time::Duration};

use tokio::{net::TcpListener, task::JoinSet};

use super::{
    Lifecycle, Phase,
    connection::{self, Answer},
};
use crate::gateway::Refusal;

/// How long a listener that cannot take connections waits before it tries again.
const MOMENT: Duration = Duration::from_millis(100);

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
        let mut connections = JoinSet::new();
        let mut draining = pin!(lifecycle.reached(Phase::Draining));
        let (door, mut was_full) = (answer.door(), false);
        loop {
            let limit = answer.server().limits.connections;
            let full = connections.len() >= limit;
            door.connected(connections.len(), limit);
            if full && !was_full {
                door.count(Refusal::Connections);
            }
            was_full = full;
            let accepted = tokio::select! {
                biased;
                () = &mut draining => break,
                Some(_) = connections.join_next(), if !connections.is_empty() => continue,
                // Whoever is one too many waits before the door; that the limit was raised is seen within a moment.
                () = tokio::time::sleep(MOMENT), if full => continue,
                accepted = listener.accept(), if !full => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection::serve(stream, answer.clone(), lifecycle.clone()));
                }
                Err(error) => {
                    // Out of file descriptors, most likely: wait for some to be closed instead of spinning.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(MOMENT).await;
                }
            }
        }
        drop(listener);
        while connections.join_next().await.is_some() {
            door.connected(connections.len(), answer.server().limits.connections);
        }
    }
}
