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
        // None once it is over, so that how its attempts ended is known when they are told of.
        #[pin]
        inner: Option<F>,
        // None once there is an answer.
        account: Option<Account>,
    }

    impl<F> PinnedDrop for UsageFuture<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            this.inner.set(None);
            if let Some(account) = this.account.take() {
                account.close_others();
            }
        }
    }
}

impl<F> UsageFuture<F> {
    pub(crate) fn new(inner: F, account: Account) -> Self {
        Self { inner: Some(inner), account: Some(account) }
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
        let mut this = self.project();
        let inner = this.inner.as_mut().as_pin_mut().expect("a future is not polled after its end");
        let answer = ready!(inner.poll(cx)).map_err(Into::into);
        this.inner.set(None);
        let mut account = this.account.take();
        if let (Some(account), Ok(response)) = (&mut account, &answer) {
            account.answered(response.extensions());
        }
        if let Some(account) = &account {
            account.close_others();
        }
        let (head, body) = answer?.into_parts();
        // What is no success is no reply: nobody bills it.
        let account = account.filter(|_| head.status.is_success());
        Poll::Ready(Ok(Response::from_parts(head, UsageBody::new(body, account))))
    }
}

impl<F> fmt::Debug for UsageFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UsageFuture").field("answered", &self.account.is_none()).finish_non_exhaustive()
    }
}
