use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use stanchion_core::Failure;

use crate::account::Account;

pin_project! {
    /// The body of [`UsageService`](crate::UsageService): the inner one, watched until it is known what the reply has
    /// used.
    pub struct UsageBody<B> {
        #[pin]
        inner: B,
        // None once it is told. Boxed: bodies are moved through every layer outside.
        account: Option<Box<Account>>,
    }

    impl<B> PinnedDrop for UsageBody<B> {
        fn drop(this: Pin<&mut Self>) {
            close(this.project().account);
        }
    }
}

impl<B: Body> UsageBody<B> {
    pub(crate) fn new(inner: B, account: Option<Account>) -> Self {
        let mut account = account.map(Box::new);
        if inner.is_end_stream() {
            // Nobody has to poll it.
            close(&mut account);
        }
        Self { inner, account }
    }
}

/// Tells it, unless it is told.
fn close(account: &mut Option<Box<Account>>) {
    if let Some(account) = account.take() {
        account.close();
    }
}

impl<B> Body for UsageBody<B>
where
    B: Body,
    B::Error: Into<Failure>,
{
    type Data = B::Data;
    type Error = Failure;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, Failure>>> {
        let mut this = self.project();
        let frame = ready!(this.inner.as_mut().poll_frame(cx));
        if let Some(account) = this.account {
            // Told before the end marker leaves: behind it nobody reads.
            let over = !matches!(frame, Some(Ok(_))) || account.is_complete() || this.inner.is_end_stream();
            if over {
                close(this.account);
            }
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl<B> fmt::Debug for UsageBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UsageBody").field("told", &self.account.is_none()).finish_non_exhaustive()
    }
}
