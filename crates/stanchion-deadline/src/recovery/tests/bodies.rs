//! The budget after output.

use stanchion_core::FinishReason;

use super::*;

fn data(seconds: u64) -> [Step; 2] {
    [Step::Delay(s(seconds)), Step::Data("x".into())]
}

/// Output at once, and then once in so many seconds.
fn output(rest: impl IntoIterator<Item = u64>) -> Vec<Step> {
    let rest: Vec<Step> = rest.into_iter().flat_map(data).collect();
    [vec![Step::Data("x".into())], rest].concat()
}

#[tokio::test(start_paused = true)]
async fn a_reply_of_a_recovery_is_cut_when_the_budget_is_spent() {
    use Act::{Answers, Retries, Wait};
    let hang = |steps: Vec<Step>| [steps, vec![Step::Hang]].concat();
    for (name, acts, frames, cut, after) in [
        ("an answer in time", vec![Retries, Wait(s(10)), Answers(output([10]))], 2, false, 20),
        ("between two frames", vec![Retries, Wait(s(10)), Answers(output([15, 15]))], 2, true, 30),
        ("a frame at the last instant is too late", vec![Retries, Wait(s(10)), Answers(output([20]))], 1, true, 30),
        ("a silence", vec![Retries, Wait(s(10)), Answers(hang(output([])))], 1, true, 30),
        ("a first answer is never cut", vec![Wait(s(100)), Answers(output([100, 100]))], 3, false, 300),
    ] {
        let inner = Scripted::new(acts);
        let outcome = play(inner.clone()).await;
        assert_eq!(
            (outcome.frames, outcome.failure.is_some(), outcome.after.as_secs()),
            (frames, cut, after),
            "{name}"
        );
        if let Some(failure) = outcome.failure {
            let told = (failure.kind(), failure.phase(), failure.limit());
            assert_eq!(told, (FailureKind::RecoveryBudget, Phase::AfterOutput, Some(s(30))), "{name}");
        }
        assert_eq!((outcome.events, inner.alive()), (vec![], 0), "{name}: the client is told in the reply");
    }
}

async fn answer(inner: Scripted) -> Pin<Box<RecoveryBody<impl Body<Data = Bytes, Error = Failure>>>> {
    let response = layer(s(30)).layer(inner).call(request_in(Context::default())).await.unwrap();
    Box::pin(response.into_body())
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_has_ended_is_not_cut() {
    // The end is known, although nobody has read it.
    let mut body = answer(Scripted::new([Act::Retries, Act::Answers(output([1]))])).await;
    for _ in 0..2 {
        body.frame().await.unwrap().unwrap();
    }
    sleep(s(100)).await;
    assert!(body.is_end_stream() && body.frame().await.is_none());

    // The rest is at hand, but it is not the end.
    let mut body = answer(Scripted::new([Act::Retries, Act::Answers(output([0, 0]))])).await;
    body.frame().await.unwrap().unwrap();
    sleep(s(30)).await;
    assert_eq!(body.frame().await.unwrap().unwrap_err().kind(), FailureKind::RecoveryBudget);
    assert!(body.is_end_stream() && body.size_hint().exact() == Some(0) && body.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_model_that_has_finished_is_not_cut_and_not_waited_for() {
    for (name, rest, frames) in [
        ("what is at hand passes", vec![Step::Data("usage".into()), Step::Data("done".into())], 3),
        ("and nothing else", vec![Step::Data("usage".into()), Step::Hang], 2),
        ("nothing came", vec![Step::Hang], 1),
    ] {
        let (record, mut recorder) = StreamRecord::new();
        recorder.output();
        recorder.finish(FinishReason::Stop);
        let steps = [vec![Step::Data("x".into())], rest].concat();
        let inner = Scripted { record: Some(record), ..Scripted::new([Act::Retries, Act::Answers(steps)]) };
        let mut body = answer(inner.clone()).await;
        body.frame().await.unwrap().unwrap();
        sleep(s(40)).await;
        let start = Instant::now();
        let (rest, failure) = read(body).await;
        assert_eq!((1 + rest, failure.is_none(), start.elapsed()), (frames, true, Duration::ZERO), "{name}");
        assert_eq!(inner.alive(), 0);
    }
    // While the reader waits, too.
    let (record, mut recorder) = StreamRecord::new();
    recorder.finish(FinishReason::Stop);
    let inner = Scripted { record: Some(record), ..Scripted::new([Act::Retries, Act::Answers(vec![Step::Hang])]) };
    let outcome = play(inner).await;
    assert_eq!((outcome.failure.is_none(), outcome.after), (true, s(30)));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_nothing_can_cut_is_passed_and_no_more() {
    let body = answer(Scripted::new([Act::Wait(s(100)), Act::Answers(output([100]))])).await;
    assert!(format!("{body:?}").contains("cut: None"));
    let body = answer(Scripted::new([Act::Retries, Act::Answers(output([1]))])).await;
    assert!(format!("{body:?}").contains("timer: None"), "and no timer is made before there is something to wait for");
    let (frames, failure) = read(body).await;
    assert_eq!((frames, failure.is_none()), (2, true));
}

#[tokio::test(start_paused = true)]
async fn the_exchange_ends_with_the_budget() {
    let inner = Scripted::new([Act::Retries, Act::Answers(output([100]))]);
    let mut body = answer(inner.clone()).await;
    body.frame().await.unwrap().unwrap();
    assert_eq!(inner.alive(), 1);
    body.frame().await.unwrap().unwrap_err();
    assert_eq!(inner.alive(), 0, "before the body itself is dropped");
}
