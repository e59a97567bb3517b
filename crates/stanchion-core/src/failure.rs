use std::{error::Error, fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use crate::{FailureKind, OpenCircuit, Phase, PoolState, RetryHint};

/// An error of any kind, as foreign tower layers pass it.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// A provider's own reply to a failed request, so that a caller's mistake can be given back verbatim.
#[derive(Clone)]
pub struct ProviderReply {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body, at most [`ProviderReply::MAX_BODY`] bytes of it.
    pub body: Bytes,
    /// Whether the body is whole.
    pub complete: bool,
}

impl ProviderReply {
    /// How much of a body is kept: 64 KiB.
    pub const MAX_BODY: usize = 64 * 1024;
}

impl fmt::Debug for ProviderReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderReply")
            .field("status", &self.status)
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// The error of every layer.
///
/// One pointer wide. `Display` is one line: what happened, to which candidate, after how many attempts, and what to do. Neither `Display` nor
/// `Debug` shows the provider's words, which may quote the prompt: those are for the client alone, through [`Failure::message`] and
/// [`Failure::reply`].
pub struct Failure(Box<Inner>);

struct Inner {
    kind: FailureKind,
    phase: Phase,
    status: Option<StatusCode>,
    code: Option<Box<str>>,
    message: Option<Box<str>>,
    request_id: Option<Box<str>>,
    hint: Option<RetryHint>,
    should_retry: Option<bool>,
    limit: Option<Duration>,
    candidate: Option<Arc<str>>,
    attempts: u32,
    reply: Option<ProviderReply>,
    circuit: Option<Arc<OpenCircuit>>,
    pool: Option<PoolState>,
    source: Option<BoxError>,
}

impl Failure {
    /// A failure before the response head, with nothing else known.
    pub fn new(kind: FailureKind) -> Self {
        Self(Box::new(Inner {
            kind,
            phase: Phase::Head,
            status: None,
            code: None,
            message: None,
            request_id: None,
            hint: None,
            should_retry: None,
            limit: None,
            candidate: None,
            attempts: 0,
            reply: None,
            circuit: None,
            pool: None,
            source: None,
        }))
    }

    /// Sets the kind.
    #[must_use]
    pub fn with_kind(mut self, kind: FailureKind) -> Self {
        self.0.kind = kind;
        self
    }

    /// Sets how far the exchange had come.
    #[must_use]
    pub fn with_phase(mut self, phase: Phase) -> Self {
        self.0.phase = phase;
        self
    }

    /// Sets the provider's status.
    #[must_use]
    pub fn with_status(mut self, status: StatusCode) -> Self {
        self.0.status = Some(status);
        self
    }

    /// Sets the provider's error code. What does not look like a code (more than 64 bytes, or other characters than
    /// letters, digits, `_`, `-`, `.`) is not kept: it is shown in logs.
    #[must_use]
    pub fn with_code(mut self, code: &str) -> Self {
        let plausible = !code.is_empty()
            && code.len() <= 64
            && code.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'));
        self.0.code = plausible.then(|| code.into());
        self
    }

    /// Sets the provider's own words, for the client only.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<Box<str>>) -> Self {
        self.0.message = Some(message.into());
        self
    }

    /// Sets the provider's request id. What does not look like one is not kept.
    #[must_use]
    pub fn with_request_id(mut self, id: &str) -> Self {
        let plausible = !id.is_empty() && id.len() <= 128 && id.bytes().all(|byte| byte.is_ascii_graphic());
        self.0.request_id = plausible.then(|| id.into());
        self
    }

    /// Sets how long the provider asks us to wait.
    #[must_use]
    pub fn with_hint(mut self, hint: Option<RetryHint>) -> Self {
        self.0.hint = hint;
        self
    }

    /// Sets what the provider's `x-should-retry` header said.
    #[must_use]
    pub fn with_should_retry(mut self, should_retry: Option<bool>) -> Self {
        self.0.should_retry = should_retry;
        self
    }

    /// Sets the limit of ours that was exceeded.
    #[must_use]
    pub fn with_limit(mut self, limit: Duration) -> Self {
        self.0.limit = Some(limit);
        self
    }

    /// Sets the candidate that failed.
    #[must_use]
    pub fn with_candidate(mut self, candidate: impl Into<Arc<str>>) -> Self {
        self.0.candidate = Some(candidate.into());
        self
    }

    /// Sets how many attempts were made in all.
    #[must_use]
    pub fn with_attempts(mut self, attempts: u32) -> Self {
        self.0.attempts = attempts;
        self
    }

    /// Keeps the provider's own reply.
    #[must_use]
    pub fn with_reply(mut self, reply: ProviderReply) -> Self {
        self.0.status = Some(reply.status);
        self.0.reply = Some(reply);
        self
    }

    /// Sets the circuit that turned the request away, or that this failure opened.
    #[must_use]
    pub fn with_circuit(mut self, circuit: Arc<OpenCircuit>) -> Self {
        self.0.circuit = Some(circuit);
        self
    }

    /// Says that this is the failure of one credential, and that another is ready: the table has it asked at once.
    ///
    /// What was said about the credential that is left, the provider's [hint](Self::hint) and its
    /// [circuit](Self::circuit), concerns nobody any more, and goes.
    #[must_use]
    pub fn with_another_credential(mut self) -> Self {
        self.0.pool = Some(PoolState::AnotherReady);
        self.0.hint = None;
        self.0.circuit = None;
        self
    }

    /// Says that no credential was ready, and that the provider was not asked therefore. The kind is that of what the
    /// credentials suffer from, and the hint says when the first will be ready.
    #[must_use]
    pub fn with_no_credential(mut self) -> Self {
        self.0.pool = Some(PoolState::NoneReady);
        self
    }

    /// Keeps the error underneath.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<BoxError>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// What went wrong.
    pub fn kind(&self) -> FailureKind {
        self.0.kind
    }

    /// How far the exchange had come.
    pub fn phase(&self) -> Phase {
        self.0.phase
    }

    /// The provider's status, if it answered.
    pub fn status(&self) -> Option<StatusCode> {
        self.0.status
    }

    /// The provider's error code.
    pub fn code(&self) -> Option<&str> {
        self.0.code.as_deref()
    }

    /// The provider's own words. May quote the prompt: for the client only, never for a log.
    pub fn message(&self) -> Option<&str> {
        self.0.message.as_deref()
    }

    /// The provider's request id.
    pub fn request_id(&self) -> Option<&str> {
        self.0.request_id.as_deref()
    }

    /// How long the provider asks us to wait.
    pub fn hint(&self) -> Option<RetryHint> {
        self.0.hint
    }

    /// What the provider's `x-should-retry` header said.
    pub fn should_retry(&self) -> Option<bool> {
        self.0.should_retry
    }

    /// The limit of ours that was exceeded.
    pub fn limit(&self) -> Option<Duration> {
        self.0.limit
    }

    /// The candidate that failed, as `provider/model`.
    pub fn candidate(&self) -> Option<&Arc<str>> {
        self.0.candidate.as_ref()
    }

    /// How many attempts were made in all; 0 if nobody counted.
    pub fn attempts(&self) -> u32 {
        self.0.attempts
    }

    /// The provider's own reply. May quote the prompt: for the client only.
    pub fn reply(&self) -> Option<&ProviderReply> {
        self.0.reply.as_ref()
    }

    /// The circuit that turned the request away, or that this failure opened.
    pub fn circuit(&self) -> Option<&Arc<OpenCircuit>> {
        self.0.circuit.as_ref()
    }

    /// How the pool of credentials stands, where the failure is theirs.
    pub fn pool(&self) -> Option<PoolState> {
        self.0.pool
    }

    /// Whether the provider refused the request as invalid without a word: a 400 or 422 with an empty body. Some
    /// servers say so to an output limit that they do not know, others to a prompt that is too long.
    pub fn is_opaque_rejection(&self) -> bool {
        self.kind() == FailureKind::InvalidRequest
            && self.should_retry() != Some(false)
            && matches!(self.status(), Some(StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY))
            && self.reply().is_some_and(|reply| reply.complete && reply.body.trim_ascii().is_empty())
    }

    /// The failure inside a boxed error, at any depth of its sources, or an unknown failure around it.
    pub fn from_error(error: BoxError) -> Self {
        let error = match error.downcast::<Self>() {
            Ok(failure) => return *failure,
            Err(error) => error,
        };
        let mut source = error.source();
        while let Some(inner) = source {
            if let Some(failure) = inner.downcast_ref::<Self>() {
                return failure.outline().with_source(error);
            }
            source = inner.source();
        }
        Self::new(FailureKind::Unknown).with_source(error)
    }

    /// A copy of everything but the error underneath, which cannot be copied.
    #[must_use]
    pub fn outline(&self) -> Self {
        let inner = &self.0;
        Self(Box::new(Inner {
            kind: inner.kind,
            phase: inner.phase,
            status: inner.status,
            code: inner.code.clone(),
            message: inner.message.clone(),
            request_id: inner.request_id.clone(),
            hint: inner.hint,
            should_retry: inner.should_retry,
            limit: inner.limit,
            candidate: inner.candidate.clone(),
            attempts: inner.attempts,
            reply: inner.reply.clone(),
            circuit: inner.circuit.clone(),
            pool: inner.pool,
            source: None,
        }))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &self.0;
        if let Some(candidate) = &inner.candidate {
            write!(f, "{candidate}: ")?;
        }
        f.write_str(inner.kind.summary())?;
        if let Some(limit) = inner.limit {
            write!(f, " of {limit:?}")?;
        }
        let mut separator = " (";
        if let Some(status) = inner.status {
            write!(f, "{separator}HTTP {}", status.as_u16())?;
            separator = ", ";
        }
        if let Some(code) = &inner.code {
            write!(f, "{separator}code {code}")?;
            separator = ", ";
        }
        if let Some(id) = &inner.request_id {
            write!(f, "{separator}request {id}")?;
            separator = ", ";
        }
        if separator == ", " {
            f.write_str(")")?;
        }
        write!(f, ", {}", inner.phase.as_str())?;
        match inner.attempts {
            0 => {}
            1 => f.write_str(", after 1 attempt")?,
            attempts => write!(f, ", after {attempts} attempts")?,
        }
        write!(f, "; {}", inner.kind.advice())?;
        if let Some(hint) = inner.hint {
            write!(f, " (the provider asks for {:?})", hint.delay())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failure")
            .field("kind", &self.0.kind)
            .field("phase", &self.0.phase)
            .field("status", &self.0.status)
            .field("code", &self.0.code)
            .field("candidate", &self.0.candidate)
            .field("attempts", &self.0.attempts)
            .finish_non_exhaustive()
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

impl From<BoxError> for Failure {
    fn from(error: BoxError) -> Self {
        Self::from_error(error)
    }
}

impl From<std::convert::Infallible> for Failure {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HintSource;

    #[test]
    fn a_failure_is_one_pointer_wide() {
        assert_eq!(size_of::<Failure>(), size_of::<usize>());
        assert_eq!(size_of::<Option<Failure>>(), size_of::<usize>());
    }

    #[test]
    fn display_tells_what_where_how_often_and_what_to_do() {
        let failure = Failure::new(FailureKind::RateLimited)
            .with_phase(Phase::BeforeOutput)
            .with_status(StatusCode::TOO_MANY_REQUESTS)
            .with_code("rate_limit_exceeded")
            .with_request_id("req_1")
            .with_candidate("primary/gpt-x")
            .with_attempts(3)
            .with_hint(Some(RetryHint::new(Duration::from_secs(20), HintSource::RetryAfter)));
        assert_eq!(
            failure.to_string(),
            "primary/gpt-x: the provider limits the rate (HTTP 429, code rate_limit_exceeded, request req_1), before output, after 3 attempts; \
             slow down (the provider asks for 20s)"
        );
        assert_eq!(
            Failure::new(FailureKind::Connect).with_phase(Phase::Connect).with_attempts(1).to_string(),
            "no connection to the provider, while connecting, after 1 attempt; check the provider's base URL and the network"
        );
    }

    #[test]
    fn neither_display_nor_debug_shows_the_providers_words() {
        let failure = Failure::new(FailureKind::InvalidRequest)
            .with_message("your prompt 'my diary' is odd")
            .with_code("a code with spaces quoting my diary")
            .with_request_id("my diary")
            .with_reply(ProviderReply {
                status: StatusCode::BAD_REQUEST,
                headers: HeaderMap::new(),
                body: Bytes::from_static(b"my diary"),
                complete: true,
            });
        let shown = format!("{failure} {failure:?} {:?}", failure.reply());
        assert!(!shown.contains("diary"), "{shown}");
        assert_eq!(failure.message(), Some("your prompt 'my diary' is odd"));
    }

    #[test]
    fn where_another_credential_is_ready_nobody_waits_for_the_one_that_failed() {
        let hint = RetryHint::new(Duration::from_secs(20), HintSource::RetryAfter);
        let failure = Failure::new(FailureKind::RateLimited).with_hint(Some(hint));
        assert_eq!(failure.pool(), None);
        let another = failure.outline().with_another_credential();
        assert_eq!((another.pool(), another.hint()), (Some(PoolState::AnotherReady), None));
        assert_eq!(another.outline().pool(), Some(PoolState::AnotherReady));
        let none = failure.with_no_credential();
        assert_eq!((none.pool(), none.hint()), (Some(PoolState::NoneReady), Some(hint)));
    }

    #[test]
    fn a_failure_is_found_inside_foreign_errors() {
        #[derive(Debug)]
        struct Wrapper(BoxError);
        impl fmt::Display for Wrapper {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("wrapped")
            }
        }
        impl Error for Wrapper {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                Some(&*self.0)
            }
        }

        let direct: BoxError = Box::new(Failure::new(FailureKind::Overloaded));
        assert_eq!(Failure::from(direct).kind(), FailureKind::Overloaded);

        let nested: BoxError =
            Box::new(Wrapper(Box::new(Wrapper(Box::new(Failure::new(FailureKind::Truncated).with_attempts(2))))));
        let found = Failure::from(nested);
        assert_eq!((found.kind(), found.attempts()), (FailureKind::Truncated, 2));

        assert_eq!(Failure::from(BoxError::from("boom")).kind(), FailureKind::Unknown);
    }
}
