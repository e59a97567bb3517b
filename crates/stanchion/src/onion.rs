use tower_layer::{Identity, Layer};

/// Stacks layers in the documented order, whatever the order in which they are given. Parts may be left out.
///
/// Outermost first: edge, telemetry, cache break, usage, recovery, fallback, retry, credentials, circuit (before the queue), admission, circuit
/// (after it), commit, attempt, observe. The result is a concrete type: nothing is boxed.
///
/// Why this order: telemetry sees what everything within tells of a request, and how it ended; what a reply used and whether its prompt cache broke is told once for a request, whoever answered it; a recovery's
/// deadline cuts everything that its candidates wait for; a fallback gives each candidate its own retries; a retry sees only failures
/// before output, because commit stands within it, and may take another key each time; a circuit is that of a key's own account, and
/// stands within retry so that nothing is held while it is waited for; a queue stands within retry so that a backoff holds no permit,
/// and within the first look at the circuit so that a dead provider does not fill it; the circuit is looked at again after the queue,
/// and outside of commit so that the first output is what counts as success; the clocks of an attempt stand within commit, so that
/// holding back is bounded by them; observe reads what everything else judges by.
#[derive(Debug, Clone)]
pub struct Onion<
    Edge = Identity,
    Telemetry = Identity,
    CacheBreak = Identity,
    Usage = Identity,
    Recovery = Identity,
    Fallback = Identity,
    Retry = Identity,
    Credentials = Identity,
    Preflight = Identity,
    Admission = Identity,
    Circuit = Identity,
    Commit = Identity,
    Attempt = Identity,
    Observe = Identity,
> {
    edge: Edge,
    telemetry: Telemetry,
    cache_break: CacheBreak,
    usage: Usage,
    recovery: Recovery,
    fallback: Fallback,
    retry: Retry,
    credentials: Credentials,
    preflight: Preflight,
    admission: Admission,
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
            telemetry: none(),
            cache_break: none(),
            usage: none(),
            recovery: none(),
            fallback: none(),
            retry: none(),
            credentials: none(),
            preflight: none(),
            admission: none(),
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
    Identity,
    Identity,
    Identity,
    stanchion_fallback::FallbackLayer,
    stanchion_retry::RetryLayer,
    Identity,
    stanchion_circuit::CircuitPreflightLayer,
    Identity,
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
    /// The layers that need no settings, with their defaults. Left out are those that have to be wanted: [recovery](Onion::recovery), which
    /// lets a caller wait for many minutes, [admission](Onion::admission), [credentials](Onion::credentials) and [telemetry](Onion::telemetry),
    /// which do nothing without a limit, a key or a sink, and [usage](Onion::usage) and [cache breaks](Onion::cache_break), which read every request.
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

/// The same onion with other layers in the places after the semicolon.
#[allow(unused_macros, reason = "a build may choose no layer")]
macro_rules! with {
    ($onion:ident, $($kept:ident),+; $($new:ident),+) => {{
        let Self { $($kept,)+ .. } = $onion;
        Onion { $($kept,)+ $($new),+ }
    }};
}

#[expect(clippy::type_complexity, reason = "one parameter for each layer")]
impl<E, T, K, U, V, F, R, D, P, Q, I, C, A, O> Onion<E, T, K, U, V, F, R, D, P, Q, I, C, A, O> {
    /// Sets the outermost layer. See [`edge`](crate::edge).
    #[cfg(feature = "edge")]
    pub fn edge(
        self,
        edge: stanchion_edge::EdgeLayer,
    ) -> Onion<stanchion_edge::EdgeLayer, T, K, U, V, F, R, D, P, Q, I, C, A, O> {
        with!(self, telemetry, cache_break, usage, recovery, fallback, retry, credentials, preflight, admission, circuit, commit, attempt, observe; edge)
    }

    /// Sets the layer that tells sinks what becomes of each request. See [`telemetry`](crate::telemetry).
    #[cfg(feature = "telemetry")]
    pub fn telemetry(
        self,
        telemetry: stanchion_telemetry::TelemetryLayer,
    ) -> Onion<E, stanchion_telemetry::TelemetryLayer, K, U, V, F, R, D, P, Q, I, C, A, O> {
        with!(self, edge, cache_break, usage, recovery, fallback, retry, credentials, preflight, admission, circuit, commit, attempt, observe; telemetry)
    }

    /// Sets the layer that tells why a prompt cache broke. See [`cache_break`](crate::cache_break).
    #[cfg(feature = "cache-break")]
    pub fn cache_break(
        self,
        cache_break: stanchion_cache_break::CacheBreakLayer,
    ) -> Onion<E, T, stanchion_cache_break::CacheBreakLayer, U, V, F, R, D, P, Q, I, C, A, O> {
        with!(self, edge, telemetry, usage, recovery, fallback, retry, credentials, preflight, admission, circuit, commit, attempt, observe; cache_break)
    }

    /// Sets the layer that tells what each reply used and cost. See [`usage`](crate::usage).
    #[cfg(feature = "usage")]
    pub fn usage(
        self,
        usage: stanchion_usage::UsageLayer,
    ) -> Onion<E, T, K, stanchion_usage::UsageLayer, V, F, R, D, P, Q, I, C, A, O> {
        with!(self, edge, telemetry, cache_break, recovery, fallback, retry, credentials, preflight, admission, circuit, commit, attempt, observe; usage)
    }

    /// Sets the deadline of a whole recovery. See [`deadline`](crate::deadline).
    #[cfg(feature = "deadline")]
    pub fn recovery(
        self,
        recovery: stanchion_deadline::RecoveryLayer,
    ) -> Onion<E, T, K, U, stanchion_deadline::RecoveryLayer, F, R, D, P, Q, I, C, A, O> {
        with!(self, edge, telemetry, cache_break, usage, fallback, retry, credentials, preflight, admission, circuit, commit, attempt, observe; recovery)
    }

    /// Sets the layer that tries candidates in order. See [`fallback`](crate::fallback).
    #[cfg(feature = "fallback")]
    pub fn fallback(
        self,
        fallback: stanchion_fallback::FallbackLayer,
    ) -> Onion<E, T, K, U, V, stanchion_fallback::FallbackLayer, R, D, P, Q, I, C, A, O> {
        with!(self, edge, telemetry, cache_break, usage, recovery, retry, credentials, preflight, admission, circuit, commit, attempt, observe; fallback)
    }

    /// Sets the layer that replays zero-output failures. See [`retry`](crate::retry).
    #[cfg(feature = "retry")]
    pub fn retry(
        self,
        retry: stanchion_retry::RetryLayer,
    ) -> Onion<E, T, K, U, V, F, stanchion_retry::RetryLayer, D, P, Q, I, C, A, O> {
        with!(self, edge, telemetry, cache_break, usage, recovery, fallback, credentials, preflight, admission, circuit, commit, attempt, observe; retry)
    }

    /// Sets the layer that chooses one of a provider's keys. See [`credentials`](crate::credentials).
    #[cfg(feature = "credentials")]
    pub fn credentials(
        self,
        credentials: stanchion_credentials::CredentialsLayer,
    ) -> Onion<E, T, K, U, V, F, R, stanchion_credentials::CredentialsLayer, P, Q, I, C, A, O> {
        with!(self, edge, telemetry, cache_break, usage, recovery, fallback, retry, preflight, admission, circuit, commit, attempt, observe; credentials)
    }

    /// Sets the layer where requests queue for their turn. See [`admission`](crate::admission).
    #[cfg(feature = "admission")]
    pub fn admission(
        self,
        admission: stanchion_admission::AdmissionLayer,
    ) -> Onion<E, T, K, U, V, F, R, D, P, stanchion_admission::AdmissionLayer, I, C, A, O> {
        with!(self, edge, telemetry, cache_break, usage, recovery, fallback, retry, credentials, preflight, circuit, commit, attempt, observe; admission)
    }

    /// Sets the circuits, both where they turn requests away before they queue, and where they let them through. See
    /// [`circuit`](crate::circuit).
    #[cfg(feature = "circuit")]
    pub fn circuit(
        self,
        circuit: stanchion_circuit::CircuitLayer,
    ) -> Onion<
        E,
        T,
        K,
        U,
        V,
        F,
        R,
        D,
        stanchion_circuit::CircuitPreflightLayer,
        Q,
        stanchion_circuit::CircuitLayer,
        C,
        A,
        O,
    > {
        let preflight = circuit.preflight();
        with!(self, edge, telemetry, cache_break, usage, recovery, fallback, retry, credentials, admission, commit, attempt, observe; preflight, circuit)
    }

    /// Sets the layer that holds a reply back until its first real output. See [`stream`](crate::stream).
    #[cfg(feature = "stream")]
    pub fn commit(
        self,
        commit: stanchion_stream::CommitLayer,
    ) -> Onion<E, T, K, U, V, F, R, D, P, Q, I, stanchion_stream::CommitLayer, A, O> {
        with!(self, edge, telemetry, cache_break, usage, recovery, fallback, retry, credentials, preflight, admission, circuit, attempt, observe; commit)
    }

    /// Sets the clocks of one attempt. See [`deadline`](crate::deadline).
    #[cfg(feature = "deadline")]
    pub fn attempt(
        self,
        attempt: stanchion_deadline::AttemptLayer,
    ) -> Onion<E, T, K, U, V, F, R, D, P, Q, I, C, stanchion_deadline::AttemptLayer, O> {
        with!(self, edge, telemetry, cache_break, usage, recovery, fallback, retry, credentials, preflight, admission, circuit, commit, observe; attempt)
    }

    /// Sets the layer that reads the stream as it passes. See [`stream`](crate::stream).
    #[cfg(feature = "stream")]
    pub fn observe(
        self,
        observe: stanchion_stream::ObserveLayer,
    ) -> Onion<E, T, K, U, V, F, R, D, P, Q, I, C, A, stanchion_stream::ObserveLayer> {
        with!(self, edge, telemetry, cache_break, usage, recovery, fallback, retry, credentials, preflight, admission, circuit, commit, attempt; observe)
    }

    /// Stacks the layers over a service.
    pub fn service<S>(&self, service: S) -> <Self as Layer<S>>::Service
    where
        Self: Layer<S>,
    {
        self.layer(service)
    }
}

impl<S, E, T, K, U, V, F, R, D, P, Q, I, C, A, O> Layer<S> for Onion<E, T, K, U, V, F, R, D, P, Q, I, C, A, O>
where
    O: Layer<S>,
    A: Layer<O::Service>,
    C: Layer<A::Service>,
    I: Layer<C::Service>,
    Q: Layer<I::Service>,
    P: Layer<Q::Service>,
    D: Layer<P::Service>,
    R: Layer<D::Service>,
    F: Layer<R::Service>,
    V: Layer<F::Service>,
    U: Layer<V::Service>,
    K: Layer<U::Service>,
    T: Layer<K::Service>,
    E: Layer<T::Service>,
{
    type Service = E::Service;

    fn layer(&self, inner: S) -> Self::Service {
        let observed = self.observe.layer(inner);
        let timed = self.attempt.layer(observed);
        let committed = self.commit.layer(timed);
        let guarded = self.circuit.layer(committed);
        let admitted = self.admission.layer(guarded);
        let preflighted = self.preflight.layer(admitted);
        let keyed = self.credentials.layer(preflighted);
        let retried = self.retry.layer(keyed);
        let candidates = self.fallback.layer(retried);
        let bounded = self.recovery.layer(candidates);
        let accounted = self.usage.layer(bounded);
        let watched = self.cache_break.layer(accounted);
        let told = self.telemetry.layer(watched);
        self.edge.layer(told)
    }
}
