use std::{fmt, sync::Arc, time::Duration};

use stanchion_core::{DispositionRules, Observer};
use tower_layer::Layer;

use crate::Edge;

/// Makes [`Edge`] services.
#[derive(Clone)]
pub struct EdgeLayer {
    pub(crate) max_request_bytes: usize,
    pub(crate) upload_idle: Duration,
    pub(crate) identity_headers: bool,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) rules: DispositionRules,
}

impl EdgeLayer {
    /// A layer with the default settings.
    pub fn new() -> Self {
        Self {
            max_request_bytes: 32 * 1024 * 1024,
            upload_idle: Duration::from_secs(30),
            identity_headers: true,
            observer: None,
            rules: DispositionRules::default(),
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

    /// Whether the `x-stanchion-` headers of a request are believed. Default yes; turn it off where callers are strangers.
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
