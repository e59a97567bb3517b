use std::future::poll_fn;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use stanchion_core::{Failure, FailureKind};
use tower_layer::Layer;
use tower_service::Service;

use super::{Contract, ready, within};
use crate::Probe;

/// More services than any limit that a layer has by default.
const MANY: usize = 64;

impl<L, F, B, R> Contract<L, F>
where
    L: Layer<Probe>,
    L::Service: Service<Request<B>, Response = Response<R>> + Clone,
    <L::Service as Service<Request<B>>>::Error: Into<Failure>,
    F: Fn() -> Request<B>,
    R: Body<Data = Bytes>,
{
    /// The service that was polled ready is the one that is called: at first, again, on a clone, and after a failure.
    pub async fn readiness(&self) {
        let probe = self.plain_probe();
        let mut service = self.layer.layer(probe.clone());
        for _ in 0..2 {
            ready(&mut service).await;
            self.answer(&mut service).await.expect("the layer makes a failure of a whole reply");
        }
        let mut clone = service.clone();
        ready(&mut clone).await;
        self.answer(&mut clone).await.expect("the layer makes a failure of a whole reply");
        assert_eq!(probe.calls(), 3, "one request, one call");

        // Whoever asks again after a failure needs readiness again. Whether a layer does is its own affair.
        for kind in [FailureKind::Overloaded, FailureKind::Unprocessed, FailureKind::InvalidRequest] {
            let mut service = self.layer.layer(self.plain_probe().failing([kind, kind]));
            for _ in 0..2 {
                ready(&mut service).await;
                let _ = self.answer(&mut service).await;
            }
        }
    }

    /// Being ready reserves nothing: many services may be ready at once, and be dropped, without a trace.
    pub async fn no_reservation(&self) {
        let probe = self.plain_probe();
        let service = self.layer.layer(probe.clone());
        let mut held = Vec::new();
        for _ in 0..MANY {
            let mut clone = service.clone();
            ready(&mut clone).await;
            held.push(clone);
        }
        let mut caller = service.clone();
        ready(&mut caller).await;
        self.answer(&mut caller).await.expect("the layer makes a failure of a whole reply");
        drop(held);
        ready(&mut caller).await;
        self.answer(&mut caller).await.expect("the layer makes a failure of a whole reply");
        assert_eq!(probe.calls(), 2, "readiness alone calls nothing");
    }

    /// An error of `poll_ready` arrives as what it is: from the layer's own `poll_ready`, or from its call if it
    /// readies there.
    pub async fn ready_errors(&self) {
        let mut service = self.layer.layer(self.plain_probe().failing_ready(FailureKind::Connect));
        let failure = match within("readiness", poll_fn(|cx| service.poll_ready(cx))).await {
            Err(error) => error.into(),
            Ok(()) => match self.answer(&mut service).await {
                Err(failure) => failure,
                Ok(_) => panic!("the error of `poll_ready` was lost"),
            },
        };
        assert_eq!(failure.kind(), FailureKind::Connect, "the error of `poll_ready` was changed");
    }
}
