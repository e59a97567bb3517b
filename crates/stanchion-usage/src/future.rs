use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};

use http::Response;
use http_body::Body;
use pin_project_lite::pin_project;
use stanchion_core::Failure;

use crate::{UsageBody, account::Account};

pin_project! {
    /// The response future of [`UsageService`](crate::UsageService).
    pub struct UsageFuture<F> {
        #[pin]
        inner: F,
        // None once there is an answer.
        account: Option<Account>,
    }
}

impl<F> UsageFuture<F> {
    pub(crate) fn new(inner: F, account: Account) -> Self {
        Self { inner, account: Some(account) }
    }
}

impl<F, R, E> Future for UsageFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
    E: Into<Failure>,
    R: Body,
{
    type Output = Result<Response<UsageBody<R>>, Failure>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = ready!(this.inner.poll(cx)).map_err(Into::into);
        let account = this.account.take();
        let (head, body) = answer?.into_parts();
        // What is no success is no reply: nobody bills it.
        let account = account.filter(|_| head.status.is_success()).map(|mut account| {
            account.answered(&head);
            account
        });
        Poll::Ready(Ok(Response::from_parts(head, UsageBody::new(body, account))))
    }
}

impl<F> fmt::Debug for UsageFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UsageFuture").field("answered", &self.account.is_none()).finish_non_exhaustive()
    }
}
