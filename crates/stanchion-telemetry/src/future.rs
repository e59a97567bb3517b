use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use http::Response;
use http_body::Body;
use pin_project_lite::pin_project;
use stanchion_core::{Failure, Selected, StreamRecord};

use crate::{InFlight, TelemetryBody, watch::Watch};

pin_project! {
    /// The response future of [`Telemetry`](crate::Telemetry).
    pub struct TelemetryFuture<F> {
        #[pin]
        inner: F,
        // None where nobody is told, and once there is an answer. Behind the inner future, so that at a drop it goes last: what
        // the layers within have to tell of their end belongs to the request.
        watch: Option<Watch>,
    }
}

impl<F> TelemetryFuture<F> {
    pub(crate) fn new(inner: F, request: Option<Arc<InFlight>>) -> Self {
        Self { inner, watch: request.map(Watch::new) }
    }
}

impl<F, R, E> Future for TelemetryFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
    E: Into<Failure>,
    R: Body,
{
    type Output = Result<Response<TelemetryBody<R>>, Failure>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = ready!(this.inner.poll(cx)).map_err(Into::into);
        let watch = this.watch.take();
        Poll::Ready(match answer {
            Err(failure) => {
                if let Some(watch) = watch {
                    watch.failed(&failure);
                }
                Err(failure)
            }
            Ok(response) => {
                let (head, body) = response.into_parts();
                let watch = watch.map(|watch| {
                    let selected = head.extensions.get::<Selected>();
                    watch.replied(head.status, selected, head.extensions.get::<StreamRecord>().cloned())
                });
                Ok(Response::from_parts(head, TelemetryBody::new(body, watch)))
            }
        })
    }
}

impl<F> fmt::Debug for TelemetryFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TelemetryFuture").field("watched", &self.watch.is_some()).finish_non_exhaustive()
    }
}
