//! The end of all requests at once, when a process has waited for them as long as it may: each fails as the failures of its phase do,
//! so that the edge tells it in the client's dialect.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
};

use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use stanchion::core::{Failure, FailureKind, Phase};
use tower_service::Service;

/// The signal. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct End(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    is_over: AtomicBool,
    running: AtomicU64,
    /// Whom to wake, by their places; the free ones are empty.
    wakers: Mutex<Wakers>,
}

#[derive(Debug, Default)]
struct Wakers {
    places: Vec<Option<Waker>>,
    free: Vec<usize>,
}

impl End {
    /// Ends what runs, and whatever comes.
    pub fn trigger(&self) {
        let wakers: Vec<Waker> = {
            let mut wakers = self.wakers();
            // Under the lock: whoever registers either sees it or is woken.
            self.0.is_over.store(true, Ordering::Release);
            wakers.places.iter_mut().filter_map(Option::take).collect()
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// How many requests run, from the end of their upload to the end of their reply.
    pub fn running(&self) -> u64 {
        self.0.running.load(Ordering::Relaxed)
    }

    fn is_over(&self) -> bool {
        self.0.is_over.load(Ordering::Acquire)
    }

    fn wakers(&self) -> std::sync::MutexGuard<'_, Wakers> {
        self.0.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One request that waits for the signal besides its own work.
#[derive(Debug)]
struct Watch {
    end: End,
    /// Where its waker is kept, and which it is: a task whose waker stays the same takes the lock once.
    place: Option<(usize, Waker)>,
}

impl Watch {
    fn new(end: End) -> Self {
        end.0.running.fetch_add(1, Ordering::Relaxed);
        Self { end, place: None }
    }

    /// Whether all is over. To be asked whenever there is nothing else to do.
    fn poll(&mut self, cx: &Context<'_>) -> bool {
        if self.end.is_over() {
            return true;
        }
        if let Some((_, known)) = &self.place
            && known.will_wake(cx.waker())
        {
            return false;
        }
        let waker = cx.waker().clone();
        let mut wakers = self.end.wakers();
        if self.end.is_over() {
            return true;
        }
        let place = match &self.place {
            Some((place, _)) => *place,
            None => wakers.free.pop().unwrap_or_else(|| {
                wakers.places.push(None);
                wakers.places.len() - 1
            }),
        };
        let before = wakers.places[place].replace(waker.clone());
        drop(wakers);
        // Never under the lock: the last waker of a task may drop it.
        drop(before);
        self.place = Some((place, waker));
        false
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.end.0.running.fetch_sub(1, Ordering::Relaxed);
        if let Some((place, _)) = self.place.take() {
            let mut wakers = self.end.wakers();
            let waker = wakers.places[place].take();
            wakers.free.push(place);
            drop(wakers);
            drop(waker);
        }
    }
}

/// Ends the requests of the service within at the signal.
#[derive(Debug, Clone)]
pub struct Ending<S> {
    inner: S,
    end: End,
}

impl<S> Ending<S> {
    /// Wraps a service.
    pub fn new(inner: S, end: End) -> Self {
        Self { inner, end }
    }

    /// The service within.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }
}

impl<S, B, R> Service<Request<B>> for Ending<S>
where
    S: Service<Request<B>, Response = Response<R>, Error = Failure>,
{
    type Response = Response<EndingBody<R>>;
    type Error = Failure;
    type Future = EndingFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        EndingFuture { inner: self.inner.call(request), watch: Some(Watch::new(self.end.clone())) }
    }
}

pin_project! {
    /// The future of [`Ending`].
    #[derive(Debug)]
    pub struct EndingFuture<F> {
        #[pin]
        inner: F,
        // The body's, once there is one.
        watch: Option<Watch>,
    }
}

impl<F, R> Future for EndingFuture<F>
where
    F: Future<Output = Result<Response<R>, Failure>>,
{
    type Output = Result<Response<EndingBody<R>>, Failure>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        match this.inner.poll(cx) {
            Poll::Ready(answer) => {
                let watch = this.watch.take();
                Poll::Ready(answer.map(|response| response.map(|body| EndingBody { inner: Some(body), watch })))
            }
            Poll::Pending if this.watch.as_mut().is_some_and(|watch| watch.poll(cx)) => {
                Poll::Ready(Err(shutting_down(Phase::BeforeOutput)))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

pin_project! {
    /// The body of [`Ending`].
    #[derive(Debug)]
    pub struct EndingBody<B> {
        // Gone once the signal has come: nothing more is wanted of the provider.
        #[pin]
        inner: Option<B>,
        // Gone once the reply has ended.
        watch: Option<Watch>,
    }
}

impl<B: Body<Error = Failure>> Body for EndingBody<B> {
    type Data = B::Data;
    type Error = Failure;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, Failure>>> {
        let mut this = self.project();
        let Some(inner) = this.inner.as_mut().as_pin_mut() else { return Poll::Ready(None) };
        // Asked before every piece: a provider that never pauses is not waited for either.
        let mut is_over = this.watch.as_ref().is_some_and(|watch| watch.end.is_over());
        if !is_over {
            match inner.poll_frame(cx) {
                Poll::Pending => is_over = this.watch.as_mut().is_some_and(|watch| watch.poll(cx)),
                Poll::Ready(Some(Ok(frame))) => return Poll::Ready(Some(Ok(frame))),
                ended @ Poll::Ready(_) => {
                    *this.watch = None;
                    return ended;
                }
            }
        }
        if !is_over {
            return Poll::Pending;
        }
        this.inner.set(None);
        *this.watch = None;
        Poll::Ready(Some(Err(shutting_down(Phase::AfterOutput))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

fn shutting_down(phase: Phase) -> Failure {
    Failure::new(FailureKind::ShuttingDown).with_phase(phase)
}

#[cfg(test)]
mod tests;
