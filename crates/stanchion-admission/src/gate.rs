use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, PoisonError, RwLock, Weak},
};

use http::Request;
use stanchion_core::{Call, Candidate, Context, RequestClass, RetainedBytes, Selected};
use tokio::time::Instant;

use crate::{
    AdmissionPolicy, Footprint,
    mix::BuildMix,
    shared::{Ask, Asked, Domain, Permit, Shared},
    wait::{Ended, Told, Wait},
};

/// What one layer asks for its requests.
pub(crate) struct Gate {
    shared: Arc<Shared>,
    pub(crate) policy: AdmissionPolicy,
    /// For requests without a candidate.
    nameless: Arc<Domain>,
    /// For requests without an owner.
    anonymous: u128,
    /// The domains of candidates by address.
    known: RwLock<Known>,
}

/// The domains of candidates by address.
type Known = HashMap<usize, (Weak<Candidate>, Arc<Domain>), BuildMix>;

/// What comes of a request at the gate.
pub(crate) enum Passage {
    Runs(Permit),
    Waits(Wait),
    Ends(Told, Ended),
}

impl Gate {
    /// Candidates of the past are forgotten when so many are known, and there are never more than twice as many.
    const SWEEP_AT: usize = 256;

    pub(crate) fn new(shared: Arc<Shared>, policy: AdmissionPolicy) -> Self {
        let (nameless, anonymous) = (shared.nameless(), shared.anonymous(shared.number()));
        Self { shared, policy, nameless, anonymous, known: RwLock::default() }
    }

    pub(crate) fn domain(&self, candidate: &Arc<Candidate>) -> Arc<Domain> {
        // An address may be used again once its candidate is gone; the weak reference keeps it from being so.
        let address = Arc::as_ptr(candidate).addr();
        if let Some((_, domain)) = self.known.read().unwrap_or_else(PoisonError::into_inner).get(&address) {
            return domain.clone();
        }
        let domain = self.shared.domain(candidate, &self.policy);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= Self::SWEEP_AT {
            known.retain(|_, (candidate, _)| candidate.strong_count() > 0);
        }
        if known.len() < 2 * Self::SWEEP_AT {
            known.insert(address, (Arc::downgrade(candidate), domain.clone()));
        }
        domain
    }

    /// Asks for a turn for a request.
    /// Where those that hold bytes for a request that runs count them.
    pub(crate) fn retained(&self) -> &RetainedBytes {
        &self.shared.retained
    }

    pub(crate) fn pass<B>(&self, request: &Request<B>) -> Passage {
        let context = Context::of(request);
        let selected = request.extensions().get::<Selected>();
        let domain = selected.map_or_else(|| self.nameless.clone(), |selected| self.domain(&selected.candidate));
        let told = || Told {
            context: context.cloned(),
            candidate: selected.map(|selected| selected.candidate.name().clone()),
            // Who does not say who waits has no claim to the foreground's place.
            class: context.map_or(RequestClass::Internal, Context::class),
            max_wait: self.policy.max_wait,
        };
        let owner = context.and_then(Context::owner);
        let bytes = || match context {
            Some(context) => context.footprint_or_init(|| footprint(request)),
            None => footprint(request),
        };
        self.ask(domain, owner, context.map_or(RequestClass::Internal, Context::class), bytes, told)
    }

    pub(crate) fn ask(
        &self,
        domain: Arc<Domain>,
        owner: Option<&str>,
        class: RequestClass,
        bytes: impl FnOnce() -> u64,
        told: impl FnOnce() -> Told,
    ) -> Passage {
        let ask = Ask {
            domain,
            limits: self.policy.domain_limits(),
            owner: owner.map_or(self.anonymous, |name| self.shared.owner(name)),
            class,
            cost: self.policy.cost,
            max_wait: self.policy.max_wait,
        };
        let mut since = None;
        let asked = self.shared.ask(&ask, || (*since.insert(Instant::now()), bytes()));
        let since = || since.unwrap_or_else(Instant::now);
        match asked {
            Asked::Runs(permit) => Passage::Runs(permit),
            Asked::Waits(waiter) => Passage::Waits(Wait::new(waiter, told(), since())),
            Asked::Refused(refusal) => {
                let told = told();
                if told.is_spent() {
                    return Passage::Ends(told, Ended::Budget);
                }
                let since = since();
                let error = told.reject(refusal, since, since);
                Passage::Ends(told, Ended::Refused(error))
            }
        }
    }
}

/// What a request keeps in memory while it waits: its body, as far as somebody measured it, and its head.
fn footprint<B>(request: &Request<B>) -> u64 {
    let body = request.extensions().get::<Call>().map_or(0, |call| call.request_bytes);
    Footprint::of_head(request).saturating_add(body as u64).min(Footprint::SATURATED)
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("policy", &self.policy).finish_non_exhaustive()
    }
}
