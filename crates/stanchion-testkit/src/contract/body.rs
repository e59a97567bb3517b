use std::{future::poll_fn, pin::Pin};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::{Body, Frame};
use stanchion_core::{Failure, FailureKind};
use tower_layer::Layer;
use tower_service::Service;

use super::{Contract, joined, within};
use crate::{Probe, ScriptedBody, Step};

impl<L, F, B, R> Contract<L, F>
where
    L: Layer<Probe>,
    L::Service: Service<Request<B>, Response = Response<R>> + Clone,
    <L::Service as Service<Request<B>>>::Error: Into<Failure>,
    F: Fn() -> Request<B>,
    R: Body<Data = Bytes>,
{
    /// The body keeps its bytes, its length and its end: exact and unknown lengths, reported and unreported ends,
    /// trailers.
    pub async fn body(&self) {
        for exact in [true, false] {
            for hides_end in [true, false] {
                let probe = self.probe(move |frames| {
                    let steps = frames.iter().flat_map(|frame| [Step::Pending, Step::Data(frame.clone())]);
                    let body = ScriptedBody::new(steps);
                    let body = if exact { body.exact_size() } else { body };
                    if hides_end { body.hides_end() } else { body }
                });
                self.walk(self.reply(probe).await, exact, hides_end).await;
            }
        }
        let probe = self.probe(|frames| ScriptedBody::frames(frames.to_vec()).then(Step::Trailers(trailers())));
        let mut body = Box::pin(self.reply(probe).await.into_body());
        let mut seen = Vec::new();
        let last = loop {
            assert!(!body.is_end_stream(), "the body claims to be at its end, and trailers follow");
            let frame = frame(body.as_mut()).await.expect("trailers follow the data");
            match frame.unwrap_or_else(|_| panic!("a whole body fails")).into_data() {
                Ok(data) => seen.extend_from_slice(&data),
                Err(other) => break other.into_trailers().ok(),
            }
        };
        assert_eq!((seen, last), (joined(&self.frames), Some(trailers())), "data or trailers were changed");
    }

    /// Follows a whole body to its end.
    async fn walk(&self, response: Response<R>, exact: bool, hides_end: bool) {
        let whole = joined(&self.frames);
        let mut body = Box::pin(response.into_body());
        let mut seen = Vec::new();
        while seen.len() < whole.len() {
            let remaining = (whole.len() - seen.len()) as u64;
            let hint = body.size_hint();
            assert!(!body.is_end_stream(), "the body claims to be at its end, and {remaining} bytes follow");
            assert!(hint.lower() <= remaining, "the body promises {} bytes or more, and has {remaining}", hint.lower());
            assert!(hint.upper().is_none_or(|upper| upper >= remaining), "the body promises too few bytes");
            if exact {
                assert_eq!(hint.exact(), Some(remaining), "the exact length was lost");
            }
            let data =
                frame(body.as_mut()).await.expect("data follow").unwrap_or_else(|_| panic!("a whole body fails"));
            seen.extend_from_slice(&data.into_data().unwrap_or_else(|_| panic!("a frame that nobody sent")));
        }
        assert_eq!(seen, whole, "bytes were changed");
        if !hides_end {
            assert!(body.is_end_stream(), "the reported end was lost");
        }
        let end = body.size_hint();
        assert!(end.lower() == 0 && (!exact || end.exact() == Some(0)), "a body at its end promises more");
        ended(body.as_mut()).await;
    }

    /// The end is told once: `None` stays `None`, and after an error there is nothing.
    pub async fn endings(&self) {
        let mut body = Box::pin(self.reply(self.plain_probe()).await.into_body());
        while let Some(frame) = frame(body.as_mut()).await {
            assert!(frame.is_ok(), "a whole body fails");
        }
        ended(body.as_mut()).await;

        let probe = self.probe(|frames| {
            let cut = frames[..frames.len() - 1].to_vec();
            ScriptedBody::frames(cut).then(Step::Pending).then(Step::Error(FailureKind::Transport))
        });
        let mut body = Box::pin(self.reply(probe).await.into_body());
        let mut errors = 0;
        while let Some(frame) = frame(body.as_mut()).await {
            assert!(errors == 0, "something follows the error of a body");
            errors += usize::from(frame.is_err());
        }
        assert_eq!(errors, 1, "the error of a body was lost");
        ended(body.as_mut()).await;
    }
}

fn trailers() -> HeaderMap {
    HeaderMap::from_iter([(http::HeaderName::from_static("x-sum"), HeaderValue::from_static("1"))])
}

async fn frame<R: Body>(mut body: Pin<&mut R>) -> Option<Result<Frame<R::Data>, R::Error>> {
    within("the next frame", poll_fn(|cx| body.as_mut().poll_frame(cx))).await
}

/// An ended body stays ended.
async fn ended<R: Body>(mut body: Pin<&mut R>) {
    for _ in 0..3 {
        assert!(frame(body.as_mut()).await.is_none(), "something follows the end of a body");
    }
}
