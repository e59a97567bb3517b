//! The clocks of one physical attempt.
//!
//! | clock | starts | is reset by | when it ends |
//! |---|---|---|---|
//! | first output | with the attempt | nothing; the first real output ends it | [`FirstOutputTimeout`](stanchion_core::FailureKind::FirstOutputTimeout) |
//! | idle | once output has begun | progress: output, structure, usage. Not comments, pings or ids | [`IdleTimeout`](stanchion_core::FailureKind::IdleTimeout) |
//! | total | with the attempt | nothing | [`TotalTimeout`](stanchion_core::FailureKind::TotalTimeout) |
//! | grace | once the model has finished | usage; not comments or pings | a clean end: nothing but usage had to follow |
//!
//! A silence is told as an event, [`ProviderStall`](stanchion_core::ProviderStall), long before it ends anything: once when it is detected and once when
//! progress comes after all.
//!
//! The attempt starts when [`Attempt`] is called: under an admission layer, after the permit. What has come is read from the
//! [`StreamRecord`](stanchion_core::StreamRecord) that an observing layer within keeps; without one every frame is output. A slow consumer
//! never looks like a stalled provider: time during which the body is not polled does not count for the idle clock.
//!
//! ```
//! use std::time::Duration;
//!
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::Full;
//! use stanchion_core::{Failure, FailureKind};
//! use stanchion_deadline::{AttemptLayer, AttemptLimits};
//! use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let silent = service_fn(|_: Request<()>| std::future::pending::<Result<Response<Full<Bytes>>, Failure>>());
//! let limits = AttemptLimits::builder().first_output(Duration::from_secs(30)).build().unwrap();
//! let service = ServiceBuilder::new().layer(AttemptLayer::new(limits)).service(silent);
//!
//! let failure = service.oneshot(Request::new(())).await.map(drop).unwrap_err();
//! assert_eq!(failure.kind(), FailureKind::FirstOutputTimeout);
//! assert_eq!(failure.limit(), Some(Duration::from_secs(30)));
//! # }
//! ```
//!
//! | setting | default | range | off |
//! |---|---|---|---|
//! | [`first_output`](AttemptLimitsBuilder::first_output) | 120 s; for replies that do not stream the total | above 0, at most the total | zero |
//! | [`idle`](AttemptLimitsBuilder::idle) | 300 s | above 0, at most the total | zero |
//! | [`total`](AttemptLimitsBuilder::total) | 600 s | above 0 | zero |
//! | [`stall_warning`](AttemptLimitsBuilder::stall_warning) | 30 s | up to half of the idle limit | zero |
//! | [`grace`](AttemptLimitsBuilder::grace) | 2 s | any | zero ends at once |

pub mod attempt;

pub use attempt::{
    Attempt, AttemptBody, AttemptFuture, AttemptLayer, AttemptLimits, AttemptLimitsBuilder, LimitsError,
};
