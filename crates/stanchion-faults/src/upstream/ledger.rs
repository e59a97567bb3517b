//! What reached the provider, and when.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::time::Instant;

use crate::headers::Headers;

/// One request that reached a candidate.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RequestRecord {
    /// When it had arrived whole.
    pub at: Instant,
    /// Its method.
    pub method: String,
    /// Its path with the query.
    pub path: String,
    /// Its header fields.
    pub headers: Headers,
    /// Its body, without the transfer coding.
    pub body: Bytes,
    /// The number of its connection, from 1.
    pub connection: u64,
    /// Whether an earlier request came over the same connection.
    pub reused: bool,
    /// Whether no script was left for it.
    pub overrun: bool,
    /// When the other side closed the connection, if it did so before the reply had ended.
    pub gone_at: Option<Instant>,
    /// When the script had ended.
    pub ended_at: Option<Instant>,
}

#[derive(Debug, Default)]
struct State {
    requests: HashMap<(String, String), Vec<RequestRecord>>,
    in_flight: HashMap<String, InFlight>,
    connections: u64,
}

#[derive(Debug, Default, Clone, Copy)]
struct InFlight {
    now: usize,
    peak: usize,
}

/// Everything that the provider remembers.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<State>);

impl Ledger {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn requests(&self, scenario: &str, candidate: &str) -> Vec<RequestRecord> {
        let key = (scenario.to_owned(), candidate.to_owned());
        self.state().requests.get(&key).cloned().unwrap_or_default()
    }

    pub(crate) fn peak_in_flight(&self, scenario: &str) -> usize {
        self.state().in_flight.get(scenario).map_or(0, |flights| flights.peak)
    }

    pub(crate) fn connections(&self) -> u64 {
        self.state().connections
    }

    /// The number of a new connection.
    pub(super) fn connect(&self) -> u64 {
        let mut state = self.state();
        state.connections += 1;
        state.connections
    }

    /// Enters a request; its place among those of its candidate.
    pub(crate) fn enter(&self, key: &(String, String), record: RequestRecord) -> usize {
        let mut state = self.state();
        let requests = state.requests.entry(key.clone()).or_default();
        requests.push(record);
        requests.len() - 1
    }

    fn amend(&self, key: &(String, String), index: usize, change: impl FnOnce(&mut RequestRecord)) {
        if let Some(record) = self.state().requests.get_mut(key).and_then(|requests| requests.get_mut(index)) {
            change(record);
        }
    }

    /// Says that no script was left.
    pub(super) fn overrun(&self, key: &(String, String), index: usize) {
        self.amend(key, index, |record| record.overrun = true);
    }

    /// Counts an exchange as open until the guard is dropped.
    pub(crate) fn open(self: &Arc<Self>, key: (String, String), index: usize) -> Exchange {
        let mut state = self.state();
        let flights = state.in_flight.entry(key.0.clone()).or_default();
        flights.now += 1;
        flights.peak = flights.peak.max(flights.now);
        drop(state);
        Exchange { ledger: Arc::clone(self), key, index }
    }
}

/// An exchange that is being played.
#[derive(Debug)]
pub(crate) struct Exchange {
    ledger: Arc<Ledger>,
    key: (String, String),
    index: usize,
}

impl Exchange {
    /// Notes that the other side has closed the connection; the first time counts.
    pub(crate) fn gone(&self) {
        self.ledger.amend(&self.key, self.index, |record| {
            record.gone_at.get_or_insert_with(Instant::now);
        });
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.ledger.amend(&self.key, self.index, |record| record.ended_at = Some(Instant::now()));
        if let Some(flights) = self.ledger.state().in_flight.get_mut(&self.key.0) {
            flights.now -= 1;
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use tokio::time::Instant;

    use super::{Ledger, RequestRecord};
    use crate::headers::Headers;

    pub(crate) fn record(at: Instant) -> RequestRecord {
        RequestRecord {
            at,
            method: "POST".to_owned(),
            path: "/s/a".to_owned(),
            headers: Headers::default(),
            body: Bytes::new(),
            connection: 1,
            reused: false,
            overrun: false,
            gone_at: None,
            ended_at: None,
        }
    }

    #[tokio::test]
    async fn the_peak_is_kept_when_exchanges_end() {
        let ledger = Arc::new(Ledger::default());
        let key = ("s".to_owned(), "a".to_owned());
        let open = || ledger.open(key.clone(), ledger.enter(&key, record(Instant::now())));
        let (first, second) = (open(), open());
        drop(first);
        let third = open();
        second.gone();
        drop((second, third));
        assert_eq!((ledger.peak_in_flight("s"), ledger.peak_in_flight("other")), (2, 0));
        let gone: Vec<bool> = ledger.requests("s", "a").iter().map(|record| record.gone_at.is_some()).collect();
        assert_eq!(gone, [false, true, false]);
        assert!(ledger.requests("s", "a").iter().all(|record| record.ended_at.is_some()));
    }
}
