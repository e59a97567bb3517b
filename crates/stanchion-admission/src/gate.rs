use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use http::Request;
use http_body::Body;
use stanchion_core::{Call, Candidate, CandidateCache, Context, RequestClass, RetainedBytes, Selected};
use tokio::time::Instant;

use crate::{
    AdmissionPolicy, Footprint,
    domain::{Domain, Share},
    permit::Permit,
    policy::Policies,
    shared::{Ask, Asked, Shared},
    wait::{Ended, Told, Wait},
};

/// What one layer asks for its requests.
pub(crate) struct Gate {
    shared: Arc<Shared>,
    policies: Arc<Policies>,
    /// For requests without a candidate.
    nameless: Place,
    /// For requests without an owner.
    anonymous: u64,
    known: CandidateCache<Place>,
}

/// Where a candidate's requests queue, and under which of the layer's policies.
#[derive(Clone)]
pub(crate) struct Place {
    share: Arc<Share>,
    policy: usize,
}

/// What comes of a request at the gate.
pub(crate) enum Passage {
    Runs(Permit),
    Waits(Wait),
    Ends(Told, Ended),
}

impl Gate {
    pub(crate) fn new(shared: Arc<Shared>, policies: Arc<Policies>) -> Self {
        let policy = Policies::GENERAL;
        let nameless = Place { share: Share::open(Domain::new(&shared, None), policies.get(policy).share()), policy };
        // A number that nobody else has.
        let anonymous = RandomState::new().hash_one(());
        Self { shared, policies, nameless, anonymous, known: CandidateCache::new() }
    }

    pub(crate) fn place(&self, candidate: &Arc<Candidate>) -> Place {
        self.known.get_or_insert_with(candidate, || {
            let policy = self.policies.for_provider(candidate.provider());
            let its = self.policies.get(policy);
            Place { share: Share::open(self.shared.domain(candidate, its), its.share()), policy }
        })
    }

    /// The policy under which requests queue there.
    pub(crate) fn policy(&self, place: &Place) -> &AdmissionPolicy {
        self.policies.get(place.policy)
    }

    /// Where those count that hold bytes for a request that runs.
    pub(crate) fn retained(&self) -> &RetainedBytes {
        &self.shared.retained
    }

    /// Asks for a turn for a request.
    pub(crate) fn pass<B: Body>(&self, request: &Request<B>) -> Passage {
        let context = Context::of(request);
        let selected = request.extensions().get::<Selected>();
        let place = selected.map_or_else(|| self.nameless.clone(), |selected| self.place(&selected.candidate));
        let max_wait = self.policy(&place).max_wait;
        let told = || Told {
            context: context.cloned(),
            candidate: selected.map(|selected| selected.candidate.clone()),
            // Who does not say who waits has no claim to the foreground's place.
            class: context.map_or(RequestClass::Internal, Context::class),
            max_wait,
        };
        let owner = context.and_then(Context::owner);
        let bytes = || match context {
            Some(context) => context.footprint_or_init(|| footprint(request)),
            None => footprint(request),
        };
        self.ask(place, owner, context.map_or(RequestClass::Internal, Context::class), bytes, told)
    }

    pub(crate) fn ask(
        &self,
        place: Place,
        owner: Option<&str>,
        class: RequestClass,
        bytes: impl FnOnce() -> u64,
        told: impl FnOnce() -> Told,
    ) -> Passage {
        let policy = self.policy(&place);
        let ask = Ask {
            limits: policy.domain_limits(),
            owner: owner.map_or(self.anonymous, |name| self.shared.owner(name)),
            class,
            cost: policy.cost,
            max_wait: policy.max_wait,
            share: place.share,
        };
        let mut since = None;
        let asked = self.shared.ask(ask, || (*since.insert(Instant::now()), bytes()));
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

/// What a request keeps in memory while it waits: its head; and its body, as somebody has measured it, or as it says
/// itself.
fn footprint<B: Body>(request: &Request<B>) -> u64 {
    let measured = request.extensions().get::<Call>().map_or(0, |call| call.request_bytes as u64);
    let body = measured.max(request.body().size_hint().lower());
    Footprint::of_head(request).saturating_add(body).min(Footprint::SATURATED)
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("policies", &self.policies).finish_non_exhaustive()
    }
}
