use std::{
    collections::HashSet,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use tower_layer::Layer;

use crate::{RequestBegan, Sink, Telemetry};

/// Makes [`Telemetry`] services. The table of settings is on the [crate's page](crate#settings).
#[derive(Clone)]
pub struct TelemetryLayer(pub(crate) Arc<Settings>);

/// What the services of a layer share.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) sinks: Arc<[Arc<dyn Sink>]>,
    other: Arc<str>,
    names: Option<Arc<Names>>,
    pub(crate) starts_traces: bool,
    /// None is each thread's own.
    random: Option<Arc<Mutex<fastrand::Rng>>>,
}

type Names = dyn Fn(&str) -> Option<Arc<str>> + Send + Sync;

impl TelemetryLayer {
    /// A layer without sinks, which does nothing.
    pub fn new() -> Self {
        let (sinks, other) = (Arc::new([]), RequestBegan::OTHER.into());
        Self(Arc::new(Settings { sinks, other, names: None, starts_traces: false, random: None }))
    }

    fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// One more sink, told after those that are there.
    #[must_use]
    pub fn sink(self, sink: Arc<dyn Sink>) -> Self {
        self.with(|settings| settings.sinks = settings.sinks.iter().cloned().chain([sink]).collect())
    }

    /// The names of models that may be told apart. Default: none, and every model is [`OTHER`](RequestBegan::OTHER), since what
    /// clients send is without bounds.
    #[must_use]
    pub fn models<N: Into<Arc<str>>>(self, names: impl IntoIterator<Item = N>) -> Self {
        let names: HashSet<Arc<str>> = names.into_iter().map(Into::into).collect();
        self.models_by(move |requested| names.get(requested).cloned())
    }

    /// The same, as it is chosen: the configured name that a client's name stands for, if there is one.
    #[must_use]
    pub fn models_by(self, name: impl Fn(&str) -> Option<Arc<str>> + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.names = Some(Arc::new(name)))
    }

    /// Whether a request that stands in no trace begins one. Default: no. A request that comes with a `traceparent` goes on with
    /// it either way; without any sink, neither happens.
    #[must_use]
    pub fn start_traces(self, start: bool) -> Self {
        self.with(|settings| settings.starts_traces = start)
    }

    /// Draws the ids of requests and spans from a seed. For tests.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        self.with(|settings| settings.random = Some(Arc::new(Mutex::new(fastrand::Rng::with_seed(seed)))))
    }
}

impl Settings {
    pub(crate) fn random(&self) -> u64 {
        match &self.random {
            None => fastrand::u64(..),
            Some(rng) => rng.lock().unwrap_or_else(PoisonError::into_inner).u64(..),
        }
    }

    /// The configured name that a client's name stands for.
    pub(crate) fn model(&self, requested: Option<&Arc<str>>) -> Arc<str> {
        requested.and_then(|name| self.names.as_ref()?(name)).unwrap_or_else(|| self.other.clone())
    }
}

impl Default for TelemetryLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Layer<S> for TelemetryLayer {
    type Service = Telemetry<S>;

    fn layer(&self, inner: S) -> Telemetry<S> {
        Telemetry::new(inner, self.clone())
    }
}

impl fmt::Debug for TelemetryLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TelemetryLayer")
            .field("sinks", &self.0.sinks.len())
            .field("starts_traces", &self.0.starts_traces)
            .finish_non_exhaustive()
    }
}
