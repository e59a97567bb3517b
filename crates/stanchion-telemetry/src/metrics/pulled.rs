use std::{sync::Arc, time::SystemTime};

use stanchion_core::RequestClass;

use super::{
    family::{Label, Labels},
    list::Id,
};

/// What is looked up when metrics are scraped, since others know it anyway: circuits, queues, records.
///
/// Filled by the sources given to [`Metrics::pull`](super::Metrics::pull). What no source tells is not shown.
#[derive(Debug, Default)]
pub struct Pulled(Vec<(Id, Labels, f64)>);

impl Pulled {
    fn set<const N: usize>(&mut self, id: Id, labels: [Label; N], value: f64) {
        let labels = Labels::new(id.info(), labels);
        // Circuits of several credentials have one candidate: their numbers add up.
        match self.0.iter_mut().find(|(other, others, _)| *other == id && *others == labels) {
            Some((_, _, sum)) => *sum += value,
            None => self.0.push((id, labels, value)),
        }
    }

    /// A circuit of a candidate is in this state.
    pub fn circuit(&mut self, candidate: &Arc<str>, state: CircuitGauge) {
        for other in CircuitGauge::ALL {
            let value = f64::from(u8::from(other == state));
            self.set(Id::CircuitState, [candidate.into(), other.as_str().into()], value);
        }
    }

    /// So many requests of a class wait, and so many run.
    pub fn class(&mut self, class: RequestClass, queued: u64, in_flight: u64) {
        self.set(Id::QueueDepth, [class.as_str().into()], queued as f64);
        self.set(Id::Permits, [class.as_str().into()], in_flight as f64);
    }

    /// So many may run in all.
    pub fn permit_limit(&mut self, limit: u64) {
        self.set(Id::PermitLimit, [], limit as f64);
    }

    /// So many requests wait for a candidate, and so many run; and what its limit has come to, where it adapts.
    pub fn candidate(&mut self, candidate: &Arc<str>, queued: u64, in_flight: u64, limit: Option<u64>) {
        self.set(Id::CandidateQueue, [candidate.into()], queued as f64);
        self.set(Id::CandidatePermits, [candidate.into()], in_flight as f64);
        if let Some(limit) = limit {
            self.set(Id::CandidateLimit, [candidate.into()], limit as f64);
        }
    }

    /// So many clients are connected, of so many that may be.
    pub fn connections(&mut self, open: u64, limit: u64) {
        self.set(Id::Connections, [], open as f64);
        self.set(Id::ConnectionsLimit, [], limit as f64);
    }

    /// The configuration that is served is so old, and was the last that was tried or not; and this version serves it.
    pub fn configuration(&mut self, since: SystemTime, is_the_last: bool, version: &'static str) {
        let since = since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.set(Id::ReloadSuccessful, [], f64::from(u8::from(is_the_last)));
        self.set(Id::ReloadTime, [], since.as_secs_f64());
        self.set(Id::BuildInfo, [version.into()], 1.0);
    }

    /// So many call records were written since the start, and so many were lost.
    pub fn call_records(&mut self, written: u64, dropped: u64) {
        self.set(Id::RecordsWritten, [], written as f64);
        self.set(Id::RecordsDropped, [], dropped as f64);
    }

    /// So many spans were sent by OTLP since the start, and so many were lost.
    pub fn otlp_spans(&mut self, sent: u64, dropped: u64) {
        self.set(Id::OtlpSent, [], sent as f64);
        self.set(Id::OtlpDropped, [], dropped as f64);
    }

    /// So many were turned away before a model was asked, for this reason: one of a fixed list.
    pub fn refusals(&mut self, reason: &'static str, count: u64) {
        self.set(Id::Refusals, [reason.into()], count as f64);
    }

    /// At most so many series of a metric.
    pub(super) fn of(&self, id: usize, most: usize) -> impl Iterator<Item = (&Labels, f64)> {
        self.0
            .iter()
            .filter(move |(other, ..)| *other as usize == id)
            .take(most)
            .map(|(_, labels, value)| (labels, *value))
    }
}

/// The state of a circuit. See [`Pulled::circuit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CircuitGauge {
    /// Everyone is let through.
    Closed,
    /// Nobody is let through.
    Open,
    /// One request at a time is let through.
    HalfOpen,
}

impl CircuitGauge {
    const ALL: [Self; 3] = [Self::Closed, Self::Open, Self::HalfOpen];

    /// The name used in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }
}
