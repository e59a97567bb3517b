//! What reached the provider, and what became of it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use h2::Reason;
use http::{HeaderMap, Method, Uri};
use tokio::time::Instant;

/// One request.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Http2Request {
    /// When its head had arrived.
    pub at: Instant,
    /// The number of its connection, from 1.
    pub connection: u64,
    /// Its method.
    pub method: Method,
    /// Its address.
    pub uri: Uri,
    /// Its header fields.
    pub headers: HeaderMap,
    /// Its body, once that has arrived whole.
    pub body: Bytes,
    /// Whether the client gave it up before the script had ended, and when.
    pub abandoned: Option<Abandoned>,
}

/// A client that gave a request up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abandoned {
    /// When.
    pub at: Instant,
    /// The reason of its reset; `None` when it closed the whole connection.
    pub reason: Option<Reason>,
}

#[derive(Debug, Default)]
struct State {
    connections: u64,
    requests: Vec<Http2Request>,
}

/// Everything that the provider remembers.
#[derive(Debug, Default)]
pub(super) struct Ledger(Mutex<State>);

impl Ledger {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn connections(&self) -> u64 {
        self.state().connections
    }

    pub(super) fn requests(&self) -> Vec<Http2Request> {
        self.state().requests.clone()
    }

    /// The number of a new connection.
    pub(super) fn connect(&self) -> u64 {
        let mut state = self.state();
        state.connections += 1;
        state.connections
    }

    /// Enters a request; its place among all.
    pub(super) fn enter(&self, connection: u64, head: &http::request::Parts) -> usize {
        let mut state = self.state();
        state.requests.push(Http2Request {
            at: Instant::now(),
            connection,
            method: head.method.clone(),
            uri: head.uri.clone(),
            headers: head.headers.clone(),
            body: Bytes::new(),
            abandoned: None,
        });
        state.requests.len() - 1
    }

    pub(super) fn amend(&self, index: usize, change: impl FnOnce(&mut Http2Request)) {
        if let Some(request) = self.state().requests.get_mut(index) {
            change(request);
        }
    }
}
