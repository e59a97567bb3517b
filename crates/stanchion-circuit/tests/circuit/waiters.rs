//! Who waits for an open circuit, and who comes through.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context as Wakes, Poll},
};

use http::Response;
use http_body_util::Empty;
use stanchion_circuit::{CircuitPolicy, CircuitState};
use stanchion_core::{CircuitTurn, Failure, OpenCircuit};
use stanchion_testkit::candidate;
use tokio::time::Instant;
use tokio_test::task::{self, Spawn};
use tower::{Layer, Service, service_fn};

use super::{One, Req, ms, overloaded, pass, request_for, succeed, touchy};

type Turn = Spawn<Pin<Box<dyn Future<Output = CircuitTurn> + Send>>>;

/// Waits at the gate of a circuit that turned one away.
fn waits(open: &Arc<OpenCircuit>) -> Turn {
    task::spawn(open.gate.clone().turn())
}

fn turn(waiter: &mut Turn) -> CircuitTurn {
    match waiter.poll() {
        Poll::Ready(turn) => turn,
        Poll::Pending => panic!("it is not its turn"),
    }
}

fn is_pending(waiter: &mut Turn) -> bool {
    waiter.poll().is_pending()
}

/// An open circuit, and so many who wait for it.
fn queue(waiters: usize) -> (One, Vec<Turn>) {
    let one = One::new(touchy());
    let opened = one.open();
    let mut queue: Vec<_> = (0..waiters).map(|_| waits(opened.circuit())).collect();
    for waiter in &mut queue {
        assert!(is_pending(waiter));
    }
    (one, queue)
}

#[tokio::test(start_paused = true)]
async fn when_the_probe_is_due_the_first_goes_alone() {
    let (one, mut waiters) = queue(3);
    assert_eq!(one.handle.status().unwrap().waiting, 3);
    pass(9_999).await;
    assert!(waiters.iter().all(|waiter| !waiter.is_woken()));
    pass(1).await;
    // Only the first had a timer.
    assert_eq!(waiters.iter().map(Spawn::is_woken).collect::<Vec<_>>(), [true, false, false]);
    let held = turn(&mut waiters[0]);
    assert!(is_pending(&mut waiters[1]) && is_pending(&mut waiters[2]));
    let probe = one.probe();
    drop(held);
    // It is the second's turn as far as the first goes; but now the probe is under way.
    assert!(waiters[1].is_woken() && !waiters[2].is_woken());
    assert!(is_pending(&mut waiters[1]));
    succeed(probe);
    assert_eq!(waiters.iter().skip(1).map(Spawn::is_woken).collect::<Vec<_>>(), [true, false]);
    let second = turn(&mut waiters[1]);
    assert!(is_pending(&mut waiters[2]));
    drop(second);
    assert!(waiters[2].is_woken());
    drop(turn(&mut waiters[2]));
    assert_eq!(one.handle.status().unwrap().waiting, 0);
}

#[tokio::test(start_paused = true)]
async fn thousands_come_through_one_by_one_and_in_order() {
    let (one, waiters) = queue(3_000);
    pass(10_000).await;
    succeed(one.probe());
    let mut woken = 0;
    for (place, mut waiter) in waiters.into_iter().enumerate() {
        // Nobody is woken but the one whose turn it is.
        assert!(waiter.is_woken(), "{place}");
        woken += 1;
        let held = turn(&mut waiter);
        drop(one.allowed());
        drop(held);
    }
    assert_eq!((woken, one.handle.status().unwrap().waiting), (3_000, 0));
}

#[tokio::test(start_paused = true)]
async fn nobody_is_woken_out_of_turn() {
    let (one, mut waiters) = queue(1_000);
    pass(10_000).await;
    let held = turn(&mut waiters[0]);
    succeed(one.probe());
    drop(held);
    for _ in 0..3 {
        assert_eq!(waiters.iter().skip(1).filter(|waiter| waiter.is_woken()).count(), 1);
        assert!(waiters[1].is_woken());
    }
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_probe_lets_the_next_go() {
    let (one, mut waiters) = queue(2);
    pass(10_000).await;
    drop(turn(&mut waiters[0]));
    assert!(waiters[1].is_woken());
    // Its turn came to nothing, so the probe is still due.
    let held = turn(&mut waiters[1]);
    let probe = one.probe();
    drop(held);
    let mut third = waits(&one.denied());
    assert!(is_pending(&mut third));
    drop(probe);
    assert!(third.is_woken());
    drop(turn(&mut third));
    assert_eq!(one.state(), CircuitState::HalfOpen);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_ran_out_lets_the_next_go() {
    let (one, mut waiters) = queue(1);
    pass(10_000).await;
    let _lost = one.probe();
    assert!(is_pending(&mut waiters[0]));
    pass(299_999).await;
    assert!(!waiters[0].is_woken());
    pass(1).await;
    assert!(waiters[0].is_woken());
    drop(turn(&mut waiters[0]));
    assert!(one.probe().is_probe());
}

#[tokio::test(start_paused = true)]
async fn a_reopening_lets_nobody_go_and_sets_the_timer_anew() {
    let (one, mut waiters) = queue(2);
    pass(10_000).await;
    let probe = one.probe();
    assert!(is_pending(&mut waiters[0]));
    super::fail(probe, super::hinted(overloaded(), 45_000));
    // The first is woken, to wait for the new time.
    assert!(waiters[0].is_woken() && !waiters[1].is_woken());
    assert!(is_pending(&mut waiters[0]) && is_pending(&mut waiters[1]));
    pass(44_999).await;
    assert!(is_pending(&mut waiters[0]));
    pass(1).await;
    assert!(waiters[0].is_woken());
    drop(turn(&mut waiters[0]));
}

#[tokio::test(start_paused = true)]
async fn whoever_leaves_loses_nobody() {
    // Before its turn, at its head, once it was woken, and with the turn in hand.
    let (one, mut waiters) = queue(5);
    drop(waiters.remove(2));
    drop(waiters.remove(0));
    assert!(waiters[0].is_woken(), "the new first has the timer now");
    assert!(is_pending(&mut waiters[0]));
    pass(10_000).await;
    assert!(waiters[0].is_woken());
    drop(waiters.remove(0));
    assert!(waiters[0].is_woken());
    let held = turn(&mut waiters[0]);
    drop(waiters.remove(0));
    assert!(is_pending(&mut waiters[0]));
    drop(held);
    assert!(waiters[0].is_woken());
    drop(turn(&mut waiters[0]));
    assert_eq!(one.handle.status().unwrap().waiting, 0);
    assert!(one.probe().is_probe());
}

#[tokio::test(start_paused = true)]
async fn a_waiter_who_was_never_polled_keeps_its_place() {
    let one = One::new(touchy());
    let opened = one.open();
    let (mut first, mut second) = (waits(opened.circuit()), waits(opened.circuit()));
    assert!(is_pending(&mut second));
    pass(10_000).await;
    assert!(is_pending(&mut second));
    let held = turn(&mut first);
    assert!(is_pending(&mut second));
    drop((held, first));
    drop(turn(&mut second));
}

#[tokio::test(start_paused = true)]
async fn a_closed_circuit_keeps_nobody() {
    let (one, mut waiters) = queue(1);
    let open = one.denied();
    one.handle.close();
    assert!(waiters[0].is_woken());
    drop(turn(&mut waiters[0]));
    drop(turn(&mut waits(&open)));
}

#[tokio::test(start_paused = true)]
async fn a_turn_held_over_a_closing_holds_up_nobody() {
    let (one, mut waiters) = queue(2);
    pass(10_000).await;
    // The first is on its way, and waits for a permit; another request makes the probe meanwhile.
    let held = turn(&mut waiters[0]);
    succeed(one.probe());
    assert!(waiters[1].is_woken());
    let second = turn(&mut waiters[1]);
    let mut third = waits(one.open().circuit());
    assert!(is_pending(&mut third));
    // The old turn is over and ends nobody else's.
    drop(held);
    one.handle.close();
    drop(second);
    drop(turn(&mut third));
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_circuit_keeps_nobody() {
    let (one, waiters) = queue(1);
    let open = one.denied();
    drop(waiters);
    pass(10_000).await;
    succeed(one.probe());
    let (mut first, mut second) = (waits(&open), waits(&open));
    let held = turn(&mut first);
    assert!(is_pending(&mut second));
    pass(1_800_001).await;
    drop(One::of(one.layer.clone(), candidate("other")).allowed());
    assert!(one.handle.status().is_none());
    drop(held);
    assert!(second.is_woken());
    drop(turn(&mut second));
}

#[tokio::test(start_paused = true)]
async fn without_probes_the_first_looks_again_once_an_interval() {
    let policy = touchy().recovery(stanchion_circuit::Recovery::None);
    let layer = super::layer(policy).with_candidates(stanchion_testkit::candidates(["a", "b"]));
    let list: Vec<_> = layer.candidates().unwrap().iter().cloned().collect();
    let (a, b) = (layer.circuit(&list[0]), layer.circuit(&list[1]));
    let fail = |handle: &stanchion_circuit::CircuitHandle| {
        super::fail(handle.check(Instant::now()).unwrap().unwrap(), overloaded());
    };
    fail(&a);
    let open = a.check(Instant::now()).unwrap_err();
    let mut waiter = waits(&open);
    assert!(is_pending(&mut waiter));
    pass(10_000).await;
    let held = turn(&mut waiter);
    let open = a.check(Instant::now()).unwrap_err();
    drop(held);
    let mut waiter = waits(&open);
    assert!(is_pending(&mut waiter));
    pass(9_999).await;
    assert!(is_pending(&mut waiter));
    // Meanwhile the other has failed more often.
    fail(&b);
    for _ in 0..3 {
        if let Ok(Some(token)) = b.check(Instant::now()) {
            super::fail(token, overloaded());
        }
    }
    pass(1).await;
    drop(turn(&mut waiter));
    assert!(a.check(Instant::now()).is_ok());
}

/// A service with the circuit around a provider that counts.
fn counting(one: &One, calls: &Arc<AtomicUsize>) -> impl Service<Req, Error = Failure, Response: Sized> + use<> {
    let calls = calls.clone();
    one.layer.layer(service_fn(move |request: Req| {
        assert!(request.extensions().get::<CircuitTurn>().is_none(), "the turn went on to the provider");
        calls.fetch_add(1, Ordering::Relaxed);
        std::future::ready(Ok::<_, Failure>(Response::new(Empty::<bytes::Bytes>::new())))
    }))
}

#[tokio::test(start_paused = true)]
async fn a_turn_is_over_where_the_circuit_has_decided() {
    let (one, mut waiters) = queue(2);
    let calls = Arc::default();
    let mut service = counting(&one, &calls);
    let request = |held| {
        let mut request = request_for(&Arc::new(candidate("primary")), stanchion_core::Context::default());
        request.extensions_mut().insert::<CircuitTurn>(held);
        request
    };
    pass(10_000).await;
    let call = service.call(request(turn(&mut waiters[0])));
    assert!(waiters[1].is_woken(), "the next goes when the first is in, not when its reply ends");
    assert!(is_pending(&mut waiters[1]), "and then finds a probe under way");
    call.await.map(drop).unwrap();
    assert_eq!((calls.load(Ordering::Relaxed), one.state()), (1, CircuitState::Closed));
    service.call(request(turn(&mut waiters[1]))).await.map(drop).unwrap();
    assert_eq!((calls.load(Ordering::Relaxed), one.handle.status().unwrap().waiting), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn one_whose_turn_came_to_nothing_goes_back_to_its_place() {
    let (one, mut waiters) = queue(3);
    pass(10_000).await;
    let held = turn(&mut waiters[0]);
    // Another is faster, without having waited.
    let probe = one.probe();
    let mut service = counting(&one, &Arc::default());
    let mut request = request_for(&Arc::new(candidate("primary")), stanchion_core::Context::default());
    request.extensions_mut().insert(held);
    let refused = service.call(request).await.map(drop).unwrap_err();
    let mut again = waits(refused.circuit().unwrap());
    assert!(is_pending(&mut again) && is_pending(&mut waiters[1]) && is_pending(&mut waiters[2]));
    // What is left of its first wait takes nothing of it away.
    drop(waiters.remove(0));
    super::fail(probe, overloaded());
    pass(10_000).await;
    assert!(is_pending(&mut waiters[0]));
    let held = turn(&mut again);
    drop(held);
    assert!(waiters[0].is_woken() && !waiters[1].is_woken());
}

/// A client as the retry layer is one: it waits for its turn and asks again, until it is let in.
async fn client(one: &One) -> (Instant, bool) {
    let mut held: Option<CircuitTurn> = None;
    loop {
        let checked = one.handle.check(Instant::now());
        drop(held.take());
        match checked {
            Ok(token) => {
                let token = token.expect("it counts");
                let is_probe = token.is_probe();
                if is_probe {
                    tokio::time::sleep(ms(120)).await;
                }
                succeed(token);
                return (Instant::now(), is_probe);
            }
            Err(open) => held = Some(open.gate.clone().turn().await),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn two_who_wait_make_one_probe() {
    let one = One::new(CircuitPolicy::builder());
    one.open();
    let began = Instant::now();
    let ((first, first_probes), (second, second_probes)) = tokio::join!(client(&one), client(&one));
    assert_eq!((first_probes, second_probes), (true, false));
    assert_eq!((first - began, second - began), (ms(10_120), ms(10_120)));
}

#[tokio::test(start_paused = true)]
async fn many_who_wait_make_one_probe_and_poll_nothing() {
    let one = One::new(CircuitPolicy::builder());
    one.open();
    let began = Instant::now();
    let polls = AtomicUsize::new(0);
    let clients = (0..500).map(|_| {
        let mut client = Box::pin(client(&one));
        let polls = &polls;
        std::future::poll_fn(move |cx: &mut Wakes<'_>| {
            polls.fetch_add(1, Ordering::Relaxed);
            client.as_mut().poll(cx)
        })
    });
    let mut tasks: Vec<_> = clients.map(Box::pin).map(|client| task::spawn(client)).collect();
    let mut done = Vec::new();
    for step in [0_u64, 10_000, 120, 0] {
        pass(step).await;
        // Each is polled only when it is woken.
        for _ in 0..2 {
            tasks.retain_mut(|client| {
                if step > 0 && !client.is_woken() {
                    return true;
                }
                match client.poll() {
                    Poll::Ready(outcome) => {
                        done.push(outcome);
                        false
                    }
                    Poll::Pending => true,
                }
            });
        }
    }
    assert!(tasks.is_empty(), "{} still wait", tasks.len());
    assert_eq!(done.iter().filter(|(_, is_probe)| *is_probe).count(), 1);
    assert!(done.iter().all(|(at, _)| *at - began == ms(10_120)));
    // Two polls to begin with, and then about as many as there are changes.
    assert!(polls.load(Ordering::Relaxed) < 500 * 4, "{polls:?}");
}
