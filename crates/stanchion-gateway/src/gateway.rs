//! From a configuration to one service: an onion for each model, chosen by the name in the request.

mod router;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use stanchion::{
    Onion,
    core::{Candidate, Candidates, Family, Observer},
    deadline::{Attempt, AttemptBody, AttemptLayer},
    edge::{Edge, EdgeBody, EdgeLayer},
    fallback::{Fallback, FallbackLayer},
    retry::{Retry, RetryLayer},
    stream::{Commit, CommitBody, CommitLayer, Observe, ObserveBody, ObserveLayer},
    upstream::{Transport, TransportBody, Upstream, UpstreamBody},
};

pub use self::router::{ModelRouter, RouterFuture};
use crate::{config, environment, keys::ClientKeys};

/// What one model's requests go through.
pub type ModelService = Fallback<Retry<Commit<Attempt<Observe<Upstream<Transport>>>>>>;

/// The body of a model's reply, as it leaves the edge.
pub type ModelBody = EdgeBody<CommitBody<AttemptBody<ObserveBody<UpstreamBody<TransportBody>>>>>;

/// Everything that serves requests.
#[derive(Debug, Clone)]
pub struct Gateway {
    /// The service that answers a model call.
    pub edge: Edge<ModelRouter>,
    /// The names that clients can ask for.
    pub models: Arc<[String]>,
    /// Who may come in.
    pub keys: ClientKeys,
}

impl Gateway {
    /// The gateway that a configuration describes.
    pub fn new(config: &config::Config, observer: Option<Arc<dyn Observer>>) -> Self {
        let mut transports = Transports::default();
        let routes =
            config.models.iter().map(|(name, model)| (name.clone(), by_family(model, &mut transports))).collect();
        Self {
            edge: edge(config.max_request_bytes, observer).service(ModelRouter::named(routes)),
            models: config.models.keys().cloned().collect(),
            keys: ClientKeys::new(&config.client_keys),
        }
    }

    /// The gateway to these providers, which serve whatever model they know.
    pub fn open_ended(providers: Vec<Candidate>, observer: Option<Arc<dyn Observer>>) -> Self {
        let transport = Transport::builder().build();
        let services = providers.into_iter().map(|provider| {
            let name = provider.provider().to_owned();
            let family = provider.family();
            let onion = inner_onion(&config::Model::of(Candidates::new([provider])));
            (name, family, onion.service(Upstream::new(transport.clone())))
        });
        let router = ModelRouter::open_ended(services, environment::provider_for);
        Self {
            edge: edge(config::MAX_REQUEST_BYTES, observer).service(router),
            models: Arc::new([]),
            keys: ClientKeys::default(),
        }
    }
}

fn edge(max_request_bytes: usize, observer: Option<Arc<dyn Observer>>) -> Onion<EdgeLayer> {
    let mut layer = EdgeLayer::new().max_request_bytes(max_request_bytes);
    if let Some(observer) = observer {
        layer = layer.observer(observer);
    }
    Onion::new().edge(layer)
}

type InnerOnion = Onion<tower_layer::Identity, FallbackLayer, RetryLayer, CommitLayer, AttemptLayer, ObserveLayer>;

fn inner_onion(model: &config::Model) -> InnerOnion {
    Onion::new()
        .fallback(FallbackLayer::new(model.candidates.clone()).with_rules(model.rules))
        .retry(RetryLayer::new(model.retry.clone()))
        .commit(model.commit)
        .attempt(AttemptLayer::new(model.limits))
        .observe(ObserveLayer::new().malformed(model.stream.malformed).max_event(model.stream.max_event))
}

/// A service for each dialect family that the model's candidates speak, with the candidates that speak it.
fn by_family(model: &config::Model, transports: &mut Transports) -> HashMap<Family, ModelService> {
    let families: HashSet<Family> = model.candidates.iter().map(|candidate| candidate.family()).collect();
    let transport = transports.get(model.connect);
    families
        .into_iter()
        .map(|family| {
            let speaking = model
                .candidates
                .iter()
                .filter(|candidate| candidate.family() == family)
                .map(|candidate| (**candidate).clone());
            let model = config::Model { candidates: Candidates::new(speaking), ..model.clone() };
            (family, inner_onion(&model).service(Upstream::new(transport.clone())))
        })
        .collect()
}

/// One pool of connections for each connect limit in use.
#[derive(Default)]
struct Transports(HashMap<Duration, Transport>);

impl Transports {
    fn get(&mut self, connect: Duration) -> Transport {
        self.0.entry(connect).or_insert_with(|| Transport::builder().connect_timeout(connect).build()).clone()
    }
}
