//! The innermost layer: turns a candidate and a client's request into the provider's request, and sends it.
//!
//! [`Upstream`] is a service over any transport. It reads [`Selected`](stanchion_core::Selected) and
//! [`Call`](stanchion_core::Call) from the request's extensions, and from them makes the provider's URI, credential,
//! headers and model name; the rest of the body stays byte for byte what the client sent. [`Transport`] is the
//! transport of the house: pooled HTTP/1.1 and HTTP/2 over rustls.
//!
//! ```
//! # use stanchion_core::BoxError;
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::{BodyExt, Full};
//! use stanchion_core::{Call, Candidate, Dialect, Family, Secret, Selected};
//! use stanchion_upstream::Upstream;
//! use tower::{ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), BoxError> {
//! // In place of `Transport::builder().build()`: a transport that shows what it is given.
//! let transport = service_fn(|request: Request<Full<Bytes>>| async move {
//!     assert_eq!(request.uri(), "https://api.openai.com/v1/chat/completions");
//!     assert_eq!(request.headers()["authorization"], "Bearer sk-ours");
//!     let body = request.into_body().collect().await?.to_bytes();
//!     assert_eq!(body, r#"{"model":"gpt-x", "messages":[]}"#);
//!     Ok::<_, BoxError>(Response::new(Full::from("data: [DONE]\n\n")))
//! });
//!
//! let candidate = Candidate::new("primary", Family::OpenAi, "https://api.openai.com/v1")
//!     .with_model("gpt-x")
//!     .with_credential(Secret::new("sk-ours"));
//! let request = Request::post("/v1/chat/completions")
//!     .header("authorization", "Bearer sk-the-clients-own")
//!     .extension(Call::new(Dialect::OpenAiChat, true))
//!     .extension(Selected::only(candidate))
//!     .body(Full::from(r#"{"model":"fast", "messages":[]}"#))?;
//!
//! let response = Upstream::new(transport).oneshot(request).await?;
//! assert_eq!(response.extensions().get::<Selected>().unwrap().candidate.provider(), "primary");
//! assert_eq!(response.into_body().collect().await?.to_bytes(), "data: [DONE]\n\n");
//! # Ok(())
//! # }
//! ```
//!
//! # What is sent
//!
//! | part | value |
//! |---|---|
//! | URI | [`target`]: the candidate's base URL, the path of the call's dialect, the query |
//! | body | the client's, with the candidate's model name put in ([`replace_model`]) |
//! | credential | OpenAI, Ollama: `authorization: Bearer`, but `api-key` for a candidate of OpenAI's family with an API version (Azure); Anthropic: `x-api-key`; Gemini: `x-goog-api-key` |
//! | `accept-encoding` | `identity` |
//! | `content-type` | the client's, else `application/json` |
//! | `anthropic-version` | for Anthropic: the candidate's API version, the client's, else `2023-06-01` |
//! | headers of the candidate | as configured, over all others |
//! | `traceparent`, `tracestate` | the attempt's span, if the [`Context`](stanchion_core::Context) has a trace; else the client's |
//! | other headers | the client's, except as below |
//!
//! Of the client's headers these stay here: credentials, selectors of an account (such as `openai-organization`),
//! cookies, addresses (`forwarded`, `x-forwarded-…`, `cf-…`), `x-stanchion-…`, and what concerns the client's own
//! connection only.
//!
//! [`target`]: stanchion_wire::request::target
//! [`replace_model`]: stanchion_wire::request::replace_model
//!
//! # What comes back
//!
//! The provider's response, with [`Selected`](stanchion_core::Selected) in its extensions, without hop-by-hop headers and cookies. A content coding that came unasked (gzip, deflate, br, zstd;
//! gzip also where no header tells) is decoded as it streams, and the headers that described the coded bytes are
//! removed. An unknown coding passes untouched.
//!
//! Whatever goes wrong is a [`Failure`](stanchion_core::Failure) with the candidate's name and the number of attempts.
//! A request that cannot be made fails as [`Misconfigured`](stanchion_core::FailureKind::Misconfigured), counts as no
//! attempt, and has an [`Unsendable`] as its source.
//!
//! Dropping the response future or the body ends the exchange at once: over HTTP/1.1 the connection is closed, over
//! HTTP/2 the stream is reset.
//!
//! # Features
//!
//! `transport` (default): [`Transport`], and with it hyper and rustls. Without it, bring a transport of your own.

mod body;
mod decode;
mod future;
mod headers;
mod request;
mod service;
#[cfg(feature = "transport")]
mod transport;
mod unsendable;

pub use body::UpstreamBody;
pub use decode::DecodeError;
pub use future::UpstreamFuture;
pub use service::Upstream;
#[cfg(feature = "transport")]
pub use transport::{ClientTls, InvalidTls, Transport, TransportBody, TransportBuilder, TransportFuture};
pub use unsendable::Unsendable;
