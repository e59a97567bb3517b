//! The clocks of one physical attempt. See the [crate page](crate).

mod about;
mod body;
mod clocks;
mod first_output;
mod future;
mod layer;
mod limits;
mod service;
mod watch;

pub use self::{
    body::AttemptBody,
    first_output::FirstOutput,
    future::AttemptFuture,
    layer::AttemptLayer,
    limits::{AttemptLimits, AttemptLimitsBuilder, LimitsError},
    service::Attempt,
};

#[cfg(test)]
mod tests;
