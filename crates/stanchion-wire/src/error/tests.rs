mod codes;
mod events;
mod overflow;
mod properties;
mod providers;
mod quota;
mod replies;
mod shapes;

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use stanchion_core::{Dialect, Failure, FailureKind, ProviderReply, RetryHint};

use super::{classify, classify_reply, in_band};

const HTML: &str = "text/html; charset=UTF-8";
const JSON: &str = "application/json";

fn status(code: u16) -> StatusCode {
    StatusCode::from_u16(code).unwrap()
}

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

/// A reply with these headers and body.
fn reply(code: u16, headers: &[(&str, &str)], body: &[u8]) -> ProviderReply {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.insert(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap());
    }
    ProviderReply { status: status(code), headers: map, body: Bytes::copy_from_slice(body), complete: true }
}

/// What a JSON reply of an OpenAI-like provider means.
fn json(code: u16, body: &str) -> Failure {
    classify_reply(Dialect::OpenAiChat, reply(code, &[("content-type", JSON)], body.as_bytes()), now())
}

/// What data in a frame without an event name means.
fn frame(data: &str) -> Option<Failure> {
    in_band(Dialect::OpenAiChat, None, data.as_bytes(), None, now())
}

fn frame_kind(data: &str) -> Option<FailureKind> {
    frame(data).map(|failure| failure.kind())
}
