use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use http::Response;
use http_body::Body;
use pin_project_lite::pin_project;
use stanchion_core::Failure;

use crate::{CacheBreakBody, watch::Asked};

pin_project! {
    /// The response future of [`CacheBreak`](crate::CacheBreak).
    pub struct CacheBreakFuture<F> {
        // None once it is over, so that what the call held is free before anything else happens.
        #[pin]
        call: Option<F>,
        // None where nothing is watched.
        asked: Option<Box<Asked>>,
    }
}

impl<F> CacheBreakFuture<F> {
    pub(crate) fn new(call: F, asked: Option<Box<Asked>>) -> Self {
        Self { call: Some(call), asked }
    }
}

impl<F, R, E> Future for CacheBreakFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
    E: Into<Failure>,
    R: Body,
{
    type Output = Result<Response<CacheBreakBody<R>>, Failure>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let call = this.call.as_mut().as_pin_mut().expect("polled after its end");
        let Poll::Ready(result) = call.poll(cx) else {
            if let Some(asked) = this.asked {
                asked.read();
            }
            return Poll::Pending;
        };
        this.call.set(None);
        Poll::Ready(match result {
            Ok(response) => {
                let (head, body) = response.into_parts();
                let watch = this.asked.take().and_then(|asked| asked.answered(&head));
                Ok(Response::from_parts(head, CacheBreakBody::new(body, watch)))
            }
            Err(error) => Err(error.into()),
        })
    }
}

impl<F> fmt::Debug for CacheBreakFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheBreakFuture").field("watched", &self.asked.is_some()).finish_non_exhaustive()
    }
}
