//! What an operator has under the hand: models, their candidates, and the circuits of those.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use serde::Serialize;
use stanchion::{
    admission::AdmissionScheduler,
    circuit::{CircuitHandle, CircuitLayer, CircuitPolicy, CircuitRegistry, CircuitState, CircuitStatus},
    core::{Candidate, Candidates, Drain, RetryReason},
    credentials::CredentialPools,
    telemetry::RequestBegan,
};

use crate::{config::Config, gateway::Gateway};

/// The switches of candidates, by their names. They outlive a configuration, so that a reload puts nobody back into service.
#[derive(Debug, Clone, Default)]
pub struct Drains(Arc<Mutex<HashMap<String, Drain>>>);

impl Drains {
    /// Gives every candidate of a configuration the switch of its name.
    pub fn put_into(&self, config: &mut Config) {
        for model in config.models.values_mut().chain(config.passthrough.values_mut()) {
            model.candidates = self.give(&model.candidates);
        }
    }

    /// These candidates, each with the switch of its name.
    pub fn give(&self, candidates: &Candidates) -> Candidates {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Candidates::new(candidates.iter().map(|candidate| {
            let drain = known.entry(candidate.name().to_string()).or_default();
            (**candidate).clone().with_drain(drain.clone())
        }))
    }
}

/// What is configured, as far as an operator sees it.
#[derive(Debug, Clone)]
pub struct Board {
    models: Vec<Model>,
    pub(super) scheduler: AdmissionScheduler,
    pub(super) credentials: CredentialPools,
}

#[derive(Debug, Clone)]
struct Model {
    name: Arc<str>,
    candidates: Vec<Place>,
}

/// One candidate in the list of one model.
#[derive(Clone)]
struct Place {
    name: Arc<str>,
    drain: Drain,
    /// One for each key of its provider; none where circuits are off.
    circuits: Vec<CircuitHandle>,
}

impl Board {
    /// What a gateway serves that was made of this configuration.
    pub fn new(config: &Config, gateway: &Gateway) -> Self {
        let parts = (&gateway.circuits, &gateway.credentials);
        let models = config.models.iter().map(|(name, model)| (name.clone(), model));
        // As they are called where requests are told of.
        let passthrough = config.passthrough.iter().map(|(provider, model)| (format!("{provider}/*"), model));
        let models = models.chain(passthrough);
        let models = models.map(|(name, model)| Model::new(&name, &model.candidates, &model.circuit, parts));
        Self::of(models.collect(), gateway)
    }

    /// The same of a gateway that serves whatever its providers know.
    pub fn open_ended(providers: &[Candidate], gateway: &Gateway) -> Self {
        let candidates = Candidates::new(providers.iter().cloned());
        let parts = (&gateway.circuits, &gateway.credentials);
        Self::of(vec![Model::new(RequestBegan::OTHER, &candidates, &CircuitPolicy::default(), parts)], gateway)
    }

    fn of(models: Vec<Model>, gateway: &Gateway) -> Self {
        Self { models, scheduler: gateway.scheduler.clone(), credentials: gateway.credentials.clone() }
    }

    /// Does something to every candidate of this name, in whichever model. Returns how many there are.
    pub(super) fn act(&self, candidate: &str, action: Action) -> Acted {
        let places = self.models.iter().flat_map(|model| &model.candidates);
        let places: Vec<_> = places.filter(|place| &*place.name == candidate).collect();
        if places.is_empty() {
            return Acted::Unknown;
        }
        let act = |handle: &CircuitHandle| match action {
            Action::Open => handle.force_open(),
            Action::Close => handle.close(),
            Action::Reset => handle.reset(),
            Action::Drain | Action::Undrain => true,
        };
        let is_drain = matches!(action, Action::Drain | Action::Undrain);
        let mut acted = is_drain;
        for place in places {
            if is_drain {
                place.drain.set(action == Action::Drain);
            } else {
                for handle in &place.circuits {
                    acted |= act(handle);
                }
            }
        }
        if acted { Acted::Done } else { Acted::NoCircuit }
    }

    /// How the models stand.
    pub(super) fn models(&self, loads: &HashMap<(&str, &str), Load>) -> Vec<ModelView> {
        let models = self.models.iter().map(|model| {
            let candidates = model.candidates.iter().map(|place| {
                let load = loads.get(&(&*model.name, &*place.name)).copied().unwrap_or_default();
                CandidateView {
                    id: place.name.clone(),
                    name: place.name.clone(),
                    drained: place.drain.is_drained(),
                    circuit: CircuitView::of(&place.circuits),
                    load,
                }
            });
            ModelView { name: model.name.clone(), candidates: candidates.collect() }
        });
        models.collect()
    }
}

impl Model {
    fn new(
        name: &str,
        candidates: &Candidates,
        policy: &CircuitPolicy,
        (circuits, credentials): (&CircuitRegistry, &CredentialPools),
    ) -> Self {
        // A circuit belongs to whom it is asked for, wherever it is asked: these are the circuits that requests meet.
        let layer = CircuitLayer::new(circuits.clone(), policy.clone());
        let keyed = credentials.expand(candidates);
        let candidates = candidates.iter().map(|candidate| {
            let keyed = keyed.iter().filter(|keyed| keyed.name() == candidate.name());
            let circuits = keyed.map(|keyed| layer.circuit(keyed)).filter(|_| !policy.is_off()).collect();
            Place { name: candidate.name().clone(), drain: candidate.drain().clone(), circuits }
        });
        Self { name: name.into(), candidates: candidates.collect() }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What an operator can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Action {
    /// Open a circuit until a hand closes it.
    Open,
    /// Close it.
    Close,
    /// Make it as new.
    Reset,
    /// Take a candidate out of service.
    Drain,
    /// Put it back.
    Undrain,
}

impl Action {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Close => "close",
            Self::Reset => "reset",
            Self::Drain => "drain",
            Self::Undrain => "undrain",
        }
    }
}

/// What came of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Acted {
    /// It is so now.
    Done,
    /// No candidate has this name.
    Unknown,
    /// The candidate has no circuit: circuits are off for it, or there are too many.
    NoCircuit,
}

/// How many requests a candidate has.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct Load {
    pub(super) in_flight: u64,
    pub(super) queued: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct ModelView {
    name: Arc<str>,
    candidates: Vec<CandidateView>,
}

#[derive(Debug, Serialize)]
struct CandidateView {
    id: Arc<str>,
    name: Arc<str>,
    drained: bool,
    #[serde(flatten)]
    load: Load,
    /// Absent where circuits are off.
    #[serde(skip_serializing_if = "Option::is_none")]
    circuit: Option<CircuitView>,
}

/// The circuit of a candidate as it stands. Where its provider has several keys, that of the key which fares best: requests go there.
#[derive(Debug, Serialize)]
struct CircuitView {
    state: CircuitState,
    by_hand: bool,
    sample_count: u32,
    failure_count: u32,
    waiting: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_probe_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<RetryReason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status_code: Option<u16>,
    /// How many keys there are.
    keys: usize,
    /// How many of their circuits are open or half open.
    open_keys: usize,
}

impl CircuitView {
    fn of(circuits: &[CircuitHandle]) -> Option<Self> {
        let statuses = circuits.iter().map(CircuitHandle::status);
        let views = statuses.map(|status| status.map_or_else(Self::unused, |status| Self::one(&status)));
        let mut views: Vec<_> = views.collect();
        let open_keys = views.iter().filter(|view| view.state != CircuitState::Closed).count();
        let waiting = views.iter().map(|view| view.waiting).sum();
        let best = views.iter().enumerate().min_by_key(|(_, view)| view.badness())?.0;
        Some(Self { keys: circuits.len(), open_keys, waiting, ..views.swap_remove(best) })
    }

    fn one(status: &CircuitStatus) -> Self {
        let next_probe = status.next_probe.map(|wait| wait.as_nanos().div_ceil(1_000_000));
        Self {
            state: status.state,
            by_hand: status.by_hand,
            sample_count: status.sample_count,
            failure_count: status.failure_count,
            waiting: status.waiting,
            next_probe_ms: next_probe.map(|wait| u64::try_from(wait).unwrap_or(u64::MAX)),
            reason: status.reason,
            status_code: status.status_code,
            keys: 1,
            open_keys: 0,
        }
    }

    /// One that nobody has asked for yet.
    fn unused() -> Self {
        Self {
            state: CircuitState::Closed,
            by_hand: false,
            sample_count: 0,
            failure_count: 0,
            waiting: 0,
            next_probe_ms: None,
            reason: None,
            status_code: None,
            keys: 1,
            open_keys: 0,
        }
    }

    fn badness(&self) -> (bool, u8, Option<u64>) {
        let state = match self.state {
            CircuitState::Closed => 0,
            CircuitState::HalfOpen => 1,
            CircuitState::Open => 2,
        };
        (self.by_hand, state, self.next_probe_ms)
    }
}
