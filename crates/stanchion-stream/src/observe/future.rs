use std::{
    pin::Pin,
    task::{Context as TaskContext, Poll, ready},
};

use http::{
    HeaderMap, Response,
    header::{CONTENT_ENCODING, CONTENT_LENGTH},
};
use pin_project_lite::pin_project;
use stanchion_core::{Context, Dialect, Failure, StreamRecord};

use super::{ObserveBody, layer::Settings, reply::Reply};

pin_project! {
    /// The future of [`Observe`](super::Observe).
    #[derive(Debug)]
    pub struct ObserveFuture<F> {
        #[pin]
        inner: F,
        settings: Settings,
        call: Option<(Dialect, bool)>,
        hides_usage: bool,
        context: Option<Context>,
    }
}

impl<F> ObserveFuture<F> {
    pub(super) fn new(
        inner: F,
        settings: Settings,
        call: Option<(Dialect, bool)>,
        hides_usage: bool,
        context: Option<Context>,
    ) -> Self {
        Self { inner, settings, call, hides_usage, context }
    }
}

impl<F, R, E> Future for ObserveFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
    E: Into<Failure>,
{
    type Output = Result<Response<ObserveBody<R>>, Failure>;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let response = ready!(this.inner.poll(cx)).map_err(Into::into)?;
        let (mut parts, body) = response.into_parts();
        // What is still encoded cannot be read.
        let readable = parts.status.is_success() && !is_encoded(&parts.headers);
        let Some((dialect, stream)) = this.call.filter(|_| readable) else {
            return Poll::Ready(Ok(Response::from_parts(parts, ObserveBody::unread(body))));
        };
        let (record, recorder) = StreamRecord::new();
        parts.extensions.insert(record);
        if stream {
            // Frames may be dropped, and an error may follow the last one.
            parts.headers.remove(CONTENT_LENGTH);
        }
        let mut reply = Reply::new(dialect, stream, &parts.headers, *this.settings, recorder, this.context.take());
        if *this.hides_usage {
            reply.hide_usage();
        }
        Poll::Ready(Ok(Response::from_parts(parts, ObserveBody::read(body, reply))))
    }
}

fn is_encoded(headers: &HeaderMap) -> bool {
    headers
        .get(CONTENT_ENCODING)
        .is_some_and(|coding| !coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity"))
}
