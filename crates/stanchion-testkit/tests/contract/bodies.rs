//! Faults of bodies.

use std::{
    marker::PhantomData,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use stanchion_core::{Failure, FailureKind};
use stanchion_testkit::{Contract, Probe, ScriptedBody};
use tower_layer::{Layer, layer_fn};
use tower_service::Service;

use super::BoxFuture;

/// What a body wrapper does wrong, told by type.
trait Wrong: Default + Send + Unpin + 'static {
    fn hint(inner: &ScriptedBody) -> SizeHint {
        inner.size_hint()
    }
    fn ended(inner: &ScriptedBody) -> bool {
        inner.is_end_stream()
    }
    fn frame(&mut self, frame: Polled) -> Polled {
        frame
    }
}

type Polled = Poll<Option<Result<Frame<Bytes>, Failure>>>;

#[derive(Debug, Default)]
struct Wrapped<W> {
    inner: Option<ScriptedBody>,
    wrong: W,
}

impl<W: Wrong> Body for Wrapped<W> {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Polled {
        let polled = Pin::new(self.inner.as_mut().unwrap()).poll_frame(cx);
        self.wrong.frame(polled)
    }

    fn is_end_stream(&self) -> bool {
        W::ended(self.inner.as_ref().unwrap())
    }

    fn size_hint(&self) -> SizeHint {
        W::hint(self.inner.as_ref().unwrap())
    }
}

#[derive(Debug)]
struct Wrapping<S, W>(S, PhantomData<fn() -> W>);

impl<S: Clone, W> Clone for Wrapping<S, W> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), PhantomData)
    }
}

impl<B, S, W: Wrong> Service<Request<B>> for Wrapping<S, W>
where
    S: Service<Request<B>, Response = Response<ScriptedBody>, Error = Failure>,
    S::Future: Send + 'static,
{
    type Response = Response<Wrapped<W>>;
    type Error = Failure;
    type Future = BoxFuture<Result<Self::Response, Failure>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let call = self.0.call(request);
        Box::pin(async { Ok(call.await?.map(|inner| Wrapped { inner: Some(inner), wrong: W::default() })) })
    }
}

fn wrapping<W: Wrong>() -> Contract<impl Layer<Probe, Service = Wrapping<Probe, W>> + Clone> {
    Contract::new(layer_fn(|inner| Wrapping(inner, PhantomData)))
}

#[derive(Default)]
struct Right;
impl Wrong for Right {}

#[derive(Default)]
struct LosesLength;
impl Wrong for LosesLength {
    fn hint(_: &ScriptedBody) -> SizeHint {
        SizeHint::default()
    }
}

#[derive(Default)]
struct LosesEnd;
impl Wrong for LosesEnd {
    fn ended(_: &ScriptedBody) -> bool {
        false
    }
}

#[derive(Default)]
struct AlwaysEnded;
impl Wrong for AlwaysEnded {
    fn ended(_: &ScriptedBody) -> bool {
        true
    }
}

#[derive(Default)]
struct Promises;
impl Wrong for Promises {
    fn hint(_: &ScriptedBody) -> SizeHint {
        SizeHint::with_exact(1 << 20)
    }
}

#[derive(Default)]
struct LosesTrailers;
impl Wrong for LosesTrailers {
    fn frame(&mut self, polled: Polled) -> Polled {
        match polled {
            Poll::Ready(Some(Ok(frame))) if frame.is_trailers() => Poll::Ready(None),
            other => other,
        }
    }
}

#[derive(Default)]
struct ChangesBytes;
impl Wrong for ChangesBytes {
    fn frame(&mut self, polled: Polled) -> Polled {
        polled.map_ok(|frame| frame.map_data(|data| data.to_ascii_uppercase().into()))
    }
}

#[derive(Default)]
struct AddsAfterEnd(bool);
impl Wrong for AddsAfterEnd {
    fn frame(&mut self, polled: Polled) -> Polled {
        match polled {
            Poll::Ready(None) if std::mem::replace(&mut self.0, true) => Poll::Ready(Some(Ok(Frame::data("x".into())))),
            other => other,
        }
    }
}

#[derive(Default)]
struct RepeatsErrors(bool);
impl Wrong for RepeatsErrors {
    fn frame(&mut self, polled: Polled) -> Polled {
        match polled {
            Poll::Ready(None) if self.0 => Poll::Ready(Some(Err(Failure::new(FailureKind::Transport)))),
            other => {
                self.0 = matches!(other, Poll::Ready(Some(Err(_))));
                other
            }
        }
    }
}

#[derive(Default)]
struct LosesErrors;
impl Wrong for LosesErrors {
    fn frame(&mut self, polled: Polled) -> Polled {
        if matches!(polled, Poll::Ready(Some(Err(_)))) { Poll::Ready(None) } else { polled }
    }
}

#[tokio::test(start_paused = true)]
async fn a_right_body_passes() {
    wrapping::<Right>().check().await;
}

macro_rules! found {
    ($($name:ident: $wrong:ty, $check:ident, $expected:literal;)*) => {$(
        #[tokio::test(start_paused = true)]
        #[should_panic(expected = $expected)]
        async fn $name() {
            wrapping::<$wrong>().$check().await;
        }
    )*};
}

found! {
    a_lost_length_is_found: LosesLength, body, "the exact length was lost";
    a_lost_end_is_found: LosesEnd, body, "the reported end was lost";
    an_end_told_too_early_is_found: AlwaysEnded, body, "claims to be at its end";
    a_promise_of_bytes_is_found: Promises, body, "or more, and has";
    lost_trailers_are_found: LosesTrailers, body, "trailers follow the data";
    changed_bytes_are_found: ChangesBytes, body, "bytes were changed";
    a_frame_after_the_end_is_found: AddsAfterEnd, endings, "follows the end";
    an_error_after_the_error_is_found: RepeatsErrors, endings, "follows the error";
    a_lost_error_is_found: LosesErrors, endings, "was lost";
}

#[test]
fn the_whole_check_finds_faults_of_bodies() {
    let found = [
        std::panic::catch_unwind(|| super::paused(wrapping::<LosesLength>().check())),
        std::panic::catch_unwind(|| super::paused(wrapping::<LosesTrailers>().check())),
        std::panic::catch_unwind(|| super::paused(wrapping::<AddsAfterEnd>().check())),
        std::panic::catch_unwind(|| super::paused(wrapping::<LosesErrors>().check())),
    ];
    assert!(found.iter().all(Result::is_err));
}

/// Keeps the inner body alive when it is dropped itself.
#[tokio::test(start_paused = true)]
#[should_panic(expected = "a body outlives")]
async fn a_leaked_body_is_found() {
    #[derive(Debug, Clone)]
    struct Hoarding(Probe, Arc<Mutex<Vec<ScriptedBody>>>);
    impl<B> Service<Request<B>> for Hoarding {
        type Response = Response<ScriptedBody>;
        type Error = Failure;
        type Future = BoxFuture<Result<Self::Response, Failure>>;

        fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
            Service::<Request<B>>::poll_ready(&mut self.0, cx)
        }

        fn call(&mut self, request: Request<B>) -> Self::Future {
            let (call, hoard) = (self.0.call(request), self.1.clone());
            Box::pin(async move {
                let response = call.await?;
                Ok(response.map(|body| {
                    hoard.lock().unwrap().push(body);
                    ScriptedBody::frames(["x"])
                }))
            })
        }
    }
    let hoard = Arc::default();
    Contract::new(layer_fn(move |inner| Hoarding(inner, Arc::clone(&hoard)))).release().await;
}
