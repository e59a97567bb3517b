//! A timer that is left as it stands rings when one that is set anew at every turn would.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
};

use tokio::task::coop;

use super::*;

/// Wakes another.
struct Passes(Waker);

impl Wake for Passes {
    fn wake(self: Arc<Self>) {
        self.0.wake_by_ref();
    }
}

/// Another waker at every turn: no timer can be left to the one that it knows.
struct Anew<B>(B);

impl<B: Body + Unpin> Body for Anew<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<B::Data>, B::Error>>> {
        let waker = Waker::from(Arc::new(Passes(cx.waker().clone())));
        Pin::new(&mut self.0).poll_frame(&mut Context::from_waker(&waker))
    }
}

/// What came of a reply that is polled once more after so many seconds each, whether there is reason or not: its frames, its end,
/// when it ended in milliseconds, and its stalls.
type Outcome = (usize, Option<(FailureKind, Phase)>, u128, Vec<(StallPhase, u32, Duration)>);

async fn outcome(limits: AttemptLimits, script: &[(u64, Tells)], polls: u64, anew: bool) -> Outcome {
    let events = Events::new();
    let mut request = Request::new(());
    request.extensions_mut().insert(events.context());
    let body = attempt_of(request, limits, script).await;
    let began = Instant::now();
    let mut reading: Pin<Box<dyn Future<Output = _>>> =
        if anew { Box::pin(read(Anew(body))) } else { Box::pin(read(body)) };
    let mut ticks = tokio::time::interval(s(polls));
    let (frames, end) = poll_fn(|cx| {
        while ticks.poll_tick(cx).is_ready() {}
        reading.as_mut().poll(cx)
    })
    .await;
    let stalls = events.all().into_iter().map(|event| match event {
        Event::ProviderStall(stall) => (stall.phase, stall.stall_count, stall.duration),
        other => panic!("{other:?}"),
    });
    (frames, end, began.elapsed().as_millis(), stalls.collect())
}

/// The first turn is spent before the body is polled: no timer that is polled then knows whom to wake.
#[tokio::test(start_paused = true)]
async fn a_turn_that_is_spent_leaves_no_timer_alone() {
    let limits = AttemptLimits::builder().first_output(s(10)).idle(s(0)).total(s(600)).build().unwrap();
    let body = attempt_of(Request::new(()), limits, &[(60, Tells::Output)]).await;
    let (began, mut reading, mut is_spent) = (Instant::now(), pin!(read(body)), false);
    let (_, end) = poll_fn(|cx| {
        while !is_spent && coop::has_budget_remaining() {
            let _ = pin!(coop::consume_budget()).poll(cx);
        }
        is_spent = true;
        reading.as_mut().poll(cx)
    })
    .await;
    assert_eq!((end.map(|(kind, _)| kind), began.elapsed()), (Some(FailureKind::FirstOutputTimeout), s(10)));
}

fn any_script() -> impl Strategy<Value = Vec<(u64, Tells)>> {
    use Tells::{Finish, Output, Ping, Structure};
    let tells = prop_oneof![3 => Just(Ping), 3 => Just(Structure), 6 => Just(Output), 1 => Just(Finish)];
    prop::collection::vec((prop_oneof![Just(0), 1..8u64, 8..40u64], tells), 0..12)
}

proptest! {
    #[test]
    fn it_rings_as_if_it_were_set_anew(
        script in any_script(),
        (first_output, idle, total) in (0..40u64, 0..40u64, 0..150u64),
        (liveness, warning) in (0..30u64, 0..20u64),
        polls in 1..30u64,
    ) {
        let limits = AttemptLimits::builder()
            .first_output(s(first_output))
            .idle(s(idle))
            // Without any there would be no end.
            .total(s(total.max(1)))
            .liveness(s(liveness))
            .stall_warning(s(warning))
            .build();
        let Ok(limits) = limits else { return Ok(()) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let [kept, anew] = [false, true].map(|anew| runtime.block_on(outcome(limits, &script, polls, anew)));
        prop_assert_eq!(kept, anew);
    }
}
