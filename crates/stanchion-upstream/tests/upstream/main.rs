//! The service over scripted transports, and the transport over raw sockets on the loopback.

mod coding;
mod request;
mod response;

#[cfg(feature = "transport")]
mod http1;
#[cfg(feature = "transport")]
mod http2;
#[cfg(feature = "transport")]
mod peer;
#[cfg(feature = "transport")]
mod tls;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use stanchion_core::{Call, Candidate, Dialect, Failure, Family, Secret, Selected};
use stanchion_upstream::Upstream;
use tower::{ServiceExt, service_fn};

const BODY: &str = r#"{"model":"asked", "messages":[{"model":"asked"}]}"#;

/// A candidate whose credential and model differ from the client's.
fn candidate(family: Family, base_url: &str) -> Candidate {
    Candidate::new("primary", family, base_url).with_model("ours").with_credential(Secret::new("sk-ours"))
}

/// A client's request for a candidate.
fn request(dialect: Dialect, candidate: Candidate) -> Request<Full<Bytes>> {
    Request::post("/any/path?beta=true&key=sk-client")
        .header("authorization", "Bearer sk-client")
        .extension(Call::new(dialect, true).with_model("asked"))
        .extension(Selected::only(candidate))
        .body(Full::from(BODY))
        .unwrap()
}

/// What the transport is given for a request.
async fn sent(request: Request<Full<Bytes>>) -> Result<(http::request::Parts, Bytes), Failure> {
    let (into, mut from) = tokio::sync::mpsc::unbounded_channel();
    let transport = service_fn(move |request: Request<Full<Bytes>>| {
        into.send(request).unwrap();
        std::future::ready(Ok::<_, Failure>(Response::new(Full::<Bytes>::default())))
    });
    Upstream::new(transport).oneshot(request).await?;
    let (parts, body) = from.recv().await.unwrap().into_parts();
    Ok((parts, body.collect().await.unwrap().to_bytes()))
}

/// Every header as `name: value`, sorted.
fn lines(headers: &HeaderMap) -> Vec<String> {
    let mut lines: Vec<_> =
        headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
    lines.sort();
    lines
}
