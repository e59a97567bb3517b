use std::{
    collections::VecDeque,
    fmt,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use http::{Request, Response};
use stanchion_core::{Failure, FailureKind, Phase};
use tower_service::Service;

use crate::ScriptedBody;

type Reply = Box<dyn Fn() -> Response<ScriptedBody> + Send>;

/// An innermost service that is hard to please.
///
/// Its readiness takes two polls, is used up by one call, and dies on a clone; a call without it panics. Its answers
/// take two polls, too. Clones share what it answers and what it counts.
pub struct Probe {
    polled: bool,
    ready: bool,
    shared: Arc<Shared>,
}

struct Shared {
    calls: AtomicUsize,
    live: AtomicUsize,
    script: Mutex<Script>,
}

struct Script {
    reply: Reply,
    failures: VecDeque<FailureKind>,
    ready_error: Option<FailureKind>,
    hangs: bool,
}

impl Probe {
    /// A probe that answers with what `reply` makes.
    pub fn new(reply: impl Fn() -> Response<ScriptedBody> + Send + 'static) -> Self {
        let script = Script { reply: Box::new(reply), failures: VecDeque::new(), ready_error: None, hangs: false };
        let shared = Shared { calls: AtomicUsize::new(0), live: AtomicUsize::new(0), script: Mutex::new(script) };
        Self { polled: false, ready: false, shared: Arc::new(shared) }
    }

    /// The next calls fail, before output, one by one as listed.
    #[must_use]
    pub fn failing(self, kinds: impl IntoIterator<Item = FailureKind>) -> Self {
        self.script().failures.extend(kinds);
        self
    }

    /// Never becomes ready: `poll_ready` fails.
    #[must_use]
    pub fn failing_ready(self, kind: FailureKind) -> Self {
        self.script().ready_error = Some(kind);
        self
    }

    /// Never answers.
    #[must_use]
    pub fn hanging(self) -> Self {
        self.script().hangs = true;
        self
    }

    /// How many calls it and its clones saw.
    pub fn calls(&self) -> usize {
        self.shared.calls.load(Ordering::SeqCst)
    }

    /// How many calls are in flight.
    pub fn live(&self) -> usize {
        self.shared.live.load(Ordering::SeqCst)
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.shared.script.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clone for Probe {
    fn clone(&self) -> Self {
        Self { polled: false, ready: false, shared: self.shared.clone() }
    }
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probe").field("ready", &self.ready).field("calls", &self.calls()).finish_non_exhaustive()
    }
}

impl<B> Service<Request<B>> for Probe {
    type Response = Response<ScriptedBody>;
    type Error = Failure;
    type Future = ProbeFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        if !self.polled {
            self.polled = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Some(kind) = self.script().ready_error {
            return Poll::Ready(Err(Failure::new(kind).with_phase(Phase::Connect)));
        }
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<B>) -> ProbeFuture {
        assert!(self.ready, "the service that is called is not the one that was polled ready");
        (self.ready, self.polled) = (false, false);
        self.shared.calls.fetch_add(1, Ordering::SeqCst);
        self.shared.live.fetch_add(1, Ordering::SeqCst);
        ProbeFuture { polled: false, shared: self.shared.clone() }
    }
}

/// The answer of a [`Probe`].
pub struct ProbeFuture {
    polled: bool,
    shared: Arc<Shared>,
}

impl Future for ProbeFuture {
    type Output = Result<Response<ScriptedBody>, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = std::mem::replace(&mut self.polled, true);
        let mut script = self.shared.script.lock().unwrap_or_else(PoisonError::into_inner);
        if script.hangs {
            return Poll::Pending;
        }
        if !polled {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(match script.failures.pop_front() {
            Some(kind) => Err(Failure::new(kind).with_phase(Phase::BeforeOutput)),
            None => Ok((script.reply)()),
        })
    }
}

impl Drop for ProbeFuture {
    fn drop(&mut self) {
        self.shared.live.fetch_sub(1, Ordering::SeqCst);
    }
}

impl fmt::Debug for ProbeFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProbeFuture").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn readiness_takes_two_polls_is_used_up_and_dies_on_a_clone() {
        let mut cx = Context::from_waker(Waker::noop());
        let mut probe = Probe::new(|| Response::new(ScriptedBody::new([]))).failing([FailureKind::Overloaded]);
        for calls in 1..=2 {
            assert!(Service::<Request<()>>::poll_ready(&mut probe, &mut cx).is_pending());
            assert!(Service::<Request<()>>::poll_ready(&mut probe, &mut cx).is_ready());
            assert!(probe.ready && !probe.clone().ready);
            let mut call = Box::pin(probe.call(Request::new(())));
            assert!(!probe.ready);
            assert_eq!((probe.calls(), probe.live()), (calls, 1));
            assert!(call.as_mut().poll(&mut cx).is_pending());
            let Poll::Ready(answer) = call.as_mut().poll(&mut cx) else { panic!("an answer takes two polls") };
            assert_eq!(answer.err().map(|failure| failure.kind()), (calls == 1).then_some(FailureKind::Overloaded));
            drop(call);
            assert_eq!(probe.live(), 0);
        }
    }
}
