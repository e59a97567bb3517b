//! The scripted provider, over raw sockets.
//!
//! One listener serves every scenario: candidate `a` of scenario `s07` has the base `http://HOST:PORT/s07/a`. The n-th
//! POST that reaches a candidate plays its n-th script; a further one gets status 400 with code `script_exhausted`,
//! unless the last script repeats. Other methods, and other paths, get an empty list and count for nothing.
//!
//! ```
//! use stanchion_faults::scenario::Scenario;
//! use stanchion_faults::upstream::Upstream;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let scenario = Scenario::parse("s01", "name = 'plain'\nupstream.a = [{ body = [{ sse = '[DONE]' }] }]")?;
//! let upstream = Upstream::start(&[scenario]).await?;
//! assert_eq!(upstream.base_url("s01", "a"), format!("http://{}/s01/a", upstream.address()));
//! assert!(upstream.requests("s01", "a").is_empty());
//! # Ok(())
//! # }
//! ```

mod connection;
mod ledger;
mod peer;
mod play;

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinSet};

pub(crate) use ledger::Ledger;
pub use ledger::RequestRecord;
#[cfg(test)]
pub(crate) use ledger::tests as ledger_tests;

use crate::scenario::{Scenario, Script};

type Scripts = HashMap<(String, String), Arc<[Script]>>;

/// A provider that plays scripts; dropping it ends all that it does.
#[derive(Debug)]
pub struct Upstream {
    address: SocketAddr,
    refused: HashSet<(String, String)>,
    /// Bound, but not listening: whoever connects is refused, and nobody else gets the port.
    deaf: Socket,
    ledger: Arc<Ledger>,
    accepting: AbortHandle,
}

impl Upstream {
    /// Starts on a free port of this machine.
    pub async fn start(scenarios: &[Scenario]) -> io::Result<Self> {
        Self::start_on((Ipv4Addr::LOCALHOST, 0).into(), scenarios).await
    }

    /// Starts on the given address.
    pub async fn start_on(address: SocketAddr, scenarios: &[Scenario]) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let deaf = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        deaf.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;

        let mut scripts = Scripts::new();
        let mut refused = HashSet::new();
        for scenario in scenarios {
            for candidate in scenario.candidates() {
                let key = (scenario.id.clone(), candidate.to_owned());
                if scenario.refuses(candidate) {
                    refused.insert(key.clone());
                }
                if let Some(list) = scenario.upstream.get(candidate) {
                    scripts.insert(key, list.as_slice().into());
                }
            }
        }
        let ledger = Arc::new(Ledger::default());
        let accepting = tokio::spawn(accept(listener, Arc::new(scripts), Arc::clone(&ledger))).abort_handle();
        Ok(Self { address, refused, deaf, ledger, accepting })
    }

    /// Where the provider listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// An address at which nothing listens.
    pub fn refusing_address(&self) -> io::Result<SocketAddr> {
        self.deaf.local_addr()?.as_socket().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }

    /// A candidate's base, without the `/v1` that an OpenAI client adds; of a refused one, a base where nothing listens.
    pub fn base_url(&self, scenario: &str, candidate: &str) -> String {
        let key = (scenario.to_owned(), candidate.to_owned());
        let address = match self.refusing_address() {
            Ok(deaf) if self.refused.contains(&key) => deaf,
            _ => self.address,
        };
        base_url(address, scenario, candidate)
    }

    /// The requests that reached a candidate, in order.
    pub fn requests(&self, scenario: &str, candidate: &str) -> Vec<RequestRecord> {
        self.ledger.requests(scenario, candidate)
    }

    /// The most exchanges of a scenario that were open at once.
    pub fn peak_in_flight(&self, scenario: &str) -> usize {
        self.ledger.peak_in_flight(scenario)
    }

    /// How many connections were made.
    pub fn connections(&self) -> u64 {
        self.ledger.connections()
    }

    pub(crate) fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

pub(crate) fn base_url(address: SocketAddr, scenario: &str, candidate: &str) -> String {
    format!("http://{address}/{scenario}/{candidate}")
}

/// Takes connections until it is dropped, and all connections with it.
async fn accept(listener: TcpListener, scripts: Arc<Scripts>, ledger: Arc<Ledger>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((socket, _)) => {
                    connections.spawn(connection::serve(socket, Arc::clone(&scripts), Arc::clone(&ledger)));
                }
                // Out of descriptors, most likely: one may be free again soon.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}
