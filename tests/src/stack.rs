//! All layers over a provider, and what a client of them saw.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Request, Response, response::Parts};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use stanchion::{
    Onion,
    admission::{Admission, AdmissionLayer, AdmissionPolicy, AdmissionScheduler},
    circuit::{Circuit, CircuitLayer, CircuitPolicy, CircuitPreflight, CircuitPreflightLayer, CircuitRegistry},
    core::{
        Call, Candidate, Candidates, Context, Dialect, DispositionRules, Failure, FailureKind, RecoveryBudget,
        StreamRecord, Usage,
    },
    credentials::{CredentialPools, Credentials, CredentialsLayer},
    deadline::{Attempt, AttemptLayer, AttemptLimits, Recovery, RecoveryLayer, RecoveryLimits},
    edge::{Edge, EdgeLayer},
    fallback::{Fallback, FallbackLayer, OnOverflow},
    retry::{Retry, RetryLayer, RetryPolicy},
    stream::{Commit, CommitLayer, Observe, ObserveLayer},
    upstream::Upstream,
};
use stanchion_testkit::Events;
use tokio::time::Instant;
use tower::{Service, ServiceExt, layer::util::Identity};

use crate::provider::Provider;

/// The layers inside the edge, over a transport.
pub type Inner<T> = Recovery<Fallback<Retry<Credentials<CircuitPreflight<Admission<Guarded<T>>>>>>>;

type Guarded<T> = Circuit<Commit<Attempt<Observe<Upstream<T>>>>>;

type All = Onion<
    EdgeLayer,
    Identity,
    Identity,
    Identity,
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

/// Settings of all layers. The rest is as by default, but for the jitter: a backoff is as long as it can be.
#[derive(Debug, Clone)]
pub struct Stack {
    dialect: Dialect,
    stream: bool,
    array: bool,
    candidates: Vec<Candidate>,
    recovery: RecoveryLimits,
    retry: RetryPolicy,
    circuit: CircuitPolicy,
    registry: Option<CircuitRegistry>,
    admission: AdmissionLayer,
    limits: AttemptLimits,
    rules: DispositionRules,
    on_overflow: OnOverflow,
    keys: CredentialPools,
    prompt: String,
    observe: ObserveLayer,
    seed: Option<u64>,
}

/// What came of one request.
#[derive(Debug)]
pub struct Outcome {
    /// The head, if one came.
    pub head: Option<Parts>,
    /// The pieces of the body, each with the time since the request.
    pub pieces: Vec<(Duration, Bytes)>,
    /// The failure, instead of a head or at the end of the body.
    pub failure: Option<Failure>,
    /// How long it all took.
    pub took: Duration,
    /// The events of the request, in short, as [`Events`] shows them.
    pub events: Vec<String>,
    /// The same, each after its milliseconds since the request.
    pub timed_events: Vec<String>,
}

impl Stack {
    /// For clients that speak `dialect`, with the provider's candidates in the order of their names.
    pub fn new(dialect: Dialect, provider: &Provider) -> Self {
        Self::of(dialect, provider.names().map(|name| candidate(dialect, name, &format!("http://{name}.test"))))
    }

    /// For clients that speak `dialect`, with candidates of another provider.
    pub fn of(dialect: Dialect, candidates: impl IntoIterator<Item = Candidate>) -> Self {
        Self {
            dialect,
            stream: true,
            array: false,
            candidates: candidates.into_iter().collect(),
            recovery: no_recovery(),
            retry: RetryPolicy::default(),
            circuit: CircuitPolicy::default(),
            registry: None,
            admission: AdmissionLayer::default(),
            limits: AttemptLimits::default(),
            rules: DispositionRules::default(),
            on_overflow: OnOverflow::default(),
            keys: CredentialPools::default(),
            prompt: "Hello?".to_owned(),
            observe: ObserveLayer::new(),
            seed: None,
        }
    }

    /// For chat clients.
    pub fn chat(provider: &Provider) -> Self {
        Self::new(Dialect::OpenAiChat, provider)
    }

    /// Its clients want whole documents.
    #[must_use]
    pub fn whole(mut self) -> Self {
        self.stream = false;
        self
    }

    /// Its Gemini clients want streams as one growing array, instead of events.
    #[must_use]
    pub fn array(mut self) -> Self {
        self.array = true;
        self
    }

    /// Retries otherwise.
    #[must_use]
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// Retries at most so often.
    #[must_use]
    pub fn max_retries(self, max: u32) -> Self {
        self.retry(RetryPolicy::builder().max_retries(max).build().expect("within the ranges"))
    }

    /// Recovers within a budget, in seconds.
    #[must_use]
    pub fn recovery(self, budget: u64) -> Self {
        self.recovers(budget, RecoveryBudget::DEFAULT_ATTEMPTS)
    }

    /// Recovers within a budget, in seconds, with so many attempts after the first.
    #[must_use]
    pub fn recovers(mut self, budget: u64, attempts: u32) -> Self {
        let limits = RecoveryLimits::builder().budget(Duration::from_secs(budget)).attempts(attempts);
        self.recovery = limits.build().expect("within the range");
        self
    }

    /// Has circuits under another policy.
    #[must_use]
    pub fn circuit(mut self, policy: CircuitPolicy) -> Self {
        self.circuit = policy;
        self
    }

    /// Has no circuits.
    #[must_use]
    pub fn without_circuits(self) -> Self {
        self.circuit(CircuitPolicy::builder().open(Duration::ZERO).build().expect("zero is off"))
    }

    /// Keeps its circuits from one request to the next.
    #[must_use]
    pub fn registry(mut self, registry: &CircuitRegistry) -> Self {
        self.registry = Some(registry.clone());
        self
    }

    /// Lets so many requests in at once. Clones of the stack share the queue.
    #[must_use]
    pub fn concurrency(self, requests: u32) -> Self {
        let policy = AdmissionPolicy::builder().concurrency(requests).build().expect("within the range");
        self.admission(AdmissionLayer::new(AdmissionScheduler::new(), policy))
    }

    /// Has its requests queue elsewhere.
    #[must_use]
    pub fn admission(mut self, admission: AdmissionLayer) -> Self {
        self.admission = admission;
        self
    }

    /// Queues where another stack's requests do.
    #[must_use]
    pub fn queued_with(mut self, other: &Self) -> Self {
        self.admission = other.admission.clone();
        self
    }

    /// Has other clocks: first output, idle and total, in seconds. Zero is none.
    #[must_use]
    pub fn limits(mut self, first_output: u64, idle: u64, total: u64) -> Self {
        let seconds = Duration::from_secs;
        let limits = AttemptLimits::builder().first_output(seconds(first_output)).idle(seconds(idle));
        self.limits = limits.total(seconds(total)).build().expect("no limit is above the total");
        self
    }

    /// Falls back by other rules.
    #[must_use]
    pub fn rules(mut self, rules: DispositionRules) -> Self {
        self.rules = rules;
        self
    }

    /// Sends what is too long for a candidate on to a larger window.
    #[must_use]
    pub fn to_larger_windows(mut self) -> Self {
        self.on_overflow = OnOverflow::LargerWindow;
        self
    }

    /// Has several keys of its providers, and keeps from one request to the next how they stand.
    #[must_use]
    pub fn keys(mut self, keys: &CredentialPools) -> Self {
        self.keys = keys.clone();
        self
    }

    /// Reads replies otherwise.
    #[must_use]
    pub fn observe(mut self, observe: ObserveLayer) -> Self {
        self.observe = observe;
        self
    }

    /// Spreads its backoffs by this seed.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    fn onion(&self) -> All {
        let candidates = Candidates::new(self.candidates.iter().cloned());
        let retry = RetryLayer::new(self.retry.clone());
        let retry = match self.seed {
            Some(seed) => retry.with_seed(seed),
            None => retry.with_random(|| 1.0),
        };
        let registry = self.registry.clone().unwrap_or_default();
        let circuit = CircuitLayer::new(registry, self.circuit.clone()).with_candidates(self.keys.expand(&candidates));
        Onion::new()
            .edge(EdgeLayer::new().rules(self.rules))
            .recovery(RecoveryLayer::new(self.recovery))
            .fallback(FallbackLayer::new(candidates).with_rules(self.rules).with_overflow(self.on_overflow))
            .retry(retry)
            .credentials(CredentialsLayer::new(self.keys.clone()))
            .circuit(circuit)
            .admission(self.admission.clone())
            .commit(CommitLayer::new())
            .attempt(AttemptLayer::new(self.limits))
            .observe(self.observe)
    }

    /// Where its requests queue.
    pub fn queue(&self) -> &AdmissionLayer {
        &self.admission
    }

    /// Its candidates, in order.
    pub fn candidates(&self) -> Vec<Candidate> {
        self.candidates.clone()
    }

    /// All layers over a transport.
    pub fn service<T: Clone>(&self, transport: T) -> Edge<Inner<T>> {
        self.onion().service(Upstream::new(transport))
    }

    /// Its clients ask this, which holds nothing that JSON escapes.
    #[must_use]
    pub fn prompt(self, prompt: impl Into<String>) -> Self {
        Self { prompt: prompt.into(), ..self }
    }

    /// A request such as the clients of this stack make.
    pub fn request(&self, context: Context) -> Request<Full<Bytes>> {
        let (stream, prompt) = (self.stream, &self.prompt);
        let messages = format!(r#"[{{"role":"user","content":"{prompt}"}}]"#);
        let (path, body) = match self.dialect {
            Dialect::OpenAiChat => ("/v1/chat/completions", format!(r#""messages":{messages}"#)),
            Dialect::OpenAiResponses => ("/v1/responses", format!(r#""input":"{prompt}""#)),
            Dialect::AnthropicMessages => ("/v1/messages", format!(r#""max_tokens":9,"messages":{messages}"#)),
            Dialect::Ollama => ("/api/chat", format!(r#""messages":{messages}"#)),
            Dialect::GeminiGenerateContent => (self.gemini_path(), r#""contents":[]"#.to_owned()),
            other => panic!("no client of these tests speaks {other}"),
        };
        let body = format!(r#"{{"model":"any","stream":{stream},{body}}}"#);
        let request = Request::post(path).header("content-type", "application/json").extension(context);
        let request =
            request.extension(Call::new(self.dialect, stream).with_model("any").with_tokens(prompt.len() / 4));
        request.body(Full::from(body)).expect("a request")
    }

    fn gemini_path(&self) -> &'static str {
        match (self.stream, self.array) {
            (true, false) => "/v1beta/models/any:streamGenerateContent?alt=sse",
            (true, true) => "/v1beta/models/any:streamGenerateContent",
            (false, _) => "/v1beta/models/any:generateContent",
        }
    }

    /// Asks as a client of the edge does.
    pub async fn ask(&self, provider: &Provider) -> Outcome {
        let events = Events::new();
        Outcome::of(self.service(provider.clone()), self.request(events.context()), &events).await
    }

    /// Asks the layers inside the edge, as a service that embeds them does: failures come as they are.
    pub async fn ask_inner(&self, provider: &Provider) -> Outcome {
        self.ask_inner_in(provider, Events::context_builder).await
    }

    /// The same in a context of the test's own.
    pub async fn ask_inner_in(
        &self,
        provider: &Provider,
        context: impl FnOnce(&Events) -> stanchion::core::ContextBuilder,
    ) -> Outcome {
        let events = Events::new();
        let request = self.request(context(&events).build());
        Outcome::of(self.service(provider.clone()).into_inner(), request, &events).await
    }
}

/// No request gets a budget of its own.
fn no_recovery() -> RecoveryLimits {
    RecoveryLimits::builder().budget(Duration::ZERO).build().expect("zero is off")
}

/// A candidate at `base`, named after its provider, with the model `m`.
pub fn candidate(dialect: Dialect, provider: &str, base: &str) -> Candidate {
    let version = if dialect.family() == stanchion::core::Family::OpenAi { "/v1" } else { "" };
    Candidate::new(provider, dialect.family(), format!("{base}{version}")).with_model("m")
}

impl Outcome {
    /// Asks a service, and reads the reply to its end.
    pub async fn of<S, B>(service: S, request: Request<Full<Bytes>>, events: &Events) -> Self
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>>,
        S::Error: Into<Failure>,
        B: Body<Data = Bytes>,
        B::Error: Into<Failure>,
    {
        let began = Instant::now();
        let mut outcome = Self {
            head: None,
            pieces: Vec::new(),
            failure: None,
            took: Duration::ZERO,
            events: Vec::new(),
            timed_events: Vec::new(),
        };
        match service.oneshot(request).await {
            Err(error) => outcome.failure = Some(error.into()),
            Ok(response) => {
                let (head, body) = response.into_parts();
                outcome.head = Some(head);
                let mut body = std::pin::pin!(body);
                while let Some(frame) = body.frame().await {
                    match frame {
                        Ok(frame) => {
                            outcome.pieces.extend(frame.into_data().ok().map(|data| (began.elapsed(), data)));
                        }
                        Err(error) => outcome.failure = Some(error.into()),
                    }
                }
            }
        }
        outcome.took = began.elapsed();
        outcome.events = events.lines();
        outcome.timed_events = events.timed_lines();
        outcome
    }

    /// The status.
    pub fn status(&self) -> Option<u16> {
        self.head.as_ref().map(|head| head.status.as_u16())
    }

    /// A header field of the reply, as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.as_ref()?.headers.get(name)?.to_str().ok()
    }

    /// The whole body.
    pub fn bytes(&self) -> Bytes {
        let mut all = BytesMut::new();
        self.pieces.iter().for_each(|(_, piece)| all.extend_from_slice(piece));
        all.freeze()
    }

    /// The whole body as text, for messages and searches.
    pub fn body(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }

    /// What kind of failure it ended in.
    pub fn kind(&self) -> Option<FailureKind> {
        self.failure.as_ref().map(Failure::kind)
    }

    /// What was noted of the stream.
    pub fn record(&self) -> Option<&StreamRecord> {
        self.head.as_ref()?.extensions.get()
    }

    /// The usage that was noted.
    pub fn usage(&self) -> Usage {
        self.record().map(StreamRecord::usage).unwrap_or_default()
    }
}
