//! Leaves a provider alone that fails, until it works again.
//!
//! [`Circuit`] counts what comes of the calls to each candidate. When too many fail it opens the candidate's circuit:
//! for a while nobody is let through, so that callers learn at once what they would otherwise wait for, and a provider
//! in trouble is not hammered. Then one request is let through as a probe, and what comes of it decides.
//! [`CircuitPreflight`] does the turning away, and nothing else, before a request queues; [`Circuit`] checks again,
//! atomically, once the request has its permit, since the circuit may have opened in between.
//!
//! * **Whose circuit.** A [`CircuitRegistry`] holds one for each failure domain: what leads to the same place under the
//!   same account, and under equal settings. Requests without a [`Selected`](stanchion_core::Selected) candidate pass
//!   untouched. A registry has room for 128 unless more is [made](CircuitRegistry::make_room); see there what is forgotten, and when a candidate goes without.
//! * **What counts.** The circuit column of the table, [`Disposition`](stanchion_core::Disposition), and nothing else. A
//!   failure is the provider's own trouble. A caller's mistake, an exhausted quota, a refused key are *neutral*: no
//!   sample, but a provider that says so is alive, and a probe that is answered so closes the circuit. What teaches
//!   nothing, as a silence, a deadline, a caller who leaves, a reply dropped before its first output, is *abandoned*: a
//!   probe then makes room for the next at once. A neutral failure without an answer is abandoned, too.
//! * **When it opens.** A failure that makes the share of failures in the [`window`] reach [`failure_rate`], if there
//!   are [`min_samples`] or more; or that is the last of [`consecutive`] in a row, or of twice the [`concurrency`] if
//!   that is more; or that is of a class in [`force_open_on`]. Whichever comes first. Only a failure opens: no success
//!   that ages out does.
//! * **For how long.** For [`open`], or for as long as the provider asks in the failure that opened it, up to 5 min,
//!   whichever is longer.
//! * **The probe** holds a lease of 5 to 10 min. If nothing came of it by then, the next request takes it over, and what
//!   the old owner says after that counts for nothing. So it is with all that was let in before the circuit changed.
//! * **Success** is the first real output: a response that leaves `Commit` has it already, and without one the
//!   [`StreamRecord`](stanchion_core::StreamRecord) of the body is watched, or, where there is none, its first bytes.
//!   What fails after that changes nothing, unless [`late_failure`] says so. A response with an error status is no
//!   success, and as long as `Commit` does not make a failure of it, no failure either: put this layer outside of
//!   `Commit`.
//! * **Settled once.** Every request that was let in is settled exactly once: by its outcome, or, when its future or
//!   body is dropped at whatever point, at once and synchronously. Nothing is spawned, and nothing boxed as long as the
//!   circuit is closed.
//!
//! # Example
//!
//! ```
//! use std::time::Duration;
//!
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::Full;
//! use stanchion_circuit::{CircuitLayer, CircuitPolicy, CircuitRegistry};
//! use stanchion_core::{Candidate, Failure, FailureKind, Family, Selected};
//! use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let primary = Candidate::new("primary", Family::OpenAi, "https://primary.example/v1").with_model("gpt-x");
//! let selected = Selected::only(primary);
//! let request = || {
//!     let mut request = Request::new(());
//!     request.extensions_mut().insert(selected.clone());
//!     request
//! };
//!
//! let policy = CircuitPolicy::builder().open(Duration::from_secs(10)).consecutive(3).build().unwrap();
//! let layer = CircuitLayer::new(CircuitRegistry::new(), policy);
//! let provider = service_fn(|_: Request<()>| async {
//!     Err::<Response<Full<Bytes>>, _>(Failure::new(FailureKind::Connect))
//! });
//! let mut service = ServiceBuilder::new().layer(layer.preflight()).layer(layer.clone()).service(provider);
//!
//! for _ in 0..3 {
//!     let failure = service.ready().await.unwrap().call(request()).await.map(drop).unwrap_err();
//!     assert_eq!(failure.kind(), FailureKind::Connect);
//! }
//! // From now on the provider is left alone.
//! let failure = service.ready().await.unwrap().call(request()).await.map(drop).unwrap_err();
//! assert_eq!(failure.kind(), FailureKind::CircuitOpen);
//! assert_eq!(failure.hint().map(|hint| hint.delay()), Some(Duration::from_secs(10)));
//!
//! let status = &layer.registry().status()[0];
//! assert_eq!((&*status.candidate, status.failure_count), ("primary/gpt-x", 3));
//! # }
//! ```
//!
//! # Settings
//!
//! | setting | unit | range | default | meaning |
//! |---|---|---|---|---|
//! | [`open`] | time | 0, or 1 s to 5 min | 10 s | for how long a circuit opens; 0 turns circuits off |
//! | [`window`] | time | 0, or 1 s to 1 h | 60 s | how long a sample counts; 0 turns the rate off |
//! | [`min_samples`] | samples | 1 to `max_samples` | 4 | samples that the rate wants |
//! | [`max_samples`] | samples | 1 to 256 | 256 | samples that are kept |
//! | [`failure_rate`] | share | above 0, to 1 | 0.8 | failures among the samples that open |
//! | [`consecutive`] | failures | any | 0, off | failures in a row that open |
//! | [`concurrency`] | requests | any | 0, not considered | requests in flight: fewer than twice as many failures in a row open nothing |
//! | [`slow_call`] | time | 0 to 1 h | 0, off | a first output that takes longer is a failure for the circuit |
//! | [`force_open_on`] | | auth, quota | none | failures that open at once |
//! | [`success_on`] | | first output, end | first output | when a reply is a success |
//! | [`late_failure`] | | ignore, count | ignore | what a failure after output is |
//! | [`recovery`] | | lease, none | lease | how an open circuit closes |
//! | [`probe_lease`] | time | put between 5 and 10 min | 5 min | how long a probe may take |
//! | [`max_open_share`] | share | 0 to 1 | all but one | circuits of a model that may turn away at once |
//! | [`rules`] | | | default | the disputed cells of the table |
//! | [`max_circuits`] | circuits | 1 to 65,536 | 128 | circuits in a registry |
//! | [`idle`] | time | 1 s to 24 h | 30 min | how long a closed circuit is kept that nobody uses |
//!
//! The defaults are those of Blade's control plane; failures in a row with twice the concurrency are PolyGateway's, and
//! a recovery without probes is that of octos' chain.
//!
//! # Being turned away, and waiting
//!
//! One that is turned away gets a [`Failure`](stanchion_core::Failure) of kind
//! [`CircuitOpen`](stanchion_core::FailureKind::CircuitOpen) with the time until the next probe as its hint, and with
//! the [`OpenCircuit`] itself. So does one whose own failure opened the circuit, on the provider's failure. Whoever can
//! wait waits at the circuit's [gate](stanchion_core::CircuitGate) for a [turn](stanchion_core::CircuitTurn), and sends
//! the request again with the turn in its extensions.
//!
//! Turns are given in the order in which they were asked for, one at a time: when the probe is due, when it was given
//! up or its lease ran out, and when the circuit has closed. A turn is over where this layer takes it from the request
//! and decides, or where it is dropped; then the next may come. So one of thousands makes the probe, and when it
//! succeeds the others come through one after another, each woken once. Only the first has a timer, and nobody polls. A
//! reopening gives no turn, and sets that timer anew. One whose turn comes to nothing, since a request that had not
//! waited was faster, goes back to the place it had. A turn that is held while the circuit closes does not hold up the
//! others any longer.
//!
//! # The others of a model
//!
//! A bad clock or a network of our own that is down fails all candidates of a model at once, and closing every door
//! would make an outage of it that lasts. So a layer that knows [the model's candidates](CircuitLayer::with_candidates)
//! keeps one open. To be exact: candidates that share a circuit are one. Let *n* be how many circuits the list then
//! has, and *m* be *n* - 1, or `max_open_share` × *n* rounded down. The circuits of the list that are open or half open
//! are ordered: first those opened by hand, then by failures since the last success, most first; of equals, the one that
//! comes later in the list first. The first *m* turn requests away. The others are *spared*: they let everyone through
//! who would be turned away, while they stay open and still make their probes. What comes of a spared request is no
//! sample. A success closes the circuit, since that is what a probe is for. A failure counts as one more since the last
//! success, so that the next time another of the list is the one to be asked.
//!
//! A list of one is no list: where there is nothing to choose from, the rule would do away with the circuit. What a hand
//! has opened is never spared. With [`Recovery::None`] the rule always leaves one, also of a list of one, and without a
//! list nobody is turned away, since nothing else would ever close such a circuit.
//!
//! # By hand
//!
//! [`CircuitRegistry::status`] lists the circuits by the names of their candidates. [`CircuitRegistry::force_open`],
//! [`close`](CircuitRegistry::close) and [`reset`](CircuitRegistry::reset) act on a name, and [`CircuitLayer::circuit`]
//! is a handle on the circuit of one candidate, also of one that nobody has asked yet.
//!
//! A candidate that was [drained](stanchion_core::Drain) gets no request either, whatever its circuit says, and also where
//! circuits are off: a request that comes to one, or has queued for it, fails as
//! [`Drained`](stanchion_core::FailureKind::Drained). Nobody waits for it, and its circuit learns nothing.
//!
//! # Events
//!
//! [`ProviderCircuit`](stanchion_core::ProviderCircuit): `opened`, `reopened` and `closed` by the request that did it,
//! `probe` before the probe is sent, and `rejected`, unless
//! [`WaitsForCircuit`](stanchion_core::WaitsForCircuit) in the request says that its sender tells what becomes of it.
//!
//! [`open`]: CircuitPolicyBuilder::open
//! [`window`]: CircuitPolicyBuilder::window
//! [`min_samples`]: CircuitPolicyBuilder::min_samples
//! [`max_samples`]: CircuitPolicyBuilder::max_samples
//! [`failure_rate`]: CircuitPolicyBuilder::failure_rate
//! [`consecutive`]: CircuitPolicyBuilder::consecutive
//! [`concurrency`]: CircuitPolicyBuilder::concurrency
//! [`slow_call`]: CircuitPolicyBuilder::slow_call
//! [`force_open_on`]: CircuitPolicyBuilder::force_open_on
//! [`success_on`]: CircuitPolicyBuilder::success_on
//! [`late_failure`]: CircuitPolicyBuilder::late_failure
//! [`recovery`]: CircuitPolicyBuilder::recovery
//! [`probe_lease`]: CircuitPolicyBuilder::probe_lease
//! [`max_open_share`]: CircuitPolicyBuilder::max_open_share
//! [`rules`]: CircuitPolicyBuilder::rules
//! [`max_circuits`]: CircuitRegistryBuilder::max_circuits
//! [`idle`]: CircuitRegistryBuilder::idle

mod body;
mod circuits;
mod entry;
mod future;
mod gate;
mod handle;
mod judge;
mod layer;
mod machine;
mod policy;
mod queue;
#[cfg(test)]
mod races;
mod registry;
mod service;
mod status;
mod sync;

use std::sync::Arc;

use stanchion_core::OpenCircuit;
use tokio::time::Instant;

pub use body::CircuitBody;
pub use future::{CircuitFuture, CircuitPreflightFuture};
pub use handle::{CircuitChange, CircuitHandle, CircuitToken};
pub use layer::{CircuitLayer, CircuitPreflightLayer};
pub use policy::{CircuitPolicy, CircuitPolicyBuilder, InvalidCircuit, LateFailure, Recovery, SuccessOn};
pub use registry::{CircuitRegistry, CircuitRegistryBuilder};
pub use service::{Circuit, CircuitPreflight};
pub use status::{CircuitState, CircuitStatus};

use crate::{entry::Entry, gate::Gate, machine::View};

/// A circuit as those see it whom it turns away, and those whose failure opened it.
fn open_circuit(entry: &Entry, view: &View, gate: Gate, now: Instant) -> OpenCircuit {
    OpenCircuit {
        candidate: Some(entry.name().clone()),
        reason: view.cause.reason,
        status_code: view.cause.status,
        next_probe: now + view.wait,
        open_for: view.open_for,
        sample_count: view.samples,
        failure_count: view.failures,
        gate: Arc::new(gate),
    }
}
