//! What becomes of each request: for metrics, records, traces, and a table of what is in flight.
//!
//! A [`Telemetry`] service stands just inside of the edge, and outside of everything else. It gives each logical request one more
//! observer, and tells every [`Sink`] that the request began, each [`Event`](stanchion_core::Event) of it, when the first chunk and
//! the first output of its reply came, and how it ended. Bytes pass as they are.
//!
//! ```
//! use std::sync::Arc;
//!
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::{BodyExt, Full};
//! use stanchion_core::{Call, Dialect, Ending, Failure};
//! use stanchion_telemetry::{Live, RequestRecord, Sink, TelemetryLayer};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! /// Prints a line for each request.
//! struct Print;
//!
//! impl Sink for Print {
//!     fn ended(&self, record: &Arc<RequestRecord>) {
//!         println!("{} {} after {} ms", record.began.model, record.ending.as_str(), record.duration.as_millis());
//!         assert_eq!(record.ending, Ending::Complete);
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! // All the layers further in.
//! let within = service_fn(|_: Request<Full<Bytes>>| async {
//!     Ok::<_, Failure>(Response::new(Full::new(Bytes::from_static(b"{}"))))
//! });
//!
//! let live = Live::default();
//! let telemetry = TelemetryLayer::new().models(["main"]).sink(Arc::new(Print)).sink(Arc::new(live.clone()));
//! let mut request = Request::new(Full::default());
//! request.extensions_mut().insert(Call::new(Dialect::OpenAiChat, true).with_model("main"));
//! let reply = telemetry.layer(within).oneshot(request).await.unwrap();
//!
//! assert_eq!(live.snapshot().requests[0].began.model.as_ref(), "main");
//! reply.into_body().collect().await.unwrap();
//! assert!(live.snapshot().requests.is_empty());
//! # }
//! ```
//!
//! # Settings
//!
//! | setting | default | meaning |
//! |---|---|---|
//! | [`TelemetryLayer::sink`] | none | who is told; without any, the layer does nothing |
//! | [`TelemetryLayer::models`], [`models_by`](TelemetryLayer::models_by) | none | the names of models that may be told apart; every other is `other` |
//! | [`TelemetryLayer::start_traces`] | no | whether a request that stands in no trace begins one |
//!
//! # The sinks
//!
//! | sink | what it is for |
//! |---|---|
//! | [`Live`] | a status page and `tail`: what is in flight, the last five minutes, events as they happen |
//! | [`Metrics`] | Prometheus, with the names of OpenTelemetry's conventions where there is one |
//! | [`CallRecords`] | one line of JSON for each request, in a file that is rotated |
//! | `Otlp` (feature `otlp`) | traces and metrics to a collector: a span for each request, with its events, and one for each attempt |
//! | `Spans` (feature `tracing`) | `tracing`: a span for each request, with one for each attempt |
//!
//! What each of them keeps is bounded, and none makes a request wait: what is too much is counted, and left out.
//!
//! # How a request ends
//!
//! | ending | when |
//! |---|---|
//! | complete | the dialect's end marker has passed, told before that leaves; or the body ended and nothing says otherwise |
//! | truncated | the body ended without the marker |
//! | failed | there was no reply, its body broke off, an error was passed on in band, or its status is no success |
//! | cancelled | the future or the body was dropped before |
//!
//! Exactly one of them, exactly once, whatever is dropped at whatever poll. What the layers within tell as they are dropped comes
//! before it: the usage of a reply that was left is in its record. What comes later is told to nobody.
//!
//! # Where a request stands
//!
//! An [`InFlight`] knows at any time in which [phase](RequestPhase) its request is:
//!
//! | phase | from | to |
//! |---|---|---|
//! | queued | it queues for its turn | it has it, or is turned away |
//! | waiting | a retry is scheduled, or a circuit is waited for | the retry is made, the circuit lets it through |
//! | first output pending | it came, or goes on after a wait | output begins, or another wait |
//! | streaming | the first output of an attempt | the end |
//! | stalled | a silence that is long enough to be told | progress, or the end of the attempt |
//!
//! # What is told, and what is not
//!
//! Times, counts, and names from the configuration. No owner, session, key, prompt, output or tool name; of what a client sends,
//! only the model's name, cut after [`RequestBegan::MAX_MODEL`] bytes, and only in records.
//!
//! The first chunk and the first output are timed by who reads the stream, for the attempt that answers: a reply that is held back
//! has begun when the provider began it.
//!
//! # What it costs
//!
//! Without sinks, a comparison. With them, each request has one shared cell, which its events lock for a moment, and each chunk of
//! its reply adds to one counter. Nothing is parsed.
//!
//! # Traces
//!
//! A request with a valid `traceparent` (W3C Trace Context) gets a [`TraceContext`](stanchion_core::TraceContext) in its
//! [`Context`](stanchion_core::Context), unless the application has said what its trace is. From there, the layer that makes the
//! provider's request writes the header of each attempt. [`RequestRecord`] and [`AttemptRecord`] hold the same ids, with times, so
//! that whoever exports spans agrees with the header.

mod body;
pub mod call_records;
mod future;
mod layer;
pub mod live;
pub mod metrics;
#[cfg(feature = "otlp")]
pub mod otlp;
mod progress;
mod record;
mod request;
mod service;
mod sink;
#[cfg(feature = "tracing")]
mod spans;
mod watch;

pub use body::TelemetryBody;
pub use call_records::{CallRecordSettings, CallRecords};
pub use future::TelemetryFuture;
pub use layer::TelemetryLayer;
pub use live::{Live, LiveLimits};
pub use metrics::{Metrics, MetricsFormat};
#[cfg(feature = "otlp")]
pub use otlp::{Otlp, OtlpExporter, OtlpSettings};
pub use progress::{RequestPhase, Standing, Wait};
pub use record::{AttemptOutcome, AttemptRecord, CacheBreakRecord, RequestRecord, UsageRecord, Waits};
pub use request::{InFlight, RequestBegan, RequestId, RequestTrace};
pub use service::Telemetry;
pub use sink::Sink;
#[cfg(feature = "tracing")]
pub use spans::Spans;
