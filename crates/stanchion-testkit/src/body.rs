use std::{
    collections::VecDeque,
    fmt,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use stanchion_core::{Failure, FailureKind, Phase};
use tokio::time::{Sleep, sleep};

/// One step of a [`ScriptedBody`].
#[derive(Debug, Clone)]
pub enum Step {
    /// Yields a data frame.
    Data(Bytes),
    /// Is pending once, and wakes at once.
    Pending,
    /// Is pending for so long.
    Delay(Duration),
    /// Yields trailers.
    Trailers(HeaderMap),
    /// Fails, after output. What is scripted behind it is never seen.
    Error(FailureKind),
    /// Ends. What is scripted behind it is never seen; a script that runs out ends, too.
    End,
    /// Is pending for ever.
    Hang,
}

/// A body that plays a script, and then stays at its end.
///
/// By default its length is unknown and it reports its end as soon as nothing follows.
pub struct ScriptedBody {
    steps: VecDeque<Step>,
    sleep: Option<Pin<Box<Sleep>>>,
    exact_size: bool,
    hides_end: bool,
    drops: Option<Arc<AtomicUsize>>,
}

impl ScriptedBody {
    /// A body that plays `steps`.
    pub fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self { steps: steps.into_iter().collect(), sleep: None, exact_size: false, hides_end: false, drops: None }
    }

    /// A body of data frames.
    pub fn frames<T: Into<Bytes>>(frames: impl IntoIterator<Item = T>) -> Self {
        Self::new(frames.into_iter().map(|frame| Step::Data(frame.into())))
    }

    /// Adds a step.
    #[must_use]
    pub fn then(mut self, step: Step) -> Self {
        self.steps.push_back(step);
        self
    }

    /// Tells its exact length. It counts what is scripted, whether or not an error comes before.
    #[must_use]
    pub fn exact_size(mut self) -> Self {
        self.exact_size = true;
        self
    }

    /// Never reports its end but by `None`, as a chunked body does.
    #[must_use]
    pub fn hides_end(mut self) -> Self {
        self.hides_end = true;
        self
    }

    /// Adds one to `drops` when it is dropped.
    #[must_use]
    pub fn counts_drops(mut self, drops: &Arc<AtomicUsize>) -> Self {
        self.drops = Some(drops.clone());
        self
    }

    fn remaining(&self) -> u64 {
        let ahead = self.steps.iter().take_while(|step| !matches!(step, Step::Error(_) | Step::End));
        ahead.map(|step| if let Step::Data(data) = step { data.len() as u64 } else { 0 }).sum()
    }
}

impl Body for ScriptedBody {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        loop {
            if let Some(sleep) = &mut self.sleep {
                std::task::ready!(sleep.as_mut().poll(cx));
                self.sleep = None;
            }
            match self.steps.pop_front() {
                Some(Step::Data(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Some(Step::Trailers(trailers)) => return Poll::Ready(Some(Ok(Frame::trailers(trailers)))),
                Some(Step::Delay(delay)) => self.sleep = Some(Box::pin(sleep(delay))),
                Some(Step::Error(kind)) => {
                    self.steps.clear();
                    return Poll::Ready(Some(Err(Failure::new(kind).with_phase(Phase::AfterOutput))));
                }
                Some(Step::Pending) => {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Some(Step::Hang) => {
                    self.steps.push_front(Step::Hang);
                    return Poll::Pending;
                }
                Some(Step::End) | None => {
                    self.steps.clear();
                    return Poll::Ready(None);
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        !self.hides_end && self.sleep.is_none() && matches!(self.steps.front(), None | Some(Step::End))
    }

    fn size_hint(&self) -> SizeHint {
        if self.exact_size { SizeHint::with_exact(self.remaining()) } else { SizeHint::default() }
    }
}

impl Drop for ScriptedBody {
    fn drop(&mut self) {
        if let Some(drops) = &self.drops {
            drops.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl fmt::Debug for ScriptedBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedBody").field("steps", &self.steps).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_script_is_played_step_by_step() {
        let began = Instant::now();
        let mut body = ScriptedBody::new([Step::Pending, Step::Data("ab".into()), Step::Delay(Duration::from_secs(3))])
            .then(Step::Data("c".into()))
            .then(Step::End)
            .then(Step::Data("never".into()))
            .exact_size();
        assert_eq!(body.size_hint().exact(), Some(3));
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "ab");
        assert_eq!((body.size_hint().exact(), body.is_end_stream(), began.elapsed()), (Some(1), false, Duration::ZERO));
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "c");
        assert_eq!((body.is_end_stream(), began.elapsed()), (true, Duration::from_secs(3)));
        assert!(body.frame().await.is_none() && body.frame().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_is_told_once_and_a_drop_is_counted() {
        let drops = Arc::default();
        let mut body =
            ScriptedBody::frames(["a"]).then(Step::Error(FailureKind::Transport)).then(Step::Data("b".into()));
        body = body.counts_drops(&drops);
        assert!(body.frame().await.unwrap().is_ok());
        let failure = body.frame().await.unwrap().unwrap_err();
        assert_eq!((failure.kind(), failure.phase()), (FailureKind::Transport, Phase::AfterOutput));
        assert!(body.frame().await.is_none());
        assert_eq!(drops.load(Ordering::SeqCst), 0);
        drop(body);
        assert_eq!(drops.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn lengths_and_ends_are_hidden_on_request() {
        let body = ScriptedBody::new([]).hides_end();
        assert_eq!((body.is_end_stream(), body.size_hint().exact()), (false, None));
        assert!(ScriptedBody::new([]).is_end_stream());
    }
}
