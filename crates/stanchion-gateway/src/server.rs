//! Serving: connections in, routes, and an end that lets streams finish.

mod activity;
mod connection;
mod gather;
mod held;
mod lifecycle;
mod limits;
mod listener;
mod routes;
mod streams;
mod tls;

use std::{future::Future, io, net::SocketAddr, time::Duration};

pub(crate) use self::connection::{bound_silence, is_departure};
use self::routes::Routes;
pub use self::{
    connection::Answer,
    lifecycle::{Ended, Lifecycle, Phase},
    limits::ListenerLimits,
    listener::{Listener, ServeError},
    tls::{InvalidTls, ServerTls},
};
use crate::current::Current;

/// How often the state of keys is saved.
const SAVE_EVERY: Duration = Duration::from_secs(10);

/// A gateway that listens.
#[derive(Debug)]
pub struct Server {
    listener: Listener,
    current: Current,
    lifecycle: Lifecycle,
}

impl Server {
    /// Listens. Refuses an address beyond loopback unless clients need a key or `open` is set.
    pub async fn bind(address: SocketAddr, current: impl Into<Current>, open: bool) -> Result<Self, ServeError> {
        let current = current.into();
        let served = current.get();
        if is_open_to_strangers(address, served.gateway.lets_anybody_in(), open) {
            return Err(ServeError::OpenToStrangers(address));
        }
        let lifecycle = Lifecycle::new(served.gateway.end.clone());
        Ok(Self { listener: Listener::bind(address).await?, current, lifecycle })
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.address()
    }

    /// Where it stands between its start and its end.
    pub fn lifecycle(&self) -> &Lifecycle {
        &self.lifecycle
    }

    /// Serves until `end` is done; then takes nothing more and lets running streams end, for as long as the configuration says.
    pub async fn serve(self, end: impl Future<Output = ()>) -> Ended {
        self.serve_until(end, std::future::pending()).await
    }

    /// The same, until `at_once` is done: then nothing is waited for.
    pub async fn serve_until(self, end: impl Future<Output = ()>, at_once: impl Future<Output = ()>) -> Ended {
        let Self { listener, current, lifecycle } = self;
        let serving = async {
            let draining = async {
                lifecycle.reached(Phase::Draining).await;
                // Who still queues is told at once; what runs may end.
                current.get().gateway.scheduler.close();
            };
            let routes = Routes { current: current.clone(), lifecycle: lifecycle.clone() };
            tokio::join!(listener.serve(routes, lifecycle.clone()), draining);
        };
        let drain = || current.get().gateway.server.drain;
        let ended = tokio::select! {
            ended = lifecycle.run(serving, end, at_once, drain) => ended,
            never = keep_saved(&current) => match never {},
        };
        save(&current);
        ended
    }
}

/// Whether whoever reaches an address could spend the providers' money.
pub(crate) fn is_open_to_strangers(address: SocketAddr, anybody: bool, open: bool) -> bool {
    !address.ip().is_loopback() && anybody && !open
}

/// Writes the state of keys to their files, where any are wished, now and then.
async fn keep_saved(current: &Current) -> std::convert::Infallible {
    loop {
        tokio::time::sleep(SAVE_EVERY).await;
        let current = current.clone();
        let _ = tokio::task::spawn_blocking(move || save(&current)).await;
    }
}

fn save(current: &Current) {
    for (provider, error) in current.get().gateway.credentials.save() {
        tracing::warn!(%provider, %error, "the state of its keys cannot be saved");
    }
}
