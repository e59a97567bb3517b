//! What is copied, and what is not.

use std::{cell::Cell, rc::Rc};

use http::{Request, Response};
use stanchion_core::FailureKind;
use tower::{Layer, Service, service_fn};

use super::{failure, retries};

/// A body that counts its copies, and is not `Send`: no layer of ours asks for more than it needs.
struct Counted(Rc<Cell<u32>>);

impl Clone for Counted {
    fn clone(&self) -> Self {
        self.0.set(self.0.get() + 1);
        Self(self.0.clone())
    }
}

/// How often the body is copied when so many attempts fail in this way, and then one succeeds.
async fn copies(max: u32, failures: u32, kind: FailureKind) -> u32 {
    let copies = Rc::new(Cell::new(0));
    let calls = Cell::new(0);
    let mut service = retries(max).layer(service_fn(|request: Request<Counted>| {
        let call = calls.replace(calls.get() + 1);
        async move {
            drop(request);
            if call < failures { Err(failure(kind)) } else { Ok(Response::new(())) }
        }
    }));
    let _ = service.call(Request::new(Counted(copies.clone()))).await;
    copies.get()
}

#[tokio::test(start_paused = true)]
async fn a_request_is_copied_only_while_another_attempt_may_follow() {
    assert_eq!(copies(0, 0, FailureKind::Overloaded).await, 0, "no retry is possible");
    assert_eq!(copies(0, 1, FailureKind::Unprocessed).await, 0, "no retry is possible, the free one neither");
    assert_eq!(copies(2, 0, FailureKind::Overloaded).await, 1);
    // The free retry is spent, then the limit is reached: the last attempt takes the request itself.
    assert_eq!(copies(1, 9, FailureKind::Unprocessed).await, 2);
    // Here the free retry is never spent, and could still follow the last attempt.
    assert_eq!(copies(1, 9, FailureKind::Overloaded).await, 2);
}

#[test]
fn a_waiting_call_is_small() {
    type Inner = tower::util::BoxCloneService<Request<()>, Response<()>, stanchion_core::Failure>;
    let size = size_of::<stanchion_retry::RetryFuture<Inner, ()>>();
    assert!(size <= 160, "{size} bytes");
}
