//! What holds whatever happens within.

use proptest::prelude::*;

use super::*;

/// One attempt: how long it waits for its turn (a hint, a queue, a circuit), and how long it takes.
#[derive(Debug, Clone)]
struct Turn {
    waits: Duration,
    takes: Duration,
    outcome: TurnOutcome,
}

#[derive(Debug, Clone)]
enum TurnOutcome {
    Retries,
    Fails(FailureKind),
    Answers(Vec<Duration>),
}

/// What a timer may be late: it counts whole milliseconds.
const STEP: Duration = Duration::from_millis(1);

fn time() -> impl Strategy<Value = Duration> {
    prop_oneof![
        2 => Just(Duration::ZERO),
        // Exactly the budget, or what adds up to it.
        3 => prop::sample::select(vec![5_000, 10_000, 15_000, 20_000, 30_000]).prop_map(Duration::from_millis),
        3 => (0_u64..40_000).prop_map(Duration::from_millis),
        2 => (0_u64..40_000_000).prop_map(Duration::from_micros),
    ]
}

fn turn() -> impl Strategy<Value = Turn> {
    let outcome = prop_oneof![
        6 => Just(TurnOutcome::Retries),
        1 => prop::sample::select(FailureKind::ALL.to_vec())
            .prop_filter("the budget's own end", |kind| *kind != FailureKind::RecoveryBudget)
            .prop_map(TurnOutcome::Fails),
        2 => prop::collection::vec(time(), 0..6).prop_map(TurnOutcome::Answers),
    ];
    (time(), time(), outcome).prop_map(|(waits, takes, outcome)| Turn { waits, takes, outcome })
}

fn script(circuit: bool, turns: &[Turn]) -> Vec<Act> {
    let mut acts = Vec::new();
    if circuit {
        // The circuit is open: the clock starts with the first wait.
        acts.push(Act::Retries);
    }
    for turn in turns {
        acts.extend([Act::Wait(turn.waits), Act::Wait(turn.takes)]);
        match &turn.outcome {
            TurnOutcome::Retries => acts.push(Act::Retries),
            TurnOutcome::Fails(kind) => acts.push(Act::Fails(*kind)),
            TurnOutcome::Answers(frames) => {
                let frames = frames.iter().flat_map(|time| [Step::Delay(*time), Step::Data("x".into())]);
                acts.push(Act::Answers(frames.collect()));
            }
        }
    }
    acts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_request_outlives_its_budget(
        circuit in any::<bool>(),
        turns in prop::collection::vec(turn(), 1..12),
        offset in 0_u64..2_000_000,
    ) {
        let first = if circuit { Duration::ZERO } else { turns[0].waits + turns[0].takes };
        let recovers = circuit || matches!(turns[0].outcome, TurnOutcome::Retries);
        let inner = Scripted::new(script(circuit, &turns));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let outcome = runtime.block_on(async {
            // No clock stands at a whole millisecond.
            tokio::time::advance(Duration::from_nanos(offset)).await;
            play(inner.clone()).await
        });

        prop_assert_eq!(inner.alive(), 0);
        prop_assert_eq!(outcome.deadline.is_some(), recovers);
        if let Some(deadline) = outcome.deadline {
            prop_assert!(deadline >= first + s(30), "the clock started before the end of the first attempt");
            prop_assert!(outcome.after <= deadline + STEP, "{:?} is after {deadline:?}", outcome.after);
        }
        if outcome.kind() == Some(FailureKind::RecoveryBudget) {
            let before = outcome.failure.as_ref().is_some_and(|failure| failure.phase() == Phase::BeforeOutput);
            prop_assert!(Some(outcome.after) >= outcome.deadline, "cut too early: {:?}", outcome.after);
            prop_assert_eq!(outcome.events.len(), usize::from(before));
        } else {
            prop_assert_eq!(outcome.events, Vec::<String>::new());
        }
    }
}
