//! The one idea of the workspace, as two layers: **a response that leaves [`Commit`] has produced real output; whatever fails before
//! that leaves as an error.**
//!
//! [`Observe`] reads a reply once as it passes. It divides the body into frames, notes in a shared
//! [`StreamRecord`](stanchion_core::StreamRecord) what has come, and turns what no client would see as a fault into one: an error inside of a
//! success, a stream that ends without its end marker, half a JSON document, an HTML page. Bytes pass unchanged, whole frames at a time.
//!
//! [`Commit`] holds the preamble of a reply back (roles, ids, pings) until its first real output. So a failure before output is a
//! value that retry, fallback and circuit can judge without ever looking into a body; a failure after output is a fact that ends the body.
//! A [`CommitPolicy`](stanchion_core::CommitPolicy) moves that border: more is held back, more can be replayed.
//!
//! ```
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::{BodyExt, Full};
//! use stanchion_core::{Call, Dialect, Failure, FailureKind};
//! use stanchion_stream::{CommitLayer, ObserveLayer};
//! use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! // A provider that answers 200 and then reports its overload inside of the stream.
//! let overloaded = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
//! let provider = service_fn(move |_: Request<()>| async move {
//!     let reply = Response::builder().header("content-type", "text/event-stream");
//!     Ok::<_, Failure>(reply.body(Full::new(Bytes::from(overloaded))).unwrap())
//! });
//!
//! let service = ServiceBuilder::new().layer(CommitLayer::new()).layer(ObserveLayer::new()).service(provider);
//!
//! let mut request = Request::new(());
//! request.extensions_mut().insert(Call::new(Dialect::AnthropicMessages, true));
//! let failure = service.oneshot(request).await.map(drop).unwrap_err();
//! assert_eq!(failure.kind(), FailureKind::Overloaded);
//! # }
//! ```
//!
//! | setting | default | meaning |
//! |---|---|---|
//! | [`ObserveLayer::max_event`] | 16 MiB | the largest single event; beyond it the stream fails with a local error |
//! | [`ObserveLayer::max_document`] | 8 MiB | the largest reply in one document that is held until complete; beyond it the rest streams through |
//! | [`ObserveLayer::malformed`] | drop | what becomes of a frame that claims to be JSON and is cut short |
//! | [`CommitLayer::policy`] | first output | when a reply leaves: with its first output, after a window of output, or once it is whole |
//! | [`CommitLayer::policy_for`] | none | the same for one request class |
//! | [`CommitLayer::window`] | 20 events, 16 KiB, 2 s | how much output a window holds back, whichever comes first |
//! | [`CommitLayer::max_hold`] | 4 MiB | the most that is held back of one reply; beyond it the reply leaves |
//! | [`CommitLayer::error_body_time`] | 5 s | the longest time that is spent on reading the body of an error reply |

pub mod commit;
pub mod observe;

pub use commit::{Commit, CommitBody, CommitFuture, CommitLayer, CommitWindow};
pub use observe::{Malformed, Observe, ObserveBody, ObserveFuture, ObserveLayer};
