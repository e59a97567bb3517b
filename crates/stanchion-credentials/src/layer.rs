use tower_layer::Layer;

use crate::{CredentialPools, Credentials};

/// Puts [`Credentials`] around a service. Its place is inside of `Retry`, and outside of the circuits: see the
/// [crate's page](crate#where-it-stands).
///
/// Every service that one layer makes shares its pools, and so do all layers that are made with them.
#[derive(Debug, Clone, Default)]
pub struct CredentialsLayer {
    pools: CredentialPools,
}

impl CredentialsLayer {
    /// Chooses credentials out of `pools`.
    pub fn new(pools: CredentialPools) -> Self {
        Self { pools }
    }

    /// The pools.
    pub fn pools(&self) -> &CredentialPools {
        &self.pools
    }
}

impl<S> Layer<S> for CredentialsLayer {
    type Service = Credentials<S>;

    fn layer(&self, inner: S) -> Credentials<S> {
        Credentials { inner, pools: self.pools.clone() }
    }
}
