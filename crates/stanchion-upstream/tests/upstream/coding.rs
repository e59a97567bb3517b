//! Content codings through the service, with the bytes of a reply that was really seen.

use bytes::Bytes;
use http::{Response, header::CONTENT_LENGTH};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use stanchion_core::{Context, Dialect, Failure, FailureKind, Family, Phase};
use stanchion_upstream::{DecodeError, Upstream, UpstreamBody};
use tower::{ServiceExt, service_fn};

use crate::{candidate, request};

/// An SSE reply that says "ok", by gzip, and where it is cut.
const CODED: &str = "1f8b08000000000002ff8dcc310a80300c46e1bda7907feee09c59573d8088141bb12889d80c\
82f4ee3a3a3a3fde178305aa6eccaba6993368b89124f205aa3d22ef16406f563116034137943216e7e2\
afb3782c49525ea793435679856c7ae0430c4ddfb5a3730f27da38e78b000000";
const CUT: usize = 19;

fn coded() -> Vec<u8> {
    (0..CODED.len()).step_by(2).map(|at| u8::from_str_radix(&CODED[at..at + 2], 16).unwrap()).collect()
}

async fn reply(coding: Option<&'static str>, body: Vec<u8>) -> Response<UpstreamBody<Full<Bytes>>> {
    let transport = service_fn(move |_| {
        let mut response =
            Response::builder().header("content-type", "text/event-stream").header(CONTENT_LENGTH, body.len());
        if let Some(coding) = coding {
            response = response.header("content-encoding", coding);
        }
        std::future::ready(Ok::<_, Failure>(response.body(Full::from(body.clone())).unwrap()))
    });
    let mut request = request(Dialect::OpenAiChat, candidate(Family::OpenAi, "https://h/v1"));
    request.extensions_mut().insert(Context::default());
    Upstream::new(transport).oneshot(request).await.unwrap()
}

#[tokio::test]
async fn gzip_is_decoded_with_and_without_its_header() {
    for coding in [Some("gzip"), None] {
        let response = reply(coding, coded()).await;
        assert_eq!(response.headers().len(), 1, "{:?}", response.headers());
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let text = response.into_body().collect().await.unwrap().to_bytes();
        let text = std::str::from_utf8(&text).unwrap();
        assert!(text.contains(r#""content":"ok""#) && text.ends_with("data: [DONE]\n\n"), "{text}");
    }
}

#[tokio::test]
async fn a_reply_cut_inside_its_coding_is_interrupted() {
    let mut body = reply(Some("gzip"), coded()[..CUT].to_vec()).await.into_body();
    let failure = loop {
        match body.frame().await.unwrap() {
            Ok(_) => {}
            Err(failure) => break failure,
        }
    };
    assert_eq!((failure.kind(), failure.phase(), failure.attempts()), (FailureKind::Transport, Phase::BeforeOutput, 1));
    assert_eq!(failure.candidate().map(|name| &**name), Some("primary/ours"));
    let source = std::error::Error::source(&failure).unwrap();
    assert_eq!(source.downcast_ref(), Some(&DecodeError::Interrupted { coding: "gzip" }));
    assert!(body.frame().await.is_none());
}

#[tokio::test]
async fn an_unknown_coding_passes_untouched_with_its_headers() {
    let response = reply(Some("compress"), coded()).await;
    assert_eq!(response.headers()["content-encoding"], "compress");
    assert_eq!(response.headers()[CONTENT_LENGTH], coded().len().to_string());
    assert_eq!(response.body().size_hint().exact(), Some(coded().len() as u64));
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), coded());
}
