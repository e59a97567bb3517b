//! Reads a streamed reply once as it passes. See the [crate page](crate).

mod body;
mod future;
mod layer;
mod reply;
mod service;
mod sniff;

pub use self::{
    body::ObserveBody,
    future::ObserveFuture,
    layer::{Malformed, ObserveLayer},
    service::Observe,
};

#[cfg(test)]
pub(crate) mod tests;
