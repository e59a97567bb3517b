//! What the client of one connection is doing, and how long it may.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use http::Version;
use pin_project_lite::pin_project;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep_until},
};

use super::ListenerLimits;

/// How an HTTP/2 client that was told to go may take to do so.
const GOING: Duration = Duration::from_secs(5);

/// What begins an HTTP/2 connection, as far as no request of HTTP/1 does.
const PREFACE: &[u8] = b"PRI ";

/// What a client is doing. Clones are the same.
#[derive(Debug, Clone)]
pub(super) struct Activity(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    requests: u32,
    /// Whether part of a head has come. On HTTP/2 nobody sees: what comes there may be anything.
    head: bool,
    /// Since when there is no request, or part of a head.
    since: Instant,
    /// Known once the first bytes have come.
    http2: Option<bool>,
    waker: Option<Waker>,
}

/// What has lasted too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overdue {
    /// There was no request.
    Idle,
    /// A head began and is not whole.
    Head,
}

impl Activity {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(State { requests: 0, head: false, since: Instant::now(), http2: None, waker: None })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn received(&self, bytes: &[u8]) {
        let state = &mut *self.lock();
        let may_be_http2 = match state.http2 {
            Some(http2) => http2,
            // Fewer bytes than tell one from the other tell nothing yet.
            None if bytes.len() < PREFACE.len() && PREFACE.starts_with(bytes) => false,
            None => *state.http2.insert(bytes.starts_with(PREFACE)),
        };
        if state.requests == 0 && !state.head && !may_be_http2 {
            state.head = true;
            state.since = Instant::now();
        }
    }

    /// A request has come; it runs until what is returned is dropped.
    pub(super) fn begin(&self, version: Version) -> InFlight {
        let state = &mut *self.lock();
        // The first bytes may have come one by one.
        state.http2 = Some(version == Version::HTTP_2);
        state.requests += 1;
        state.head = false;
        InFlight(self.clone())
    }
}

/// A request that runs until this is dropped.
#[derive(Debug)]
pub(super) struct InFlight(Activity);

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.requests -= 1;
        if state.requests == 0 {
            state.since = Instant::now();
        }
        // The task of an HTTP/2 connection is another than that of the reply.
        let waker = if state.http2 == Some(true) { state.waker.take() } else { None };
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Tells what has lasted too long. To be polled by the task of the connection, after the connection itself.
pub(super) struct Clock {
    activity: Activity,
    limits: ListenerLimits,
    going: bool,
    sleep: Pin<Box<Sleep>>,
}

impl Clock {
    pub(super) fn new(activity: Activity, limits: ListenerLimits) -> Self {
        Self { activity, limits, going: false, sleep: Box::pin(sleep_until(Instant::now())) }
    }

    /// The client was told to go.
    pub(super) fn go(&mut self) {
        self.going = true;
    }

    fn due(&self, state: &State) -> Option<(Instant, Overdue)> {
        match state {
            State { requests: 1.., .. } => None,
            State { head: true, since, .. } => Some((*since + self.limits.header_timeout, Overdue::Head)),
            State { since, http2, .. } => match (self.going, http2) {
                (false, _) => Some((*since + self.limits.keep_alive, Overdue::Idle)),
                (true, Some(true)) => Some((*since + GOING, Overdue::Idle)),
                // It is closed once all is sent.
                (true, _) => None,
            },
        }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Overdue> {
        let due = {
            let state = &mut *self.activity.lock();
            match &mut state.waker {
                Some(waker) => waker.clone_from(cx.waker()),
                none => *none = Some(cx.waker().clone()),
            }
            self.due(state)
        };
        let Some((at, what)) = due else { return Poll::Pending };
        if self.sleep.deadline() != at {
            self.sleep.as_mut().reset(at);
        }
        self.sleep.as_mut().poll(cx).map(|()| what)
    }
}

pin_project! {
    /// A connection whose client is watched.
    pub(super) struct Watched<S> {
        #[pin]
        stream: S,
        activity: Activity,
    }
}

impl<S> Watched<S> {
    pub(super) fn new(stream: S, activity: Activity) -> Self {
        Self { stream, activity }
    }
}

impl<S: AsyncRead> AsyncRead for Watched<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let this = self.project();
        let before = buf.filled().len();
        let polled = this.stream.poll_read(cx, buf);
        if buf.filled().len() > before {
            this.activity.received(&buf.filled()[before..]);
        }
        polled
    }
}

impl<S: AsyncWrite> AsyncWrite for Watched<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        self.project().stream.poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.project().stream.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.project().stream.poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        self.project().stream.poll_write_vectored(cx, bufs)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::time::{advance, timeout};

    use super::*;

    const LIMITS: fn() -> ListenerLimits = || ListenerLimits {
        header_timeout: Duration::from_secs(10),
        keep_alive: Duration::from_secs(60),
        ..ListenerLimits::default()
    };

    /// What comes to be overdue from now on, and after how many seconds.
    async fn overdue(clock: &mut Clock) -> Option<(Overdue, u64)> {
        let began = Instant::now();
        let what = timeout(Duration::from_secs(3600), poll_fn(|cx| clock.poll(cx))).await.ok()?;
        Some((what, began.elapsed().as_secs()))
    }

    #[tokio::test(start_paused = true)]
    async fn who_sends_nothing_has_longer_than_who_has_begun() {
        let activity = Activity::new();
        let clock = &mut Clock::new(activity.clone(), LIMITS());
        assert_eq!(overdue(clock).await, Some((Overdue::Idle, 60)));
        activity.received(b"P");
        advance(Duration::from_secs(4)).await;
        activity.received(b"OST");
        assert_eq!(overdue(clock).await, Some((Overdue::Head, 6)), "more of a head buys no time");
        let (one, other) = (activity.begin(Version::HTTP_11), activity.begin(Version::HTTP_11));
        drop(one);
        assert_eq!(overdue(clock).await, None);
        drop(other);
        assert_eq!(overdue(clock).await, Some((Overdue::Idle, 60)));
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_over_http2_is_no_head() {
        let activity = Activity::new();
        let clock = &mut Clock::new(activity.clone(), LIMITS());
        activity.received(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        advance(Duration::from_secs(50)).await;
        activity.received(&[0; 17]);
        assert_eq!(overdue(clock).await, Some((Overdue::Idle, 10)));
        // Who was told to go and does not is not waited for.
        let request = activity.begin(Version::HTTP_2);
        clock.go();
        assert_eq!(overdue(clock).await, None);
        drop(request);
        assert_eq!(overdue(clock).await, Some((Overdue::Idle, 5)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_preface_in_pieces_is_one_all_the_same() {
        let activity = Activity::new();
        let clock = &mut Clock::new(activity.clone(), LIMITS());
        activity.received(b"P");
        assert_eq!(overdue(clock).await, Some((Overdue::Head, 10)), "it may be anything");
        activity.received(b"RI * HTTP/2.0\r\n");
        drop(activity.begin(Version::HTTP_2));
        activity.received(&[0; 17]);
        assert_eq!(overdue(clock).await, Some((Overdue::Idle, 60)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_a_reply_in_another_task_starts_the_clock() {
        let activity = Activity::new();
        activity.received(PREFACE);
        let request = activity.begin(Version::HTTP_2);
        let mut clock = Clock::new(activity.clone(), LIMITS());
        let waiting = tokio::spawn(async move { overdue(&mut clock).await });
        tokio::time::sleep(Duration::from_secs(100)).await;
        drop(request);
        assert_eq!(waiting.await.unwrap(), Some((Overdue::Idle, 160)));
    }
}
