//! What the whole-stack tests share.
//!
//! | module | what it is |
//! |---|---|
//! | [`provider`] | a provider within the process, which plays scripts on the test's own clock |
//! | [`replies`] | the scripts that most tests are made of |
//! | [`stack`] | all layers over a provider, and what a client of them saw |
//! | [`gateway`] | the real binary as a child process |
//!
//! The scenario files of `scenarios/` and their format are those of `stanchion-faults`; the scripts here have the same
//! form, so that a fault can move from a file into paused time and back.

pub mod gateway;
pub mod provider;
pub mod replies;
pub mod stack;
