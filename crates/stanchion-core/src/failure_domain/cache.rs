use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, PoisonError, RwLock, Weak},
};

use super::{DomainSecret, FailureDomain};
use crate::Candidate;

/// The failure domains of candidates under one secret and one policy: each is computed once, as long as the candidate
/// lives.
pub struct DomainCache {
    secret: DomainSecret,
    policy: Box<[(&'static str, u64)]>,
    known: RwLock<HashMap<usize, (Weak<Candidate>, FailureDomain)>>,
}

impl DomainCache {
    /// Candidates of the past are forgotten when so many are known, and there are never more than twice as many.
    const SWEEP_AT: usize = 256;

    /// Nothing known yet.
    pub fn new(secret: DomainSecret, policy: &[(&'static str, u64)]) -> Self {
        Self { secret, policy: policy.into(), known: RwLock::default() }
    }

    /// The failure domain of a candidate.
    pub fn of(&self, candidate: &Arc<Candidate>) -> FailureDomain {
        // An address may be used again once its candidate is gone; the weak reference keeps it from being so.
        let address = Arc::as_ptr(candidate).addr();
        if let Some((_, domain)) = self.known.read().unwrap_or_else(PoisonError::into_inner).get(&address) {
            return *domain;
        }
        let domain = candidate.domain(&self.secret, &self.policy);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= Self::SWEEP_AT {
            known.retain(|_, (candidate, _)| candidate.strong_count() > 0);
        }
        if known.len() < 2 * Self::SWEEP_AT {
            known.insert(address, (Arc::downgrade(candidate), domain));
        }
        domain
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

    #[test]
    fn candidates_of_the_past_are_forgotten() {
        let cache = DomainCache::new(DomainSecret::from_bytes([1; 32]), &[]);
        for number in 0..10 * DomainCache::SWEEP_AT {
            let key = number.to_string();
            let domain = cache.of(&candidate(&key));
            assert_eq!(domain, candidate(&key).domain(&cache.secret, &[]), "another candidate's domain");
        }
        assert!(cache.known.read().unwrap().len() <= DomainCache::SWEEP_AT);
        let kept: Vec<_> = (0..3 * DomainCache::SWEEP_AT).map(|number| candidate(&number.to_string())).collect();
        for candidate in &kept {
            cache.of(candidate);
        }
        assert!(cache.known.read().unwrap().len() <= 2 * DomainCache::SWEEP_AT);
    }
}
