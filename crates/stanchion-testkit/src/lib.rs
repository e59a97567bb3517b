//! What the tests of the layers share: a contract that every layer keeps, bodies and services that play a script, and a
//! collector of events. For development only; never published.
//!
//! # The contract
//!
//! [`Contract`] puts a layer around a [`Probe`] and checks what no layer may break, whatever it is for:
//!
//! | law | how it is broken | check |
//! |---|---|---|
//! | the service that was polled ready is the one that is called | a clone is called | [`Contract::readiness`] |
//! | being ready reserves nothing | a permit is taken in `poll_ready` | [`Contract::no_reservation`] |
//! | an error of `poll_ready` arrives | it is swallowed, or waited out for ever | [`Contract::ready_errors`] |
//! | the body keeps its bytes, its length and its end | length, end flag or trailers are lost | [`Contract::body`] |
//! | the end is told once | a frame or an error follows the end | [`Contract::endings`] |
//! | what is dropped is freed at once | a task or a guard outlives it | [`Contract::release`] |
//!
//! ```
//! use stanchion_testkit::Contract;
//!
//! #[derive(Clone)]
//! struct Nothing;
//!
//! impl<S> tower_layer::Layer<S> for Nothing {
//!     type Service = S;
//!     fn layer(&self, inner: S) -> S {
//!         inner
//!     }
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
//! // In a test: #[tokio::test(start_paused = true)]. A check that fails panics and says which law was broken.
//! Contract::new(Nothing).check().await;
//! # });
//! ```
//!
//! That state is shared between the services of one layer is for each layer to say in its own words: [`shares_state`]
//! makes the two.

mod body;
mod contract;
mod events;
mod probe;
mod request;

pub use body::{ScriptedBody, Step};
pub use contract::{Contract, shares_state};
pub use events::Events;
pub use probe::{Probe, ProbeFuture};
pub use request::{candidate, candidates, request, request_in};
