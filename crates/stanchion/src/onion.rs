use tower_layer::{Identity, Layer};

/// Stacks layers in the documented order, whatever the order in which they are given. Parts may be left out.
///
/// Outermost first: edge, recovery, fallback, retry, circuit (before the queue), circuit (after it), commit, attempt, observe. The result is
/// a concrete type: nothing is boxed.
///
/// Why this order: a recovery's deadline cuts everything that its candidates wait for; a fallback gives each candidate its own retries; a
/// retry sees only failures before output, because commit stands within it; a circuit stands within retry so that nothing is held while
/// it is waited for, and outside of commit so that the first output is what counts as success; the clocks of an attempt stand within
/// commit, so that holding back is bounded by them; observe reads what everything else judges by.
#[derive(Debug, Clone)]
pub struct Onion<
    Edge = Identity,
    Recovery = Identity,
    Fallback = Identity,
    Retry = Identity,
    Preflight = Identity,
    Circuit = Identity,
    Commit = Identity,
    Attempt = Identity,
    Observe = Identity,
> {
    edge: Edge,
    recovery: Recovery,
    fallback: Fallback,
    retry: Retry,
    preflight: Preflight,
    circuit: Circuit,
    commit: Commit,
    attempt: Attempt,
    observe: Observe,
}

impl Onion {
    /// No layer yet.
    pub fn new() -> Self {
        let none = Identity::new;
        Self {
            edge: none(),
            recovery: none(),
            fallback: none(),
            retry: none(),
            preflight: none(),
            circuit: none(),
            commit: none(),
            attempt: none(),
            observe: none(),
        }
    }
}

impl Default for Onion {
    fn default() -> Self {
        Self::new()
    }
}

/// The layers of [`Onion::standard`].
#[cfg(all(
    feature = "circuit",
    feature = "edge",
    feature = "fallback",
    feature = "retry",
    feature = "stream",
    feature = "deadline"
))]
pub type Standard = Onion<
    stanchion_edge::EdgeLayer,
    Identity,
    stanchion_fallback::FallbackLayer,
    stanchion_retry::RetryLayer,
    stanchion_circuit::CircuitPreflightLayer,
    stanchion_circuit::CircuitLayer,
    stanchion_stream::CommitLayer,
    stanchion_deadline::AttemptLayer,
    stanchion_stream::ObserveLayer,
>;

#[cfg(all(
    feature = "circuit",
    feature = "edge",
    feature = "fallback",
    feature = "retry",
    feature = "stream",
    feature = "deadline"
))]
impl Onion {
    /// The layers with their default settings. [Recovery](Onion::recovery) is left out: it lets a caller wait for many minutes, which has to be
    /// wanted.
    pub fn standard(candidates: stanchion_core::Candidates) -> Standard {
        let circuit = stanchion_circuit::CircuitLayer::default().with_candidates(candidates.clone());
        Self::new()
            .edge(stanchion_edge::EdgeLayer::new())
            .fallback(stanchion_fallback::FallbackLayer::new(candidates))
            .retry(stanchion_retry::RetryLayer::default())
            .circuit(circuit)
            .commit(stanchion_stream::CommitLayer::new())
            .attempt(stanchion_deadline::AttemptLayer::default())
            .observe(stanchion_stream::ObserveLayer::new())
    }
}

impl<E, V, F, R, P, I, C, A, O> Onion<E, V, F, R, P, I, C, A, O> {
    /// Sets the outermost layer. See [`edge`](crate::edge).
    #[cfg(feature = "edge")]
    pub fn edge(self, edge: stanchion_edge::EdgeLayer) -> Onion<stanchion_edge::EdgeLayer, V, F, R, P, I, C, A, O> {
        let Self { recovery, fallback, retry, preflight, circuit, commit, attempt, observe, .. } = self;
        Onion { edge, recovery, fallback, retry, preflight, circuit, commit, attempt, observe }
    }

    /// Sets the deadline of a whole recovery. See [`deadline`](crate::deadline).
    #[cfg(feature = "deadline")]
    pub fn recovery(
        self,
        recovery: stanchion_deadline::RecoveryLayer,
    ) -> Onion<E, stanchion_deadline::RecoveryLayer, F, R, P, I, C, A, O> {
        let Self { edge, fallback, retry, preflight, circuit, commit, attempt, observe, .. } = self;
        Onion { edge, recovery, fallback, retry, preflight, circuit, commit, attempt, observe }
    }

    /// Sets the layer that tries candidates in order. See [`fallback`](crate::fallback).
    #[cfg(feature = "fallback")]
    pub fn fallback(
        self,
        fallback: stanchion_fallback::FallbackLayer,
    ) -> Onion<E, V, stanchion_fallback::FallbackLayer, R, P, I, C, A, O> {
        let Self { edge, recovery, retry, preflight, circuit, commit, attempt, observe, .. } = self;
        Onion { edge, recovery, fallback, retry, preflight, circuit, commit, attempt, observe }
    }

    /// Sets the layer that replays zero-output failures. See [`retry`](crate::retry).
    #[cfg(feature = "retry")]
    pub fn retry(
        self,
        retry: stanchion_retry::RetryLayer,
    ) -> Onion<E, V, F, stanchion_retry::RetryLayer, P, I, C, A, O> {
        let Self { edge, recovery, fallback, preflight, circuit, commit, attempt, observe, .. } = self;
        Onion { edge, recovery, fallback, retry, preflight, circuit, commit, attempt, observe }
    }

    /// Sets the circuits, both where they turn requests away before they queue, and where they let them through. See
    /// [`circuit`](crate::circuit).
    #[cfg(feature = "circuit")]
    pub fn circuit(
        self,
        circuit: stanchion_circuit::CircuitLayer,
    ) -> Onion<E, V, F, R, stanchion_circuit::CircuitPreflightLayer, stanchion_circuit::CircuitLayer, C, A, O> {
        let Self { edge, recovery, fallback, retry, commit, attempt, observe, .. } = self;
        let preflight = circuit.preflight();
        Onion { edge, recovery, fallback, retry, preflight, circuit, commit, attempt, observe }
    }

    /// Sets the layer that holds a reply back until its first real output. See [`stream`](crate::stream).
    #[cfg(feature = "stream")]
    pub fn commit(
        self,
        commit: stanchion_stream::CommitLayer,
    ) -> Onion<E, V, F, R, P, I, stanchion_stream::CommitLayer, A, O> {
        let Self { edge, recovery, fallback, retry, preflight, circuit, attempt, observe, .. } = self;
        Onion { edge, recovery, fallback, retry, preflight, circuit, commit, attempt, observe }
    }

    /// Sets the clocks of one attempt. See [`deadline`](crate::deadline).
    #[cfg(feature = "deadline")]
    pub fn attempt(
        self,
        attempt: stanchion_deadline::AttemptLayer,
    ) -> Onion<E, V, F, R, P, I, C, stanchion_deadline::AttemptLayer, O> {
        let Self { edge, recovery, fallback, retry, preflight, circuit, commit, observe, .. } = self;
        Onion { edge, recovery, fallback, retry, preflight, circuit, commit, attempt, observe }
    }

    /// Sets the layer that reads the stream as it passes. See [`stream`](crate::stream).
    #[cfg(feature = "stream")]
    pub fn observe(
        self,
        observe: stanchion_stream::ObserveLayer,
    ) -> Onion<E, V, F, R, P, I, C, A, stanchion_stream::ObserveLayer> {
        let Self { edge, recovery, fallback, retry, preflight, circuit, commit, attempt, .. } = self;
        Onion { edge, recovery, fallback, retry, preflight, circuit, commit, attempt, observe }
    }

    /// Stacks the layers over a service.
    pub fn service<S>(&self, service: S) -> <Self as Layer<S>>::Service
    where
        Self: Layer<S>,
    {
        self.layer(service)
    }
}

impl<S, E, V, F, R, P, I, C, A, O> Layer<S> for Onion<E, V, F, R, P, I, C, A, O>
where
    O: Layer<S>,
    A: Layer<O::Service>,
    C: Layer<A::Service>,
    I: Layer<C::Service>,
    P: Layer<I::Service>,
    R: Layer<P::Service>,
    F: Layer<R::Service>,
    V: Layer<F::Service>,
    E: Layer<V::Service>,
{
    type Service = E::Service;

    fn layer(&self, inner: S) -> Self::Service {
        let observed = self.observe.layer(inner);
        let timed = self.attempt.layer(observed);
        let committed = self.commit.layer(timed);
        let guarded = self.circuit.layer(committed);
        let admitted = self.preflight.layer(guarded);
        let retried = self.retry.layer(admitted);
        let candidates = self.fallback.layer(retried);
        let bounded = self.recovery.layer(candidates);
        self.edge.layer(bounded)
    }
}
