//! The time that a model call may take: the clocks of one physical attempt, and the deadline of a whole recovery.
//!
//! [`Attempt`] bounds one exchange with a provider, [`Recovery`] everything that follows the first failure of a request. Either works
//! alone.
//!
//! ```
//! use std::time::Duration;
//!
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::Full;
//! use stanchion_core::{Failure, FailureKind};
//! use stanchion_deadline::{AttemptLayer, AttemptLimits, RecoveryLayer, RecoveryLimits};
//! use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let silent = service_fn(|_: Request<()>| std::future::pending::<Result<Response<Full<Bytes>>, Failure>>());
//! let recovery = RecoveryLimits::builder().budget(Duration::from_secs(120)).build().unwrap();
//! let limits = AttemptLimits::builder().first_output(Duration::from_secs(30)).build().unwrap();
//! let service = ServiceBuilder::new()
//!     .layer(RecoveryLayer::new(recovery))
//!     // Here stand the layers that try again, and start the budget's clock: fallback, retry.
//!     .layer(AttemptLayer::new(limits))
//!     .service(silent);
//!
//! let failure = service.oneshot(Request::new(())).await.map(drop).unwrap_err();
//! assert_eq!(failure.kind(), FailureKind::FirstOutputTimeout);
//! assert_eq!(failure.limit(), Some(Duration::from_secs(30)));
//! # }
//! ```
//!
//! # One attempt
//!
//! | clock | starts | is reset by | when it ends |
//! |---|---|---|---|
//! | first output | with the attempt | nothing; the first real output ends it | [`FirstOutputTimeout`](stanchion_core::FailureKind::FirstOutputTimeout) |
//! | idle | once output has begun | progress: output, structure, usage. Not comments, pings or ids | [`IdleTimeout`](stanchion_core::FailureKind::IdleTimeout) |
//! | liveness | with the response head, if the reply streams | any byte | [`IdleTimeout`](stanchion_core::FailureKind::IdleTimeout) with the code [`liveness`](AttemptLimits::LIVENESS_CODE) |
//! | total | with the attempt | nothing | [`TotalTimeout`](stanchion_core::FailureKind::TotalTimeout) |
//! | grace | once the model has finished | usage; not comments or pings | a clean end: nothing but usage had to follow |
//!
//! A silence is told as an event, [`ProviderStall`](stanchion_core::ProviderStall), long before it ends anything: once when it is detected and once when
//! progress, or the end, comes after all.
//!
//! The attempt starts when [`Attempt`] is called: under an admission layer, after the permit. What has come is read from the
//! [`StreamRecord`](stanchion_core::StreamRecord) that an observing layer within keeps; without one every frame is output. A slow consumer
//! never looks like a stalled provider: time during which the body is not polled does not count for the idle and liveness clocks. It
//! does for the total, which is a hard deadline.
//!
//! | setting | default | range | off |
//! |---|---|---|---|
//! | [`first_output`](AttemptLimitsBuilder::first_output) | 120 s; for replies that do not stream the total | above 0, at most the total | zero |
//! | [`first_output_scaled`](AttemptLimitsBuilder::first_output_scaled) | not scaled | base above 0; cap at most the total | a base or a cap of zero |
//! | [`idle`](AttemptLimitsBuilder::idle) | 300 s | above 0, at most the total | zero |
//! | [`liveness`](AttemptLimitsBuilder::liveness) | off | above 0, at most idle and total | zero |
//! | [`total`](AttemptLimitsBuilder::total) | 600 s | above 0 | zero |
//! | [`stall_warning`](AttemptLimitsBuilder::stall_warning) | 30 s | up to half of the idle limit | zero |
//! | [`grace`](AttemptLimitsBuilder::grace) | 2 s | any | zero ends at once |
//!
//! [`AttemptLimits::thinking`] is a set of them for models that think before they speak.
//!
//! # A whole recovery
//!
//! [`Recovery`] stands outside of all layers that try again. To each request that a person waits for
//! ([`Foreground`](stanchion_core::RequestClass::Foreground), which a request without a [`Context`](stanchion_core::Context) is as well) it
//! gives a [`RecoveryBudget`](stanchion_core::RecoveryBudget), unless the application has said that it has one or none. Layers within start the
//! budget's clock at the first failure that they will retry, or the first wait for a circuit; nothing resets it, no fallback and no hint of a provider.
//! When it is spent, whatever goes on is dropped, and the request ends:
//!
//! | the request | ends with | event |
//! |---|---|---|
//! | waits, queues, or has an attempt in flight | [`RecoveryBudget`](stanchion_core::FailureKind::RecoveryBudget), before output | [`exhausted`](stanchion_core::RetryPhase::Exhausted) by `recovery_budget`, once |
//! | has shown output | the same, after output | none: the reply itself tells it |
//! | has shown a whole reply: its end, or the model's finish | nothing: what is at hand passes, the rest is not waited for | none |
//! | is in its first attempt | nothing: the clock does not run | none |
//!
//! On a tie the budget wins: over an answer that comes at its last instant, and over the limits of an attempt or a queue that end
//! with it. Instants are compared as they are; only the timer that wakes counts whole milliseconds.
//!
//! | setting | default | range | off |
//! |---|---|---|---|
//! | [`budget`](RecoveryLimitsBuilder::budget) | 10 min | 30 s to 1 h | zero: no request gets a budget |
//! | [`attempts`](RecoveryLimitsBuilder::attempts) | 12 | any; 0 is the first attempt alone | - |

pub mod attempt;
pub mod recovery;

pub use attempt::{
    Attempt, AttemptBody, AttemptFuture, AttemptLayer, AttemptLimits, AttemptLimitsBuilder, FirstOutput, LimitsError,
};
pub use recovery::{
    InvalidBudget, Recovery, RecoveryBody, RecoveryFuture, RecoveryLayer, RecoveryLimits, RecoveryLimitsBuilder,
};
