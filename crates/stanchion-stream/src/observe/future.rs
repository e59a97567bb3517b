use std::{
    pin::Pin,
    task::{Context as TaskContext, Poll, ready},
};

use http::{
    HeaderMap, Response,
    header::{CONTENT_ENCODING, CONTENT_LENGTH},
    response::Parts,
};
use pin_project_lite::pin_project;
use stanchion_core::{AttemptEntry, Context, Dialect, Failure, StreamRecord};

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
        entry: Option<AttemptEntry>,
    }
}

impl<F> ObserveFuture<F> {
    pub(super) fn new(
        inner: F,
        settings: Settings,
        call: Option<(Dialect, bool)>,
        hides_usage: bool,
        context: Option<Context>,
        entry: Option<AttemptEntry>,
    ) -> Self {
        Self { inner, settings, call, hides_usage, context, entry }
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
        let answer = ready!(this.inner.poll(cx)).map(Response::into_parts).map_err(Into::into);
        let entry = this.entry.take();
        // What is still encoded cannot be read.
        let readable = |head: &Parts| head.status.is_success() && !is_encoded(&head.headers);
        let call = this.call.filter(|_| answer.as_ref().is_ok_and(|(head, _)| readable(head)));
        let Some((dialect, stream)) = call else {
            if let Some(entry) = entry {
                entry.refused();
            }
            return Poll::Ready(answer.map(|(head, body)| Response::from_parts(head, ObserveBody::unread(body))));
        };
        let (mut parts, body) = answer?;
        let (record, recorder) = StreamRecord::new();
        if let Some(entry) = entry {
            entry.answered(&record);
        }
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
