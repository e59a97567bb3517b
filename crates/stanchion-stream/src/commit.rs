//! Holds a reply back until its first real output. See the [crate page](crate).

mod body;
mod future;
mod layer;
mod service;

pub use self::{body::CommitBody, future::CommitFuture, layer::CommitLayer, service::Commit};

#[cfg(test)]
mod tests;
