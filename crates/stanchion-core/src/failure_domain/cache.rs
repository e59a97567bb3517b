use std::{fmt, sync::Arc};

use super::{DomainSecret, FailureDomain};
use crate::{Candidate, CandidateCache};

/// The failure domains of candidates under one secret and one policy: each is computed once, as long as the candidate
/// lives.
pub struct DomainCache {
    secret: DomainSecret,
    policy: Box<[(&'static str, u64)]>,
    known: CandidateCache<FailureDomain>,
}

impl DomainCache {
    /// Nothing known yet.
    pub fn new(secret: DomainSecret, policy: &[(&'static str, u64)]) -> Self {
        Self { secret, policy: policy.into(), known: CandidateCache::new() }
    }

    /// The failure domain of a candidate.
    pub fn of(&self, candidate: &Arc<Candidate>) -> FailureDomain {
        self.known.get_or_insert_with(candidate, || candidate.domain(&self.secret, &self.policy))
    }
}

impl fmt::Debug for DomainCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DomainCache(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Family, Secret};

    fn candidate(key: &str) -> Arc<Candidate> {
        let base_url = "https://provider.example/v1";
        Arc::new(Candidate::new("p", Family::OpenAi, base_url).with_credential(Secret::new(key)))
    }

    #[test]
    fn equal_candidates_share_a_domain_and_others_do_not() {
        let cache = DomainCache::new(DomainSecret::from_bytes([1; 32]), &[("open_ms", 10)]);
        let (first, same, other) = (candidate("a"), candidate("a"), candidate("b"));
        assert_eq!(cache.of(&first), cache.of(&first));
        assert_eq!(cache.of(&first), cache.of(&same));
        assert_ne!(cache.of(&first), cache.of(&other));
        assert!(!format!("{cache:?}").contains("open_ms"));
    }
}
