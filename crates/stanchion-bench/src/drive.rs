//! Driving services whose futures and bodies are ready, without a scheduler.

use std::{
    future::Future,
    hint::black_box,
    pin::pin,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use tower_service::Service;

/// Asks, and returns the reply.
///
/// # Panics
///
/// If anything is not ready, or fails: then something else than the cost of a layer would be measured.
pub fn head<S, R>(service: &mut S, request: Request<Full<Bytes>>) -> Response<R>
where
    S: Service<Request<Full<Bytes>>, Response = Response<R>>,
{
    let cx = &mut Context::from_waker(Waker::noop());
    match service.poll_ready(cx) {
        Poll::Ready(Ok(())) => {}
        _ => panic!("not ready"),
    }
    match pin!(service.call(request)).poll(cx) {
        Poll::Ready(Ok(response)) => response,
        Poll::Ready(Err(_)) => panic!("it fails"),
        Poll::Pending => panic!("it waits"),
    }
}

/// Reads a body to its end; how many pieces it had.
///
/// # Panics
///
/// As [`head`].
pub fn body<R: Body<Data = Bytes>>(response: Response<R>) -> usize {
    let cx = &mut Context::from_waker(Waker::noop());
    let mut body = pin!(response.into_body());
    let mut pieces = 0;
    loop {
        match body.as_mut().poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                black_box(&frame);
                pieces += 1;
            }
            Poll::Ready(None) => return pieces,
            Poll::Ready(Some(Err(_))) => panic!("it fails"),
            Poll::Pending => panic!("it waits"),
        }
    }
}
