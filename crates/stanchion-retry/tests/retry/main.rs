//! The retry layer around a mock that answers as told, on a paused clock.

mod bounded;
mod circuit;
mod client;
mod copies;
mod drops;
mod hints;
mod laws;
mod owner;
mod repair;
mod scope;
mod table;
mod throttle;
mod traces;

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use stanchion_core::{Candidate, Context, Failure, FailureKind, Family, HintSource, Phase, RetryHint, Selected};
use stanchion_retry::{RetryLayer, RetryPolicy};
use stanchion_testkit::request_in;
use tokio::time::Instant;
use tower_test::mock;

type Req = Request<Full<Bytes>>;
type Reply = Result<(), Failure>;

/// A policy of so many retries, with the longest waits: 500 ms, 1 s, 2 s, 4 s, 8 s.
fn retries(max: u32) -> RetryLayer {
    RetryLayer::new(RetryPolicy::builder().max_retries(max).build().unwrap()).with_random(|| 1.0)
}

fn failure(kind: FailureKind) -> Failure {
    Failure::new(kind).with_phase(Phase::BeforeOutput)
}

fn status(kind: FailureKind, status: u16) -> Failure {
    failure(kind).with_status(StatusCode::from_u16(status).unwrap())
}

fn hinted(kind: FailureKind, status: u16, hint: Duration) -> Failure {
    self::status(kind, status).with_hint(Some(RetryHint::new(hint, HintSource::RetryAfter)))
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// What became of one call.
struct Outcome {
    result: Result<Response<()>, Failure>,
    /// When each attempt came, since the call.
    at: Vec<u128>,
    took: Duration,
}

impl Outcome {
    fn failure(self) -> Failure {
        self.result.expect_err("the call fails")
    }
}

/// A policy whose numbers are not set, so that it keeps to the budget of a bounded request.
fn standard() -> RetryLayer {
    RetryLayer::new(RetryPolicy::default()).with_random(|| 1.0)
}

/// The candidate of a request, and whether it is the last.
fn candidate(name: &'static str, last: bool) -> Selected {
    let candidate = Candidate::new(name, Family::OpenAi, "https://provider.example/v1").with_model("x");
    Selected { candidate: candidate.into(), index: 0, last }
}

/// A request in a context and for a candidate.
fn request_for(context: Context, selected: Selected) -> Req {
    let mut request = request_in(context);
    request.extensions_mut().insert(selected);
    request
}

/// Makes one call in `context`. The mock answers attempt by attempt; a further attempt gets no answer and is a panic.
async fn play(layer: RetryLayer, context: Context, replies: impl IntoIterator<Item = Reply>) -> Outcome {
    play_request(layer, request_in(context), replies).await
}

async fn play_request(layer: RetryLayer, request: Req, replies: impl IntoIterator<Item = Reply>) -> Outcome {
    play_seeing(layer, request, replies, |_| {}).await
}

/// The same, with a look at the request of each attempt.
async fn play_seeing(
    layer: RetryLayer,
    request: Req,
    replies: impl IntoIterator<Item = Reply>,
    mut see: impl FnMut(Req),
) -> Outcome {
    let (mut service, mut handle) = mock::spawn_layer::<Req, Response<()>, _>(layer);
    std::future::poll_fn(|_| service.poll_ready()).await.unwrap();
    let began = Instant::now();
    let mut replies = replies.into_iter();
    let upstream = async {
        let mut at = Vec::new();
        while let Some((request, send)) = handle.next_request().await {
            at.push(began.elapsed().as_millis());
            see(request);
            match replies.next().expect("no further attempt") {
                Ok(()) => send.send_response(Response::new(())),
                Err(failure) => send.send_error(failure),
            }
        }
        at
    };
    let call = service.call(request);
    let call = async move {
        let result = call.await;
        // The mock's stream of requests ends with its last service.
        drop(service);
        (result, began.elapsed())
    };
    let ((result, took), at) = tokio::join!(call, upstream);
    assert_eq!(replies.count(), 0, "attempts are missing");
    Outcome { result, at, took }
}
