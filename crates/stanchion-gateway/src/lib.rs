//! The gateway behind the binary `stanchion`, as a library: configuration, routing and serving.
//!
//! Everything that a request meets is a layer of the [`stanchion`] crate; here they are configured, stacked once for each model, and served.

pub mod admin;
pub mod cli;
pub mod config;
pub mod demo;
pub mod environment;
pub mod gateway;
pub mod keys;
pub mod known;
pub mod server;
