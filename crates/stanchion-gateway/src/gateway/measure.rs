//! What metrics ask of the gateway's parts at each scrape.

use stanchion::{
    admission::{AdmissionScheduler, AdmissionStatus},
    circuit::{CircuitRegistry, CircuitState},
    core::RequestClass,
    telemetry::{
        Metrics,
        metrics::{CircuitGauge, Pulled},
    },
};

use super::Gateway;

impl Gateway {
    /// Has the states of circuits and queues, call records, connections and refusals shown among the metrics.
    pub fn measure(&self, metrics: &Metrics) {
        let (circuits, scheduler, records) = (self.circuits.clone(), self.scheduler.clone(), self.records.clone());
        let door = self.door.clone();
        metrics.pull(move |pulled| {
            pull_circuits(&circuits, pulled);
            pull_queue(&scheduler, pulled);
            records.pull(pulled);
            door.pull(pulled);
        });
    }
}

fn pull_circuits(circuits: &CircuitRegistry, pulled: &mut Pulled) {
    for circuit in circuits.status() {
        let state = match circuit.state {
            CircuitState::Closed => CircuitGauge::Closed,
            CircuitState::Open => CircuitGauge::Open,
            CircuitState::HalfOpen => CircuitGauge::HalfOpen,
        };
        pulled.circuit(&circuit.candidate, state);
    }
}

fn pull_queue(scheduler: &AdmissionScheduler, pulled: &mut Pulled) {
    let AdmissionStatus { in_flight, queued, non_foreground, internal, limit, domains, .. } = scheduler.status();
    for (class, queued, in_flight) in [
        (RequestClass::Foreground, queued - non_foreground.queued, in_flight - non_foreground.in_flight),
        (
            RequestClass::Background,
            non_foreground.queued - internal.queued,
            non_foreground.in_flight - internal.in_flight,
        ),
        (RequestClass::Internal, internal.queued, internal.in_flight),
    ] {
        pulled.class(class, queued.into(), in_flight.into());
    }
    if let Some(limit) = limit {
        pulled.permit_limit(limit.into());
    }
    for domain in domains {
        let limit = domain.adaptive_limit.map(Into::into);
        pulled.candidate(&domain.candidate, domain.queued.into(), domain.in_flight.into(), limit);
    }
}
