//! The error objects of the dialects.

use std::time::Duration;

use http::StatusCode;
use serde::Serialize;
use stanchion_core::{Dialect, FailureKind, Family};

use crate::error::object::one_line;

/// What an error object tells.
pub(super) struct Told<'a> {
    pub(super) kind: FailureKind,
    pub(super) status: StatusCode,
    pub(super) code: &'a str,
    pub(super) message: String,
    pub(super) request_id: Option<&'a str>,
    pub(super) wait: Option<Duration>,
}

#[derive(Serialize)]
struct OpenAi<'a> {
    error: OpenAiError<'a>,
}

#[derive(Serialize)]
struct OpenAiError<'a> {
    message: &'a str,
    r#type: &'a str,
    param: Option<&'a str>,
    code: &'a str,
}

/// The flat event of the specification. openai-python raises only at a member `error`, so the event has that too, as
/// the API itself has been seen to send it.
#[derive(Serialize)]
struct ResponsesEvent<'a> {
    r#type: &'a str,
    code: &'a str,
    message: &'a str,
    param: Option<&'a str>,
    sequence_number: u64,
    error: OpenAiError<'a>,
}

#[derive(Serialize)]
struct Anthropic<'a> {
    r#type: &'a str,
    error: AnthropicError<'a>,
    request_id: Option<&'a str>,
}

#[derive(Serialize)]
struct AnthropicError<'a> {
    r#type: &'a str,
    message: &'a str,
}

/// google-genai raises only at a chunk that begins with `{"error":`.
#[derive(Serialize)]
struct Google<'a> {
    error: GoogleError<'a>,
}

#[derive(Serialize)]
struct GoogleError<'a> {
    code: u16,
    message: &'a str,
    status: &'a str,
    details: Vec<GoogleDetail<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "@type")]
enum GoogleDetail<'a> {
    #[serde(rename = "type.googleapis.com/google.rpc.ErrorInfo")]
    ErrorInfo { reason: String, domain: &'a str },
    #[serde(rename = "type.googleapis.com/google.rpc.RetryInfo", rename_all = "camelCase")]
    RetryInfo { retry_delay: String },
}

#[derive(Serialize)]
struct Ollama<'a> {
    error: &'a str,
}

/// The error object of a dialect. `sequence` makes it an event where the dialect's events differ from its bodies.
pub(super) fn object(dialect: Dialect, told: &Told<'_>, sequence: Option<u64>) -> String {
    match dialect.family() {
        Family::Anthropic => json(&Anthropic {
            r#type: "error",
            error: AnthropicError { r#type: anthropic_type(told.kind), message: &told.message },
            request_id: told.request_id,
        }),
        Family::Gemini => json(&google(told)),
        Family::Ollama => json(&Ollama { error: &told.message }),
        _ => match sequence {
            Some(sequence_number) if dialect == Dialect::OpenAiResponses => json(&ResponsesEvent {
                r#type: "error",
                code: told.code,
                message: &told.message,
                param: None,
                sequence_number,
                error: openai(dialect, told),
            }),
            _ => json(&OpenAi { error: openai(dialect, told) }),
        },
    }
}

fn openai<'a>(dialect: Dialect, told: &'a Told<'_>) -> OpenAiError<'a> {
    let prompt = if dialect == Dialect::OpenAiChat { "messages" } else { "input" };
    OpenAiError {
        message: &told.message,
        r#type: openai_type(told.kind),
        param: (told.kind == FailureKind::ContextOverflow).then_some(prompt),
        code: told.code,
    }
}

fn google<'a>(told: &'a Told<'_>) -> Google<'a> {
    let mut details = vec![GoogleDetail::ErrorInfo { reason: told.code.to_ascii_uppercase(), domain: "stanchion" }];
    if let Some(wait) = told.wait {
        details.push(GoogleDetail::RetryInfo { retry_delay: format!("{}s", wait.as_secs_f64()) });
    }
    let status = google_status(told.status);
    Google { error: GoogleError { code: told.status.as_u16(), message: &told.message, status, details } }
}

/// The words by which clients of a dialect know that the prompt does not fit. OpenAI has a code for it.
pub(super) fn overflow_opening(dialect: Dialect) -> Option<&'static str> {
    match dialect.family() {
        Family::Anthropic => Some("prompt is too long"),
        Family::Gemini => Some("The input token count exceeds the maximum number of tokens allowed"),
        Family::Ollama => Some("prompt too long; exceeded max context length"),
        _ => None,
    }
}

fn openai_type(kind: FailureKind) -> &'static str {
    use FailureKind as K;
    match kind {
        K::RateLimited | K::QueueFull => "rate_limit_error",
        K::QuotaExhausted => "insufficient_quota",
        K::Authentication => "authentication_error",
        K::PermissionDenied => "permission_error",
        K::NotFound
        | K::ContextOverflow
        | K::ContentPolicy
        | K::InvalidRequest
        | K::NotSupported
        | K::RequestTooLarge
        | K::Conflict => "invalid_request_error",
        _ => "server_error",
    }
}

fn anthropic_type(kind: FailureKind) -> &'static str {
    use FailureKind as K;
    match kind {
        K::RateLimited | K::QueueFull => "rate_limit_error",
        K::QuotaExhausted => "billing_error",
        K::Overloaded | K::CircuitOpen | K::QueueTimeout | K::QueueClosed | K::Drained | K::ShuttingDown => {
            "overloaded_error"
        }
        K::GatewayTimeout
        | K::RequestTimeout
        | K::FirstOutputTimeout
        | K::IdleTimeout
        | K::TotalTimeout
        | K::RecoveryBudget => "timeout_error",
        K::Authentication => "authentication_error",
        K::PermissionDenied => "permission_error",
        K::NotFound => "not_found_error",
        K::Conflict => "conflict_error",
        K::RequestTooLarge => "request_too_large",
        K::ContextOverflow | K::ContentPolicy | K::InvalidRequest | K::NotSupported => "invalid_request_error",
        _ => "api_error",
    }
}

/// The name of a `google.rpc.Code`.
fn google_status(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "UNAUTHENTICATED",
        402 | 429 => "RESOURCE_EXHAUSTED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        408 | 504 | 524 => "DEADLINE_EXCEEDED",
        409 | 425 => "ABORTED",
        499 => "CANCELLED",
        400..=498 => "INVALID_ARGUMENT",
        501 => "UNIMPLEMENTED",
        503 | 529 => "UNAVAILABLE",
        _ => "INTERNAL",
    }
}

fn json(value: &impl Serialize) -> String {
    one_line(serde_json::to_string(value).expect("strings and numbers can be written as JSON"))
}
