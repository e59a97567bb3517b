//! HTTP/2 streams whose clients take nothing of what is sent to them.
//!
//! On HTTP/1 that is the connection's to notice: see [`bound_silence`](super::bound_silence). On HTTP/2 a client can keep a stream's window
//! shut and answer every ping. Then nobody polls the body of that reply once a piece of it waits to be sent, and with it none of the
//! clocks within: it would hold its place and the provider's connection for ever.

use std::{
    future::Future,
    mem,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::Version;
use http_body::{Body, Frame, SizeHint};
use hyper::rt::Executor;
use pin_project_lite::pin_project;
use tokio::{
    task::futures::TaskLocalFuture,
    time::{Sleep, sleep},
};

tokio::task_local! {
    /// The number of the frame that the client of this stream is to take; 0 while there is none.
    static TO_TAKE: Arc<AtomicU64>;
}

pin_project! {
    /// A body that tells its stream what of it is to be taken, and hands it out in pieces that a client takes in no time.
    pub(super) struct Sent<B> {
        #[pin]
        body: B,
        // Whether there is a stream that wants to know: there is none on HTTP/1.
        has_stream: bool,
        frames: u64,
        // Of the frame that is being handed out.
        rest: Bytes,
    }
}

/// How large a piece of a stream is at most, in bytes. A stream has one of them beyond what its client has room for: so much of
/// its reply may outlive it, and so much has to be taken within the limit.
const PIECE: usize = 16 * 1024;

impl<B> Sent<B> {
    /// A body that is sent by this version.
    pub(super) fn new(body: B, version: Version) -> Self {
        Self { body, has_stream: version == Version::HTTP_2, frames: 0, rest: Bytes::new() }
    }
}

impl<B: Body<Data = Bytes>> Body for Sent<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        if !*this.has_stream {
            return this.body.poll_frame(cx);
        }
        let Ok(told) = TO_TAKE.try_with(Arc::clone) else { return this.body.poll_frame(cx) };
        let mut polled = if this.rest.is_empty() {
            this.body.poll_frame(cx)
        } else {
            Poll::Ready(Some(Ok(Frame::data(mem::take(this.rest)))))
        };
        if let Poll::Ready(Some(Ok(frame))) = &mut polled {
            *this.frames += 1;
            if let Some(data) = frame.data_mut().filter(|data| data.len() > PIECE) {
                *this.rest = data.split_off(PIECE);
            }
        }
        let to_take = if matches!(polled, Poll::Ready(Some(Ok(_)))) { *this.frames } else { 0 };
        told.store(to_take, Ordering::Relaxed);
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, hint) = (self.rest.len() as u64, self.body.size_hint());
        let mut whole = SizeHint::new();
        whole.set_lower(hint.lower() + rest);
        if let Some(upper) = hint.upper() {
            whole.set_upper(upper + rest);
        }
        whole
    }
}

/// Runs streams, each in a task of its own, and resets those whose clients take nothing for so long.
#[derive(Debug, Clone)]
pub(super) struct Streams {
    pub(super) limit: Duration,
}

impl<F: Future<Output: Send> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        tokio::spawn(Stream::new(stream, self.limit));
    }
}

pin_project! {
    struct Stream<F> {
        #[pin]
        within: TaskLocalFuture<Arc<AtomicU64>, F>,
        to_take: Arc<AtomicU64>,
        limit: Duration,
        // What the clock runs for.
        waits_for: u64,
        #[pin]
        clock: Option<Sleep>,
    }
}

impl<F: Future> Stream<F> {
    fn new(within: F, limit: Duration) -> Self {
        let to_take = Arc::<AtomicU64>::default();
        Self { within: TO_TAKE.scope(to_take.clone(), within), to_take, limit, waits_for: 0, clock: None }
    }
}

impl<F: Future> Future for Stream<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        if this.within.poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let waits_for = this.to_take.load(Ordering::Relaxed);
        if waits_for != *this.waits_for {
            *this.waits_for = waits_for;
            this.clock.set((waits_for > 0).then(|| sleep(*this.limit)));
        }
        let Some(clock) = this.clock.as_pin_mut() else { return Poll::Pending };
        ready!(clock.poll(cx));
        tracing::debug!(limit = ?this.limit, "a client has taken nothing of its reply: its stream is reset");
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::VecDeque, convert::Infallible, future::poll_fn};

    use http_body_util::{BodyExt, Full};
    use tokio::time::{Instant, timeout};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    /// Brings a frame after each of these pauses, and then nothing.
    struct Frames(VecDeque<Duration>, Pin<Box<Sleep>>);

    impl Body for Frames {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            ready!(self.1.as_mut().poll(cx));
            let pause = self.0.pop_front().unwrap_or(Duration::MAX / 4);
            self.1.as_mut().reset(Instant::now() + pause.min(Duration::from_secs(1 << 30)));
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"x")))))
        }
    }

    /// When a stream is over, in seconds, if a frame is brought at once and after each of `pauses`, and each taken after one of `takes`.
    async fn over(pauses: &[u64], takes: &[u64]) -> Option<u64> {
        let seconds = |all: &[u64]| all.iter().map(|after| Duration::from_secs(*after)).collect::<Vec<_>>();
        let (pauses, takes) = (seconds(pauses).into(), seconds(takes));
        let began = Instant::now();
        let mut body = Box::pin(Sent::new(Frames(pauses, Box::pin(sleep(Duration::ZERO))), Version::HTTP_2));
        let stream = Stream::new(
            async move {
                for take in takes {
                    poll_fn(|cx| body.as_mut().poll_frame(cx)).await;
                    sleep(take).await;
                }
                poll_fn(|cx| body.as_mut().poll_frame(cx)).await;
                std::future::pending::<()>().await;
            },
            LIMIT,
        );
        timeout(Duration::from_secs(3600), stream).await.ok()?;
        Some(began.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_is_given_up_and_who_waits_is_not() {
        assert_eq!(over(&[], &[]).await, Some(60), "the first frame is never taken");
        assert_eq!(over(&[0, 0], &[59, 59]).await, Some(59 + 59 + 60), "each frame has its own time");
        assert_eq!(over(&[0], &[61]).await, Some(60));
        assert_eq!(over(&[600, 0], &[1, 1]).await, Some(600 + 1 + 60), "a provider may take longer");
        assert_eq!(over(&[], &[1]).await, None, "and so may one that brings nothing more");
    }

    #[tokio::test]
    async fn a_large_frame_is_handed_out_in_pieces_and_whole() {
        let whole: Bytes = (0..=255).cycle().take(2 * PIECE + 1).collect();
        let body = |version| Box::pin(Sent::new(Full::new(whole.clone()), version));
        let in_a_stream = async {
            let (mut body, mut pieces) = (body(Version::HTTP_2), Vec::new());
            while !body.is_end_stream() {
                let left = body.size_hint().exact();
                assert_eq!(left, Some((whole.len() - pieces.iter().map(Bytes::len).sum::<usize>()) as u64));
                pieces.push(body.frame().await.unwrap().unwrap().into_data().unwrap());
            }
            assert!(body.frame().await.is_none());
            pieces
        };
        let pieces = TO_TAKE.scope(Arc::default(), in_a_stream).await;
        assert_eq!(pieces.iter().map(Bytes::len).collect::<Vec<_>>(), [PIECE, PIECE, 1]);
        assert_eq!(pieces.concat(), whole);
        let on_http1 = body(Version::HTTP_11).frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(on_http1, whole, "which has no windows");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_ends_is_over() {
        let began = Instant::now();
        Stream::new(sleep(Duration::from_secs(100)), LIMIT).await;
        assert_eq!(began.elapsed().as_secs(), 100, "what has no body yet has no clock");
    }
}
