//! What a status means where nothing else is known. Source: wire §1.7, from the documentation of the providers and of
//! Cloudflare.

use http::StatusCode;
use stanchion_core::FailureKind;

/// The table of statuses.
pub(crate) fn kind(status: StatusCode) -> FailureKind {
    match status.as_u16() {
        100..=199 | 300..=399 => FailureKind::NotModelReply,
        401 => FailureKind::Authentication,
        402 => FailureKind::QuotaExhausted,
        // 434 and 435 are Z.AI's for accounts that may not call; 451 is a region.
        403 | 434 | 435 | 451 => FailureKind::PermissionDenied,
        404 => FailureKind::NotFound,
        // 499 is "cancelled": not by us, who are still there to read it.
        408 | 499 => FailureKind::RequestTimeout,
        409 => FailureKind::Conflict,
        413 => FailureKind::RequestTooLarge,
        421 => FailureKind::Unprocessed,
        425 => FailureKind::TooEarly,
        429 => FailureKind::RateLimited,
        // 498 is Groq's for a flexible tier without capacity.
        498 | 503 | 529 => FailureKind::Overloaded,
        400..=423 | 426..=499 => FailureKind::InvalidRequest,
        501 => FailureKind::NotSupported,
        // 524 is Cloudflare's: the origin took the request and did not answer.
        504 | 524 => FailureKind::GatewayTimeout,
        // 2xx told an error in band: the provider failed at its work. 424 (Bedrock, Groq): the model behind it did.
        _ => FailureKind::ServerError,
    }
}

/// A code that is an HTTP status in disguise: 503, "429".
pub(super) fn from_code(code: &str) -> Option<StatusCode> {
    let status = StatusCode::from_bytes(code.as_bytes()).ok()?;
    (status.is_client_error() || status.is_server_error()).then_some(status)
}
