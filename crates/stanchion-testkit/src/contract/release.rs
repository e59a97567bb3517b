use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use stanchion_core::Failure;
use tower_layer::Layer;
use tower_service::Service;

use super::{Contract, ready, within};
use crate::Probe;

impl<L, F, B, R> Contract<L, F>
where
    L: Layer<Probe>,
    L::Service: Service<Request<B>, Response = Response<R>> + Clone,
    <L::Service as Service<Request<B>>>::Error: Into<Failure>,
    F: Fn() -> Request<B>,
    R: Body<Data = Bytes>,
{
    /// What is dropped is freed at once: a call before and while it is polled, a body untouched, in the middle and at
    /// its end.
    pub async fn release(&self) {
        let probe = self.plain_probe().hanging();
        let mut service = self.layer.layer(probe.clone());
        ready(&mut service).await;
        drop(service.call((self.request)()));
        assert_eq!(probe.live(), 0, "a call outlives its dropped future");

        ready(&mut service).await;
        let mut call = Box::pin(service.call((self.request)()));
        let in_flight = poll_fn(|cx| {
            assert!(call.as_mut().poll(cx).is_pending(), "an answer that nobody gave");
            if probe.live() == 1 { Poll::Ready(()) } else { Poll::Pending }
        });
        within("a call of the inner service", in_flight).await;
        drop(call);
        assert_eq!(probe.live(), 0, "a call outlives its dropped future");

        for frames in [0, 2, usize::MAX] {
            let drops = Arc::<AtomicUsize>::default();
            let mut body = Box::pin(self.reply(self.counting_probe(&drops)).await.into_body());
            for _ in 0..frames {
                if within("the next frame", poll_fn(|cx| body.as_mut().poll_frame(cx))).await.is_none() {
                    break;
                }
            }
            drop(body);
            assert_eq!(drops.load(Ordering::SeqCst), 1, "a body outlives the one that was dropped around it");
        }
    }
}
