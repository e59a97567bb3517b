//! Lets as many requests run as may, and has the others wait their turn: a weighted fair queue, bounded in everything.
//!
//! [`Admission`] asks an [`AdmissionScheduler`] for a permit before a request goes on, and keeps the permit in the body
//! of the reply until that has ended. Where there is none, the request waits; where it cannot wait, it is turned away at
//! once.
//!
//! * **Off by default.** Unless a limit of how many are in flight is set, globally, for an owner, or for the domain of a
//!   candidate, nobody is counted and requests pass without a look.
//! * **Whose limits.** All requests together; those of one *failure domain*, which is what leads to the same place under
//!   the same account; those of one *owner*, which is the [`Context`]'s: the root session, handed down to its sub-agents,
//!   so that nobody gets more by splitting himself up; and those of a *class* within these. The policy of a layer is no
//!   part of a domain's identity: layers that lead to the same place count together there. The requests under one
//!   `concurrency` have a share of the domain, and hold no more than that; all of the domain hold no more than the
//!   widest of the shares that are in use may.
//! * **Who has no owner** shares the one anonymous owner of the layer, and who has no [`Context`] at all is, besides,
//!   *internal*: an unknown way into the program gets no claim to the foreground's place.
//! * **Whose turn it is.** Foreground comes before background before internal; of one rank, the owners take turns, in
//!   the order in which they came and by their weights; of one owner, first come, first served. Each full
//!   [`aging`](AdmissionSchedulerBuilder::aging) interval of waiting makes a rank one better, and changes nothing in
//!   whose account is charged. So whoever has waited for two intervals has the best rank, and is served in the next lap
//!   of the rotation in which its limits leave room where its turn comes. A lap ends, whoever comes meanwhile: it takes
//!   in no more newcomers than owners waited when it began. What no rank helps against is an owner's own limit: one that
//!   is always taken up by its requests to other domains keeps one to a busy domain waiting, as long as `max_wait`.
//! * **Nobody overtakes one who could have run**, and nobody waits for somebody else's limit: a request that may run
//!   does, however many wait for other owners or domains.
//! * **What waits is bounded**, in number and in bytes, for all, for a domain, for an owner and for a class, before
//!   anything is stored. Bytes are those of head and body, as a layer outside has measured it or as it says itself, or
//!   the [`Footprint`] that the application left in the context. Only what waits is bounded: a request that may run at once may be of any size. Whatever the settings,
//!   background requests together hold no more than three quarters of the bytes (of an owner's, half), and internal ones
//!   an eighth (of an owner's or a domain's, a quarter).
//! * **The permit is in the body**, and is given back by the drop of it: at the end, at an error, or when the client
//!   leaves. It is held over no backoff and no wait for a circuit, since those are further out. Dropping a request that
//!   waits takes it and its bytes out of the queue at once.
//! * **Grants are handed over.** Whoever gives a permit back finds the next in line and wakes that one, and nobody else.
//!   Nothing polls and nothing is spawned; one timer for each request that waits serves its limit and what is told of it.
//! * **What was ready is not held back.** Where a request has to wait, it asks the inner service for readiness again when
//!   it has its permit: what the inner service reserved is not kept over the wait.
//!
//! # Example
//!
//! ```
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::{BodyExt, Empty, Full};
//! use stanchion_admission::{AdmissionLayer, AdmissionPolicy, AdmissionScheduler};
//! use stanchion_core::{Candidate, Context, Failure, FailureKind, Family, Selected};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let scheduler = AdmissionScheduler::builder().global_concurrency(8).weight("release-bot", 3).build().unwrap();
//! let policy = AdmissionPolicy::builder().concurrency(1).build().unwrap();
//! let layer = AdmissionLayer::new(scheduler.clone(), policy);
//! let provider = service_fn(|_: Request<Empty<Bytes>>| async { Ok::<_, Failure>(Response::new(Full::new(Bytes::from("text")))) });
//!
//! let selected = Selected::only(Candidate::new("primary", Family::OpenAi, "https://primary.example/v1"));
//! let request = |owner: &str| {
//!     let mut request = Request::new(Empty::new());
//!     request.extensions_mut().insert(Context::builder().owner(owner).build());
//!     request.extensions_mut().insert(selected.clone());
//!     request
//! };
//!
//! let first = layer.layer(provider).oneshot(request("ann")).await.unwrap();
//! // The candidate takes one at a time, so the next waits until the first reply has been read.
//! let second = tokio::spawn(layer.layer(provider).oneshot(request("ben")));
//! tokio::task::yield_now().await;
//! assert_eq!((scheduler.status().in_flight, scheduler.status().queued), (1, 1));
//! first.into_body().collect().await.unwrap();
//! drop(second.await.unwrap().unwrap());
//!
//! scheduler.close();
//! let failure = layer.layer(provider).oneshot(request("ann")).await.map(drop).unwrap_err();
//! assert_eq!(failure.kind(), FailureKind::QueueClosed);
//! # }
//! ```
//!
//! # Settings
//!
//! Of the scheduler, which all layers of a process share:
//!
//! | setting | unit | range | default | meaning |
//! |---|---|---|---|---|
//! | [`global_concurrency`] | requests | 1 to 1,000,000 | no limit | how many are in flight |
//! | [`owner_concurrency`] | requests | 1 to 1,000,000 | no limit | how many of one owner are |
//! | [`class_limits`] | | [`ClassLimits`] | off | what is kept for the foreground |
//! | [`max_pending`] | requests | 1 to 1,000,000 | 128 | how many wait |
//! | [`owner_max_pending`] | requests | 1 to 1,000,000 | 16 | how many of one owner wait |
//! | [`max_pending_bytes`] | bytes | 64 KiB to 128 MiB | 128 MiB | what those that wait hold |
//! | [`owner_max_pending_bytes`] | bytes | 64 KiB to 128 MiB | 32 MiB | what those of one owner hold |
//! | [`aging`] | time | 1 s to 30 s | 30 s | waiting so long makes a rank one better |
//! | [`weight`] | | 1 to 100 | 1 | an owner's share |
//!
//! Of the policy, which each layer has:
//!
//! | setting | unit | range | default | meaning |
//! |---|---|---|---|---|
//! | [`concurrency`] | requests | 1 to 1,000,000 | no limit | how many of one domain are in flight |
//! | [`domain max_pending`] | requests | 1 to 1,000,000 | 32 | how many wait for one domain |
//! | [`domain max_pending_bytes`] | bytes | 64 KiB to 128 MiB | 64 MiB | what those hold |
//! | [`max_wait`] | time | 0, or 1 s to 10 min | 180 s | how long a request waits; 0 fails at once |
//! | [`cost`] | | 1 to 100 | 1 | what a request counts in its owner's share |
//! | [`adaptive`] | | [`Adaptive`] | off | a limit that follows what the provider can take |
//!
//! The defaults are those of Blade's control plane. It allows a domain 16 at most, which is for one person's agents; the
//! ranges of counts here are for a gateway.
//!
//! # Being turned away
//!
//! A request ends with a [`Failure`](stanchion_core::Failure) whose source is an [`AdmissionError`]:
//!
//! | kind | when | then |
//! |---|---|---|
//! | [`QueueFull`] | as much waits as may | a hint of how long the queue will take, measured by the grants of late |
//! | [`QueueTimeout`] | it has waited for [`max_wait`], or would have to wait and that is 0 | |
//! | [`QueueClosed`] | the scheduler [was closed](AdmissionScheduler::close) | |
//!
//! None of them is retried at the same candidate, and each may be tried at the next: the table has it. A recovery budget
//! cuts a wait as it cuts everything: the request then ends with the budget, not with a time-out of the queue, also where
//! both end at the same instant.
//!
//! # Events
//!
//! [`ProviderAdmission`](stanchion_core::ProviderAdmission): `queued` when a request has to wait, with its place, and
//! again every 15 s; `admitted` when one of which that was told goes on; `rejected` when one is turned away. A request
//! that is dropped tells nothing, and one whose recovery budget ends tells that. No event says whose request it is, or
//! how many bytes there are.
//!
//! # Sub-agents
//!
//! The owner of a request is the root of its tree of agents. A sub-agent's context is built with the root's owner and a
//! class of its own, as a rule background:
//!
//! ```
//! use stanchion_core::{Context, RequestClass};
//!
//! let root = Context::builder().session("root").build();
//! let owner = root.owner().unwrap_or("root");
//! let child = Context::builder().session("child").owner(owner).class(RequestClass::Background).build();
//! assert_eq!(child.owner(), root.owner());
//! ```
//!
//! # What it costs
//!
//! Asking, granting, leaving and giving back are O(log n) in the owners that wait, whatever their number and that of the
//! tickets and domains, as long as requests of no more than 64 combinations of domain, share and class wait at once; for
//! each 64 more, there is one tree more to look into. Each ticket is moved up at most twice for its age, by whoever comes
//! next: after a rush of background requests, that is one who moves many. A request that waits takes about 75 bytes in the scheduler, and 200
//! more where it brings an owner of its own; its future takes about 180 besides the request and the service that it
//! holds. A request that need not wait allocates nothing, unless the limit adapts.
//!
//! [`Context`]: stanchion_core::Context
//! [`QueueFull`]: stanchion_core::FailureKind::QueueFull
//! [`QueueTimeout`]: stanchion_core::FailureKind::QueueTimeout
//! [`QueueClosed`]: stanchion_core::FailureKind::QueueClosed
//! [`global_concurrency`]: AdmissionSchedulerBuilder::global_concurrency
//! [`owner_concurrency`]: AdmissionSchedulerBuilder::owner_concurrency
//! [`class_limits`]: AdmissionSchedulerBuilder::class_limits
//! [`max_pending`]: AdmissionSchedulerBuilder::max_pending
//! [`owner_max_pending`]: AdmissionSchedulerBuilder::owner_max_pending
//! [`max_pending_bytes`]: AdmissionSchedulerBuilder::max_pending_bytes
//! [`owner_max_pending_bytes`]: AdmissionSchedulerBuilder::owner_max_pending_bytes
//! [`aging`]: AdmissionSchedulerBuilder::aging
//! [`weight`]: AdmissionSchedulerBuilder::weight
//! [`concurrency`]: AdmissionPolicyBuilder::concurrency
//! [`domain max_pending`]: AdmissionPolicyBuilder::max_pending
//! [`domain max_pending_bytes`]: AdmissionPolicyBuilder::max_pending_bytes
//! [`max_wait`]: AdmissionPolicyBuilder::max_wait
//! [`cost`]: AdmissionPolicyBuilder::cost
//! [`adaptive`]: AdmissionPolicyBuilder::adaptive

mod adaptive;
mod body;
mod domain;
mod error;
mod footprint;
mod future;
mod gate;
mod handle;
mod layer;
mod permit;
mod policy;
#[cfg(test)]
mod races;
mod registry;
mod scheduler;
mod service;
mod shared;
mod status;
mod sync;
mod wait;

pub use adaptive::{Adaptive, AdaptiveBuilder};
pub use body::AdmissionBody;
pub use error::AdmissionError;
pub use footprint::Footprint;
pub use future::AdmissionFuture;
pub use handle::{AdmissionHandle, AdmissionPermit, AdmissionTicket};
pub use layer::AdmissionLayer;
pub use policy::{AdmissionPolicy, AdmissionPolicyBuilder, InvalidAdmission};
pub use registry::{AdmissionScheduler, AdmissionSchedulerBuilder, ClassLimits};
pub use service::Admission;
pub use status::{AdmissionStatus, ClassStatus, DomainStatus};
