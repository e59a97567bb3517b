//! Tries the candidates of a model call in order, before anything was shown.
//!
//! [`Fallback`] calls the inner service for the first candidate, and, when that fails in a way that another may not,
//! for the next. It says which candidate is meant by [`Selected`](stanchion_core::Selected) in the request's
//! extensions; turning that into an address, a credential and a model is the upstream's affair. Below it stand retry
//! and commit: a failure that arrives here was not cured by retries and has shown nothing, and a response has produced
//! real output and is past fallback.
//!
//! * **Which candidates.** The request's own [`Candidates`](stanchion_core::Candidates), if its extensions hold a list,
//!   else the layer's. The request's list stands alone, even when it is empty: whoever sets it has decided. It is taken
//!   out of the request, so that a second `Fallback` further in does not go through it again. Without any candidate the
//!   call fails as `Misconfigured`, and nothing is sent.
//! * **When.** Only an `Err` for which the table of [`Disposition`](stanchion_core::Disposition) says `fallback`. By
//!   default that is trouble of the candidate: its network, its capacity, its silence, its circuit, its queue. It is
//!   never the caller's own doing or limit: a wrong request, a prompt too long, refused content, exhausted quota, a
//!   spent recovery budget, a caller who left. [`DispositionRules`](stanchion_core::DispositionRules) move the disputed
//!   cells by name.
//! * **What fits.** A candidate whose [window](stanchion_core::Candidate::with_context_window) is too small for the
//!   request's [estimate](stanchion_core::Call::estimated_tokens) is passed over, without a word against it, as long as
//!   another fits; if none does all are asked, since an estimate is a guess. A prompt that a provider refuses as too long
//!   may go on to a [larger window](OnOverflow::LargerWindow), and from then on to no smaller one, whatever for.
//! * **What is in service.** A candidate that an operator has [drained](stanchion_core::Drain) is passed over likewise; if
//!   all are, the call fails as `Drained`, and nothing is sent.
//! * **What is sent.** Every candidate gets the same method, headers and body, byte for byte. The last possible
//!   candidate gets the request itself, so a list of one costs no copy.
//! * **Nothing is held in between.** The failed call is dropped, with all that it holds, before the next candidate is
//!   readied. Dropping the future at any point frees everything at once. Nothing is spawned, and
//!   only what further candidates need is boxed.
//! * **Events.** [`ModelFallback`](stanchion_core::Event::ModelFallback) names both candidates, before the second is
//!   asked.
//! * **What leaves.** A failure carries the number of attempts over all candidates and the name of the one that it is
//!   about.
//!
//! # Which failure is answered when all fail
//!
//! The one that tells the client most, by rank, and of equals the last:
//!
//! 1. **answered**: the provider refused in so many words: an error status, an error code or message, a delay to come
//!    back after;
//! 2. **asked**: the candidate was tried, and nothing of use came: no connection, a broken one, an empty reply,
//!    silence;
//! 3. **not asked**: our own circuit or queue stood before it, and will be gone;
//! 4. **terminal**: what would have ended the walk, had a rule or a larger window not passed it on: a refused key, an exhausted
//!    quota, a prompt too long. To answer with it would tell the client never to come back, where the candidate that could
//!    serve it was only turned away for the moment;
//! 5. **misconfigured**: nothing that a client can do about.
//!
//! To answer with the last failure would be simpler, and is what most systems do. But the last candidate is the one
//! most often found with its circuit open, or not even set up, and then a 429 that says "come back in 20 s" would turn
//! into a 503 that says nothing. A failure that *ends* the walk, because the table does not let it pass on, is answered
//! itself, whatever came before: it is the caller's own, and the caller can act on it.
//!
//! # Example
//!
//! ```
//! use http::{Request, Response};
//! use stanchion_core::{Candidate, Candidates, Failure, FailureKind, Family, Selected};
//! use stanchion_fallback::FallbackLayer;
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let candidates = Candidates::new([
//!     Candidate::new("primary", Family::OpenAi, "https://primary.example/v1").with_model("gpt-x"),
//!     Candidate::new("spare", Family::OpenAi, "https://spare.example/v1").with_model("gpt-y"),
//! ]);
//!
//! let provider = service_fn(|request: Request<&'static str>| async move {
//!     let selected = request.extensions().get::<Selected>().expect("set by the layer");
//!     match selected.candidate.provider() {
//!         "primary" => Err(Failure::new(FailureKind::Overloaded)),
//!         other => Ok(Response::new(format!("Hello from {other}."))),
//!     }
//! });
//!
//! let service = ServiceBuilder::new().layer(FallbackLayer::new(candidates)).service(provider);
//! let response = service.oneshot(Request::new("Hello?")).await.unwrap();
//! assert_eq!(response.body(), "Hello from spare.");
//! # }
//! ```
//!
//! # Settings
//!
//! | setting | range | default | meaning |
//! |---|---|---|---|
//! | [`candidates`] | any number | | whom to ask, in order, where the request does not say so itself |
//! | [`rules`] | quota, auth, not_found, overflow, policy | none | what is terminal by default and shall pass on |
//! | [`fit_guard`] | | on | whether candidates are passed over that the prompt does not fit |
//! | [`overflow`] | stop, larger window | stop | where a prompt goes that a provider refuses as too long; a larger window goes over the rule `overflow` |
//!
//! The number of calls is the length of the list at most. There is no clock here: each wait belongs to the layers
//! inside.
//!
//! [`candidates`]: FallbackLayer::new
//! [`rules`]: FallbackLayer::with_rules
//! [`fit_guard`]: FallbackLayer::with_fit_guard
//! [`overflow`]: FallbackLayer::with_overflow

mod future;
mod layer;
mod route;
mod service;
mod verdict;
mod walk;

pub use future::FallbackFuture;
pub use layer::{FallbackLayer, OnOverflow};
pub use service::Fallback;
