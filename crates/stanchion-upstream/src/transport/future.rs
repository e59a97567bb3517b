use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Extensions, Request, Response, Version};
use http_body_util::Full;
use hyper_util::client::legacy::ResponseFuture;
use stanchion_core::Failure;

use super::{Clients, TransportBody, failure, stream::History};

/// The future of [`Transport`](super::Transport). Dropping it ends the exchange.
pub struct TransportFuture {
    exchange: ResponseFuture,
    resend: Option<Box<Resend>>,
}

/// What the one free resend takes.
struct Resend {
    clients: Arc<Clients>,
    request: Request<Full<Bytes>>,
}

impl TransportFuture {
    pub(super) fn new(clients: Arc<Clients>, mut request: Request<Full<Bytes>>) -> Self {
        // The client's own view of the request ends here, and the version follows from the connection.
        *request.extensions_mut() = Extensions::new();
        *request.version_mut() = Version::HTTP_11;
        // What is sent gets a header more: the clone has no room to spare for it.
        let kept = request.clone();
        let exchange = clients.pooled.request(request);
        Self { exchange, resend: Some(Box::new(Resend { clients, request: kept })) }
    }
}

impl Future for TransportFuture {
    type Output = Result<Response<TransportBody>, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let error = match ready!(Pin::new(&mut self.exchange).poll(cx)) {
                Ok(mut response) => {
                    if let Some(history) = response.extensions_mut().remove::<History>() {
                        history.answer();
                    }
                    return Poll::Ready(Ok(response.map(TransportBody::new)));
                }
                Err(error) => error,
            };
            match self.resend.take() {
                Some(resend) if failure::is_stale(&error, resend.clients.http2_prior_knowledge) => {
                    tracing::debug!(target: "stanchion", "a kept connection was stale: sent again on a fresh one");
                    self.exchange = resend.clients.fresh.request(resend.request);
                }
                _ => return Poll::Ready(Err(failure::of_exchange(error))),
            }
        }
    }
}

impl fmt::Debug for TransportFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransportFuture").field("resendable", &self.resend.is_some()).finish_non_exhaustive()
    }
}
