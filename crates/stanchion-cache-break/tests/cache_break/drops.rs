//! Whatever is dropped, wherever it is, is judged by what was told until then.

use std::sync::atomic::{AtomicUsize, Ordering};

use stanchion_testkit::Probe;
use tokio_test::task;

use super::*;

/// Goes so many polls with a call that follows one that read 6,000, and drops it. Returns what was told.
async fn steps(polls: usize) -> Vec<String> {
    let events = Events::new();
    let asked = || request(in_session(&events), Dialect::AnthropicMessages, BODY);
    let script = vec![Step::Pending, Step::Data("text".into()), Step::Data("read 0".into()), Step::Pending, Step::Hang];
    let provider = Provider::playing([vec![Step::Data("read 6000".into())], script]);
    let mut service = CacheBreakLayer::default().layer(provider.service());
    exchange(&mut service, asked()).await.unwrap();

    let mut left = polls;
    let mut call = task::spawn(service.ready().await.unwrap().call(asked()));
    let response = loop {
        if left == 0 {
            drop(call);
            return events.lines();
        }
        left -= 1;
        if let Poll::Ready(response) = call.poll() {
            break response.unwrap();
        }
    };
    drop(call);
    let mut body = Box::pin(response.into_body());
    while left > 0 {
        left -= 1;
        let mut frame = task::spawn(std::future::poll_fn(|cx| body.as_mut().poll_frame(cx)));
        let _ = frame.poll();
    }
    assert!(events.all().is_empty(), "told before the end, after {polls} polls");
    drop(body);
    events.lines()
}

#[tokio::test(start_paused = true)]
async fn a_call_dropped_at_any_poll_is_judged_once_its_usage_is_known() {
    // Two polls to the head, a wait, a text: nothing is known.
    for polls in 0..=4 {
        assert_eq!(steps(polls).await, [""; 0], "after {polls} polls");
    }
    for polls in 5..=8 {
        assert_eq!(steps(polls).await, ["B.server_side#2~6000(6000>0)"], "after {polls} polls");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_may_be_dropped_outside_of_any_runtime() {
    let events = Events::new();
    let provider = Provider::playing(["read 6000", "read 0"].map(|text| vec![Step::Data(text.into()), Step::Hang]));
    let mut service = CacheBreakLayer::default().layer(provider.service());
    for _ in 0..2 {
        let asked = request(in_session(&events), Dialect::AnthropicMessages, BODY);
        let mut body = service.ready().await.unwrap().call(asked).await.unwrap().into_body();
        body.frame().await.unwrap().unwrap();
        std::thread::spawn(move || drop(body)).join().unwrap();
    }
    assert_eq!(events.lines(), ["B.server_side#2~6000(6000>0)"]);
}

#[tokio::test(start_paused = true)]
async fn what_the_call_held_is_free_before_the_reply_is_read() {
    let drops = Arc::<AtomicUsize>::default();
    let counts = drops.clone();
    let probe = Probe::new(move || Response::new(ScriptedBody::frames(["a"]).counts_drops(&counts)));
    let mut service = CacheBreakLayer::default().layer(probe.clone());
    std::future::poll_fn(|cx| Service::<Req>::poll_ready(&mut service, cx)).await.unwrap();
    let mut call = task::spawn(service.call(request(Context::default(), Dialect::OpenAiChat, BODY)));
    assert!(format!("{call:?}").contains("watched: false"));
    assert!(call.poll().is_pending());
    let Poll::Ready(response) = call.poll() else { panic!("it answers at the second poll") };
    assert_eq!((probe.live(), drops.load(Ordering::SeqCst)), (0, 0));
    drop(response);
    assert_eq!(drops.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "polled after its end")]
async fn a_finished_call_is_not_polled_again() {
    let mut service = CacheBreakLayer::default().layer(Provider::new([&["a"]]).service());
    let asked = request(Context::default(), Dialect::OpenAiChat, BODY);
    let mut call = task::spawn(service.ready().await.unwrap().call(asked));
    while call.poll().is_pending() {}
    let _ = call.poll();
}
