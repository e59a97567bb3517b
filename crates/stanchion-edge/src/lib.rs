//! The outermost layer: where a client's HTTP request becomes something that can be replayed, and a
//! [`Failure`](stanchion_core::Failure) becomes an error that the client's library understands.
//!
//! On the way in, [`Edge`] finds the dialect by the path, collects the body within a bound, reads which model is asked for and whether the
//! reply is to be streamed, and puts a [`Call`](stanchion_core::Call) and a [`Context`](stanchion_core::Context) into the request's extensions.
//!
//! On the way out, a failure before the response is rendered as the dialect's error, and the provider's own answer to a caller's
//! mistake is given back verbatim. A failure after output goes into the stream as the dialect's in-band error, and then the
//! stream ends: no end marker, no finish is ever made up. A reply that the provider sent whole to a client that asked for a stream becomes one.
//!
//! Its error is [`Infallible`](std::convert::Infallible): axum and hyper can serve it as it is.
//!
//! ```
//! use bytes::Bytes;
//! use http::{Request, Response, StatusCode};
//! use http_body_util::{BodyExt, Full};
//! use stanchion_core::{Failure, FailureKind};
//! use stanchion_edge::EdgeLayer;
//! use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let broken = service_fn(|_: Request<Full<Bytes>>| async { Err::<Response<Full<Bytes>>, _>(Failure::new(FailureKind::Overloaded)) });
//! let service = ServiceBuilder::new().layer(EdgeLayer::new()).service(broken);
//!
//! let request = Request::post("/v1/messages").body(Full::new(Bytes::from(r#"{"model":"m","stream":true}"#))).unwrap();
//! let response = service.oneshot(request).await.unwrap();
//! assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
//! let body = response.into_body().collect().await.unwrap().to_bytes();
//! assert!(body.starts_with(br#"{"type":"error","error":{"type":"overloaded_error""#));
//! # }
//! ```
//!
//! | request header | meaning |
//! |---|---|
//! | `x-stanchion-session` | the conversation |
//! | `x-stanchion-owner` | whose capacity is used; defaults to the session |
//! | `x-stanchion-class` | `foreground` (default), `background` or `internal` |
//! | `x-stanchion-context-epoch` | changes when the conversation was compacted |
//! | `x-stanchion-commit` | when the reply leaves: `first_output`, `window` or `complete` |
//!
//! | response header | meaning |
//! |---|---|
//! | `x-stanchion-candidate` | which candidate answered, as `provider/model` |
//! | `x-stanchion-attempts` | how many physical attempts were made |
//!
//! | setting | default | meaning |
//! |---|---|---|
//! | [`EdgeLayer::max_request_bytes`] | 32 MiB | the largest request body; a larger one is a 413 |
//! | [`EdgeLayer::upload_idle`] | 30 s | the longest pause within a request body; a longer one is a 408 |
//! | [`EdgeLayer::identity_headers`] | on | whether the headers above are believed |
//! | [`EdgeLayer::observer`] | none | who sees the events of every request |

mod body;
mod collect;
mod future;
mod identity;
mod layer;
mod service;

pub use body::EdgeBody;
pub use future::EdgeFuture;
pub use layer::EdgeLayer;
pub use service::Edge;

#[cfg(test)]
mod tests;
