use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Extensions, Method, Request, Response, Version};
use http_body_util::Full;
use hyper::body::Incoming;
use stanchion_core::Failure;

use super::{TransportBody, body::Lease, connection::Connection, failure, origin::Origin, pool::Pool};

/// The future of [`Transport`](super::Transport). Dropping it ends the exchange.
pub struct TransportFuture(Pin<Box<dyn Future<Output = Result<Response<TransportBody>, Failure>> + Send>>);

impl TransportFuture {
    pub(super) fn new(pool: Arc<Pool>, mut request: Request<Full<Bytes>>) -> Self {
        // The client's own view of the request ends here, and the version follows from the connection.
        *request.extensions_mut() = Extensions::new();
        *request.version_mut() = Version::HTTP_11;
        Self(Box::pin(exchange(pool, request)))
    }
}

async fn exchange(pool: Arc<Pool>, mut request: Request<Full<Bytes>>) -> Result<Response<TransportBody>, Failure> {
    if request.method() == Method::CONNECT {
        return Err(failure::tunnel());
    }
    let origin = pool.origin(request.uri()).ok_or_else(failure::no_origin)?;
    let mut connection = loop {
        let mut kept = match origin.take() {
            Some(kept) => kept,
            None => Box::pin(pool.clone().connection(origin.clone())).await.map_err(failure::of_connect)?,
        };
        if kept.is_fresh() {
            break kept;
        }
        // What is sent gets a header more: the clone has no room to spare for it.
        let copy = request.clone();
        let mut error = match kept.send(request, &origin).await {
            Ok(response) => return Ok(reply(response, kept, origin)),
            Err(error) => error,
        };
        let unsent = error.take_message().is_some();
        let error = error.into_error();
        if !unsent && !failure::is_stale(&error, &kept) {
            return Err(failure::of_exchange(error));
        }
        origin.forget(kept.history());
        request = copy;
        if !unsent {
            tracing::debug!(target: "stanchion", "a kept connection was stale: sent again on a fresh one");
            // All that were under way on one connection go on on one.
            let fresh = if kept.is_http2() {
                Box::pin(pool.connection(origin.clone())).await
            } else {
                Box::pin(pool.open(origin.clone())).await
            };
            break fresh.map_err(failure::of_connect)?;
        }
    };
    match connection.send(request, &origin).await {
        Ok(response) => Ok(reply(response, connection, origin)),
        Err(error) => Err(failure::of_exchange(error.into_error())),
    }
}

fn reply(response: Response<Incoming>, connection: Connection, origin: Arc<Origin>) -> Response<TransportBody> {
    connection.history().answer();
    let lease = (!connection.is_http2()).then(|| Lease::new(connection, origin));
    response.map(|incoming| TransportBody::new(incoming, lease))
}

impl Future for TransportFuture {
    type Output = Result<Response<TransportBody>, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl fmt::Debug for TransportFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransportFuture").finish_non_exhaustive()
    }
}
