//! From a configuration to one service: an onion for each model, chosen by the name in the request.

mod door;
mod ending;
mod measure;
mod names;
mod parts;
mod records;
mod router;
mod transports;

use std::sync::Arc;

use stanchion::{
    admission::{Admission, AdmissionBody, AdmissionScheduler},
    cache_break::{CacheBreak, CacheBreakBody},
    circuit::{Circuit, CircuitBody, CircuitPreflight, CircuitRegistry},
    core::{Candidate, Observer},
    credentials::{CredentialPools, Credentials, CredentialsBody},
    deadline::{Attempt, AttemptBody, Recovery, RecoveryBody},
    edge::{Edge, EdgeBody},
    fallback::Fallback,
    retry::Retry,
    stream::{Commit, CommitBody, Observe, ObserveBody},
    telemetry::{Sink, Telemetry, TelemetryBody, TelemetryFuture, TelemetryLayer},
    upstream::{TransportBody, Upstream, UpstreamBody},
    usage::{UsageBody, UsageService},
};

pub use self::{
    door::{Door, Refusal},
    ending::{End, Ending, EndingBody, EndingFuture},
    names::{Found, Glob, ModelNames, Route},
    parts::Parts,
    records::Records,
    router::{ModelRouter, RouterFuture},
    transports::Transports,
};
use crate::{
    config::{Config, Model, ServerSettings},
    keys::ClientKeys,
};

/// What one model's requests go through.
pub type ModelService = CacheBreak<UsageService<Recovery<Fallback<Retry<Credentials<Guarded>>>>>>;

/// What each attempt goes through.
type Guarded = CircuitPreflight<Admission<Circuit<Commit<Attempt<Observe<Upstream<Transports>>>>>>>;

/// The body of a model's reply, as it comes out of its service.
pub type ReplyBody = CacheBreakBody<UsageBody<RecoveryBody<CredentialsBody<GuardedBody>>>>;

type GuardedBody = AdmissionBody<CircuitBody<CommitBody<AttemptBody<ObserveBody<UpstreamBody<TransportBody>>>>>>;

/// The body of a model's reply, as it leaves the edge.
pub type ModelBody = EdgeBody<TelemetryFuture<EndingFuture<RouterFuture>>, TelemetryBody<EndingBody<ReplyBody>>>;

/// Everything that serves requests.
#[derive(Debug, Clone)]
pub struct Gateway {
    /// The service that answers a model call.
    pub edge: Edge<Telemetry<Ending<ModelRouter>>>,
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
    /// Who writes call records, if that is configured.
    pub records: Records,
    /// How many are connected, and how many were turned away before a model was asked.
    pub door: Door,
    /// What ends all requests at once.
    pub end: End,
    /// How clients connect.
    pub server: ServerSettings,
    telemetry: TelemetryLayer,
}

impl Gateway {
    /// The gateway that a configuration describes. Where another is to follow it, [`Parts`] makes both.
    pub fn new(config: &Config, observer: Option<Arc<dyn Observer>>) -> Self {
        Parts::new().observer(observer).gateway(config)
    }

    /// The gateway to these providers, which serve whatever model they know.
    pub fn open_ended(providers: Vec<Candidate>, observer: Option<Arc<dyn Observer>>) -> Self {
        Parts::new().observer(observer).open_ended(providers)
    }

    /// Whether it knows nobody of those who come in, by a key or by a certificate.
    pub fn lets_anybody_in(&self) -> bool {
        self.keys.is_empty() && !self.server.knows_clients()
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
}

/// A candidate to be asked whether it works.
#[derive(Debug)]
pub struct Probed {
    /// What a client asks for.
    pub name: String,
    /// With which of its provider's keys, where that has several: the id of the key.
    pub credential: Option<Arc<str>>,
    /// Who is asked.
    pub candidate: Arc<Candidate>,
    /// What reaches it. It shares nothing with a gateway that serves: no circuit, no queue, no state of keys.
    pub service: ModelService,
}

/// Every candidate of a model, by whatever name clients may ask for it, or else of all models; each once with each of its
/// provider's keys.
pub fn candidates(config: &Config, model: Option<&str>) -> Vec<Probed> {
    let names = ModelNames::new(config);
    let models: Vec<(&str, &str, &Model)> = match model {
        None => config.models.iter().map(|(name, model)| (name.as_str(), name.as_str(), model)).collect(),
        Some(asked) => {
            let named = |found: Found<'_>| match found.route {
                Route::Model(name) => config.models.get(name),
                Route::Provider(name) => config.passthrough.get(name),
            };
            names.find(asked).and_then(|found| Some((asked, found.asks_for, named(found)?))).into_iter().collect()
        }
    };
    let mut parts = Parts::new();
    // Each key is asked, whatever is known of it, and what is learnt is not kept.
    parts.take(&Config { credentials: CredentialPools::default(), ..config.clone() });
    let mut probed = Vec::new();
    for (name, asks_for, model) in models {
        let service = parts.service(model);
        for candidate in model.candidates.iter() {
            // One that names no model is asked for what a client asks for.
            let candidate = match candidate.model() {
                Some(_) => (**candidate).clone(),
                None => (**candidate).clone().with_model(asks_for),
            };
            let with_keys: Vec<_> = match config.credentials.get(candidate.provider()) {
                Some(pool) => pool.keyed(&candidate).map(|(id, candidate)| (Some(id.clone()), candidate)).collect(),
                None => vec![(None, candidate)],
            };
            probed.extend(with_keys.into_iter().map(|(credential, candidate)| Probed {
                name: name.to_owned(),
                credential,
                candidate: candidate.into(),
                service: service.clone(),
            }));
        }
    }
    probed
}
