use serde::{Serialize, Serializer};

/// What went wrong, whatever its source: a status, an in-band error, a broken transport, a limit of our own.
///
/// What each kind means for retry, fallback, circuit and the client stands in [`Disposition`](crate::Disposition).
/// Serialises as its [`code`](Self::code).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureKind {
    /// No connection: name not found, refused, TLS handshake failed, or none within the connect limit.
    Connect,
    /// The provider has proven that it did not process the request (HTTP/2 `REFUSED_STREAM`, `GOAWAY` below our stream).
    Unprocessed,
    /// The connection broke.
    Transport,
    /// The body ended cleanly without the dialect's end marker.
    Truncated,
    /// A success without content: no body, only comments, only an end marker.
    EmptyReply,
    /// A success that is no reply of a model: an HTML page, a redirect.
    NotModelReply,
    /// A success whose body cannot be read as what it claims to be.
    MalformedReply,
    /// No real output within the first-output limit.
    FirstOutputTimeout,
    /// No progress within the idle limit.
    IdleTimeout,
    /// The attempt outlived its total limit.
    TotalTimeout,
    /// The provider limits the rate of requests or tokens.
    RateLimited,
    /// The account is out of quota or money.
    QuotaExhausted,
    /// The provider has no capacity.
    Overloaded,
    /// The provider failed.
    ServerError,
    /// A gateway before the provider gave up waiting; the work may go on, and be billed.
    GatewayTimeout,
    /// The provider timed the request out (408).
    RequestTimeout,
    /// The provider reports a conflict that passes (409).
    Conflict,
    /// The provider asks for the request later (425).
    TooEarly,
    /// The credential is missing, wrong or expired.
    Authentication,
    /// The credential may not do this.
    PermissionDenied,
    /// The provider does not know the model or the path.
    NotFound,
    /// The prompt does not fit the model's context window.
    ContextOverflow,
    /// The provider's content policy refuses the request.
    ContentPolicy,
    /// The request is wrong.
    InvalidRequest,
    /// The provider does not offer what was asked (501).
    NotSupported,
    /// The request body is larger than the limit at our edge, or than the provider takes (413).
    RequestTooLarge,
    /// One event of the reply is larger than our ceiling.
    EventTooLarge,
    /// The candidate's circuit is open.
    CircuitOpen,
    /// The admission queue is full.
    QueueFull,
    /// No permit within the longest wait.
    QueueTimeout,
    /// Admission is closed: the process is about to end.
    QueueClosed,
    /// The candidate was taken out of service by hand.
    Drained,
    /// The process ends, and has waited for this request as long as it may.
    ShuttingDown,
    /// The budget of a bounded recovery is spent.
    RecoveryBudget,
    /// The caller gave up.
    Cancelled,
    /// Our own configuration does not allow the request to be sent.
    Misconfigured,
    /// A foreign layer failed in a way that tells nothing.
    Unknown,
}

impl Serialize for FailureKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.code())
    }
}

impl FailureKind {
    /// Every kind, in the order of their declaration.
    pub const ALL: [Self; 37] = [
        Self::Connect,
        Self::Unprocessed,
        Self::Transport,
        Self::Truncated,
        Self::EmptyReply,
        Self::NotModelReply,
        Self::MalformedReply,
        Self::FirstOutputTimeout,
        Self::IdleTimeout,
        Self::TotalTimeout,
        Self::RateLimited,
        Self::QuotaExhausted,
        Self::Overloaded,
        Self::ServerError,
        Self::GatewayTimeout,
        Self::RequestTimeout,
        Self::Conflict,
        Self::TooEarly,
        Self::Authentication,
        Self::PermissionDenied,
        Self::NotFound,
        Self::ContextOverflow,
        Self::ContentPolicy,
        Self::InvalidRequest,
        Self::NotSupported,
        Self::RequestTooLarge,
        Self::EventTooLarge,
        Self::CircuitOpen,
        Self::QueueFull,
        Self::QueueTimeout,
        Self::QueueClosed,
        Self::Drained,
        Self::ShuttingDown,
        Self::RecoveryBudget,
        Self::Cancelled,
        Self::Misconfigured,
        Self::Unknown,
    ];

    /// The stable code that clients, metrics and logs see.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Connect => "connect_failed",
            Self::Unprocessed => "unprocessed",
            Self::Transport => "connection_broken",
            Self::Truncated => "stream_truncated",
            Self::EmptyReply => "empty_reply",
            Self::NotModelReply => "not_a_model_reply",
            Self::MalformedReply => "malformed_reply",
            Self::FirstOutputTimeout => "first_output_timeout",
            Self::IdleTimeout => "idle_timeout",
            Self::TotalTimeout => "total_timeout",
            Self::RateLimited => "rate_limit_exceeded",
            Self::QuotaExhausted => "insufficient_quota",
            Self::Overloaded => "overloaded",
            Self::ServerError => "server_error",
            Self::GatewayTimeout => "gateway_timeout",
            Self::RequestTimeout => "request_timeout",
            Self::Conflict => "conflict",
            Self::TooEarly => "too_early",
            Self::Authentication => "invalid_api_key",
            Self::PermissionDenied => "permission_denied",
            Self::NotFound => "not_found",
            Self::ContextOverflow => "context_length_exceeded",
            Self::ContentPolicy => "content_policy_violation",
            Self::InvalidRequest => "invalid_request",
            Self::NotSupported => "not_supported",
            Self::RequestTooLarge => "request_too_large",
            Self::EventTooLarge => "event_too_large",
            Self::CircuitOpen => "circuit_open",
            Self::QueueFull => "queue_full",
            Self::QueueTimeout => "queue_timeout",
            Self::QueueClosed => "queue_closed",
            Self::Drained => "candidate_drained",
            Self::ShuttingDown => "shutting_down",
            Self::RecoveryBudget => "recovery_budget_exceeded",
            Self::Cancelled => "cancelled",
            Self::Misconfigured => "misconfigured",
            Self::Unknown => "unknown_failure",
        }
    }

    /// What happened, as the start of a sentence.
    pub const fn summary(self) -> &'static str {
        match self {
            Self::Connect => "no connection to the provider",
            Self::Unprocessed => "the provider did not take the request",
            Self::Transport => "the connection to the provider broke",
            Self::Truncated => "the stream ended without its end marker: the answer is incomplete",
            Self::EmptyReply => "the provider answered with success but without content",
            Self::NotModelReply => "the answer is not a model's reply",
            Self::MalformedReply => "the answer cannot be read",
            Self::FirstOutputTimeout => "no output within the first-output limit",
            Self::IdleTimeout => "no progress within the idle limit",
            Self::TotalTimeout => "the attempt outlived its total limit",
            Self::RateLimited => "the provider limits the rate",
            Self::QuotaExhausted => "the account's quota or credit is exhausted",
            Self::Overloaded => "the provider is overloaded",
            Self::ServerError => "the provider failed",
            Self::GatewayTimeout => "a gateway before the provider timed out",
            Self::RequestTimeout => "the provider timed the request out",
            Self::Conflict => "the provider reports a conflict",
            Self::TooEarly => "the provider asks for the request later",
            Self::Authentication => "the provider refused the credential",
            Self::PermissionDenied => "the credential does not permit this",
            Self::NotFound => "the model or path was not found",
            Self::ContextOverflow => "the prompt exceeds the model's context length",
            Self::ContentPolicy => "the provider's content policy refused the request",
            Self::InvalidRequest => "the request is invalid",
            Self::NotSupported => "the provider does not support this",
            Self::RequestTooLarge => "the request is too large",
            Self::EventTooLarge => "one event of the reply exceeds the event ceiling",
            Self::CircuitOpen => "the circuit is open after repeated failures",
            Self::QueueFull => "the admission queue is full",
            Self::QueueTimeout => "no permit within the longest admission wait",
            Self::QueueClosed => "admission is closed",
            Self::Drained => "the candidate was taken out of service",
            Self::ShuttingDown => "the gateway is shutting down",
            Self::RecoveryBudget => "no recovery within the recovery budget",
            Self::Cancelled => "the caller gave up",
            Self::Misconfigured => "the configuration does not allow this request",
            Self::Unknown => "an unknown failure",
        }
    }

    /// What the caller, or whoever runs the service, can do about it.
    pub const fn advice(self) -> &'static str {
        match self {
            Self::Connect => "check the provider's base URL and the network",
            Self::Unprocessed
            | Self::Transport
            | Self::Truncated
            | Self::EmptyReply
            | Self::MalformedReply
            | Self::ServerError
            | Self::Conflict
            | Self::TooEarly
            | Self::RequestTimeout => "ask again later",
            Self::NotModelReply => "check the provider's base URL and any proxy before it",
            Self::FirstOutputTimeout => "ask again later, or raise timeouts.first_output for this model",
            Self::IdleTimeout => "ask again later, or raise timeouts.idle for this model",
            Self::TotalTimeout => "ask for less, or raise timeouts.total for this model",
            Self::RateLimited => "slow down",
            Self::QuotaExhausted => "check the provider account's plan and billing",
            Self::Overloaded => "ask again later, or configure a fallback candidate",
            Self::GatewayTimeout => "ask for a stream, or for less",
            Self::Authentication => "check the provider's API key",
            Self::PermissionDenied => "check what the API key may do, and the region",
            Self::NotFound => "check the model's name and the provider's base URL",
            Self::ContextOverflow => "shorten the conversation or use a model with a larger window",
            Self::ContentPolicy => "change the content",
            Self::InvalidRequest | Self::NotSupported => "change the request",
            Self::RequestTooLarge => "send less, or raise server.max_request_bytes",
            Self::EventTooLarge => "raise the event ceiling",
            Self::CircuitOpen => "ask again after the given delay",
            Self::QueueFull | Self::QueueTimeout => "ask again later, or raise what may be in flight or wait",
            Self::QueueClosed | Self::ShuttingDown => "ask another instance",
            Self::Drained => "put a candidate of this model back into service",
            Self::RecoveryBudget => "ask again later, or raise recovery.budget",
            Self::Cancelled => "nothing is to be done",
            Self::Misconfigured => "correct the configuration",
            Self::Unknown => "see the log",
        }
    }
}

/// How far an exchange had come when it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Before the request was sent.
    Connect,
    /// Before the response head arrived.
    Head,
    /// Before real output was passed on.
    BeforeOutput,
    /// After real output was passed on: nothing may be replayed.
    AfterOutput,
}

impl Phase {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "while connecting",
            Self::Head => "before the response head",
            Self::BeforeOutput => "before output",
            Self::AfterOutput => "after output",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::FailureKind;

    #[test]
    fn no_kind_is_missing_from_all() {
        let variants =
            include_str!("failure_kind.rs").split("pub enum FailureKind {").nth(1).unwrap().split('}').next().unwrap();
        let names: Vec<&str> = variants.lines().filter_map(|line| line.trim().strip_suffix(',')).collect();
        assert_eq!(FailureKind::ALL.map(|kind| format!("{kind:?}")).to_vec(), names);
    }

    #[test]
    fn a_kind_has_one_name_wherever_it_is_told() {
        for kind in FailureKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.code());
        }
    }
}
