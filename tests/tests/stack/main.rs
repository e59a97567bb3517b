//! All layers together, in paused time, over a provider that plays scripts.
//!
//! | module | what is proven |
//! |---|---|
//! | [`bills`] | what a provider has done is told as used, also where nobody got it |
//! | [`clocks`] | what counts as silence, how long it may last, and what does not count |
//! | [`cuts`] | a reply that ends anywhere is told as what it is, and nothing is shown twice |
//! | [`drops`] | a client that leaves frees the provider at once, whatever was going on |
//! | [`fallback`] | another candidate takes over before output, and never after it |
//! | [`framing`] | bytes pass unchanged and are read rightly, however they were packed |
//! | [`hints`] | every form of a wait that a provider asks for |
//! | [`meaning`] | what a reply means, by its codes, its words and its status |
//! | [`owner`] | retries are made by one owner, and their number is bounded |
//! | [`probes`] | a probe asks once, briefly, as housekeeping, and tells no word of the provider's |
//! | [`queues`] | what a client is told whom the queue turns away |
//! | [`recovery`] | nothing outlasts the budget of a recovery, and nothing is left behind |
//! | [`sessions`] | how long a prompt cache lives, and what several requests of a session are told and billed |
//! | [`one_of_many`] | whatever candidates do, one of them reaches the client at most, and no limit is passed |
//! | [`telemetry`] | every request is told of once, however it ends, and what is told agrees with what happened |
//! | [`traces`] | whole requests, event by event |

mod bills;
mod clocks;
mod cuts;
mod drops;
mod fallback;
mod framing;
mod hints;
mod meaning;
mod one_of_many;
mod owner;
mod probes;
mod queues;
mod recovery;
mod sessions;
mod telemetry;
mod traces;
