use std::{fmt, sync::Arc, time::Duration};

use stanchion_core::{Call, DispositionRules, Observer};
use tower_layer::Layer;

use crate::Edge;

/// Makes [`Edge`] services.
#[derive(Clone)]
pub struct EdgeLayer {
    pub(crate) max_request_bytes: usize,
    pub(crate) upload_idle: Duration,
    pub(crate) upload_timeout: Duration,
    pub(crate) identity_headers: bool,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) rules: DispositionRules,
    pub(crate) heartbeats: Heartbeats,
}

/// How often the client of a call is told that its connection lives.
#[derive(Clone)]
pub(crate) enum Heartbeats {
    Off,
    Every(Duration),
    Of(Arc<Choose>),
}

type Choose = dyn Fn(&Call) -> Option<Duration> + Send + Sync;

/// More often would only fill the wire.
const SHORTEST_HEARTBEAT: Duration = Duration::from_secs(1);

impl Heartbeats {
    pub(crate) fn of(&self, call: &Call) -> Option<Duration> {
        let every = match self {
            Self::Off => None,
            Self::Every(every) => Some(*every),
            Self::Of(choose) => choose(call),
        };
        every.filter(|every| !every.is_zero()).map(|every| every.max(SHORTEST_HEARTBEAT))
    }
}

impl EdgeLayer {
    /// A layer with the default settings.
    pub fn new() -> Self {
        Self {
            max_request_bytes: 32 * 1024 * 1024,
            upload_idle: Duration::from_secs(30),
            upload_timeout: Duration::from_secs(300),
            identity_headers: true,
            observer: None,
            rules: DispositionRules::default(),
            heartbeats: Heartbeats::Off,
        }
    }

    /// The largest request body, in bytes. Default 32 MiB, which is Anthropic's own limit.
    #[must_use]
    pub fn max_request_bytes(mut self, bytes: usize) -> Self {
        self.max_request_bytes = bytes;
        self
    }

    /// How long a request body may pause between two of its pieces. Default 30 s; then the answer is a 408.
    #[must_use]
    pub fn upload_idle(mut self, limit: Duration) -> Self {
        self.upload_idle = limit;
        self
    }

    /// How long the whole of a request body may take to come. Default 5 min; then the answer is a 408. Whoever sends a byte
    /// now and then holds no place for longer than this.
    #[must_use]
    pub fn upload_timeout(mut self, limit: Duration) -> Self {
        self.upload_timeout = limit;
        self
    }

    /// Whether the `x-stanchion-` headers of a request are believed. Default yes; turn it off where callers are
    /// strangers.
    #[must_use]
    pub fn identity_headers(mut self, believed: bool) -> Self {
        self.identity_headers = believed;
        self
    }

    /// Who sees the events of every request that carries no [`Context`](stanchion_core::Context) of its own.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Keeps the connections of waiting clients alive: a comment whenever nothing was sent for so long, until the reply
    /// begins. Default off, as is zero; less than 1 s counts as 1 s. Proxies and clients commonly give up after 60 s of
    /// silence: 15 s leaves room.
    ///
    /// For calls that are answered with Server-Sent Events only. It costs them the status of what fails later: see the
    /// [crate page](crate#heartbeat).
    #[must_use]
    pub fn heartbeat(mut self, every: Duration) -> Self {
        self.heartbeats = if every.is_zero() { Heartbeats::Off } else { Heartbeats::Every(every) };
        self
    }

    /// The same, for each call as it is chosen: by its model, for instance. `None` and zero are off.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use stanchion_core::Call;
    /// use stanchion_edge::EdgeLayer;
    ///
    /// let slow = |call: &Call| (call.model.as_deref() == Some("slow")).then_some(Duration::from_secs(15));
    /// let layer = EdgeLayer::new().heartbeat_for(slow);
    /// ```
    #[must_use]
    pub fn heartbeat_for(mut self, choose: impl Fn(&Call) -> Option<Duration> + Send + Sync + 'static) -> Self {
        self.heartbeats = Heartbeats::Of(Arc::new(choose));
        self
    }

    /// The rules by which failures become statuses.
    #[must_use]
    pub fn rules(mut self, rules: DispositionRules) -> Self {
        self.rules = rules;
        self
    }
}

impl Default for EdgeLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for EdgeLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EdgeLayer")
            .field("max_request_bytes", &self.max_request_bytes)
            .field("identity_headers", &self.identity_headers)
            .finish_non_exhaustive()
    }
}

impl<S> Layer<S> for EdgeLayer {
    type Service = Edge<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Edge::new(inner, self.clone())
    }
}
