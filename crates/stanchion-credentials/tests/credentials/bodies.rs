//! Replies that go on, and what they may still come to.

use http::Response;
use http_body_util::BodyExt;
use stanchion_core::{Ending, FailureKind, Phase, StreamRecord};
use stanchion_credentials::CredentialState::{RateLimited, Ready, Refused};
use stanchion_testkit::{ScriptedBody, Step};

use super::{Stage, builder, failure, limited, pass, seconds};

#[tokio::test(start_paused = true)]
async fn a_key_is_in_use_until_its_reply_ends_or_is_dropped() {
    for read_to_end in [true, false] {
        for body in [ScriptedBody::frames(["a", "b"]), ScriptedBody::frames(["a", "b"]).hides_end()] {
            let mut stage = Stage::new(builder(["a", "b"]));
            let call = stage.begin();
            stage.next().await.1.send_response(Response::new(body));
            let mut body = call.await.unwrap().unwrap().into_body();
            assert_eq!((stage.in_flight(), stage.usage()), (vec![1, 0], vec![1, 0]));
            body.frame().await.unwrap().unwrap();
            assert_eq!(stage.in_flight(), [1, 0]);
            if read_to_end {
                while body.frame().await.is_some() {}
            } else {
                drop(body);
            }
            assert_eq!(stage.in_flight(), [0, 0]);
        }
    }
    // A reply without a body is over at once.
    let mut stage = Stage::new(builder(["a"]));
    let call = stage.begin();
    stage.next().await.1.send_response(Response::new(ScriptedBody::new([])));
    let _response = call.await.unwrap().unwrap();
    assert_eq!(stage.in_flight(), [0]);
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_breaks_off_for_its_key_takes_the_key_out() {
    for (kind, state) in [
        (FailureKind::RateLimited, RateLimited),
        (FailureKind::Authentication, Refused),
        (FailureKind::Truncated, Ready),
    ] {
        let mut stage = Stage::new(builder(["a", "b"]));
        let call = stage.begin();
        let body = ScriptedBody::frames(["a"]).then(Step::Error(kind));
        stage.next().await.1.send_response(Response::new(body));
        let mut body = call.await.unwrap().unwrap().into_body();
        body.frame().await.unwrap().unwrap();
        let failure = body.frame().await.unwrap().unwrap_err();
        assert_eq!((failure.kind(), failure.pool()), (kind, None));
        assert_eq!((stage.states(), stage.in_flight()), (vec![state, Ready], vec![0, 0]));
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_that_passes_in_band_takes_the_key_out_when_the_reply_is_over() {
    for read_to_end in [true, false] {
        let mut stage = Stage::new(builder(["a", "b"]));
        let (record, mut recorder) = StreamRecord::new();
        let mut response = Response::new(ScriptedBody::frames(["a", "error"]).hides_end());
        response.extensions_mut().insert(record);
        let call = stage.begin();
        stage.next().await.1.send_response(response);
        let mut body = call.await.unwrap().unwrap().into_body();
        body.frame().await.unwrap().unwrap();
        recorder.error(limited(Some(20)).with_phase(Phase::AfterOutput));
        recorder.end(Ending::Failed);
        if read_to_end {
            while body.frame().await.is_some() {}
        }
        drop(body);
        assert_eq!(stage.states(), [RateLimited, Ready]);
        assert_eq!(stage.events.lines(), ["K.initial a(2)", "K.rate_limit_cooldown a~20000(1)"]);
        pass(seconds(20)).await;
        assert_eq!(stage.states(), [Ready, Ready]);
    }
}

#[tokio::test(start_paused = true)]
async fn one_error_is_one_lesson() {
    let mut stage = Stage::new(builder(["a", "b"]));
    let (record, mut recorder) = StreamRecord::new();
    let mut response = Response::new(ScriptedBody::frames(["a"]).then(Step::Error(FailureKind::RateLimited)));
    response.extensions_mut().insert(record);
    let call = stage.begin();
    stage.next().await.1.send_response(response);
    let mut body = call.await.unwrap().unwrap().into_body();
    recorder.error(failure(FailureKind::RateLimited, 200));
    while body.frame().await.is_some() {}
    assert_eq!(stage.pools.status()[0].credentials[0].rate_limit_count, 1);
}
