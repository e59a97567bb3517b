//! From a configuration to one service: an onion for each model, chosen by the name in the request.

mod measure;
mod names;
mod router;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use stanchion::{
    Onion,
    admission::{Admission, AdmissionBody, AdmissionLayer, AdmissionPolicy, AdmissionScheduler},
    cache_break::{CacheBreak, CacheBreakBody, CacheBreakLayer, CacheBreakMonitor},
    circuit::{Circuit, CircuitBody, CircuitLayer, CircuitPreflight, CircuitPreflightLayer, CircuitRegistry},
    core::{Call, Candidate, Candidates, Family, Observer},
    credentials::{CredentialPools, Credentials, CredentialsBody, CredentialsLayer},
    deadline::{Attempt, AttemptBody, AttemptLayer, Recovery, RecoveryBody, RecoveryLayer},
    edge::{Edge, EdgeBody, EdgeLayer},
    fallback::{Fallback, FallbackLayer},
    retry::{Retry, RetryLayer},
    stream::{Commit, CommitBody, CommitLayer, Observe, ObserveBody, ObserveLayer},
    telemetry::{Sink, Telemetry, TelemetryBody, TelemetryFuture, TelemetryLayer},
    upstream::{Transport, TransportBody, Upstream, UpstreamBody},
    usage::{Catalogue, Money, UsageBody, UsageLayer, UsageService},
};

use self::router::Served;
pub use self::{
    names::{Found, ModelNames, Route},
    router::{ModelRouter, RouterFuture},
};
use crate::{config, environment, keys::ClientKeys};

/// What one model's requests go through.
pub type ModelService = CacheBreak<UsageService<Recovery<Fallback<Retry<Credentials<Guarded>>>>>>;

/// What each attempt goes through.
type Guarded = CircuitPreflight<Admission<Circuit<Commit<Attempt<Observe<Upstream<Transport>>>>>>>;

/// The body of a model's reply, as it comes out of its service.
pub type ReplyBody = CacheBreakBody<UsageBody<RecoveryBody<CredentialsBody<GuardedBody>>>>;

type GuardedBody = AdmissionBody<CircuitBody<CommitBody<AttemptBody<ObserveBody<UpstreamBody<TransportBody>>>>>>;

/// The body of a model's reply, as it leaves the edge.
pub type ModelBody = EdgeBody<TelemetryFuture<RouterFuture>, TelemetryBody<ReplyBody>>;

/// Everything that serves requests.
#[derive(Debug, Clone)]
pub struct Gateway {
    /// The service that answers a model call.
    pub edge: Edge<Telemetry<ModelRouter>>,
    /// The names that clients can ask for.
    pub names: Arc<ModelNames>,
    /// Who may come in.
    pub keys: ClientKeys,
    /// The circuits of all candidates.
    pub circuits: CircuitRegistry,
    /// Where requests queue.
    pub scheduler: AdmissionScheduler,
    /// The keys of providers that have several.
    pub credentials: CredentialPools,
    telemetry: TelemetryLayer,
}

impl Gateway {
    /// The gateway that a configuration describes.
    pub fn new(config: &config::Config, observer: Option<Arc<dyn Observer>>) -> Self {
        let mut parts = Parts::new(config);
        let names = Arc::new(ModelNames::new(config));
        let mut served = |(name, model): (&String, &config::Model)| (name.clone(), serve(model, &mut parts));
        let models = config.models.iter().map(&mut served).collect();
        let providers = config.passthrough.iter().map(&mut served).collect();
        let edge = heartbeats(edge(config.max_request_bytes, observer), config, &names);
        let telemetry = telemetry(&names);
        let router = ModelRouter::named(names.clone(), models, providers);
        Self {
            edge: Onion::new().edge(edge).telemetry(telemetry.clone()).service(router),
            names,
            keys: ClientKeys::new(&config.clients, config.identity_headers),
            circuits: parts.circuits,
            scheduler: parts.scheduler,
            credentials: parts.credentials,
            telemetry,
        }
    }

    /// The same gateway, telling these sinks too what becomes of each request.
    #[must_use]
    pub fn with_sinks(mut self, sinks: impl IntoIterator<Item = Arc<dyn Sink>>) -> Self {
        for sink in sinks {
            self.telemetry = self.telemetry.sink(sink);
        }
        let router = self.edge.get_ref().get_ref().clone();
        *self.edge.get_mut() = Telemetry::new(router, self.telemetry.clone());
        self
    }

    /// The gateway to these providers, which serve whatever model they know.
    pub fn open_ended(providers: Vec<Candidate>, observer: Option<Arc<dyn Observer>>) -> Self {
        let mut parts = Parts::default();
        let names = providers.iter().map(|provider| provider.provider().to_owned());
        let names = Arc::new(ModelNames::of_providers(names));
        let services = providers.into_iter().map(|provider| {
            let name = provider.provider().to_owned();
            let family = provider.family();
            (name, family, parts.service(&config::Model::of(Candidates::new([provider]))))
        });
        let router = ModelRouter::open_ended(services, environment::provider_for);
        let telemetry = telemetry(&names);
        Self {
            edge: Onion::new()
                .edge(edge(config::MAX_REQUEST_BYTES, observer))
                .telemetry(telemetry.clone())
                .service(router),
            names,
            keys: ClientKeys::default(),
            circuits: parts.circuits,
            scheduler: parts.scheduler,
            credentials: parts.credentials,
            telemetry,
        }
    }
}

/// Every candidate of the models whose name passes, each with the service that reaches it.
pub fn candidates(
    config: &config::Config,
    passes: impl Fn(&str) -> bool,
) -> Vec<(String, Arc<Candidate>, ModelService)> {
    let mut parts = Parts::new(config);
    let models = config.models.iter().filter(|(name, _)| passes(name));
    models
        .flat_map(|(name, model)| {
            let service = parts.service(model);
            let candidates: Vec<_> = model.candidates.iter().cloned().collect();
            candidates.into_iter().map(move |candidate| {
                // One that names no model is asked for what a client asks for.
                let candidate = match candidate.model() {
                    Some(_) => candidate,
                    None => Arc::new((*candidate).clone().with_model(name.as_str())),
                };
                (name.clone(), candidate, service.clone())
            })
        })
        .collect()
}

fn edge(max_request_bytes: usize, observer: Option<Arc<dyn Observer>>) -> EdgeLayer {
    let layer = EdgeLayer::new().max_request_bytes(max_request_bytes);
    match observer {
        Some(observer) => layer.observer(observer),
        None => layer,
    }
}

type InnerOnion = Onion<
    tower_layer::Identity,
    tower_layer::Identity,
    CacheBreakLayer,
    UsageLayer,
    RecoveryLayer,
    FallbackLayer,
    RetryLayer,
    CredentialsLayer,
    CircuitPreflightLayer,
    AdmissionLayer,
    CircuitLayer,
    CommitLayer,
    AttemptLayer,
    ObserveLayer,
>;

/// A service for each dialect family that the model's candidates speak, with the candidates that speak it.
fn serve(model: &config::Model, parts: &mut Parts) -> Served {
    let families: HashSet<Family> = model.candidates.iter().map(|candidate| candidate.family()).collect();
    let services = families
        .into_iter()
        .map(|family| {
            let speaking = model
                .candidates
                .iter()
                .filter(|candidate| candidate.family() == family)
                .map(|candidate| (**candidate).clone());
            let model = config::Model { candidates: Candidates::new(speaking), ..model.clone() };
            (family, parts.service(&model))
        })
        .collect();
    let forwards_name = model.candidates.iter().any(|candidate| candidate.model().is_none());
    Served { services, forwards_name }
}

/// Tells models apart by what is configured for the names that clients ask for.
fn telemetry(names: &Arc<ModelNames>) -> TelemetryLayer {
    let names = names.clone();
    TelemetryLayer::new().models_by(move |asked| names.configured(asked))
}

/// Sends signs of life to who waits for a model that is to have them, by whatever name.
fn heartbeats(edge: EdgeLayer, config: &config::Config, names: &Arc<ModelNames>) -> EdgeLayer {
    let every = |models: &BTreeMap<String, config::Model>| -> HashMap<String, Duration> {
        models.iter().filter_map(|(name, model)| Some((name.clone(), model.heartbeat?))).collect()
    };
    let (models, providers) = (every(&config.models), every(&config.passthrough));
    if models.is_empty() && providers.is_empty() {
        return edge;
    }
    let names = names.clone();
    edge.heartbeat_for(move |call: &Call| {
        let every = match names.find(call.model.as_deref()?)?.route {
            Route::Model(name) => models.get(name),
            Route::Provider(name) => providers.get(name),
        };
        every.copied()
    })
}

/// What models share.
#[derive(Default)]
struct Parts {
    /// One pool of connections for each connect limit in use.
    transports: HashMap<Duration, Transport>,
    circuits: CircuitRegistry,
    scheduler: AdmissionScheduler,
    credentials: CredentialPools,
    /// The prices; without a configuration those that come with us.
    catalogue: Option<Arc<Catalogue>>,
    caches: CacheBreakMonitor,
}

impl Parts {
    fn new(config: &config::Config) -> Self {
        Self {
            scheduler: config.scheduler.clone(),
            credentials: config.credentials.clone(),
            catalogue: Some(config.catalogue.clone()),
            caches: CacheBreakMonitor::new(config.cache),
            ..Self::default()
        }
    }

    fn service(&mut self, model: &config::Model) -> ModelService {
        let build = || Transport::builder().connect_timeout(model.connect).build();
        let transport = self.transports.entry(model.connect).or_insert_with(build).clone();
        self.onion(model).service(Upstream::new(transport))
    }

    fn onion(&self, model: &config::Model) -> InnerOnion {
        let circuit = CircuitLayer::new(self.circuits.clone(), model.circuit.clone());
        let mut admission = AdmissionLayer::new(self.scheduler.clone(), AdmissionPolicy::default());
        for (provider, policy) in &model.admission {
            admission = admission.policy_for(provider.as_str(), policy.clone());
        }
        let mut usage = UsageLayer::new().request_usage(model.request_usage);
        if let Some(catalogue) = &self.catalogue {
            usage = usage.catalogue(catalogue.clone());
        }
        Onion::new()
            .cache_break(self.caches())
            .usage(usage)
            .recovery(RecoveryLayer::new(model.recovery))
            .fallback(
                FallbackLayer::new(model.candidates.clone())
                    .with_rules(model.rules)
                    .with_fit_guard(model.fallback.fit_guard)
                    .with_overflow(model.fallback.on_overflow),
            )
            .retry(RetryLayer::new(model.retry.clone()).with_budget(model.retry_budget.clone()))
            .credentials(CredentialsLayer::new(self.credentials.clone()))
            .circuit(circuit.with_candidates(self.credentials.expand(&model.candidates)))
            .admission(admission)
            .commit(model.commit)
            .attempt(AttemptLayer::new(model.limits))
            .observe(ObserveLayer::new().malformed(model.stream.malformed).max_event(model.stream.max_event))
    }

    /// Watches prompt caches; what a break cost is what the catalogue says of who answered.
    fn caches(&self) -> CacheBreakLayer {
        let catalogue = self.catalogue.clone();
        CacheBreakLayer::with_monitor(self.caches.clone()).with_price(move |loss| {
            let (candidate, lost_tokens) = (loss.candidate?, loss.broken.lost_tokens);
            let catalogue = catalogue.as_deref().unwrap_or_else(|| Catalogue::built_in());
            let cost = catalogue.loss(candidate.family(), candidate.provider(), loss.model?, lost_tokens, loss.usage);
            cost.map(Money::nanodollars)
        })
    }
}
