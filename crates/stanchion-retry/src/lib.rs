//! Replays a model call that failed before it showed anything.
//!
//! [`Retry`] calls the inner service again when a call ends in an `Err` and the table of
//! [`Disposition`](stanchion_core::Disposition) says that the same candidate may be asked again. It never looks into a
//! response: below it stands the commit layer, so a response that comes out has produced real output and is past
//! replay. Around it stands fallback, which gets the failure that retries did not cure.
//!
//! * **How often.** At most [`max_retries`] retries after the first attempt, for each
//!   call of this layer: that is, for each candidate. What the table marks [`Retry::Once`](stanchion_core::Retry::Once)
//!   is retried once at most, however high the limit is. What provably was not processed
//!   ([`Retry::AtOnce`](stanchion_core::Retry::AtOnce)) is retried once at once, and that retry is free: it counts
//!   against no limit. A limit of 0 means no retry of any kind.
//! * **How long.** The backoff is `base × factor^(n-1)` before retry *n*, at most `cap`, times a random factor out of
//!   `jitter`, in whole milliseconds.
//! * **Server hints.** When the provider says when to come back, that replaces the backoff, without jitter: a hint is
//!   never shortened. A hint above `hint_cap` is not slept on: the failure is given back at once, with the hint, so
//!   that the next candidate or the client can use it.
//! * **The recovery budget.** The first retry starts the clock of the request's
//!   [`RecoveryBudget`](stanchion_core::RecoveryBudget), if it has one. A wait that would not end before its deadline
//!   is not begun; the failure is given back at once.
//! * **One owner.** The outermost `Retry` marks the request with [`RetryOwner`], and one inside that meets the mark
//!   only passes on. Two owners would multiply: three attempts of three are nine.
//! * **Nothing is held over a wait.** The failed attempt is dropped, with its permit and its connection, before the
//!   wait begins. Dropping the future at any point frees everything at once. Nothing is spawned or boxed.
//! * **What leaves.** A failure that leaves carries the number of attempts and the name of the candidate.
//! * **Events.** [`ProviderRetry`](stanchion_core::ProviderRetry) tells `scheduled`, `attempt`, and then `recovered` or
//!   `exhausted`. Retries that end are always told: by the limit (also by a limit of 0), by giving up, or by a failure
//!   of another sort after at least one retry. The caller's own leaving is not.
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
//! | [`base`] | time | 0 to `cap` | 500 ms | backoff before the first retry |
//! | [`factor`] | | 1 to 10 | 2 | growth from one retry to the next |
//! | [`cap`] | time | `base` to 1 h | 8 s | longest backoff |
//! | [`jitter`] | | 0 to 2 | 0.75 to 1 | random multiplier of the backoff, which is capped again |
//! | [`hint_cap`] | time | 0 to 24 h | 60 s | longest hint that is waited out |
//! | [`rules`] | | | default | the disputed cells of the table |
//!
//! Randomness: seeded anew for each layer; [`RetryLayer::with_seed`] and [`RetryLayer::with_random`] make it known.
//!
//! [`max_retries`]: RetryPolicyBuilder::max_retries
//! [`base`]: RetryPolicyBuilder::base
//! [`factor`]: RetryPolicyBuilder::factor
//! [`cap`]: RetryPolicyBuilder::cap
//! [`jitter`]: RetryPolicyBuilder::jitter
//! [`hint_cap`]: RetryPolicyBuilder::hint_cap
//! [`rules`]: RetryPolicyBuilder::rules

mod backoff;
mod future;
mod layer;
mod ledger;
mod policy;
mod run;
mod service;

pub use future::RetryFuture;
pub use layer::RetryLayer;
pub use policy::{InvalidPolicy, RetryPolicy, RetryPolicyBuilder};
pub use service::{Retry, RetryOwner};
