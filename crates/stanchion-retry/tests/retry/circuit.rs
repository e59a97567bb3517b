//! An open circuit: who waits for it, who does not, and how it is told.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use stanchion_core::{
    CircuitGate, CircuitTurn, Context, Failure, FailureKind, OpenCircuit, RecoveryBudget, RetryReason, WaitsForCircuit,
};
use stanchion_testkit::Events;
use tokio::{sync::Notify, time::Instant};

use super::{Reply, candidate, failure, ms, play, play_request, play_seeing, request_for, standard, status};

/// A circuit as a layer within would have it: open until an instant, and then one turn after the other.
#[derive(Default)]
pub(crate) struct Gate {
    until: Mutex<Option<Instant>>,
    early: Notify,
    waiting: AtomicUsize,
    turns: Arc<AtomicUsize>,
}

impl Gate {
    /// How many turns are out.
    pub(crate) fn turns(&self) -> usize {
        self.turns.load(Ordering::SeqCst)
    }
}

struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

struct Waiting(Arc<Gate>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

impl CircuitGate for Gate {
    fn turn(self: Arc<Self>) -> Pin<Box<dyn Future<Output = CircuitTurn> + Send>> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let waiting = Waiting(self);
        Box::pin(async move {
            let until = *waiting.0.until.lock().unwrap();
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => waiting.0.early.notified().await,
            }
            waiting.0.turns.fetch_add(1, Ordering::SeqCst);
            CircuitTurn::new(Counted(waiting.0.turns.clone()))
        })
    }
}

/// A circuit that opens for so long, from now.
pub(crate) fn open(gate: &Arc<Gate>, open_for: Duration) -> Arc<OpenCircuit> {
    let next_probe = Instant::now() + open_for;
    *gate.until.lock().unwrap() = Some(next_probe);
    Arc::new(OpenCircuit {
        candidate: Some("a/x".into()),
        reason: RetryReason::ServerError,
        status_code: Some(503),
        next_probe,
        open_for,
        sample_count: 4,
        failure_count: 4,
        gate: gate.clone(),
    })
}

pub(crate) fn turned_away(circuit: &Arc<OpenCircuit>) -> Reply {
    Err(circuit.refuse(Instant::now()))
}

fn opening(circuit: &Arc<OpenCircuit>) -> Reply {
    Err(status(FailureKind::Overloaded, 503).with_circuit(circuit.clone()))
}

fn bounded(events: &Events, seconds: u64) -> Context {
    events.context_builder().recovery(RecoveryBudget::new(Duration::from_secs(seconds))).build()
}

const TEN: Duration = Duration::from_secs(10);

#[tokio::test(start_paused = true)]
async fn the_last_candidate_of_a_bounded_request_waits_and_that_costs_no_attempt() {
    let events = Events::new();
    let gate = Arc::new(Gate::default());
    let circuit = open(&gate, TEN);
    let context = bounded(&events, 600);
    let mut turns = Vec::new();
    let request = request_for(context.clone(), candidate("a", true));
    let outcome = play_seeing(standard(), request, [turned_away(&circuit), Ok(())], |request| {
        turns.push(request.extensions().get::<CircuitTurn>().is_some());
        assert!(request.extensions().get::<WaitsForCircuit>().is_some());
    })
    .await;
    assert_eq!(outcome.at, [0, 10_000]);
    assert_eq!(turns, [false, true]);
    // No retry: nothing is recovered.
    assert_eq!(events.timed_lines(), ["0 C.waiting~10000"]);
    assert_eq!(context.recovery().unwrap().attempts(), 1);
    assert_eq!((gate.waiting.load(Ordering::SeqCst), gate.turns.load(Ordering::SeqCst)), (0, 0), "given back");
}

#[tokio::test(start_paused = true)]
async fn nobody_else_waits_and_nothing_is_told_here() {
    let standard_mode = |events: &Events| events.context();
    let bounded_mode = |events: &Events| bounded(events, 600);
    for (mode, last) in
        [(&standard_mode as &dyn Fn(&Events) -> Context, true), (&standard_mode, false), (&bounded_mode, false)]
    {
        let events = Events::new();
        let circuit = open(&Arc::default(), TEN);
        let request = request_for(mode(&events), candidate("a", last));
        let outcome = play_seeing(standard(), request, [turned_away(&circuit)], |request| {
            // The circuit tells of it itself.
            assert!(request.extensions().get::<WaitsForCircuit>().is_none());
        })
        .await;
        assert_eq!(outcome.took, Duration::ZERO);
        let failure = outcome.failure();
        assert_eq!((failure.kind(), failure.attempts()), (FailureKind::CircuitOpen, 0));
        assert_eq!(failure.hint().map(stanchion_core::RetryHint::delay), Some(TEN));
        assert_eq!(events.lines(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_opens_the_circuit_ends_the_call_where_nobody_waits() {
    let events = Events::new();
    let gate = Arc::default();
    let replies = [Err(status(FailureKind::Overloaded, 503)), opening(&open(&gate, TEN))];
    let failure = play(standard(), events.context(), replies).await.failure();
    assert_eq!((failure.kind(), failure.attempts()), (FailureKind::CircuitOpen, 2));
    assert_eq!(failure.phase(), stanchion_core::Phase::BeforeOutput, "the provider was asked");
    let cause = std::error::Error::source(&failure).and_then(|source| source.downcast_ref::<Failure>()).unwrap();
    assert_eq!(cause.kind(), FailureKind::Overloaded);
    // Half a second has passed since it was made.
    assert_eq!(events.lines(), ["R.scheduled#1~500", "R.attempt#1", "C.rejected~9500"]);
    // Without retries left the failure itself is the better answer.
    let events = Events::new();
    let failure = play(super::retries(0), events.context(), [opening(&open(&gate, TEN))]).await.failure();
    assert_eq!(failure.kind(), FailureKind::Overloaded);
    assert_eq!(events.lines(), ["R.exhausted#0(server_error/503)"]);
}

#[tokio::test(start_paused = true)]
async fn of_circuit_and_backoff_the_longer_counts() {
    for (open_for, retry_at) in [(10_000, 10_000), (100, 500)] {
        let events = Events::new();
        let circuit = open(&Arc::default(), ms(open_for));
        let outcome = play(standard(), bounded(&events, 600), [opening(&circuit), Ok(())]).await;
        assert_eq!(outcome.at, [0, retry_at]);
        let waiting = format!("0 C.waiting~{open_for}");
        let scheduled = format!("0 R.scheduled#1~{retry_at}");
        let [attempt, recovered] = ["attempt", "recovered"].map(|phase| format!("{retry_at} R.{phase}#1"));
        assert_eq!(events.timed_lines(), [waiting, scheduled, attempt, recovered]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_opening_is_told_every_fifteen_seconds_as_both_waits() {
    let events = Events::new();
    let circuit = open(&Arc::default(), Duration::from_secs(40));
    play(standard(), bounded(&events, 600), [opening(&circuit), Ok(())]).await;
    assert_eq!(
        events.timed_lines(),
        [
            "0 C.waiting~40000",
            "0 R.scheduled#1~40000",
            "15000 C.waiting~25000",
            "15000 R.waiting#1~40000",
            "30000 C.waiting~10000",
            "30000 R.waiting#1~40000",
            "40000 R.attempt#1",
            "40000 R.recovered#1"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_wait_of_thirty_seconds_is_told_twice() {
    let events = Events::new();
    let circuit = open(&Arc::default(), Duration::from_secs(30));
    let request = request_for(bounded(&events, 600), candidate("a", true));
    let outcome = play_request(standard(), request, [turned_away(&circuit), Ok(())]).await;
    assert_eq!(outcome.at, [0, 30_000]);
    assert_eq!(events.timed_lines(), ["0 C.waiting~30000", "15000 C.waiting~15000"]);
    let remaining: Vec<_> = events
        .all()
        .into_iter()
        .map(|event| match event {
            stanchion_core::Event::ProviderCircuit(event) => event.recovery_remaining.unwrap().as_secs(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(remaining, [600, 585]);
}

#[tokio::test(start_paused = true)]
async fn the_budget_cuts_the_wait_and_no_traffic_follows() {
    let events = Events::new();
    let gate = Arc::new(Gate::default());
    let circuit = open(&gate, Duration::from_secs(300));
    let request = request_for(bounded(&events, 30), candidate("a", true));
    let outcome = play_request(standard(), request, [turned_away(&circuit)]).await;
    assert_eq!(outcome.took, Duration::from_secs(30));
    assert_eq!(
        events.timed_lines(),
        ["0 C.waiting~300000", "15000 C.waiting~285000", "30000 R.exhausted#0(server_error/503)!recovery_budget"]
    );
    let failure = outcome.failure();
    assert_eq!((failure.kind(), failure.attempts()), (FailureKind::RecoveryBudget, 0));
    assert_eq!(gate.waiting.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn who_comes_too_late_for_the_probe_waits_on_and_tells_it_once() {
    let events = Events::new();
    let gate = Arc::new(Gate::default());
    let circuit = open(&gate, TEN);
    let request = request_for(bounded(&events, 600), candidate("a", true));
    let call = play_request(
        standard(),
        request,
        [turned_away(&circuit), turned_away(&circuit), turned_away(&circuit), Ok(())],
    );
    let closes = async {
        tokio::time::sleep(ms(9_999)).await;
        // From its next probe on the circuit says itself when somebody may come.
        tokio::time::sleep(ms(1)).await;
        *gate.until.lock().unwrap() = None;
        for _ in 0..3 {
            tokio::time::sleep(ms(40)).await;
            gate.early.notify_one();
        }
    };
    let (outcome, ()) = tokio::join!(call, closes);
    assert!(outcome.result.is_ok());
    assert_eq!(events.lines(), ["C.waiting~10000"]);
    assert_eq!(outcome.at.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_leaves_leaves_the_queue() {
    let gate = Arc::new(Gate::default());
    let circuit = open(&gate, TEN);
    let (mut service, mut handle) = tower_test::mock::spawn_layer(standard());
    std::future::poll_fn(|_| service.poll_ready()).await.unwrap();
    let request = request_for(bounded(&Events::new(), 600), candidate("a", true));
    let call = tokio::time::timeout(Duration::from_secs(5), service.call(request));
    let upstream = async {
        let (_, send): (super::Req, tower_test::mock::SendResponse<http::Response<()>>) =
            handle.next_request().await.unwrap();
        send.send_error(circuit.refuse(Instant::now()));
        tokio::time::sleep(ms(1)).await;
        gate.waiting.load(Ordering::SeqCst)
    };
    let (left, waiting) = tokio::join!(call, upstream);
    assert!(left.is_err());
    assert_eq!((waiting, gate.waiting.load(Ordering::SeqCst)), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_shared_attempt_after_a_circuit_is_recovered_for_the_circuits_reason() {
    let events = Events::new();
    let context = bounded(&events, 600);
    let down = || Err(status(FailureKind::Overloaded, 503));
    play_request(standard(), request_for(context.clone(), candidate("a", false)), [down(), down(), down()])
        .await
        .failure();
    let circuit = open(&Arc::default(), ms(8500));
    play_request(standard(), request_for(context, candidate("b", true)), [turned_away(&circuit), Ok(())]).await;
    assert_eq!(events.timed_lines()[5..], ["1500 C.waiting~8500", "10000 R.recovered#3"]);
}

#[tokio::test(start_paused = true)]
async fn a_circuit_without_a_gate_is_left_alone() {
    // As a foreign layer would fail.
    let events = Events::new();
    let request = request_for(bounded(&events, 600), candidate("a", true));
    let outcome = play_request(standard(), request, [Err(failure(FailureKind::CircuitOpen))]).await;
    assert_eq!(outcome.failure().kind(), FailureKind::CircuitOpen);
}
