//! Tower layers that keep a streamed reply from a model provider whole, bounded and explainable.
//!
//! Each layer is a crate of its own and stacks over any `Service<http::Request<B>, Response = http::Response<Body>>`. This crate
//! re-exports them behind features of the same names, and has [`Onion`], which stacks them in the documented order.
//!
//! | layer | feature | what it does |
//! |---|---|---|
//! | [`edge`] | `edge` | makes requests replayable, and failures errors in the client's dialect |
//! | [`telemetry`] | `telemetry` | tells sinks what becomes of each request: metrics, records, what is in flight |
//! | [`cache_break`] | `cache-break` | tells why a prompt cache broke, and what that cost |
//! | [`usage`] | `usage` | tells what each reply used and cost |
//! | [`deadline`] Recovery | `deadline` | the deadline of a whole recovery |
//! | [`fallback`] | `fallback` | tries candidates in order |
//! | [`retry`] | `retry` | replays zero-output failures |
//! | [`credentials`] | `credentials` | chooses one of the keys of a provider, and lets a limited one rest |
//! | [`admission`] | `admission` | the weighted fair queue |
//! | [`circuit`] | `circuit` | leaves a failing provider alone, and lets one probe through at a time |
//! | [`stream`] Commit | `stream` | holds a reply back until its first real output |
//! | [`deadline`] Attempt | `deadline` | total, first-output and idle limits of one attempt |
//! | [`stream`] Observe | `stream` | reads the stream once as it passes |
//! | [`upstream`] | `upstream` | the provider's request, and the pooled transport |
//!
//! [`probe`] asks a candidate whether it works.
//!
//! ```
//! use bytes::Bytes;
//! use http::{Request, Response, StatusCode};
//! use http_body_util::{BodyExt, Full};
//! use stanchion::{Onion, core::{Candidate, Candidates, Failure, Family}};
//! use tower::{Service, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! // A provider that is overloaded once, and then answers. In real life: `stanchion::upstream::Upstream`.
//! let mut answers = vec![
//!     (200, "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"),
//!     (529, "{\"error\":{\"message\":\"Overloaded\",\"type\":\"overloaded_error\"}}"),
//! ];
//! let answers = std::sync::Arc::new(std::sync::Mutex::new(answers));
//! let provider = service_fn(move |_: Request<Full<Bytes>>| {
//!     let (status, body) = answers.lock().unwrap().pop().unwrap();
//!     async move { Ok::<_, Failure>(Response::builder().status(status).body(Full::new(Bytes::from(body))).unwrap()) }
//! });
//!
//! let candidates = Candidates::new([Candidate::new("primary", Family::OpenAi, "https://provider.example/v1")]);
//! let service = Onion::standard(candidates).service(provider);
//!
//! let request = Request::post("/v1/chat/completions").body(Full::new(Bytes::from(r#"{"model":"m","stream":true}"#))).unwrap();
//! let response = service.oneshot(request).await.unwrap();
//! assert_eq!(response.status(), StatusCode::OK);
//! assert!(response.into_body().collect().await.unwrap().to_bytes().ends_with(b"data: [DONE]\n\n"));
//! # }
//! ```

mod onion;
#[cfg(feature = "probe")]
pub mod probe;

pub use onion::Onion;
#[cfg(all(
    feature = "circuit",
    feature = "edge",
    feature = "fallback",
    feature = "retry",
    feature = "stream",
    feature = "deadline"
))]
pub use onion::Standard;
#[cfg(feature = "admission")]
pub use stanchion_admission as admission;
#[cfg(feature = "cache-break")]
pub use stanchion_cache_break as cache_break;
#[cfg(feature = "circuit")]
pub use stanchion_circuit as circuit;
pub use stanchion_core as core;
#[cfg(feature = "credentials")]
pub use stanchion_credentials as credentials;
#[cfg(feature = "deadline")]
pub use stanchion_deadline as deadline;
#[cfg(feature = "edge")]
pub use stanchion_edge as edge;
#[cfg(feature = "fallback")]
pub use stanchion_fallback as fallback;
#[cfg(feature = "retry")]
pub use stanchion_retry as retry;
#[cfg(feature = "stream")]
pub use stanchion_stream as stream;
#[cfg(feature = "telemetry")]
pub use stanchion_telemetry as telemetry;
#[cfg(feature = "upstream")]
pub use stanchion_upstream as upstream;
#[cfg(feature = "usage")]
pub use stanchion_usage as usage;
pub use stanchion_wire as wire;
