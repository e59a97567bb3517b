//! Sends each attempt with one of the several keys that a provider has given out, and leaves a key alone that is limited,
//! exhausted or refused.
//!
//! [`Credentials`] looks at the candidate that a request is for. If the candidate's provider has a [`CredentialPool`], it
//! chooses a credential, puts the candidate with that credential in the candidate's place, and learns from what comes
//! back. Requests without a [`Selected`](stanchion_core::Selected) candidate, or for a provider without a pool, pass
//! untouched. A candidate's own credential gives way to the pool's.
//!
//! # Example
//!
//! ```
//! use std::time::Duration;
//!
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::Full;
//! use stanchion_core::{Candidate, Failure, FailureKind, Family, PoolState, Secret, Selected};
//! use stanchion_credentials::{CredentialPool, CredentialPools, CredentialState, CredentialsLayer};
//! use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let pool = CredentialPool::builder("primary")
//!     .credential("PRIMARY_KEY_1", Secret::new("sk-one"))
//!     .credential("PRIMARY_KEY_2", Secret::new("sk-two"))
//!     .build()
//!     .unwrap();
//! let layer = CredentialsLayer::new(CredentialPools::new([pool]).unwrap());
//!
//! // The account of the first key is at its limit.
//! let provider = service_fn(|request: Request<()>| async move {
//!     let selected: &Selected = request.extensions().get().unwrap();
//!     match selected.candidate.credential().map(Secret::expose) {
//!         Some("sk-one") => Err(Failure::new(FailureKind::RateLimited)),
//!         _ => Ok(Response::new(Full::new(Bytes::from("Hello.")))),
//!     }
//! });
//! let mut service = ServiceBuilder::new().layer(layer.clone()).service(provider);
//!
//! let selected = Selected::only(Candidate::new("primary", Family::OpenAi, "https://primary.example/v1"));
//! let request = || {
//!     let mut request = Request::new(());
//!     request.extensions_mut().insert(selected.clone());
//!     request
//! };
//! // The failure says that another key is ready; a retry layer outside asks again at once.
//! let failure = service.ready().await.unwrap().call(request()).await.map(drop).unwrap_err();
//! assert_eq!(failure.pool(), Some(PoolState::AnotherReady));
//! assert!(service.ready().await.unwrap().call(request()).await.is_ok());
//!
//! let status = &layer.pools().status()[0];
//! assert_eq!(status.credentials[0].state, CredentialState::RateLimited);
//! assert_eq!(status.credentials[0].back_in, Some(Duration::from_secs(60)));
//! assert_eq!(status.credentials[1].usage_count, 1);
//! # }
//! ```
//!
//! # Where it stands
//!
//! Inside of retry; outside of the circuits, of admission and of commit.
//!
//! * *Inside of retry*, each attempt chooses anew, and the one after a refusal takes another key. A credential is not held
//!   over a backoff.
//! * *Outside of the circuits and of admission*, a key is a failure domain of its own, as everything is that another
//!   account answers for: a limit that one key has met opens that key's circuit and no other, and limits of requests in
//!   flight count for each account. Chosen further in, all keys would share the circuit of a candidate that has none.
//! * *Outside of commit*, what goes wrong is a failure with a kind and a hint, whether it was a status, an error inside
//!   of a success, or a page of a proxy. Within commit it would be a response that somebody has yet to read.
//!
//! The price: a request chooses before it queues, and its key may have met its limit when its turn comes. It is refused,
//! then, and asked again with another. What stands outside sees the plain candidate: a retry budget protects the
//! provider, whoever pays.
//!
//! Without commit further in, a response with the status of an error teaches nothing: nobody has said what it means.
//!
//! # Which key
//!
//! | strategy | of those that are ready | callers at once |
//! |---|---|---|
//! | `fill_first` | the first in the list | a key whose last request is unanswered is passed over, for [`reservation`] at most; if all are, the one that waits longest is next |
//! | `round_robin` | one after the other | each takes the next: nothing else is needed |
//! | `random` | any, with equal chances | spread by chance: a reservation would only make it less random |
//! | `least_used` | the one that was given the fewest requests, whatever came of them; of equals the one that was given one longest ago | each choice counts at once, so that all do not run to the same |
//!
//! Every choice is made under one short lock, so that no two callers see the same state. The first real output answers
//! a request, and so does a failure or a drop; in flight it is up to the end of its body. With `least_used` a key that is
//! new serves alone until it has caught up.
//!
//! # What is learnt
//!
//! The table decides, [`Disposition::credential`](stanchion_core::Disposition::credential):
//!
//! | outcome | the credential | the failure, if another credential is ready |
//! |---|---|---|
//! | first output | is counted, and no longer passed over | |
//! | rate limit | is out for the provider's hint, up to [`max_cooldown`]; without one for [`cooldown`] | asks to be sent again at once |
//! | quota or money exhausted | is out for [`exhausted_for`], or for the hint if that is longer | the same |
//! | refused (401) | is out for [`refused_for`] | the same |
//! | not permitted (403) | is passed over for the hint or [`cooldown`], and serves where no other does | the same, if another has not been passed over |
//! | its circuit is open | is passed over until the circuit's next probe | the same, if another has turned nobody away since it was passed over |
//! | its failure opened its circuit | the same | stays as it is: a provider in trouble is not asked again at once |
//! | all else | is left as it is | |
//!
//! An error after output, told in band or by a broken body, teaches the same and cannot be asked again. Of several reasons
//! the graver stays, and of equal ones the longer time. A request that was sent before a credential was [put back by
//! hand](CredentialPool::put_back) takes it out no more, and one that was sent before it was passed over does not end
//! that.
//!
//! Why a 403 takes nothing out: it is often about one model, and who asks for a model that no key may use must not close
//! the provider to all others.
//!
//! The hint is the one that the failure brings along. Which further places a model's retries look for hints in is a matter of
//! the retry policy, and of no account here: an account's limits do not know which model met them. A hint of no time is
//! none, and a limit rests for [`cooldown`]: who is limited and told to come at once would only be limited again.
//!
//! Where all keys that are in service are passed over, the one serves whose trouble ends first. If its circuit turns the
//! request away, each of the others is tried once, as far as the request's retries go; the next request goes on where this
//! one ended. A circuit may let a request through although it has seen failures, as the last of a model's circuits does.
//!
//! A failure [with another credential](stanchion_core::Failure::with_another_credential) bears no hint and no circuit, since
//! those are of the key that is left. If none is ready, the failure's hint says when the first will be; a refusal while
//! another key only cools becomes a rate limit with that hint, since that is what there is to wait for.
//!
//! # When none is left
//!
//! A request finds no credential ready: it fails without asking the provider, as
//! [`RateLimited`](stanchion_core::FailureKind::RateLimited) if any of them cools, else as
//! [`QuotaExhausted`](stanchion_core::FailureKind::QuotaExhausted), both with the time until the first is back as hint;
//! else as [`Authentication`](stanchion_core::FailureKind::Authentication), or as
//! [`Misconfigured`](stanchion_core::FailureKind::Misconfigured) if all were taken out by hand. Such a failure
//! [says so](stanchion_core::PoolState::NoneReady): it costs no attempt, and retry and fallback do with it what they do
//! with its kind. A pool of one key does the same: where a rate limit without a hint is to be retried sooner than after
//! [`cooldown`], a single key is better given to its candidate.
//!
//! # Circuits
//!
//! Where a circuit layer is told the candidates of a model, give it [`CredentialPools::expand`]ed ones: it then counts each
//! key of a provider as one of them. The same candidate with the same key is one and the same object, so that whatever is
//! kept for it is found fast.
//!
//! # Events
//!
//! [`CredentialRotation`](stanchion_core::CredentialRotation) is told where the credentials in service change: `initial`
//! with the first that a pool chooses, `rate_limit_cooldown`, `quota` and `auth_failure` when one goes, `returned` when one
//! whose time is over is chosen again, `manual` when a hand takes it out or puts it back. It is not told of each choice
//! among those in service: with three of the four strategies that would be one event for each request.
//!
//! # State over a restart
//!
//! With [`state_file`](CredentialPoolBuilder::state_file), cooldowns, exhausted quotas, counts and turns outlive the
//! process. The file is read when the pool is built. It is written by [`CredentialPools::save`], which whoever runs the
//! process calls now and then and at its end, off the path of any request; and once more when the last handle of a pool
//! is dropped. A crash between two saves costs one more refusal, so nothing is written in haste. The file takes the place
//! of the old one whole. One that cannot be used is [reported](CredentialPool::restored), ignored and never replaced, since
//! a path may be wrong; a row that cannot be used costs that credential its history.
//!
//! A credential is known by the id that the configuration gives it, and another key under the same id begins anew: beside
//! the id stands a mark, 16 bits of a hash of the key and of a salt that is the file's own. A whole hash of a key is
//! something to test guesses against; this is none, since one of 65,536 guesses has the same. What was refused, and what a
//! hand took out, is not written. The file is for its owner alone (mode 600).
//!
//! Decisions are made by the monotonic clock. The wall clock stands in the file alone, and no time in it is believed for
//! longer than the settings allow.
//!
//! # Settings
//!
//! | setting | unit | range | default | meaning |
//! |---|---|---|---|---|
//! | [`strategy`] | | fill_first, round_robin, random, least_used | round_robin | how the pool chooses |
//! | [`cooldown`] | time | 1 s to `max_cooldown` | 60 s | for how long a rate limit without a hint takes out |
//! | [`max_cooldown`] | time | 1 s to 30 days | 24 h | the longest hint that is believed |
//! | [`exhausted_for`] | time | 1 s to 30 days | 1 h | for how long an exhausted quota takes out |
//! | [`refused_for`] | time | 1 s to 30 days, or none: until a restart | 1 h | for how long a refusal takes out |
//! | [`reservation`] | time | 0 to 1 min | 5 s | for how long `fill_first` waits for an answer, at most |
//! | [`state_file`](CredentialPoolBuilder::state_file) | path | | none | where the state is kept |
//! | [`seed`](CredentialPoolBuilder::seed) | | any | unknown | what `random` chooses by |
//!
//! The strategies, the minute and the five seconds are those of octos' credential pool, which never passes a provider's
//! hint to it. An hour for a refusal is a guess: providers have refused good keys for minutes, and asking with a bad one
//! once an hour costs one refusal.
//!
//! [`strategy`]: CredentialPoolBuilder::strategy
//! [`cooldown`]: CredentialPoolBuilder::cooldown
//! [`max_cooldown`]: CredentialPoolBuilder::max_cooldown
//! [`exhausted_for`]: CredentialPoolBuilder::exhausted_for
//! [`refused_for`]: CredentialPoolBuilder::refused_for
//! [`reservation`]: CredentialPoolBuilder::reservation

mod body;
mod future;
mod layer;
mod lease;
mod policy;
mod pool;
mod pools;
mod rotation;
mod service;
mod state;
mod status;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use body::CredentialsBody;
pub use future::CredentialsFuture;
pub use layer::CredentialsLayer;
pub use policy::{CredentialPoolBuilder, InvalidCredentials};
pub use pool::CredentialPool;
pub use pools::CredentialPools;
pub use service::Credentials;
pub use state::{Restored, StateError};
pub use status::{CredentialState, CredentialStatus, PoolStatus};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
