use std::{
    convert::Infallible,
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::BodyExt;
use proptest::prelude::*;
use stanchion_core::{
    Call, Dialect, Event, Failure, FailureKind, FinishReason, Phase, ProviderStall, StallPhase, StreamRecord,
    StreamRecorder,
};
use stanchion_testkit::{Contract, Events, ScriptedBody, Step};
use tokio::time::{Instant, sleep};
use tower::{ServiceExt, service_fn};
use tower_layer::Layer;

use super::{
    watch::{Expiry, Stage, Watch},
    *,
};

mod timer;

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn limits(first_output: u64, idle: u64, total: u64) -> AttemptLimits {
    AttemptLimits::builder().first_output(s(first_output)).idle(s(idle)).total(s(total)).build().unwrap()
}

/// What a frame tells the record before it passes.
#[derive(Debug, Clone, Copy)]
enum Tells {
    Ping,
    Structure,
    Output,
    Finish,
}

/// A body whose frames tell a record what they are, as an observing layer would.
struct Told {
    inner: ScriptedBody,
    tells: std::collections::VecDeque<Tells>,
    recorder: StreamRecorder,
}

impl Body for Told {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Failure>>> {
        let frame = std::pin::Pin::new(&mut self.inner).poll_frame(cx);
        if let std::task::Poll::Ready(Some(Ok(_))) = &frame {
            let tells = self.tells.pop_front().unwrap();
            self.recorder.count(1, u64::from(!matches!(tells, Tells::Ping)));
            match tells {
                Tells::Output => self.recorder.output(),
                Tells::Finish => self.recorder.finish(FinishReason::Stop),
                Tells::Ping | Tells::Structure => {}
            }
        }
        frame
    }
}

/// Frames, each after a silence of so many seconds; then silence for ever.
async fn attempt(limits: AttemptLimits, script: &[(u64, Tells)]) -> std::pin::Pin<Box<AttemptBody<Told>>> {
    attempt_of(Request::new(()), limits, script).await
}

async fn attempt_of(
    request: Request<()>,
    limits: AttemptLimits,
    script: &[(u64, Tells)],
) -> std::pin::Pin<Box<AttemptBody<Told>>> {
    let steps =
        script.iter().flat_map(|(silence, _)| [Step::Delay(s(*silence)), Step::Data("x".into())]).chain([Step::Hang]);
    let (record, recorder) = StreamRecord::new();
    let mut body = Some(Told {
        inner: ScriptedBody::new(steps),
        tells: script.iter().map(|(_, tells)| *tells).collect(),
        recorder,
    });
    let service = AttemptLayer::new(limits).layer(service_fn(move |_: Request<()>| {
        let mut response = Response::new(body.take().unwrap());
        response.extensions_mut().insert(record.clone());
        async move { Ok::<_, Infallible>(response) }
    }));
    Box::pin(service.oneshot(request).await.unwrap().into_body())
}

/// Reads to the end: how many frames came, how it ended, and when.
async fn read<B>(mut body: B) -> (usize, Option<(FailureKind, Phase)>)
where
    B: Body<Data = Bytes, Error = Failure> + Unpin,
{
    let mut frames = 0;
    loop {
        match body.frame().await {
            Some(Ok(_)) => frames += 1,
            Some(Err(failure)) => {
                assert!(body.frame().await.is_none(), "the end is told once");
                return (frames, Some((failure.kind(), failure.phase())));
            }
            None => return (frames, None),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn clocks_run_out_when_and_as_they_should() {
    use FailureKind::{FirstOutputTimeout, IdleTimeout, TotalTimeout};
    use Tells::{Finish, Output, Ping, Structure};
    let before = Phase::BeforeOutput;
    let after = Phase::AfterOutput;
    for (name, limits, script, frames, end, at) in [
        ("silence before output", limits(30, 60, 600), vec![], 0, Some((FirstOutputTimeout, before)), 30),
        (
            "pings do not hide it",
            limits(30, 60, 600),
            vec![(10, Ping), (10, Ping), (5, Ping), (100, Ping)],
            3,
            Some((FirstOutputTimeout, before)),
            30,
        ),
        ("nor does structure", limits(30, 60, 600), vec![(20, Structure)], 1, Some((FirstOutputTimeout, before)), 30),
        ("silence after output", limits(30, 60, 600), vec![(10, Output)], 1, Some((IdleTimeout, after)), 70),
        (
            "progress starts the idle clock anew",
            limits(30, 60, 600),
            vec![(10, Output), (50, Structure), (50, Output)],
            3,
            Some((IdleTimeout, after)),
            170,
        ),
        (
            "pings do not",
            limits(30, 60, 600),
            vec![(10, Output), (50, Ping), (5, Ping), (50, Ping)],
            3,
            Some((IdleTimeout, after)),
            70,
        ),
        (
            "total ends a living stream",
            limits(30, 60, 100),
            vec![(10, Output), (50, Output), (50, Output)],
            2,
            Some((TotalTimeout, after)),
            100,
        ),
        ("total before output", limits(0, 0, 100), vec![(10, Ping)], 1, Some((TotalTimeout, before)), 100),
        (
            "idle counts before output where first output is off",
            limits(0, 60, 600),
            vec![(50, Structure)],
            1,
            Some((IdleTimeout, before)),
            110,
        ),
        (
            "on a tie the narrower clock is the cause",
            limits(60, 60, 60),
            vec![],
            0,
            Some((FirstOutputTimeout, before)),
            60,
        ),
        ("after a finish a silence is an end", limits(30, 60, 600), vec![(10, Output), (10, Finish)], 2, None, 22),
        (
            "what comes in the grace still passes",
            limits(30, 60, 600),
            vec![(10, Output), (10, Finish), (1, Structure)],
            3,
            None,
            23,
        ),
        // The last ping comes with the end of the grace, and data goes before clocks.
        (
            "pings do not stretch the grace",
            limits(30, 60, 600),
            vec![(10, Finish), (1, Ping), (1, Ping), (1, Ping)],
            3,
            None,
            12,
        ),
        (
            "a slow but living stream is not killed without a total",
            limits(0, 60, 0),
            vec![(50, Output); 200],
            200,
            Some((IdleTimeout, after)),
            200 * 50 + 60,
        ),
    ] {
        let start = Instant::now();
        let seen = read(attempt(limits, &script).await).await;
        assert_eq!((seen, start.elapsed().as_secs()), ((frames, end), at), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_head_is_bounded_too() {
    for (limits, kind, at) in [
        (limits(30, 60, 600), FailureKind::FirstOutputTimeout, 30),
        (limits(0, 0, 100), FailureKind::TotalTimeout, 100),
        (limits(0, 60, 600), FailureKind::IdleTimeout, 60),
    ] {
        let start = Instant::now();
        let service = AttemptLayer::new(limits)
            .layer(service_fn(|_: Request<()>| pending::<Result<Response<ScriptedBody>, Infallible>>()));
        let failure = service.oneshot(Request::new(())).await.map(drop).unwrap_err();
        assert_eq!((failure.kind(), failure.phase(), start.elapsed()), (kind, Phase::Head, s(at)));
        assert!(failure.limit().is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn no_limit_is_no_limit() {
    let service = AttemptLayer::new(limits(0, 0, 0)).layer(service_fn(|_: Request<()>| async {
        sleep(s(100_000)).await;
        Ok::<_, Infallible>(Response::new(ScriptedBody::new([Step::Delay(s(100_000)), Step::Data("x".into())])))
    }));
    let response = service.oneshot(Request::new(())).await.unwrap();
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "x");
}

#[tokio::test(start_paused = true)]
async fn a_slow_consumer_is_no_stalled_provider() {
    let mut body = attempt(limits(30, 60, 0), &[(1, Tells::Output), (1, Tells::Output), (59, Tells::Output)]).await;
    body.frame().await.unwrap().unwrap();
    sleep(s(1000)).await;
    body.frame().await.unwrap().unwrap();
    sleep(s(1000)).await;
    // 59 s of waiting are within the limit although a thousand more have passed since the last frame.
    body.frame().await.unwrap().unwrap();
    let start = Instant::now();
    assert_eq!(body.frame().await.unwrap().unwrap_err().kind(), FailureKind::IdleTimeout);
    assert_eq!(start.elapsed(), s(60));
}

#[tokio::test(start_paused = true)]
async fn an_endless_burst_meets_the_total() {
    let (record, mut recorder) = StreamRecord::new();
    recorder.output();
    let mut body = Some(ScriptedBody::frames(vec![Bytes::from_static(b"x"); 100]));
    let service = AttemptLayer::new(limits(0, 0, 10)).layer(service_fn(move |_: Request<()>| {
        let mut response = Response::new(body.take().unwrap());
        response.extensions_mut().insert(record.clone());
        async move { Ok::<_, Infallible>(response) }
    }));
    let mut body = Box::pin(service.oneshot(Request::new(())).await.unwrap().into_body());
    body.frame().await.unwrap().unwrap();
    sleep(s(20)).await;
    let (frames, end) = read(body).await;
    assert!(frames < 100, "{frames}");
    assert_eq!(end, Some((FailureKind::TotalTimeout, Phase::AfterOutput)));
}

#[tokio::test(start_paused = true)]
async fn the_exchange_ends_with_its_clock() {
    let drops = Arc::new(AtomicUsize::new(0));
    let counted = drops.clone();
    let service = AttemptLayer::new(limits(5, 5, 60)).layer(service_fn(move |_: Request<()>| {
        let body = ScriptedBody::new([Step::Data("x".into()), Step::Hang]).counts_drops(&counted);
        async move { Ok::<_, Infallible>(Response::new(body)) }
    }));
    let mut body = Box::pin(service.oneshot(Request::new(())).await.unwrap().into_body());
    body.frame().await.unwrap().unwrap();
    assert_eq!(body.frame().await.unwrap().unwrap_err().kind(), FailureKind::IdleTimeout);
    assert_eq!(drops.load(Ordering::SeqCst), 1, "before the body itself is dropped");
}

/// What the events of an attempt say of stalls: detected or recovered, which one, for how many seconds, whether output had begun.
async fn stalls(limits: AttemptLimits, script: &[(u64, Tells)]) -> Vec<(StallPhase, u32, u64, bool)> {
    let events = Events::new();
    let mut request = Request::new(());
    request.extensions_mut().insert(events.context());
    read(attempt_of(request, limits, script).await).await;
    let told = events.all().into_iter().map(|event| match event {
        Event::ProviderStall(stall) => (stall.phase, stall.stall_count, stall.duration.as_secs(), stall.output_started),
        other => panic!("{other:?}"),
    });
    told.collect()
}

#[tokio::test(start_paused = true)]
async fn a_stall_is_told_once_for_each_silence() {
    use StallPhase::{Detected, Recovered};
    use Tells::{Finish, Output, Ping};
    let idle = limits(0, 20, 0);
    for (name, limits, script, told) in [
        (
            "silences of 12 s within an idle limit of 20 s",
            idle,
            vec![(1, Output), (12, Output), (12, Output), (12, Output)],
            vec![
                (Detected, 1, 10, true),
                (Recovered, 1, 12, true),
                (Detected, 2, 10, true),
                (Recovered, 2, 12, true),
                (Detected, 3, 10, true),
                (Recovered, 3, 12, true),
                (Detected, 4, 10, true),
            ],
        ),
        ("pings end no stall", idle, vec![(1, Output), (11, Ping), (4, Ping)], vec![(Detected, 1, 10, true)]),
        (
            "before output",
            idle,
            vec![(15, Output)],
            vec![(Detected, 1, 10, false), (Recovered, 1, 15, false), (Detected, 2, 10, true)],
        ),
        (
            "a long idle limit waits no more than 30 s",
            limits(0, 300, 0),
            vec![(31, Output), (1, Finish)],
            vec![(Detected, 1, 30, false), (Recovered, 1, 31, false)],
        ),
        ("nothing is told after a finish", limits(0, 2, 0), vec![(0, Output), (0, Finish)], vec![]),
        ("a stream that goes on tells nothing", idle, vec![(9, Output), (9, Output), (9, Finish)], vec![]),
    ] {
        assert_eq!(stalls(limits, &script).await, told, "{name}");
    }
    let silent = AttemptLimits::builder().idle(s(20)).stall_warning(Duration::ZERO).build().unwrap();
    assert_eq!(stalls(silent, &[(1, Output), (15, Output)]).await, []);
}

/// The traces of the control plane that this crate comes from, to the millisecond.
#[tokio::test(start_paused = true)]
async fn golden_traces() {
    use Tells::{Finish, Output};
    let before = Some((FailureKind::IdleTimeout, Phase::BeforeOutput));
    let after = Some((FailureKind::IdleTimeout, Phase::AfterOutput));
    for (name, script, lines, end, at) in [
        ("a silent provider", vec![], vec!["10000 S.detected#1~10000"], before, 20),
        ("a silence after output", vec![(0, Output)], vec!["10000 S.detected#1~10000(output)"], after, 20),
        (
            "gaps of 12 s",
            vec![(0, Output), (12, Output), (12, Output), (12, Output), (0, Finish)],
            vec![
                "10000 S.detected#1~10000(output)",
                "12000 S.recovered#1~12000(output)",
                "22000 S.detected#2~10000(output)",
                "24000 S.recovered#2~12000(output)",
                "34000 S.detected#3~10000(output)",
                "36000 S.recovered#3~12000(output)",
            ],
            None,
            38,
        ),
    ] {
        let (events, start) = (Events::new(), Instant::now());
        let mut request = Request::new(());
        request.extensions_mut().insert(events.context());
        let (_, ended) = read(attempt_of(request, limits(0, 20, 0), &script).await).await;
        assert_eq!(
            (ended, start.elapsed(), events.timed_lines()),
            (end, s(at), lines.into_iter().map(String::from).collect()),
            "{name}"
        );
        for event in events.all() {
            let Event::ProviderStall(ProviderStall { warning_after, timeout, .. }) = event else { panic!("{event:?}") };
            assert_eq!((warning_after, timeout), (s(10), Some(s(20))), "{name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_answers_a_silence_and_an_error_does_not() {
    for (last, lines) in [
        (Step::End, vec!["10000 S.detected#1~10000(output)", "15000 S.recovered#1~15000(output)"]),
        (Step::Error(FailureKind::Transport), vec!["10000 S.detected#1~10000(output)"]),
    ] {
        let events = Events::new();
        let mut request = Request::new(());
        request.extensions_mut().insert(events.context());
        let mut body = Some(ScriptedBody::new([Step::Data("x".into()), Step::Delay(s(15)), last]));
        let service = AttemptLayer::new(limits(0, 20, 0)).layer(service_fn(move |_: Request<()>| {
            let body = body.take().unwrap();
            async move { Ok::<_, Infallible>(Response::new(body)) }
        }));
        read(Box::pin(service.oneshot(request).await.unwrap().into_body())).await;
        assert_eq!(events.timed_lines(), lines);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stall_before_the_head_is_told_too() {
    let events = Events::new();
    let service = AttemptLayer::new(limits(25, 20, 0)).layer(service_fn(|_: Request<()>| async {
        sleep(s(15)).await;
        Ok::<_, Infallible>(Response::new(ScriptedBody::frames(["x"])))
    }));
    let mut request = Request::new(());
    request.extensions_mut().insert(events.context());
    let body = Box::pin(service.oneshot(request).await.unwrap().into_body());
    assert_eq!(read(body).await, (1, None));
    let phases: Vec<_> = events
        .all()
        .iter()
        .map(|event| matches!(event, Event::ProviderStall(stall) if stall.phase == StallPhase::Detected))
        .collect();
    assert_eq!(phases, [true, false]);
}

#[tokio::test(start_paused = true)]
async fn a_whole_reply_takes_its_time_unless_a_limit_is_set() {
    let default = AttemptLimits::builder().total(s(600)).build().unwrap();
    let set = AttemptLimits::builder().total(s(600)).first_output(s(60)).build().unwrap();
    for (limits, streams, at) in [(default, true, 120), (default, false, 600), (set, true, 60), (set, false, 60)] {
        let service = AttemptLayer::new(limits)
            .layer(service_fn(|_: Request<()>| pending::<Result<Response<ScriptedBody>, Infallible>>()));
        let mut request = Request::new(());
        request.extensions_mut().insert(Call::new(Dialect::OpenAiChat, streams));
        let start = Instant::now();
        let failure = service.oneshot(request).await.map(drop).unwrap_err();
        assert_eq!((failure.kind(), start.elapsed()), (FailureKind::FirstOutputTimeout, s(at)), "{streams}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_longer_prompt_has_more_time_to_its_first_output() {
    let limits = AttemptLimits::builder().first_output_scaled(s(30), s(1), s(180)).build().unwrap();
    for (request_bytes, at) in [(None, 30), (Some(0), 30), (Some(80_000), 50), (Some(8_000_000), 180)] {
        let mut request = Request::new(());
        if let Some(bytes) = request_bytes {
            request.extensions_mut().insert(Call::new(Dialect::OpenAiChat, true).with_request_bytes(bytes));
        }
        let mut body = attempt_of(request, limits, &[(10, Tells::Ping)]).await;
        let start = Instant::now();
        body.frame().await.unwrap().unwrap();
        let failure = body.frame().await.unwrap().unwrap_err();
        assert_eq!((failure.kind(), failure.limit()), (FailureKind::FirstOutputTimeout, Some(s(at))));
        assert_eq!(start.elapsed(), s(at), "{request_bytes:?}");
    }
}

/// The limits with a liveness clock of 10 s.
fn alive(first_output: u64, idle: u64, total: u64) -> AttemptLimits {
    let limits = AttemptLimits::builder().first_output(s(first_output)).idle(s(idle)).total(s(total));
    limits.liveness(s(10)).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_dead_connection_is_found_by_its_silence() {
    use FailureKind::{FirstOutputTimeout, IdleTimeout};
    use Tells::{Finish, Output, Ping, Structure};
    let (before, after) = (Phase::BeforeOutput, Phase::AfterOutput);
    let short = AttemptLimits::builder().idle(s(60)).liveness(s(1)).build().unwrap();
    // The limit tells which clock it was.
    for (name, limits, script, end, at) in [
        ("not a byte after the head", alive(30, 60, 600), vec![], Some((IdleTimeout, before, 10)), 10),
        (
            "pings show a living connection, and no more",
            alive(30, 60, 600),
            vec![(9, Ping), (9, Ping), (9, Ping)],
            Some((FirstOutputTimeout, before, 30)),
            30,
        ),
        ("until they cease", alive(30, 60, 600), vec![(9, Ping), (9, Ping)], Some((IdleTimeout, before, 10)), 28),
        (
            "after output",
            alive(30, 60, 600),
            vec![(5, Output), (9, Ping), (9, Structure), (9, Ping)],
            Some((IdleTimeout, after, 10)),
            42,
        ),
        (
            "pings hide no idle provider",
            alive(30, 20, 600),
            vec![(1, Output), (9, Ping), (9, Ping), (9, Ping)],
            Some((IdleTimeout, after, 20)),
            21,
        ),
        ("before progress of any kind", alive(0, 60, 0), vec![(9, Ping)], Some((IdleTimeout, before, 10)), 19),
        ("on a tie the narrower clock is the cause", alive(10, 10, 10), vec![], Some((IdleTimeout, before, 10)), 10),
        ("after a finish a silence is an end", short, vec![(0, Output), (0, Finish)], None, 2),
        ("and death comes before a finish", short, vec![(0, Output), (1, Output)], Some((IdleTimeout, after, 1)), 2),
    ] {
        let start = Instant::now();
        let mut body = attempt(limits, &script).await;
        let end_seen = loop {
            match body.frame().await {
                Some(Ok(_)) => {}
                Some(Err(failure)) => break Some(failure),
                None => break None,
            }
        };
        assert_eq!(start.elapsed(), s(at), "{name}");
        let told =
            end_seen.as_ref().map(|failure| (failure.kind(), failure.phase(), failure.limit().unwrap().as_secs()));
        assert_eq!(told, end, "{name}");
        if let Some(failure) = end_seen {
            let liveness = failure.limit() == limits.liveness();
            assert_eq!(failure.code() == Some(AttemptLimits::LIVENESS_CODE), liveness, "{name}");
            assert_eq!(failure.to_string().contains("liveness"), liveness, "{name}: {failure}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn liveness_starts_with_the_head() {
    let service = AttemptLayer::new(alive(60, 60, 600)).layer(service_fn(|_: Request<()>| async {
        sleep(s(25)).await;
        Ok::<_, Infallible>(Response::new(ScriptedBody::new([Step::Hang])))
    }));
    let start = Instant::now();
    let body = Box::pin(service.oneshot(Request::new(())).await.unwrap().into_body());
    assert_eq!(read(body).await, (0, Some((FailureKind::IdleTimeout, Phase::BeforeOutput))));
    assert_eq!(start.elapsed(), s(35));
}

#[tokio::test(start_paused = true)]
async fn liveness_counts_waiting_alone() {
    let mut body = attempt(alive(0, 60, 0), &[(9, Tells::Output), (9, Tells::Ping), (9, Tells::Output)]).await;
    for _ in 0..3 {
        body.frame().await.unwrap().unwrap();
        sleep(s(1000)).await;
    }
    let start = Instant::now();
    assert_eq!(body.frame().await.unwrap().unwrap_err().limit(), Some(s(10)));
    assert_eq!(start.elapsed(), s(10));
}

#[tokio::test(start_paused = true)]
async fn a_whole_reply_may_be_silent_until_it_is_done() {
    let mut request = Request::new(());
    request.extensions_mut().insert(Call::new(Dialect::OpenAiChat, false));
    let seen = read(attempt_of(request, alive(0, 60, 600), &[(59, Tells::Output)]).await).await;
    assert_eq!(seen, (1, Some((FailureKind::IdleTimeout, Phase::AfterOutput))));
}

#[tokio::test(start_paused = true)]
async fn without_a_total_a_living_stream_goes_on_for_hours() {
    let limits = AttemptLimits::builder().total(Duration::ZERO).liveness(s(30)).build().unwrap();
    let half_a_day: Vec<_> = [(25, Tells::Ping), (25, Tells::Output)].repeat(12 * 3600 / 50);
    let script = [half_a_day, vec![(25, Tells::Finish)]].concat();
    let start = Instant::now();
    assert_eq!(read(attempt(limits, &script).await).await, (script.len(), None));
    assert_eq!(start.elapsed(), s(12 * 3600 + 25 + 2));
}

#[tokio::test(start_paused = true)]
async fn the_contract_of_every_layer() {
    Contract::new(AttemptLayer::default()).check().await;
}

proptest! {
    /// The clocks against their definition, told again as plainly as possible: a silence is what lies between two frames of progress.
    #[test]
    fn the_idle_clock_counts_waiting_alone(waits in prop::collection::vec((0..50u64, 0..50u64, any::<bool>()), 0..20)) {
        let limits = AttemptLimits::builder().first_output(Duration::ZERO).idle(s(100)).total(Duration::ZERO).build().unwrap();
        let start = Instant::now();
        let mut watch = Watch::new(limits, start, true, 0);
        let (mut now, mut waited) = (start, 0);
        for (waiting, busy, progress) in waits {
            watch.waits(now);
            let expected = now + s(100) - s(waited.min(100));
            prop_assert_eq!(watch.deadline(Stage::Streaming), Some((expected, Expiry::Fail(FailureKind::IdleTimeout, s(100)))));
            now += s(waiting);
            if progress {
                watch.progressed(|| now);
                waited = 0;
            } else {
                watch.interrupted(now);
                waited += waiting;
            }
            // The consumer is busy elsewhere: this must not count.
            now += s(busy);
        }
    }
}
