//! The budget before output.

use stanchion_core::{Event, Observer};
use stanchion_testkit::{Contract, request_in as full_request_in};

use super::*;

#[tokio::test(start_paused = true)]
async fn the_contract_of_every_layer() {
    Contract::new(RecoveryLayer::default()).check().await;
    Contract::new(layer(Duration::ZERO)).check().await;
    let recovering = || {
        let budget = RecoveryBudget::new(s(7200));
        budget.start(Instant::now());
        full_request_in(Context::builder().recovery(budget).build())
    };
    Contract::new(RecoveryLayer::default()).with_request(recovering).check().await;
}

#[tokio::test(start_paused = true)]
async fn a_budget_ends_whatever_goes_on_when_it_is_spent() {
    use Act::{Answers, Fails, Retries, Wait};
    use FailureKind::{RecoveryBudget as Budget, ServerError};
    let wait = |seconds| Wait(s(seconds));
    let exhausted = |at: u64| vec![format!("{at} R.exhausted#1(server_error)!recovery_budget")];
    for (name, acts, kind, after, events) in [
        (
            "a first attempt may take as long as it likes",
            vec![wait(9000), Fails(ServerError)],
            Some(ServerError),
            9000,
            vec![],
        ),
        ("and answer after that", vec![wait(9000), Answers(vec![Step::Delay(s(9000))])], None, 18_000, vec![]),
        ("a backoff", vec![wait(9000), Retries, wait(60)], Some(Budget), 9030, exhausted(9_030_000)),
        ("the retry in flight", vec![Retries, wait(1), wait(100)], Some(Budget), 30, exhausted(30_000)),
        (
            "nothing extends it",
            vec![Retries, wait(10), Retries, wait(10), Retries, wait(10), Retries, wait(10)],
            Some(Budget),
            30,
            exhausted(30_000),
        ),
        ("an end just in time", vec![Retries, Wait(Duration::from_millis(29_999)), Answers(vec![])], None, 29, vec![]),
        (
            "an answer at the last instant is too late",
            vec![Retries, wait(30), Answers(vec![])],
            Some(Budget),
            30,
            exhausted(30_000),
        ),
        ("and so is a failure", vec![Retries, wait(30), Fails(ServerError)], Some(Budget), 30, exhausted(30_000)),
        (
            "a failure before is told as it is",
            vec![Retries, wait(29), Fails(ServerError)],
            Some(ServerError),
            29,
            vec![],
        ),
        (
            "a limit that runs out on the way is no end of the budget",
            vec![Retries, wait(29), Fails(FailureKind::QueueTimeout)],
            Some(FailureKind::QueueTimeout),
            29,
            vec![],
        ),
    ] {
        let inner = Scripted::new(acts);
        let outcome = play(inner.clone()).await;
        assert_eq!((outcome.kind(), outcome.after.as_secs()), (kind, after), "{name}");
        assert_eq!((outcome.events, inner.alive()), (events, 0), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_tells_its_limit_and_its_candidate() {
    let outcome = play(Scripted::new([Act::Retries, Act::Wait(s(60))])).await;
    let failure = outcome.failure.unwrap();
    assert_eq!((failure.phase(), failure.limit()), (Phase::BeforeOutput, Some(s(30))));
    assert_eq!(failure.candidate().map(|name| &**name), Some("a/x"));
    assert_eq!(outcome.after, s(30));
}

/// A budget of no time is spent the moment that it starts: the only way to lose the race within one poll on a paused clock.
#[tokio::test(start_paused = true)]
async fn of_two_limits_at_one_instant_the_budget_is_the_cause() {
    use FailureKind as K;
    for kind in K::ALL {
        let outcome = play_within(Duration::ZERO, Scripted::new([Act::Retries, Act::Fails(kind)])).await;
        let of_a_limit = matches!(kind, K::FirstOutputTimeout | K::IdleTimeout | K::TotalTimeout | K::QueueTimeout);
        let told = if of_a_limit { K::RecoveryBudget } else { kind };
        assert_eq!((outcome.kind(), outcome.events.len()), (Some(told), usize::from(of_a_limit)), "{kind:?}");
        if of_a_limit {
            let failure = Failure::from_error(Box::new(outcome.failure.unwrap()));
            let lost = std::error::Error::source(&failure).and_then(|source| source.downcast_ref::<Failure>());
            assert_eq!(lost.map(Failure::kind), Some(kind), "what it was is kept");
        }
    }
    // It has told its end, and is told no more.
    let outcome = play_within(Duration::ZERO, Scripted::new([Act::Retries, Act::Ends])).await;
    assert_eq!((outcome.kind(), outcome.events.len()), (Some(K::RecoveryBudget), 1));
    let outcome = play(Scripted::new([Act::Retries, Act::Wait(s(12)), Act::Ends])).await;
    assert_eq!((outcome.kind(), outcome.events.len(), outcome.after), (Some(K::RecoveryBudget), 1, s(12)));
}

#[tokio::test(start_paused = true)]
async fn what_the_request_holds_is_free_before_anyone_is_told() {
    struct Looks(Arc<AtomicUsize>, AtomicUsize);
    impl Observer for Looks {
        fn observe(&self, _: &Event) {
            assert_eq!(self.0.load(Ordering::SeqCst), 0);
            self.1.fetch_add(1, Ordering::SeqCst);
        }
    }
    let inner = Scripted::new([Act::Retries, Act::Wait(s(3600))]);
    let looks = Arc::new(Looks(inner.alive.clone(), AtomicUsize::new(0)));
    let context = Context::builder().observer(looks.clone()).build();
    let mut call = tokio_test::task::spawn(layer(s(30)).layer(inner.clone()).call(request_in(context)));
    tokio_test::assert_pending!(call.poll());
    assert_eq!(inner.alive(), 1);
    tokio::time::advance(s(30)).await;
    assert!(call.is_woken(), "the budget wakes whoever waits");
    let failure = tokio_test::assert_ready_err!(call.poll());
    assert_eq!(failure.kind(), FailureKind::RecoveryBudget);
    assert_eq!((inner.alive(), looks.1.load(Ordering::SeqCst)), (0, 1), "before the future is dropped");
}

#[tokio::test(start_paused = true)]
async fn no_timer_is_armed_before_the_clock_runs() {
    let inner = Scripted::new([Act::Wait(s(5)), Act::Retries, Act::Wait(s(5)), Act::Fails(FailureKind::ServerError)]);
    let mut call = tokio_test::task::spawn(layer(s(30)).layer(inner).call(request_in(Context::default())));
    for armed in [false, true] {
        tokio_test::assert_pending!(call.poll());
        assert_eq!(format!("{:?}", *call).contains("alarm: Some"), armed);
        tokio::time::advance(s(5)).await;
    }
    tokio_test::assert_ready_err!(call.poll());
    assert!(format!("{:?}", *call).contains("alarm: None"));
}
