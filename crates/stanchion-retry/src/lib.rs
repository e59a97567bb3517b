//! Replays a model call that failed before it showed anything.
//!
//! [`Retry`] calls the inner service again when a call ends in an `Err` and the table of
//! [`Disposition`](stanchion_core::Disposition) says that the same candidate may be asked again. It never looks into a
//! response: below it stands the commit layer, so a response that comes out has produced real output and is past
//! replay. Around it stands fallback, which gets the failure that retries did not cure.
//!
//! * **How often.** At most [`max_retries`] retries after the first attempt, for each call of this layer: that is, for
//!   each candidate. A policy may have two such budgets, for rate limits and for all else ([`max_retries_by_class`]), or
//!   count over all candidates of a request ([`scope`]). What the table marks
//!   [`Retry::Once`](stanchion_core::Retry::Once) is retried once at most, however high the limit is. What provably was
//!   not processed ([`Retry::AtOnce`](stanchion_core::Retry::AtOnce)) is retried once at once, and that retry is free:
//!   it counts against no number of retries, and takes nothing from the budget that protects the provider. Where
//!   candidates share their attempts it is one of those. A limit of 0 means no retry of any kind.
//! * **How long.** The [`Backoff`] is `base × factor^(n-1)` before retry *n*, at most `cap`, times a random factor out of
//!   `jitter`, in whole milliseconds.
//! * **Server hints.** When the provider says when to come back, that replaces the backoff, without jitter: a hint is
//!   never shortened. A hint above [`hint_cap`] is not slept on: the failure is given back at once, with the hint, so
//!   that the next candidate or the client can use it. Where a person waits it is cut to the cap instead. Both are
//!   choices ([`over_cap`], [`combine`], [`hints`]).
//! * **Bounded foreground.** A request whose context has a [`RecoveryBudget`](stanchion_core::RecoveryBudget) recovers
//!   for longer. The first retry starts its clock, and no wait outlasts it. Its candidates share its attempts: 12 after
//!   the first; a candidate that another follows has two retries of its own, the last has the rest. A number that is set
//!   in the policy counts for each candidate instead. Its backoffs grow up to 60 s.
//! * **Open circuits.** A failure that a circuit answers with is not retried: the next candidate is the better bet. Only
//!   the last candidate of a bounded request waits: in order, until its turn comes, and that costs no attempt. A failure
//!   that itself opens the circuit is retried after the longer of backoff and opening, never after their sum.
//! * **The provider's protection.** A [`RetryBudget`] bounds the retries of all requests to one provider together, so
//!   that an outage does not multiply its traffic.
//! * **One owner.** The outermost `Retry` marks the request with [`RetryOwner`], and one inside that meets the mark
//!   only passes on. Two owners would multiply: three attempts of three are nine. What the caller's own client library
//!   has retried before ([`client_retries`]) is told with every event, and may be taken off
//!   ([`heed_client_retries`](RetryPolicyBuilder::heed_client_retries)).
//! * **The repair.** Some servers answer an output limit that they do not know with a 400 or 422 and no word. Where the
//!   candidate says so, such a request is sent once more at once, marked to go
//!   [without its output limits](stanchion_core::WithoutOutputLimit): once in a request, outside of every budget, and
//!   told as no retry.
//! * **Nothing is held over a wait.** The failed attempt is dropped, with its permit and its connection, before the
//!   wait begins. Dropping the future at any point frees everything at once. Nothing is spawned; what a call
//!   keeps for its retries is boxed, once, and so is a wait for a circuit.
//! * **What leaves.** A failure that leaves carries the number of attempts and the name of the candidate.
//! * **Events.** [`ProviderRetry`](stanchion_core::ProviderRetry) tells `scheduled`, `waiting` every 15 s, `attempt`, and
//!   then `recovered` or `exhausted`. Retries that end are always told: by the limit (also by a limit of 0), by giving
//!   up, or by a failure of another sort after at least one retry. The caller's own leaving is not, and nor is a
//!   candidate that was not asked: its circuit or its queue has told why.
//!   [`ProviderCircuit`](stanchion_core::ProviderCircuit) tells `waiting`, as often, and `rejected` where a failure has
//!   opened the circuit and nobody waits for it.
//!
//! # Example
//!
//! ```
//! use std::sync::atomic::{AtomicU32, Ordering};
//!
//! use http::{Request, Response};
//! use stanchion_core::{Failure, FailureKind};
//! use stanchion_retry::{RetryLayer, RetryPolicy};
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let calls = AtomicU32::new(0);
//! let provider = service_fn(|_: Request<&str>| async {
//!     match calls.fetch_add(1, Ordering::Relaxed) {
//!         0 => Err(Failure::new(FailureKind::Overloaded)),
//!         _ => Ok(Response::new("Hello.")),
//!     }
//! });
//!
//! let policy = RetryPolicy::builder().max_retries(3).build().expect("within the ranges");
//! let service = ServiceBuilder::new().layer(RetryLayer::new(policy)).service(provider);
//!
//! let response = service.oneshot(Request::new("Hello?")).await.unwrap();
//! assert_eq!(*response.body(), "Hello.");
//! assert_eq!(calls.into_inner(), 2);
//! # }
//! ```
//!
//! # Settings
//!
//! | setting | unit | range | default | meaning |
//! |---|---|---|---|---|
//! | [`max_retries`] | retries | 0 and up | 2 | retries after the first attempt; 0 turns retries off |
//! | [`max_retries_by_class`] | retries | 0 and up | | the same for rate limits and for all else, apart |
//! | [`scope`] | | | candidate | what that number counts for |
//! | [`base`] | time | 0 to `cap` | 500 ms | backoff before the first retry |
//! | [`factor`] | | 1 to 10 | 2 | growth from one retry to the next |
//! | [`cap`] | time | `base` to 1 h | 8 s; 60 s in bounded foreground | longest backoff |
//! | [`jitter`] | | 0 to 2 | 0.75 to 1 | random multiplier of the backoff |
//! | [`cap_stage`] | | | before and after jitter | where the ceiling applies |
//! | [`hint_cap`] | time | 0 to 24 h | 60 s | longest hint that is waited out as it is |
//! | [`over_cap`] | | | give up; clamp in bounded foreground | what becomes of a longer one |
//! | [`combine`] | | | replace | how hint and backoff become one wait |
//! | [`hints`] | | | all places but prose | where hints are taken from, in order |
//! | [`hint_pad`] | time | 0 to 60 s | 0 | what is added to each hint |
//! | [`retry_on_silence`] | | | no | whether a silent candidate is asked again |
//! | [`heed_client_retries`](RetryPolicyBuilder::heed_client_retries) | | | no | whether the client library's own retries are taken off |
//! | [`rules`] | | | default | the disputed cells of the table |
//!
//! Whole policies of systems that others know are there by name: see [`Preset`].
//!
//! Randomness: seeded anew for each layer; [`RetryLayer::with_seed`] and [`RetryLayer::with_random`] make it known.
//!
//! [`max_retries`]: RetryPolicyBuilder::max_retries
//! [`max_retries_by_class`]: RetryPolicyBuilder::max_retries_by_class
//! [`scope`]: RetryPolicyBuilder::scope
//! [`base`]: RetryPolicyBuilder::base
//! [`factor`]: RetryPolicyBuilder::factor
//! [`cap`]: RetryPolicyBuilder::cap
//! [`jitter`]: RetryPolicyBuilder::jitter
//! [`cap_stage`]: RetryPolicyBuilder::cap_stage
//! [`hint_cap`]: RetryPolicyBuilder::hint_cap
//! [`over_cap`]: RetryPolicyBuilder::over_cap
//! [`combine`]: RetryPolicyBuilder::combine
//! [`hints`]: RetryPolicyBuilder::hints
//! [`hint_pad`]: RetryPolicyBuilder::hint_pad
//! [`retry_on_silence`]: RetryPolicyBuilder::retry_on_silence
//! [`rules`]: RetryPolicyBuilder::rules

mod backoff;
mod budget;
mod client;
mod future;
mod kept;
mod layer;
mod ledger;
mod policy;
mod run;
mod service;

pub use backoff::{Backoff, CapStage};
pub use budget::{InvalidBudget, RetryBudget, RetryBudgetBuilder};
pub use client::client_retries;
pub use future::RetryFuture;
pub use layer::RetryLayer;
pub use policy::{Combine, InvalidPolicy, OverCap, Preset, RetryPolicy, RetryPolicyBuilder, Scope};
pub use service::{Retry, RetryOwner};
