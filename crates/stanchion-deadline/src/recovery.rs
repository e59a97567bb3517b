//! The deadline of a whole recovery. See the [crate page](crate).

mod alarm;
mod body;
mod future;
mod layer;
mod limits;
mod service;

pub use self::{
    body::RecoveryBody,
    future::RecoveryFuture,
    layer::RecoveryLayer,
    limits::{InvalidBudget, RecoveryLimits, RecoveryLimitsBuilder},
    service::Recovery,
};
#[cfg(test)]
mod tests;
