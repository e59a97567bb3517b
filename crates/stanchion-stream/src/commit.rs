//! Holds a reply back until its first real output. See the [crate page](crate).

mod body;
mod future;
mod holding;
mod layer;
mod service;

pub use self::{
    body::CommitBody,
    future::CommitFuture,
    layer::{CommitLayer, CommitWindow},
    service::Commit,
};

#[cfg(test)]
mod policy_tests;
#[cfg(test)]
mod tests;
