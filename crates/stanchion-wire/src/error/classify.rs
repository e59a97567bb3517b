//! What an error means.

use std::time::Duration;

use http::StatusCode;
use stanchion_core::{Dialect, FailureKind};

use super::{codes::Codes, message::Words, status};

/// A wait that is shorter than this is a rate's, not a quota's.
const SHORT_WAIT: Duration = Duration::from_secs(3_600);

/// What an error means: by its codes, then by its words, then by its status.
///
/// `codes` are all machine-readable words of the error (code, type, Google's status, reasons and quota ids), in any
/// order. `status` is that of the reply, or the one that a numeric code stands for; 200 for an error in band that tells
/// none. `wait` is how long the provider asks to wait. Pure.
///
/// Sources: wire §1.7 and §1.8; os §5.3, rows 24 to 36.
///
/// ```
/// use http::StatusCode;
/// use stanchion_core::FailureKind;
/// use stanchion_wire::error::classify;
///
/// let kind = classify(StatusCode::TOO_MANY_REQUESTS, &["insufficient_quota"], "Slow down", None);
/// assert_eq!(kind, FailureKind::QuotaExhausted);
/// ```
pub fn classify(status: StatusCode, codes: &[&str], message: &str, wait: Option<Duration>) -> FailureKind {
    let codes = Codes(codes);
    let words = Words::new(message);
    let rated = codes.say(FailureKind::RateLimited);
    if !codes.excludes_overflow() && (codes.say(FailureKind::ContextOverflow) || !rated && words.overflow(status)) {
        return FailureKind::ContextOverflow;
    }
    if let Some(kind) = quota_or_rate(status, codes, &words, wait) {
        return kind;
    }
    if status == StatusCode::PAYLOAD_TOO_LARGE && rated {
        // Groq: more tokens than a minute has. It never fits.
        return FailureKind::RequestTooLarge;
    }
    if let Some(kind) = codes.decide() {
        return kind;
    }
    let table = status::kind(status);
    let vague = status.is_success() || status == StatusCode::INTERNAL_SERVER_ERROR;
    let general = if vague { codes.suggest() } else { None };
    if let Some(kind) = general.filter(|kind| *kind != FailureKind::ServerError) {
        return kind;
    }
    if matches!(table, FailureKind::ServerError | FailureKind::RateLimited) && words.overloaded() {
        return FailureKind::Overloaded;
    }
    if !status.is_success() || general.is_some() {
        return table;
    }
    if let Some(told) = words.status() {
        return status::kind(told);
    }
    match () {
        () if words.rate_limited() => FailureKind::RateLimited,
        () if words.timed_out() => FailureKind::GatewayTimeout,
        () if words.unauthorized() => FailureKind::Authentication,
        () if words.model_not_found() => FailureKind::NotFound,
        () => table,
    }
}

/// Whether it is the account's share that is spent, and if so, for long or for a moment.
fn quota_or_rate(status: StatusCode, codes: Codes<'_>, words: &Words, wait: Option<Duration>) -> Option<FailureKind> {
    let wait = wait.or_else(|| words.wait());
    let short = wait.is_some_and(|wait| wait < SHORT_WAIT);
    if codes.in_flight_budget() {
        return Some(FailureKind::RateLimited);
    }
    if codes.say(FailureKind::QuotaExhausted) {
        return Some(FailureKind::QuotaExhausted);
    }
    if codes.resource_exhausted() || words.names_google_quota() {
        let long = wait.is_some_and(|wait| wait >= SHORT_WAIT);
        if codes.window("PerDay") || words.per_day() || words.limit_is_zero() || long {
            return Some(FailureKind::QuotaExhausted);
        }
        if codes.window("PerMinute") || words.per_minute() || short {
            return Some(FailureKind::RateLimited);
        }
    }
    if words.quota() {
        return Some(FailureKind::QuotaExhausted);
    }
    if codes.share() {
        return Some(if short { FailureKind::RateLimited } else { FailureKind::QuotaExhausted });
    }
    let rated = codes.say(FailureKind::RateLimited) || short;
    (!rated && words.perhaps_quota(status)).then_some(FailureKind::QuotaExhausted)
}

/// The fault that some providers report in the place of a finish reason; `None` for reasons why a model really stops.
///
/// A model's broken tool call is a reply that cannot be read: asking again may give a better one.
/// Source: wire §1.4, E9.
pub fn finish_fault(dialect: Dialect, reason: &str) -> Option<FailureKind> {
    match reason {
        // OpenRouter and Mistral; Z.AI; SGLang and vLLM.
        "error" | "network_error" | "abort" => Some(FailureKind::ServerError),
        // DeepSeek.
        "insufficient_system_resource" => Some(FailureKind::Overloaded),
        // Bedrock.
        "malformed_model_output" | "malformed_tool_use" => Some(FailureKind::MalformedReply),
        "MALFORMED_FUNCTION_CALL" if dialect == Dialect::GeminiGenerateContent => Some(FailureKind::MalformedReply),
        "OTHER" if dialect == Dialect::GeminiGenerateContent => Some(FailureKind::ServerError),
        _ => None,
    }
}
