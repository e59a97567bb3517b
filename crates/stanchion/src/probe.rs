//! Whether a candidate works: one small question, and an answer that holds no word of the provider's.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use serde::{Serialize, Serializer};
use serde_json::json;
use stanchion_core::{
    AdmissionPhase, Call, Candidate, Candidates, Context, Dialect, Event, Failure, FailureKind, Family, Observer,
    RequestClass, Selected, StreamRecord, Usage,
};
use stanchion_retry::RetryOwner;
use tokio::time::{Instant, timeout};
use tower_service::Service;

/// Asks a candidate one small question.
///
/// It goes through the layers as any request does, its circuit and its queue among them, as housekeeping of the class
/// `internal`; but it is never retried and never falls back. Temperature 0, at most 8 tokens, streamed. OpenAI's models that
/// think first take neither a temperature nor `max_tokens`: where a chat is refused as a wrong request, the question is put
/// once more in their words, with `max_completion_tokens` and no temperature but the candidate's own.
///
/// ```
/// use bytes::Bytes;
/// use http::{Request, Response};
/// use http_body_util::Full;
/// use stanchion::{Onion, core::{Candidate, Candidates, Failure, FailureKind, Family}, probe::{HealthCode, Probe}};
/// use tower::service_fn;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let candidate = Candidate::new("primary", Family::OpenAi, "https://provider.example/v1").with_model("gpt-x");
/// let provider = service_fn(|_: Request<Full<Bytes>>| async {
///     Err::<Response<Full<Bytes>>, _>(Failure::new(FailureKind::Authentication))
/// });
/// let service = Onion::new().retry(Default::default()).service(provider);
///
/// let health = Probe::new().ask(service, candidate.into()).await;
/// assert_eq!(health.code, HealthCode::Authentication);
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Probe {
    limit: Duration,
}

/// What a [`Probe`] found. Holds neither the provider's words nor its address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Health {
    /// Whether the candidate answered.
    pub ok: bool,
    /// The candidate, as `provider/model`.
    pub candidate: Arc<str>,
    /// What was spoken with it.
    pub dialect: Dialect,
    /// How long it took.
    #[serde(rename = "latency_ms", serialize_with = "milliseconds")]
    pub latency: Duration,
    /// `ok`, or why not.
    pub code: HealthCode,
    /// The same in words; always the same for one code.
    pub message: &'static str,
}

/// Why a candidate does not work. The names are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HealthCode {
    /// It works.
    Ok,
    /// It refuses the credential.
    Authentication,
    /// The credential does not permit this.
    Permission,
    /// It limits the rate, or the account's quota is exhausted.
    RateLimit,
    /// It was silent for too long.
    Timeout,
    /// No connection, or a broken one.
    Network,
    /// It does not know the model.
    ModelUnavailable,
    /// It holds even this question to be too long.
    ContextLimit,
    /// It does not take this kind of request.
    UnsupportedInput,
    /// It is overloaded, its circuit is open, its queue is full, or the probe's time was over before its turn came.
    Capacity,
    /// Anything else.
    Runtime,
}

impl HealthCode {
    /// The code of a failure.
    pub fn of(failure: &Failure) -> Self {
        use FailureKind as K;
        match failure.kind() {
            K::Authentication => Self::Authentication,
            K::PermissionDenied => Self::Permission,
            K::RateLimited | K::QuotaExhausted => Self::RateLimit,
            K::FirstOutputTimeout
            | K::IdleTimeout
            | K::TotalTimeout
            | K::GatewayTimeout
            | K::RequestTimeout
            | K::RecoveryBudget => Self::Timeout,
            K::Connect | K::Unprocessed | K::Transport | K::Truncated => Self::Network,
            K::NotFound => Self::ModelUnavailable,
            K::ContextOverflow | K::RequestTooLarge => Self::ContextLimit,
            K::InvalidRequest | K::NotSupported | K::ContentPolicy => Self::UnsupportedInput,
            K::Overloaded
            | K::CircuitOpen
            | K::QueueFull
            | K::QueueTimeout
            | K::QueueClosed
            | K::Drained
            | K::ShuttingDown => Self::Capacity,
            _ => Self::Runtime,
        }
    }

    /// The name, as it is serialised.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Authentication => "authentication",
            Self::Permission => "permission",
            Self::RateLimit => "rate_limit",
            Self::Timeout => "timeout",
            Self::Network => "network",
            Self::ModelUnavailable => "model_unavailable",
            Self::ContextLimit => "context_limit",
            Self::UnsupportedInput => "unsupported_input",
            Self::Capacity => "capacity",
            Self::Runtime => "runtime",
        }
    }

    /// What it means, in one sentence that is always the same.
    pub const fn message(self) -> &'static str {
        match self {
            Self::Ok => "the provider answers",
            Self::Authentication => "the provider refuses the credential",
            Self::Permission => "the credential does not permit this",
            Self::RateLimit => "the provider limits the rate, or the quota is exhausted",
            Self::Timeout => "the provider did not answer in time",
            Self::Network => "the provider cannot be reached",
            Self::ModelUnavailable => "the provider does not know the model",
            Self::ContextLimit => "the provider holds the request to be too long",
            Self::UnsupportedInput => "the provider does not take this kind of request",
            Self::Capacity => "the provider has no capacity at present",
            Self::Runtime => "the provider failed",
        }
    }

    /// Whether asking again later may help, without anybody changing anything.
    pub const fn is_retryable(self) -> bool {
        !matches!(
            self,
            Self::Ok | Self::Authentication | Self::Permission | Self::ContextLimit | Self::UnsupportedInput
        )
    }
}

impl Probe {
    /// How long a probe may take unless another limit is set: 20 s.
    pub const LIMIT: Duration = Duration::from_secs(20);

    /// A probe with the default limit.
    pub const fn new() -> Self {
        Self { limit: Self::LIMIT }
    }

    /// Sets how long a probe may take.
    #[must_use]
    pub const fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Asks a candidate through a service that sends requests to the candidate that they name.
    pub async fn ask<S, B>(&self, service: S, candidate: Arc<Candidate>) -> Health
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>>,
        S::Error: Into<Failure>,
        B: Body<Data = Bytes>,
        B::Error: Into<Failure>,
    {
        let began = Instant::now();
        let dialect = dialect(candidate.family());
        let turn = Arc::new(Turn::default());
        let code = match timeout(self.limit, ask(service, dialect, &candidate, &turn)).await {
            Ok(Ok(())) => HealthCode::Ok,
            Ok(Err(failure)) => HealthCode::of(&failure),
            // The provider has not heard of it yet.
            Err(_) if turn.is_awaited() => HealthCode::Capacity,
            Err(_) => HealthCode::Timeout,
        };
        Health {
            ok: code == HealthCode::Ok,
            candidate: candidate.name().clone(),
            dialect,
            latency: began.elapsed(),
            code,
            message: code.message(),
        }
    }
}

impl Default for Probe {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether the probe waits in a queue of ours.
#[derive(Default)]
struct Turn(AtomicBool);

impl Turn {
    fn is_awaited(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Observer for Turn {
    fn observe(&self, event: &Event) {
        if let Event::ProviderAdmission(event) = event {
            self.0.store(event.phase == AdmissionPhase::Queued, Ordering::Relaxed);
        }
    }
}

const fn dialect(family: Family) -> Dialect {
    match family {
        Family::Anthropic => Dialect::AnthropicMessages,
        Family::Gemini => Dialect::GeminiGenerateContent,
        Family::Ollama => Dialect::Ollama,
        _ => Dialect::OpenAiChat,
    }
}

/// How long an answer may be, at most.
const TOKENS: u32 = 8;

/// How the question is put.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Words {
    Plain,
    /// In those of models that think first.
    Thinking,
}

/// Puts the question, and where the model does not take its words, puts it in others.
async fn ask<S, B>(mut service: S, dialect: Dialect, candidate: &Candidate, turn: &Arc<Turn>) -> Result<(), Failure>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>>,
    S::Error: Into<Failure>,
    B: Body<Data = Bytes>,
    B::Error: Into<Failure>,
{
    let answered = answer(&mut service, question(dialect, Words::Plain, candidate, turn)).await;
    match answered {
        Err(failure) if failure.kind() == FailureKind::InvalidRequest && dialect == Dialect::OpenAiChat => {
            answer(&mut service, question(dialect, Words::Thinking, candidate, turn)).await
        }
        answered => answered,
    }
}

fn question(dialect: Dialect, words: Words, candidate: &Candidate, turn: &Arc<Turn>) -> Request<Full<Bytes>> {
    let model = candidate.model().map_or("default", |model| model);
    let messages = json!([{ "role": "user", "content": "Say ok." }]);
    let (path, body) = match dialect {
        Dialect::AnthropicMessages => (
            "/v1/messages".to_owned(),
            json!({ "model": model, "messages": messages, "max_tokens": TOKENS, "temperature": 0, "stream": true }),
        ),
        Dialect::GeminiGenerateContent => (
            format!("/v1beta/models/{model}:streamGenerateContent?alt=sse"),
            json!({
                "contents": [{ "role": "user", "parts": [{ "text": "Say ok." }] }],
                "generationConfig": { "maxOutputTokens": TOKENS, "temperature": 0 },
            }),
        ),
        Dialect::Ollama => (
            "/api/chat".to_owned(),
            json!({ "model": model, "messages": messages, "options": { "num_predict": TOKENS, "temperature": 0 }, "stream": true }),
        ),
        _ => (
            "/v1/chat/completions".to_owned(),
            match words {
                Words::Plain => {
                    json!({ "model": model, "messages": messages, "max_tokens": TOKENS, "temperature": 0, "stream": true })
                }
                Words::Thinking => {
                    json!({ "model": model, "messages": messages, "max_completion_tokens": TOKENS, "stream": true })
                }
            },
        ),
    };
    let session = format!("provider-health:{}", candidate.name());
    let context = Context::builder().session(session).class(RequestClass::Internal).recovery(None);
    let context = context.observer(turn.clone()).build();
    let body = body.to_string();
    let mut request = Request::new(Full::from(Bytes::from(body)));
    *request.method_mut() = http::Method::POST;
    // A model's name may hold what no path may; the layers take it from the call.
    *request.uri_mut() = path.parse().unwrap_or_default();
    request.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    let extensions = request.extensions_mut();
    extensions.insert(Call::new(dialect, true).with_model(model));
    extensions.insert(context);
    // Not retried, and nobody else is asked.
    extensions.insert(RetryOwner);
    // What a candidate sets for its requests would go over the question's own.
    let candidate = candidate.clone().with_max_output_tokens(TOKENS);
    let candidate = match words {
        Words::Plain => candidate.with_temperature(0.0),
        // Whether the model takes the candidate's own temperature is worth knowing.
        Words::Thinking => candidate,
    };
    extensions.insert(Selected::only(candidate.clone()));
    extensions.insert(Candidates::new([candidate]));
    request
}

/// Whether any sign of a model came.
async fn answer<S, B>(service: &mut S, request: Request<Full<Bytes>>) -> Result<(), Failure>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>>,
    S::Error: Into<Failure>,
    B: Body<Data = Bytes>,
    B::Error: Into<Failure>,
{
    poll_fn(|cx| service.poll_ready(cx)).await.map_err(Into::into)?;
    let response = service.call(request).await.map_err(Into::into)?;
    let (head, body) = response.into_parts();
    let record = head.extensions.get::<StreamRecord>().cloned();
    let mut body = pin!(body);
    let mut bytes = 0;
    while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        bytes += frame.map_err(Into::into)?.data_ref().map_or(0, Bytes::len);
    }
    let answered = match record {
        Some(record) => record.output_started() || record.finish().is_some() || record.usage() != Usage::default(),
        None => bytes > 0,
    };
    if head.status.is_success() && answered { Ok(()) } else { Err(Failure::new(FailureKind::EmptyReply)) }
}

fn milliseconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}
