//! Whatever fails, and whatever is waited for: nothing outlasts the budget, and nothing is left behind.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context as Wakes, Poll, Wake, Waker},
    time::Duration,
};

use http_body_util::BodyExt;
use proptest::prelude::*;
use stanchion::{
    circuit::{CircuitPolicy, CircuitRegistry},
    core::{Context, Event, FailureKind, RecoveryBudget, RequestClass, RetryPhase},
};
use stanchion_faults::scenario::{Before, End, Script};
use stanchion_testkit::Events;
use stanchion_tests::{
    provider::Provider,
    replies::{done, ending, finish, json, millis, ok, refusal, role, secs, stream, text},
    stack::{Outcome, Stack},
};
use tokio::{sync::Notify, time::Instant};
use tower::ServiceExt;

/// What an attempt may come to: after so many milliseconds, in so many ways.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    Overloaded { after: u64 },
    Limited { after: u64, hint: u64 },
    Cut { after: u64 },
    Reset,
    Silent,
    SilentAfterHead,
    Slow { each: u64 },
    Fine,
}

impl Fault {
    pub(crate) fn script(self) -> Script {
        let delayed = |after: u64, script: Script| Script { delay: Some(millis(after)), ..script };
        match self {
            Self::Overloaded { after } => delayed(after, json(503, r#"{"error":{"message":"down"}}"#)),
            Self::Limited { after, hint } => delayed(after, refusal(429, "retry-after", &hint.to_string())),
            Self::Cut { after } => delayed(after, ending(End::Fin, [role()])),
            Self::Reset => Script { before: Some(Before::Reset), ..Script::default() },
            Self::Silent => Script { before: Some(Before::Hang), ..Script::default() },
            Self::SilentAfterHead => ending(End::Hang, [role()]),
            Self::Slow { each } => {
                stream([role(), text("a"), text("b").after(millis(each)).times(9), finish("stop"), done()])
            }
            Self::Fine => ok(),
        }
    }
}

pub(crate) fn faults() -> impl Strategy<Value = Fault> {
    let after = 0_u64..20_000;
    prop_oneof![
        4 => after.clone().prop_map(|after| Fault::Overloaded { after }),
        3 => (after.clone(), 0_u64..90).prop_map(|(after, hint)| Fault::Limited { after, hint }),
        2 => after.prop_map(|after| Fault::Cut { after }),
        2 => Just(Fault::Reset),
        1 => Just(Fault::Silent),
        1 => Just(Fault::SilentAfterHead),
        1 => (1_u64..30_000).prop_map(|each| Fault::Slow { each }),
        1 => Just(Fault::Fine),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_request_outlives_its_first_failure_by_more_than_the_budget(
        first in prop::collection::vec(faults(), 1..16),
        second in prop::collection::vec(faults(), 1..16),
        budget in 30_u64..=120,
        total in prop_oneof![Just(0_u64), 5_u64..100],
        circuits in any::<bool>(),
        own in prop::option::of(0_u32..20),
        taken in prop::option::of((0_u64..60_000, 0_u64..90_000)),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let scripts = |faults: Vec<Fault>| faults.into_iter().map(Fault::script).collect();
            let provider = Provider::with([("a", scripts(first)), ("b", scripts(second))]);
            let mut stack = Stack::chat(&provider).recovery(budget).limits(0, 0, total);
            if !circuits {
                stack = stack.without_circuits();
            }
            if let Some(own) = own {
                stack = stack.max_retries(own);
            }
            // Somebody takes the only place in the queue, for a while.
            if taken.is_some() {
                stack = stack.concurrency(1);
            }
            let thief = stack.queue().clone();
            let place = taken.map(|(from, time)| {
                let candidates = stack.candidates();
                tokio::spawn(async move {
                    tokio::time::sleep(millis(from)).await;
                    let mut places = Vec::new();
                    for candidate in candidates {
                        places.push(thief.handle(&candidate.into()).admit(Some("thief"), RequestClass::Foreground, 0).await);
                    }
                    tokio::time::sleep(millis(time)).await;
                })
            });
            let events = Events::new();
            let began = Instant::now();
            let context = events.context();
            // A request that nothing fails and nothing ends would go on for ever, and may.
            let request = stack.request(context.clone());
            let asking = Outcome::of(stack.service(provider.clone()).into_inner(), request, &events);
            let outcome = tokio::time::timeout(secs(100_000), asking).await;

            if let Some(place) = place {
                place.abort();
            }
            let Some(deadline) = context.recovery().and_then(RecoveryBudget::deadline) else {
                return Ok(());
            };
            let outcome = outcome.map_err(|_| TestCaseError::fail("it outlives its budget"))?;
            prop_assert!(began + outcome.took <= deadline + millis(1), "{:?} after {:?}", outcome.events, outcome.took);
            for seen in provider.seen() {
                prop_assert!(seen.at < deadline, "an attempt after the end");
            }
            prop_assert_eq!(provider.in_flight(), 0);
            let mut ends = 0;
            for event in events.all() {
                let Event::ProviderRetry(event) = event else { continue };
                if let Some(delay) = event.delay.filter(|_| event.phase == RetryPhase::Scheduled) {
                    let left = event.recovery.unwrap().remaining;
                    prop_assert!(delay <= left, "a wait of {delay:?} with {left:?} left");
                }
                ends += u32::from(event.exhausted_by == Some(stanchion::core::ExhaustedBy::RecoveryBudget));
            }
            let spent = outcome.kind() == Some(FailureKind::RecoveryBudget);
            let before_output = outcome.head.is_none();
            prop_assert_eq!(ends, u32::from(spent && before_output));
            Ok(())
        })?;
    }
}

/// A waker whose owners can be counted: whoever holds it still waits for something.
#[derive(Default)]
struct Counted(Notify);

impl Wake for Counted {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

/// Opens at every failure, for a second.
fn hasty() -> CircuitPolicy {
    CircuitPolicy::builder().consecutive(1).open(secs(1)).build().unwrap()
}

/// Asks and reads to the end, but leaves after so many polls. Whether it came to its end before.
async fn leaves_after(polls: u32, provider: &Provider, registry: &CircuitRegistry) -> bool {
    let stack = Stack::chat(provider).recovery(30).circuit(hasty()).registry(registry).limits(5, 5, 20).concurrency(1);
    let waker = Arc::new(Counted::default());
    {
        let service = stack.service(provider.clone());
        let request = stack.request(Context::default());
        let mut asking = pin!(async move {
            let response = service.oneshot(request).await.expect("an edge answers");
            let _ = response.into_body().collect().await;
        });
        for _ in 0..polls {
            let shared = Waker::from(waker.clone());
            if let Poll::Ready(()) = asking.as_mut().poll(&mut Wakes::from_waker(&shared)) {
                return true;
            }
            waker.0.notified().await;
        }
    }
    assert_eq!(Arc::strong_count(&waker), 1, "a timer or a queue is left after {polls} polls");
    let queue = stack.queue().scheduler().status();
    assert_eq!((queue.in_flight, queue.queued), (0, 0), "a permit or a ticket is left after {polls} polls");
    false
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_at_any_poll_leaves_nothing_behind() {
    let down = || json(503, r#"{"error":{"message":"down"}}"#);
    let late = |script: Script| Script { delay: Some(millis(300)), ..script };
    let slow = || stream([role(), text("Hel").after(millis(200)), text("lo").after(secs(3)), finish("stop"), done()]);
    let mut ended = 0;
    for polls in 1..60 {
        let provider = Provider::with([
            ("a", vec![late(down()), refusal(429, "retry-after", "20"), ending(End::Hang, [role()])]),
            ("b", vec![down(), late(down()), ending(End::Fin, [role()]), slow()]),
        ]);
        let registry = CircuitRegistry::new();
        let finished = leaves_after(polls, &provider, &registry).await;
        assert_eq!(provider.in_flight(), 0, "{polls}");
        for circuit in registry.status() {
            assert_eq!(circuit.waiting, 0, "{polls}");
        }
        // A lease that was left behind would hold its circuit for minutes.
        tokio::time::sleep(Duration::from_secs(25)).await;
        let healthy = Provider::with([("a", vec![ok()]), ("b", vec![ok()])]);
        let stack = Stack::chat(&healthy).circuit(hasty()).registry(&registry);
        assert_eq!(stack.ask(&healthy).await.status(), Some(200), "{polls}");
        assert_eq!(healthy.order(), ["a"], "{polls}");
        ended += u32::from(finished);
    }
    assert!((1..=52).contains(&ended), "the run has {} polls", 59 - ended);
}

#[tokio::test(start_paused = true)]
async fn who_waits_behind_a_client_that_leaves_is_let_through_in_its_place() {
    let registry = CircuitRegistry::new();
    let broken = Provider::new([json(503, "{}")]);
    Stack::chat(&broken).circuit(hasty()).registry(&registry).max_retries(0).ask(&broken).await;
    // The first in the queue leaves: while it waits, with its turn in hand, or while it probes.
    for leaves_at in [500, 1000, 1500] {
        let provider = Provider::new([Script { delay: Some(secs(5)), ..ok() }, ok(), ok()]);
        let stack = Stack::chat(&provider).recovery(30).circuit(hasty()).registry(&registry);
        let first = async {
            assert!(tokio::time::timeout(millis(leaves_at), stack.ask(&provider)).await.is_err());
        };
        let second = async {
            tokio::time::sleep(millis(1)).await;
            stack.ask(&provider).await
        };
        let ((), second) = tokio::join!(first, second);
        assert_eq!(second.status(), Some(200), "{leaves_at}");
        assert!(second.took < secs(8), "{leaves_at}: {:?}", second.took);
        assert_eq!(provider.in_flight(), 0);
        // Open it again for the next round.
        let broken = Provider::new([json(503, "{}")]);
        Stack::chat(&broken).circuit(hasty()).registry(&registry).max_retries(0).ask(&broken).await;
    }
}
