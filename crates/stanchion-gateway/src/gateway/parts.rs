use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use stanchion::{
    Onion,
    admission::{AdmissionLayer, AdmissionPolicy, AdmissionScheduler},
    cache_break::{CacheBreakLayer, CacheBreakMonitor},
    circuit::{CircuitLayer, CircuitPolicy, CircuitPreflightLayer, CircuitRegistry},
    core::{Call, Candidate, Candidates, Family, Observer},
    credentials::{CredentialPool, CredentialPools, CredentialsLayer},
    deadline::{AttemptLayer, RecoveryLayer},
    edge::EdgeLayer,
    fallback::FallbackLayer,
    retry::{RetryBudget, RetryLayer},
    stream::{CommitLayer, ObserveLayer},
    telemetry::{Sink, Spans, TelemetryLayer},
    upstream::{ClientTls, Transport, Upstream},
    usage::{Catalogue, Money, UsageLayer},
};

use super::{
    Door, End, Ending, Gateway, ModelNames, ModelRouter, ModelService, Records, Route, Transports, router::Served,
};
use crate::{
    admin::Drains,
    config::{self, Complaint, Config, Model, ServerSettings, TelemetrySettings},
    environment,
    keys::{ClientKeys, Limiters},
    server::ListenerLimits,
};

/// Pools of connections, by their connect limits and their TLS.
type Pools = HashMap<(Duration, ClientTls), Transport>;

/// What gateways are made of, and what outlives them: each that is made takes over from the one before whatever both configurations
/// have in common.
///
/// | part | is the same as long as | else |
/// |---|---|---|
/// | a circuit | its candidate leads to the same place under the same key and the same `circuit` table | it is forgotten |
/// | the queue | always: its limits change in place | |
/// | an adaptive limit | the `adaptive` tables that count for its provider are the same | those of the provider begin anew |
/// | a bucket of retries | its `retry_budget` table is the same | it is full |
/// | a provider's keys | the keys and their `credentials` table are the same | they are all ready, but for what the state file says |
/// | sessions whose prompt caches are watched | the `[cache]` table is the same | they are forgotten |
/// | what a client has used up of its limits | it has limits, by its name | it is forgotten |
/// | who was taken out of service | always, by the candidate's name | |
/// | how many were turned away at the door | always | |
/// | who writes call records | always: another file is gone on with from the next record on | |
/// | connections to providers | some model has their `timeouts.connect`, and the provider the same `tls` table | requests on them end, and none is kept |
#[derive(Default)]
pub struct Parts {
    observer: Option<Arc<dyn Observer>>,
    sinks: Vec<Arc<dyn Sink>>,
    records: Records,
    door: Door,
    end: End,
    drains: Drains,
    limiters: Limiters,
    /// One pool of connections for each connect limit in use, and each way to speak TLS.
    transports: Pools,
    /// How providers are spoken to that have a way of their own.
    tls: BTreeMap<String, ClientTls>,
    circuits: CircuitRegistry,
    scheduler: AdmissionScheduler,
    /// What limits that adapt were set to, by provider.
    adaptive: BTreeMap<String, BTreeSet<String>>,
    budgets: Vec<RetryBudget>,
    credentials: CredentialPools,
    /// The prices; without a configuration those that come with us.
    catalogue: Option<Arc<Catalogue>>,
    caches: CacheBreakMonitor,
}

impl Parts {
    /// Nothing but defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Who sees the events of all requests.
    #[must_use]
    pub fn observer(mut self, observer: Option<Arc<dyn Observer>>) -> Self {
        self.observer = observer;
        self
    }

    /// Who is told what becomes of each request.
    #[must_use]
    pub fn sinks(mut self, sinks: impl IntoIterator<Item = Arc<dyn Sink>>) -> Self {
        self.sinks.extend(sinks);
        self
    }

    /// Opens what a configuration writes to. To be asked before it is served: what cannot be opened is not written, and was served nothing.
    ///
    /// # Errors
    ///
    /// With what cannot be opened, and why. Then nothing has changed.
    pub fn open(&self, config: &Config) -> Result<(), Complaint> {
        let Some(settings) = &config.telemetry.records else { return Ok(()) };
        self.records.write_to(settings).map_err(|error| Complaint {
            line: None,
            variable: None,
            key: "telemetry.records.path".to_owned(),
            reason: format!("{} cannot be written: {error}", settings.path.display()),
        })
    }

    /// The gateway that a configuration describes, and the configuration as it is then: its candidates have the switches that take them out
    /// of service.
    pub fn serve(&mut self, mut config: Config) -> (Gateway, Arc<Config>) {
        self.drains.put_into(&mut config);
        (self.gateway(&config), Arc::new(config))
    }

    /// The same for providers that serve whatever model they know.
    pub fn serve_open_ended(&mut self, providers: &[Candidate]) -> (Gateway, Vec<Candidate>) {
        let providers = self.drains.give(&Candidates::new(providers.iter().cloned()));
        let providers: Vec<Candidate> = providers.iter().map(|provider| (**provider).clone()).collect();
        (self.open_ended(providers.clone()), providers)
    }

    /// The gateway that a configuration describes. What one before it has open stays open.
    pub fn gateway(&mut self, config: &Config) -> Gateway {
        self.take(config);
        let names = Arc::new(ModelNames::new(config));
        let mut transports = HashMap::new();
        let mut served = |(name, model): (&String, &Model)| (name.clone(), self.by_family(model, &mut transports));
        let models = config.models.iter().map(&mut served).collect();
        let providers = config.passthrough.iter().map(&mut served).collect();
        // Pools of connections that nobody uses any more end with their last request.
        self.transports = transports;
        let edge = heartbeats(self.edge(config.max_request_bytes, &config.server.limits), config, &names);
        let router = ModelRouter::named(names.clone(), models, providers);
        let keys = ClientKeys::new(&config.clients, config.identity_headers, &mut self.limiters);
        self.assemble(edge, names, router, keys, config.server.clone(), &config.telemetry)
    }

    /// The gateway to these providers, which serve whatever model they know.
    pub fn open_ended(&mut self, providers: Vec<Candidate>) -> Gateway {
        let names = providers.iter().map(|provider| provider.provider().to_owned());
        let names = Arc::new(ModelNames::of_providers(names));
        let services = providers.into_iter().map(|provider| {
            let name = provider.provider().to_owned();
            let family = provider.family();
            (name, family, self.service(&Model::of(Candidates::new([provider]))))
        });
        let router = ModelRouter::open_ended(services, environment::provider_for);
        let edge = self.edge(config::MAX_REQUEST_BYTES, &ListenerLimits::default());
        let settings = (ServerSettings::default(), TelemetrySettings::default());
        self.assemble(edge, names, router, ClientKeys::default(), settings.0, &settings.1)
    }

    fn assemble(
        &self,
        edge: EdgeLayer,
        names: Arc<ModelNames>,
        router: ModelRouter,
        keys: ClientKeys,
        server: ServerSettings,
        kept: &TelemetrySettings,
    ) -> Gateway {
        let telemetry = self.telemetry(names.clone(), kept);
        let router = Ending::new(router, self.end.clone());
        Gateway {
            edge: Onion::new().edge(edge).telemetry(telemetry.clone()).service(router),
            names,
            keys,
            circuits: self.circuits.clone(),
            scheduler: self.scheduler.clone(),
            credentials: self.credentials.clone(),
            records: self.records.clone(),
            door: self.door.clone(),
            end: self.end.clone(),
            server,
            telemetry,
        }
    }

    /// Tells those who are told of every gateway's requests, and those whom the configuration wants.
    fn telemetry(&self, names: Arc<ModelNames>, kept: &TelemetrySettings) -> TelemetryLayer {
        // Models are told apart by what is configured for the names that clients ask for.
        let layer =
            TelemetryLayer::new().models_by(move |asked| names.configured(asked)).start_traces(kept.start_traces);
        let records = kept.records.as_ref().and_then(|_| self.records.sink());
        let records = records.map(|records| Arc::new(records) as Arc<dyn Sink>);
        let spans = kept.log_spans.then(|| Arc::new(Spans::new()) as Arc<dyn Sink>);
        self.sinks.iter().cloned().chain(records).chain(spans).fold(layer, TelemetryLayer::sink)
    }

    /// Takes over what a configuration sets for all models together.
    pub(super) fn take(&mut self, config: &Config) {
        self.take_credentials(&config.credentials);
        self.tls.clone_from(&config.provider_tls);
        self.take_budgets(config);
        self.take_circuits(config);
        let models = || config.models.values().chain(config.passthrough.values());
        let mut adaptive: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (provider, policy) in models().flat_map(|model| &model.admission) {
            if let Some(settings) = policy.adaptive() {
                // The narrowest of them counts, whichever models they are of.
                adaptive.entry(provider.clone()).or_default().insert(format!("{settings:?}"));
            }
        }
        for (provider, _) in self.adaptive.iter().filter(|(provider, before)| adaptive.get(*provider) != Some(before)) {
            self.scheduler.forget_adapted_of(provider);
        }
        self.adaptive = adaptive;
        self.scheduler.adopt(&config.scheduler);
        self.catalogue = Some(config.catalogue.clone());
        if config.cache != *self.caches.policy() {
            self.caches = CacheBreakMonitor::new(config.cache);
        }
    }

    /// Pools that are set up as before are kept; what replaces one has its state file from now on.
    fn take_credentials(&mut self, new: &CredentialPools) {
        let pools: Vec<CredentialPool> = new
            .iter()
            .map(|pool| match self.credentials.get(pool.provider()) {
                Some(known) if known.is_like(pool) => {
                    pool.retire();
                    known.clone()
                }
                _ => pool.clone(),
            })
            .collect();
        let pools = CredentialPools::new(pools).unwrap_or_else(|_| new.clone());
        for known in self.credentials.iter() {
            if pools.get(known.provider()).is_none_or(|pool| !pool.is_like(known)) {
                known.retire();
            }
        }
        self.credentials = pools;
    }

    /// Budgets of the same settings are the same.
    fn take_budgets(&mut self, config: &Config) {
        let models = config.models.values().chain(config.passthrough.values());
        let mut budgets: Vec<RetryBudget> = Vec::new();
        for budget in models.filter_map(|model| model.retry_budget.as_ref()) {
            if budgets.iter().all(|known| known.settings() != budget.settings()) {
                budgets.push(self.budget(budget));
            }
        }
        self.budgets = budgets;
    }

    fn budget(&self, new: &RetryBudget) -> RetryBudget {
        let known = self.budgets.iter().find(|known| known.settings() == new.settings());
        known.unwrap_or(new).clone()
    }

    /// Each candidate that is configured has room for its circuit; those of what is configured no more are forgotten.
    fn take_circuits(&self, config: &Config) {
        let models = config.models.values().chain(config.passthrough.values());
        let expanded: Vec<(Candidates, &CircuitPolicy)> =
            models.map(|model| (self.credentials.expand(&model.candidates), &model.circuit)).collect();
        let kept = expanded
            .iter()
            .flat_map(|(candidates, policy)| candidates.iter().map(move |candidate| (&**candidate, *policy)));
        self.circuits.retain(kept);
        self.circuits.make_room(expanded.iter().map(|(candidates, _)| candidates.len()).sum());
    }

    fn edge(&self, max_request_bytes: usize, limits: &ListenerLimits) -> EdgeLayer {
        let layer = EdgeLayer::new()
            .max_request_bytes(max_request_bytes)
            .upload_idle(limits.body_idle)
            .upload_timeout(limits.body_timeout);
        match &self.observer {
            Some(observer) => layer.observer(observer.clone()),
            None => layer,
        }
    }

    /// A service for each dialect family that the model's candidates speak, with the candidates that speak it.
    fn by_family(&self, model: &Model, transports: &mut Pools) -> Served {
        let families: HashSet<Family> = model.candidates.iter().map(|candidate| candidate.family()).collect();
        let services = families
            .into_iter()
            .map(|family| {
                let speaking = model
                    .candidates
                    .iter()
                    .filter(|candidate| candidate.family() == family)
                    .map(|candidate| (**candidate).clone());
                let model = Model { candidates: Candidates::new(speaking), ..model.clone() };
                (family, self.service_over(&model, transports))
            })
            .collect();
        let forwards_name = model.candidates.iter().any(|candidate| candidate.model().is_none());
        Served { services, forwards_name }
    }

    /// What serves a model whose candidates all speak one dialect.
    pub(super) fn service(&mut self, model: &Model) -> ModelService {
        let mut transports = std::mem::take(&mut self.transports);
        let service = self.service_over(model, &mut transports);
        self.transports = transports;
        service
    }

    fn service_over(&self, model: &Model, transports: &mut Pools) -> ModelService {
        let mut transport = |tls: &ClientTls| {
            let pool = (model.connect, tls.clone());
            let known = self.transports.get(&pool).cloned();
            let made = || Transport::builder().connect_timeout(model.connect).tls(tls.clone()).build();
            transports.entry(pool).or_insert_with(|| known.unwrap_or_else(made)).clone()
        };
        let common = transport(&ClientTls::new());
        let named = |candidate: &Arc<Candidate>| self.tls.get_key_value(candidate.provider());
        let own = model.candidates.iter().filter_map(named).map(|(name, tls)| (name.clone(), transport(tls))).collect();
        self.onion(model).service(Upstream::new(Transports::new(common, own)))
    }

    fn onion(&self, model: &Model) -> InnerOnion {
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
            .retry(
                RetryLayer::new(model.retry.clone())
                    .with_budget(model.retry_budget.as_ref().map(|budget| self.budget(budget))),
            )
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
            let cost = catalogue.loss_with(candidate, loss.model?, lost_tokens, loss.usage);
            cost.map(Money::nanodollars)
        })
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts")
            .field("circuits", &self.circuits)
            .field("scheduler", &self.scheduler)
            .finish_non_exhaustive()
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

/// Sends signs of life to who waits for a model that is to have them, by whatever name.
fn heartbeats(edge: EdgeLayer, config: &Config, names: &Arc<ModelNames>) -> EdgeLayer {
    let every = |models: &BTreeMap<String, Model>| -> HashMap<String, Duration> {
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

#[cfg(test)]
mod tests;
