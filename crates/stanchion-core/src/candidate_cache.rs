use std::{
    collections::HashMap,
    fmt,
    hash::BuildHasher,
    sync::{Arc, OnceLock, PoisonError, RwLock, Weak},
};

use crate::{BuildMix, Candidate};

/// What is worked out once for each candidate.
///
/// Every request looks here, so the first 16 candidates have places of their own, which nobody locks: what stands there
/// is kept as long as the cache, and where that outlives its candidates, those that follow find the places taken. The
/// others stand in a map; those of the past are forgotten there, and there are never more than 512.
pub struct CandidateCache<T> {
    first: [OnceLock<(Weak<Candidate>, T)>; 16],
    others: RwLock<HashMap<usize, (Weak<Candidate>, T), BuildMix>>,
}

impl<T: Clone> CandidateCache<T> {
    /// Candidates of the past are forgotten when so many are known, and there are never more than twice as many.
    const SWEEP_AT: usize = 256;

    /// Nothing known yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// What is known of a candidate; worked out by `make` the first time, or where there is no room to remember it.
    pub fn get_or_insert_with(&self, candidate: &Arc<Candidate>, make: impl FnOnce() -> T) -> T {
        // An address may be used again once its candidate is gone; the weak reference keeps it from being so.
        let address = Arc::as_ptr(candidate).addr();
        let place = &self.first[(BuildMix::default().hash_one(address) % self.first.len() as u64) as usize];
        match place.get() {
            Some((known, made)) if known.as_ptr().addr() == address => return made.clone(),
            Some(_) => {}
            // Whoever comes first has the place; another with the same one at the same time is remembered the next time.
            None => {
                let made = make();
                let (known, stands) = place.get_or_init(|| (Arc::downgrade(candidate), made.clone()));
                return if known.as_ptr().addr() == address { stands.clone() } else { made };
            }
        }
        if let Some((_, made)) = self.others.read().unwrap_or_else(PoisonError::into_inner).get(&address) {
            return made.clone();
        }
        let made = make();
        let mut others = self.others.write().unwrap_or_else(PoisonError::into_inner);
        if others.len() >= Self::SWEEP_AT {
            others.retain(|_, (candidate, _)| candidate.strong_count() > 0);
        }
        if others.len() < 2 * Self::SWEEP_AT {
            others.insert(address, (Arc::downgrade(candidate), made.clone()));
        }
        made
    }
}

impl<T> Default for CandidateCache<T> {
    fn default() -> Self {
        Self { first: std::array::from_fn(|_| OnceLock::new()), others: RwLock::default() }
    }
}

impl<T> fmt::Debug for CandidateCache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CandidateCache(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Family;

    fn candidate(number: usize) -> Arc<Candidate> {
        Arc::new(Candidate::new(number.to_string(), Family::OpenAi, "https://provider.example/v1"))
    }

    fn name(cache: &CandidateCache<Arc<str>>, candidate: &Arc<Candidate>) -> Arc<str> {
        cache.get_or_insert_with(candidate, || candidate.name().clone())
    }

    fn others(cache: &CandidateCache<Arc<str>>) -> usize {
        cache.others.read().unwrap().len()
    }

    #[test]
    fn each_candidate_is_worked_out_once() {
        let cache = CandidateCache::new();
        let kept: Vec<_> = (0..100).map(candidate).collect();
        for candidate in &kept {
            assert_eq!(name(&cache, candidate), *candidate.name());
        }
        let places = cache.first.iter().filter(|place| place.get().is_some()).count();
        assert!(places > 0 && places + others(&cache) == 100, "{places} places and {} others", others(&cache));
        for candidate in &kept {
            let known = cache.get_or_insert_with(candidate, || unreachable!("it is known"));
            assert_eq!(known, *candidate.name());
        }
    }

    #[test]
    fn candidates_of_the_past_are_forgotten_and_never_taken_for_others() {
        let cache = CandidateCache::new();
        for number in 0..10 * CandidateCache::<Arc<str>>::SWEEP_AT {
            let candidate = candidate(number);
            assert_eq!(name(&cache, &candidate), *candidate.name());
        }
        assert!(others(&cache) <= CandidateCache::<Arc<str>>::SWEEP_AT);
        let kept: Vec<_> = (0..3 * CandidateCache::<Arc<str>>::SWEEP_AT).map(candidate).collect();
        for candidate in &kept {
            assert_eq!(name(&cache, candidate), *candidate.name());
        }
        assert!(others(&cache) <= 2 * CandidateCache::<Arc<str>>::SWEEP_AT);
    }
}
