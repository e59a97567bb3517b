//! Where the providers put their request ids. Source: wire §1.10.

use http::HeaderMap;
use stanchion_core::{Dialect, Family};

/// The headers that hold a request id, the most telling first.
pub(crate) const REQUEST_IDS: [&str; 10] = [
    "x-request-id",
    "request-id", // Anthropic
    "apim-request-id",
    "x-ms-request-id", // Azure
    "x-amzn-requestid",
    "x-generation-id", // OpenRouter
    "x-dashscope-request-id",
    "msh-request-id", // Moonshot
    "mistral-correlation-id",
    "cf-ray",
];

/// The request id among the headers of a reply: the dialect's own header first.
pub(super) fn request_id(dialect: Dialect, headers: &HeaderMap) -> Option<&str> {
    let own = (dialect.family() == Family::Anthropic).then_some("request-id");
    own.into_iter().chain(REQUEST_IDS).find_map(|name| headers.get(name)?.to_str().ok())
}
