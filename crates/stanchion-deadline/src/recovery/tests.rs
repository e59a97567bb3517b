mod bodies;
mod budgets;
mod calls;
mod laws;

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{self, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::BodyExt;
use stanchion_core::{
    Context, Failure, FailureKind, Phase, ProviderRetry, RecoveryBudget, RetryPhase, RetryReason, StreamRecord,
};
use stanchion_testkit::{Events, ScriptedBody, Step};
use tokio::time::{Instant, sleep};
use tower_layer::Layer;
use tower_service::Service;

use super::*;

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn layer(budget: Duration) -> RecoveryLayer {
    RecoveryLayer::new(RecoveryLimits::builder().budget(budget).build().unwrap())
}

fn request_in(context: Context) -> Request<()> {
    let mut request = Request::new(());
    request.extensions_mut().insert(context);
    request
}

/// What a service that retries does, one thing after another.
#[derive(Debug, Clone)]
enum Act {
    /// Queues, backs off, or waits for an answer.
    Wait(Duration),
    /// Meets a failure that it will retry: the clock starts.
    Retries,
    /// Gives up.
    Fails(FailureKind),
    /// Ends the budget itself.
    Ends,
    /// Answers.
    Answers(Vec<Step>),
}

/// A service that behaves as one that retries would. What it holds is counted while it lives.
#[derive(Clone, Default)]
struct Scripted {
    acts: Vec<Act>,
    record: Option<StreamRecord>,
    alive: Arc<AtomicUsize>,
}

struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count.clone())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Scripted {
    fn new(acts: impl IntoIterator<Item = Act>) -> Self {
        Self { acts: acts.into_iter().collect(), ..Self::default() }
    }

    fn alive(&self) -> usize {
        self.alive.load(Ordering::SeqCst)
    }
}

type Reply = Response<http_body_util::combinators::UnsyncBoxBody<Bytes, Failure>>;

impl Service<Request<()>> for Scripted {
    type Response = Reply;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Reply, Failure>>>>;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        let (acts, record, alive) = (self.acts.clone(), self.record.clone(), Alive::new(&self.alive));
        let context = Context::of(&request).cloned();
        Box::pin(async move {
            let budget = context.as_ref().and_then(Context::recovery);
            for act in acts {
                match act {
                    Act::Wait(time) => sleep(time).await,
                    Act::Retries => {
                        let Some(budget) = budget else { return Err(Failure::new(FailureKind::ServerError)) };
                        budget.start(Instant::now());
                        budget.remember(
                            &ProviderRetry {
                                attempt: 1,
                                candidate: Some("a/x".into()),
                                ..ProviderRetry::new(RetryPhase::Scheduled, RetryReason::ServerError)
                            },
                            None,
                        );
                    }
                    Act::Fails(kind) => return Err(Failure::new(kind).with_phase(Phase::BeforeOutput)),
                    Act::Ends => return Err(budget.unwrap().end(context.as_ref(), Instant::now())),
                    Act::Answers(steps) => {
                        let body = ScriptedBody::new(steps).map_frame(move |frame| {
                            let _held = &alive;
                            frame
                        });
                        let mut response = Response::new(body.boxed_unsync());
                        if let Some(record) = record {
                            response.extensions_mut().insert(record);
                        }
                        return Ok(response);
                    }
                }
            }
            Err(Failure::new(FailureKind::ServerError))
        })
    }
}

/// Reads to the end: how many frames came, and how it ended.
async fn read<B>(body: B) -> (usize, Option<Failure>)
where
    B: Body<Data = Bytes, Error = Failure>,
{
    let mut body = std::pin::pin!(body);
    let mut frames = 0;
    loop {
        match body.frame().await {
            Some(Ok(_)) => frames += 1,
            Some(Err(failure)) => {
                assert!(body.frame().await.is_none(), "the end is told once");
                return (frames, Some(failure));
            }
            None => return (frames, None),
        }
    }
}

/// What came of a request, and after how long.
struct Outcome {
    failure: Option<Failure>,
    frames: usize,
    after: Duration,
    /// When the budget ended, or would have, after the same start; `None` if its clock never ran.
    deadline: Option<Duration>,
    events: Vec<String>,
}

impl Outcome {
    fn kind(&self) -> Option<FailureKind> {
        self.failure.as_ref().map(Failure::kind)
    }
}

/// Plays a script behind a budget of 30 s, to the end of its reply.
async fn play(inner: Scripted) -> Outcome {
    play_within(s(30), inner).await
}

async fn play_within(budget: Duration, inner: Scripted) -> Outcome {
    let events = Events::new();
    // Not through the settings, so that any budget will do.
    let context = events.context_builder().recovery(RecoveryBudget::new(budget)).build();
    let start = Instant::now();
    let (frames, failure) = match RecoveryLayer::default().layer(inner).call(request_in(context.clone())).await {
        Ok(response) => read(response.into_body()).await,
        Err(failure) => (0, Some(failure)),
    };
    let after = start.elapsed();
    let deadline = context.recovery().and_then(RecoveryBudget::deadline).map(|deadline| deadline - start);
    Outcome { failure, frames, after, deadline, events: events.timed_lines() }
}
