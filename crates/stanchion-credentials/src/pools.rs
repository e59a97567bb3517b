use std::sync::Arc;

use stanchion_core::Candidates;

use crate::{CredentialPool, InvalidCredentials, PoolStatus, StateError, policy::must};

/// The pools of a process, each under its provider's name. Cheap to clone.
///
/// Share one among the layers of all models: an account's limits do not know which model met them.
#[derive(Debug, Clone, Default)]
pub struct CredentialPools(Arc<[CredentialPool]>);

impl CredentialPools {
    /// Takes one pool for each provider. No two may have the same state file.
    pub fn new(pools: impl IntoIterator<Item = CredentialPool>) -> Result<Self, InvalidCredentials> {
        let mut pools: Vec<_> = pools.into_iter().collect();
        pools.sort_by(|one, other| one.provider().cmp(other.provider()));
        must(pools.windows(2).all(|two| two[0].provider() != two[1].provider()), "provider", "that of one pool")?;
        let shares =
            |(index, pool): (usize, &CredentialPool)| pools[..index].iter().any(|it| it.shares_state_file(pool));
        let unique = !pools.iter().enumerate().any(shares);
        must(unique, "state_file", "that of one pool")?;
        Ok(Self(pools.into()))
    }

    /// The pool of a provider.
    pub fn get(&self, provider: &str) -> Option<&CredentialPool> {
        let index = self.0.binary_search_by(|pool| (**pool.provider()).cmp(provider)).ok()?;
        Some(&self.0[index])
    }

    /// All pools, by the names of their providers.
    pub fn iter(&self) -> impl Iterator<Item = &CredentialPool> {
        self.0.iter()
    }

    /// All credentials as they stand, for an operator.
    pub fn status(&self) -> Vec<PoolStatus> {
        self.iter().map(CredentialPool::status).collect()
    }

    /// Writes the state files that are not up to date: see [`CredentialPool::save`]. Tries all, and gives back what
    /// could not be written, with the provider's name.
    pub fn save(&self) -> Vec<(Arc<str>, StateError)> {
        self.iter().filter_map(|pool| Some((pool.provider().clone(), pool.save().err()?))).collect()
    }

    /// The candidates as the layers within see them: one whose provider has a pool is there once with each credential,
    /// in place of itself. What is kept for the candidates of a model and found by their failure domain, such as
    /// circuits, wants this list.
    #[must_use]
    pub fn expand(&self, candidates: &Candidates) -> Candidates {
        Candidates::new(candidates.iter().flat_map(|candidate| match self.get(candidate.provider()) {
            Some(pool) => pool.keyed(candidate).map(|(_, candidate)| candidate).collect(),
            None => vec![(**candidate).clone()],
        }))
    }
}
