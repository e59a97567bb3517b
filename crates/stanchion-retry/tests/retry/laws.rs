//! What holds for every layer, and what holds for every script of answers.

use proptest::prelude::*;
use stanchion_core::{CircuitOutcome, Disposition, DispositionRules, FailureKind, Retry};
use stanchion_retry::RetryLayer;
use stanchion_testkit::{Contract, Events};

use super::{Reply, failure, play, retries};

#[tokio::test(start_paused = true)]
async fn the_contract_of_every_layer() {
    Contract::new(RetryLayer::default()).check().await;
    Contract::new(retries(0)).check().await;
}

fn untouched(kind: FailureKind) -> bool {
    Disposition::of(&failure(kind), &DispositionRules::default()).circuit == CircuitOutcome::Untouched
}

/// How many attempts a script comes to, told without any of the layer's own code.
fn expected(max: u32, script: &[Option<FailureKind>]) -> usize {
    let (mut charged, mut free, mut once) = (0, false, false);
    for (index, kind) in script.iter().enumerate() {
        let Some(kind) = kind else { return index + 1 };
        let retry = Disposition::of(&failure(*kind), &DispositionRules::default()).retry;
        if max > 0 && retry == Retry::AtOnce && !free {
            free = true;
            continue;
        }
        if retry == Retry::Never || charged == max || (retry == Retry::Once && once) {
            return index + 1;
        }
        charged += 1;
        once |= retry == Retry::Once;
    }
    script.len()
}

proptest! {
    #[test]
    fn every_script_ends_in_time_and_is_told_in_order(
        max in 0_u32..5,
        script in proptest::collection::vec(proptest::option::weighted(0.9, 0..FailureKind::ALL.len()), 8),
    ) {
        let script: Vec<_> = script.into_iter().map(|kind| kind.map(|index| FailureKind::ALL[index])).collect();
        let attempts = expected(max, &script);
        let reply = |kind: &Option<_>| kind.map_or(Ok(()), |kind| Err(failure(kind)));
        let replies: Vec<Reply> = script[..attempts].iter().map(reply).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let (outcome, lines) = runtime.block_on(async {
            let events = Events::new();
            (play(retries(max), events.context(), replies).await, events.lines())
        });

        prop_assert_eq!(outcome.at.len(), attempts);
        prop_assert!(attempts <= max as usize + 2, "the limit, and one free retry");
        let made = attempts - 1;
        for number in 1..=made {
            let scheduled = lines[2 * number - 2].starts_with(&format!("R.scheduled#{number}~"));
            prop_assert!(scheduled && lines[2 * number - 1] == format!("R.attempt#{number}"), "{:?}", lines);
        }
        let rest = &lines[2 * made..];
        let last = script[attempts - 1];
        let retryable = |kind| Disposition::of(&failure(kind), &DispositionRules::default()).retry != Retry::Never;
        let told = match last {
            None if made == 0 => None,
            None => Some(format!("R.recovered#{made}")),
            Some(FailureKind::Cancelled | FailureKind::RecoveryBudget) => None,
            // Who was not even asked has told why by itself.
            Some(kind) if untouched(kind) => None,
            Some(kind) if made == 0 && !retryable(kind) => None,
            Some(_) => Some(format!("R.exhausted#{made}")),
        };
        match told {
            Some(told) => prop_assert!(rest.len() == 1 && rest[0].starts_with(&told), "{:?}", lines),
            None => prop_assert!(rest.is_empty(), "{:?}", lines),
        }
        match (outcome.result, last) {
            (Ok(_), None) => {}
            (Err(failure), Some(kind)) => prop_assert_eq!(failure.kind(), kind),
            other => prop_assert!(false, "{:?}", other),
        }
    }
}
