use std::{fmt, sync::Arc};

use tower_layer::Layer;

use crate::{Catalogue, UsageService, account::ToldCaches};

/// Puts [`UsageService`] around a service. Its place is outside of whatever chooses among candidates, and just inside
/// of the edge. The table of settings is on the [crate's page](crate#settings).
#[derive(Clone)]
pub struct UsageLayer {
    /// `None` is the one that comes with the crate.
    pub(crate) catalogue: Option<Arc<Catalogue>>,
    pub(crate) request_usage: bool,
    pub(crate) caches: ToldCaches,
}

impl UsageLayer {
    /// A layer with the default settings.
    pub fn new() -> Self {
        Self { catalogue: None, request_usage: false, caches: ToldCaches::default() }
    }

    /// Where prices are looked up. Default: [`Catalogue::built_in`].
    #[must_use]
    pub fn catalogue(mut self, catalogue: impl Into<Arc<Catalogue>>) -> Self {
        self.catalogue = Some(catalogue.into());
        self
    }

    /// Whether providers are asked for usage by streams of chat completions whose client does not ask for it. Default:
    /// they are not, since the request is changed for it. See the [crate's page](crate#asking-for-usage).
    #[must_use]
    pub fn request_usage(mut self, request: bool) -> Self {
        self.request_usage = request;
        self
    }
}

impl Default for UsageLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Layer<S> for UsageLayer {
    type Service = UsageService<S>;

    fn layer(&self, inner: S) -> UsageService<S> {
        UsageService { inner, layer: self.clone() }
    }
}

impl fmt::Debug for UsageLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UsageLayer")
            .field("own_catalogue", &self.catalogue.is_some())
            .field("request_usage", &self.request_usage)
            .finish_non_exhaustive()
    }
}
