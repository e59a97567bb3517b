use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context as TaskContext, Poll, ready},
    time::SystemTime,
};

use bytes::{Bytes, BytesMut};
use http::{Response, response::Parts};
use http_body::Body;
use pin_project_lite::pin_project;
use stanchion_core::{AttemptPhase, Context, Event, Failure, ProviderAttempt, ProviderReply, RetainedBytes};
use stanchion_wire::error::classify_reply;
use tokio::time::{Sleep, sleep};

use super::{
    CommitBody, CommitLayer,
    holding::{Held, HoldLimits, Holding},
    service::AttemptInfo,
};

pin_project! {
    /// The future of [`Commit`](super::Commit).
    pub struct CommitFuture<F, B> {
        #[pin]
        state: State<F, B>,
        layer: Arc<CommitLayer>,
        info: Option<AttemptInfo>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<F, B> {
        // The head is yet to come.
        Calling {
            #[pin]
            inner: F,
        },
        // A success, held back until its first output.
        Holding { holding: Option<Holding<B>> },
        // An error status. Boxed, so that the many that are none do not carry the room for it about.
        Refused { refused: Pin<Box<Refused<B>>> },
    }
}

pin_project! {
    // An error status, whose body is read within bounds.
    #[project = RefusedProjection]
    struct Refused<B> {
        head: Option<Parts>,
        collected: BytesMut,
        #[pin]
        body: B,
        #[pin]
        until: Sleep,
    }
}

impl<F, B> fmt::Debug for CommitFuture<F, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommitFuture").field("layer", &self.layer).finish_non_exhaustive()
    }
}

impl<F, B> CommitFuture<F, B> {
    pub(super) fn new(inner: F, layer: Arc<CommitLayer>, info: AttemptInfo) -> Self {
        Self { state: State::Calling { inner }, layer, info: Some(info) }
    }
}

impl<F, B, E> Future for CommitFuture<F, B>
where
    F: Future<Output = Result<Response<B>, E>>,
    E: Into<Failure>,
    B: Body<Data = Bytes>,
    B::Error: Into<Failure>,
{
    type Output = Result<Response<CommitBody<B>>, Failure>;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let failure = match this.state.as_mut().project() {
                StateProjection::Calling { inner } => match ready!(inner.poll(cx)) {
                    Err(error) => error.into(),
                    Ok(response) => {
                        let (head, body) = response.into_parts();
                        let next = if head.status.is_success() {
                            let info = this.info.as_ref().expect("taken once");
                            let limits = HoldLimits {
                                policy: info.policy,
                                window: this.layer.window,
                                max_hold: this.layer.max_hold,
                            };
                            let retained = info.retained.as_ref().map(RetainedBytes::hold);
                            State::Holding { holding: Some(Holding::new(head, body, limits, retained)) }
                        } else {
                            let until = sleep(this.layer.error_body_time);
                            let refused = Refused { head: Some(head), collected: BytesMut::new(), body, until };
                            State::Refused { refused: Box::pin(refused) }
                        };
                        this.state.set(next);
                        continue;
                    }
                },
                StateProjection::Holding { holding } => {
                    let state = holding.as_mut().expect("polled after it was ready");
                    let context = this.info.as_ref().and_then(|info| info.context.as_ref());
                    match ready!(state.poll(cx, context)) {
                        Held::Fail(failure) => failure,
                        Held::Release { ended } => {
                            let state = holding.take().expect("just polled");
                            let info = this.info.take().expect("taken once");
                            tell(&info, AttemptPhase::Committed, None);
                            return Poll::Ready(Ok(Response::from_parts(
                                state.head,
                                CommitBody::new(state.held, state.body, info, ended),
                            )));
                        }
                    }
                }
                StateProjection::Refused { refused } => {
                    let RefusedProjection { head, collected, body, until } = refused.as_mut().project();
                    let complete = match poll_error_body(body, collected, cx) {
                        Poll::Ready(complete) => complete,
                        Poll::Pending => {
                            ready!(until.poll(cx));
                            false
                        }
                    };
                    let head = head.take().expect("polled after it was ready");
                    let reply = ProviderReply {
                        status: head.status,
                        headers: head.headers,
                        body: collected.split().freeze(),
                        complete,
                    };
                    let dialect = this.info.as_ref().expect("taken once").dialect;
                    classify_reply(dialect, reply, SystemTime::now())
                }
            };
            let info = this.info.take().expect("taken once");
            let failure = info.stamp(failure);
            tell_failed(&info, &failure);
            return Poll::Ready(Err(failure));
        }
    }
}

/// Reads an error body up to the bound. Says whether it is whole.
fn poll_error_body<B>(mut body: Pin<&mut B>, collected: &mut BytesMut, cx: &mut TaskContext<'_>) -> Poll<bool>
where
    B: Body<Data = Bytes>,
{
    loop {
        match ready!(body.as_mut().poll_frame(cx)) {
            Some(Ok(frame)) => {
                let Some(data) = frame.data_ref() else { continue };
                let room = ProviderReply::MAX_BODY - collected.len();
                collected.extend_from_slice(&data[..data.len().min(room)]);
                if data.len() > room {
                    return Poll::Ready(false);
                }
            }
            Some(Err(_)) => return Poll::Ready(false),
            None => return Poll::Ready(true),
        }
    }
}

impl AttemptInfo {
    /// Names the candidate and counts the attempts on a failure that does not say so yet.
    pub(super) fn stamp(&self, mut failure: Failure) -> Failure {
        if failure.candidate().is_none()
            && let Some(candidate) = &self.candidate
        {
            failure = failure.with_candidate(candidate.clone());
        }
        if failure.attempts() == 0
            && let Some(context) = &self.context
        {
            failure = failure.with_attempts(context.attempts());
        }
        failure
    }
}

pub(super) fn tell_failed(info: &AttemptInfo, failure: &Failure) {
    tell(info, AttemptPhase::Failed, Some(failure));
}

fn tell(info: &AttemptInfo, phase: AttemptPhase, failure: Option<&Failure>) {
    Context::emit(info.context.as_ref(), || {
        Event::ProviderAttempt(ProviderAttempt {
            phase,
            candidate: info.candidate.clone().unwrap_or_default(),
            attempt: info.context.as_ref().map_or(0, Context::attempts),
            failure: failure.map(Failure::kind),
            failed_in: failure.map(Failure::phase),
            status_code: failure.and_then(Failure::status).map(|status| status.as_u16()),
            elapsed: info.started.elapsed(),
        })
    });
}
