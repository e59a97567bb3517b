//! The permit is in the body, and is given back with its end.

use http_body::Body;
use http_body_util::BodyExt;
use stanchion_core::{FailureKind, RequestClass};
use stanchion_testkit::request;

use super::*;

async fn reply(layer: &AdmissionLayer, steps: Vec<Step>, hides_end: bool) -> AdmissionBody<ScriptedBody> {
    let probe = Probe::new(move || {
        let body = ScriptedBody::new(steps.clone());
        Response::new(if hides_end { body.hides_end() } else { body })
    });
    settle(&mut call(layer, &probe, request()).await).unwrap().unwrap().into_body()
}

#[tokio::test(start_paused = true)]
async fn a_permit_is_held_to_the_end_of_the_reply_and_no_longer() {
    let layer = layer(one_at_a_time());
    let text = || Step::Data("text".into());
    for (steps, hides_end, held) in [
        (vec![text(), text()], false, vec![true, false]),
        (vec![text(), text()], true, vec![true, true, false]),
        (vec![text(), Step::Error(FailureKind::Transport)], false, vec![true, false]),
        (vec![text(), Step::Trailers(http::HeaderMap::new())], false, vec![true, false]),
    ] {
        let mut body = reply(&layer, steps, hides_end).await;
        assert_eq!(counts(&layer), (1, 0));
        for held in held {
            let _ = body.frame().await;
            assert_eq!(counts(&layer), (u32::from(held), 0), "{body:?}");
        }
        assert!(body.frame().await.is_none());
        drop(body);
        assert!(is_idle(&layer), "given back once");
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_reply_holds_nothing() {
    let layer = layer(one_at_a_time());
    let _body = reply(&layer, Vec::new(), false).await;
    assert!(is_idle(&layer));
}

#[tokio::test(start_paused = true)]
async fn a_failed_call_and_a_dropped_body_free_their_permit() {
    let layer = layer(one_at_a_time());
    let failing = provider().failing([FailureKind::Overloaded]);
    let mut failed = call(&layer, &failing, request()).await;
    assert!(settle(&mut failed).unwrap().is_err());
    assert!(is_idle(&layer), "before the future is dropped");
    let mut body = holder(&layer).await.into_body();
    let _ = body.frame().await;
    let mut waiting = call(&layer, &provider(), of("a", RequestClass::Foreground)).await;
    assert!(settle(&mut waiting).is_none());
    drop(body);
    assert!(settle(&mut waiting).unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_exchange_is_over_when_its_permit_goes_to_another() {
    for (step, fails) in [(Step::Hang, false), (Step::Error(FailureKind::Transport), true)] {
        let layer = layer(one_at_a_time());
        let drops = Arc::default();
        let counting = {
            let drops = Arc::clone(&drops);
            Probe::new(move || Response::new(ScriptedBody::new([step.clone()]).counts_drops(&drops)))
        };
        let mut held = settle(&mut call(&layer, &counting, request()).await).unwrap().unwrap().into_body();
        let next = Probe::new({
            let drops = Arc::clone(&drops);
            move || {
                assert_eq!(drops.load(std::sync::atomic::Ordering::SeqCst), 1);
                Response::new(ScriptedBody::new([]))
            }
        });
        let mut waiting = call(&layer, &next, of("a", RequestClass::Foreground)).await;
        assert!(settle(&mut waiting).is_none());
        if fails {
            assert!(held.frame().await.unwrap().is_err());
            assert!(settle(&mut waiting).unwrap().is_ok(), "while its reader still has it");
            assert!(held.is_end_stream() && held.frame().await.is_none());
        } else {
            drop(held);
            assert!(settle(&mut waiting).unwrap().is_ok());
        }
    }
}
