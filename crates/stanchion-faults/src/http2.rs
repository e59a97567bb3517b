//! A scripted provider over HTTP/2 without TLS, for tests of a library.
//!
//! The n-th request plays the n-th [`Attempt`], whichever connection it comes over; a further one gets status 400. What
//! HTTP/2 knows beyond HTTP/1.1 can be scripted: a stream that is reset with a reason, one that is refused before it
//! was looked at, and a connection that says goodbye.
//!
//! ```
//! use stanchion_faults::http2::{Attempt, Ending, Http2Upstream, Reason};
//! use stanchion_faults::scenario::Step;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let upstream = Http2Upstream::start(vec![
//!     Attempt::refused(),
//!     Attempt::streaming([Step::sse("half of it")]).ending(Ending::Reset(Reason::INTERNAL_ERROR)),
//!     Attempt::streaming([Step::sse("all of it"), Step::sse("[DONE]")]),
//! ])
//! .await?;
//! assert_eq!((upstream.connections(), upstream.requests().len()), (0, 0));
//! # Ok(())
//! # }
//! ```

mod attempt;
mod connection;
mod ledger;
mod meter;
mod play;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinSet};

pub use attempt::{Attempt, Ending, Head, LastStream};
pub use h2::Reason;
use ledger::Ledger;
pub use ledger::{Abandoned, Http2Request};

/// A provider that plays attempts; dropping it ends all that it does.
#[derive(Debug)]
pub struct Http2Upstream {
    address: SocketAddr,
    ledger: Arc<Ledger>,
    accepting: AbortHandle,
}

impl Http2Upstream {
    /// Starts on a free port of this machine; attempts that contradict themselves are turned away.
    pub async fn start(attempts: Vec<Attempt>) -> io::Result<Self> {
        for (index, attempt) in attempts.iter().enumerate() {
            if let Some(problem) = attempt.problem() {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("attempt {index}: {problem}")));
            }
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let ledger = Arc::new(Ledger::default());
        let accepting = tokio::spawn(accept(listener, attempts.into(), Arc::clone(&ledger))).abort_handle();
        Ok(Self { address, ledger, accepting })
    }

    /// Where the provider listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base of its addresses.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many connections were made.
    pub fn connections(&self) -> u64 {
        self.ledger.connections()
    }

    /// The requests so far, in order.
    pub fn requests(&self) -> Vec<Http2Request> {
        self.ledger.requests()
    }
}

impl Drop for Http2Upstream {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Takes connections until it is dropped, and all connections with it.
async fn accept(listener: TcpListener, attempts: Arc<[Attempt]>, ledger: Arc<Ledger>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((socket, _)) => {
                    connections.spawn(connection::serve(socket, Arc::clone(&attempts), Arc::clone(&ledger)));
                }
                // Out of descriptors, most likely: one may be free again soon.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}
