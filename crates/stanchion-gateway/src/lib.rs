//! The gateway behind the binary `stanchion`, as a library: configuration, routing and serving.
//!
//! Everything that a request meets is a layer of the [`stanchion`] crate; here they are configured, stacked once for each model, and served.

pub mod admin;
pub mod cli;
pub mod config;
pub mod current;
pub mod demo;
pub mod environment;
pub mod export;
pub mod gateway;
pub mod keys;
pub mod known;
pub mod probe;
pub mod reload;
pub mod serve;
pub mod server;
pub mod system;
pub mod tail;

use std::process::ExitCode;

/// Says on standard error what is wrong, one line for each complaint, and gives the exit code for it: 1.
pub fn fail(reason: &str) -> ExitCode {
    for line in reason.lines() {
        eprintln!("stanchion: {line}");
    }
    ExitCode::FAILURE
}
