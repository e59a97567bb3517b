use tower_layer::{Identity, Layer};

/// Stacks layers in the documented order, whatever the order in which they are given. Parts may be left out.
///
/// Outermost first: edge, fallback, retry, commit, attempt, observe. The result is a concrete type: nothing is boxed.
///
/// Why this order: a fallback gives each candidate its own retries; a retry sees only failures before output, because commit stands
/// within it; the clocks of an attempt stand within commit, so that holding back is bounded by them; observe reads what everything else judges by.
#[derive(Debug, Clone)]
pub struct Onion<
    Edge = Identity,
    Fallback = Identity,
    Retry = Identity,
    Commit = Identity,
    Attempt = Identity,
    Observe = Identity,
> {
    edge: Edge,
    fallback: Fallback,
    retry: Retry,
    commit: Commit,
    attempt: Attempt,
    observe: Observe,
}

impl Onion {
    /// No layer yet.
    pub fn new() -> Self {
        let none = Identity::new;
        Self { edge: none(), fallback: none(), retry: none(), commit: none(), attempt: none(), observe: none() }
    }
}

impl Default for Onion {
    fn default() -> Self {
        Self::new()
    }
}

/// All layers of this version, with their default settings.
#[cfg(all(feature = "edge", feature = "fallback", feature = "retry", feature = "stream", feature = "deadline"))]
pub type Standard = Onion<
    stanchion_edge::EdgeLayer,
    stanchion_fallback::FallbackLayer,
    stanchion_retry::RetryLayer,
    stanchion_stream::CommitLayer,
    stanchion_deadline::AttemptLayer,
    stanchion_stream::ObserveLayer,
>;

#[cfg(all(feature = "edge", feature = "fallback", feature = "retry", feature = "stream", feature = "deadline"))]
impl Onion {
    /// All layers, with their default settings.
    pub fn standard(candidates: stanchion_core::Candidates) -> Standard {
        Self::new()
            .edge(stanchion_edge::EdgeLayer::new())
            .fallback(stanchion_fallback::FallbackLayer::new(candidates))
            .retry(stanchion_retry::RetryLayer::default())
            .commit(stanchion_stream::CommitLayer::new())
            .attempt(stanchion_deadline::AttemptLayer::default())
            .observe(stanchion_stream::ObserveLayer::new())
    }
}

impl<E, F, R, C, A, O> Onion<E, F, R, C, A, O> {
    /// Sets the outermost layer. See [`edge`](crate::edge).
    #[cfg(feature = "edge")]
    pub fn edge(self, edge: stanchion_edge::EdgeLayer) -> Onion<stanchion_edge::EdgeLayer, F, R, C, A, O> {
        let Self { fallback, retry, commit, attempt, observe, .. } = self;
        Onion { edge, fallback, retry, commit, attempt, observe }
    }

    /// Sets the layer that tries candidates in order. See [`fallback`](crate::fallback).
    #[cfg(feature = "fallback")]
    pub fn fallback(
        self,
        fallback: stanchion_fallback::FallbackLayer,
    ) -> Onion<E, stanchion_fallback::FallbackLayer, R, C, A, O> {
        let Self { edge, retry, commit, attempt, observe, .. } = self;
        Onion { edge, fallback, retry, commit, attempt, observe }
    }

    /// Sets the layer that replays zero-output failures. See [`retry`](crate::retry).
    #[cfg(feature = "retry")]
    pub fn retry(self, retry: stanchion_retry::RetryLayer) -> Onion<E, F, stanchion_retry::RetryLayer, C, A, O> {
        let Self { edge, fallback, commit, attempt, observe, .. } = self;
        Onion { edge, fallback, retry, commit, attempt, observe }
    }

    /// Sets the layer that holds a reply back until its first real output. See [`stream`](crate::stream).
    #[cfg(feature = "stream")]
    pub fn commit(self, commit: stanchion_stream::CommitLayer) -> Onion<E, F, R, stanchion_stream::CommitLayer, A, O> {
        let Self { edge, fallback, retry, attempt, observe, .. } = self;
        Onion { edge, fallback, retry, commit, attempt, observe }
    }

    /// Sets the clocks of one attempt. See [`deadline`](crate::deadline).
    #[cfg(feature = "deadline")]
    pub fn attempt(
        self,
        attempt: stanchion_deadline::AttemptLayer,
    ) -> Onion<E, F, R, C, stanchion_deadline::AttemptLayer, O> {
        let Self { edge, fallback, retry, commit, observe, .. } = self;
        Onion { edge, fallback, retry, commit, attempt, observe }
    }

    /// Sets the layer that reads the stream as it passes. See [`stream`](crate::stream).
    #[cfg(feature = "stream")]
    pub fn observe(
        self,
        observe: stanchion_stream::ObserveLayer,
    ) -> Onion<E, F, R, C, A, stanchion_stream::ObserveLayer> {
        let Self { edge, fallback, retry, commit, attempt, .. } = self;
        Onion { edge, fallback, retry, commit, attempt, observe }
    }

    /// Stacks the layers over a service.
    pub fn service<S>(&self, service: S) -> <Self as Layer<S>>::Service
    where
        Self: Layer<S>,
    {
        self.layer(service)
    }
}

impl<S, E, F, R, C, A, O> Layer<S> for Onion<E, F, R, C, A, O>
where
    O: Layer<S>,
    A: Layer<O::Service>,
    C: Layer<A::Service>,
    R: Layer<C::Service>,
    F: Layer<R::Service>,
    E: Layer<F::Service>,
{
    type Service = E::Service;

    fn layer(&self, inner: S) -> Self::Service {
        let observed = self.observe.layer(inner);
        let timed = self.attempt.layer(observed);
        let committed = self.commit.layer(timed);
        let retried = self.retry.layer(committed);
        let candidates = self.fallback.layer(retried);
        self.edge.layer(candidates)
    }
}
