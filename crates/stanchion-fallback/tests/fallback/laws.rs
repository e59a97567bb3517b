//! What holds for every layer, and what holds for every script of answers.

use proptest::prelude::*;
use stanchion_core::{Disposition, DispositionRules, Failure, FailureKind};
use stanchion_fallback::{Fallback, FallbackLayer};
use stanchion_testkit::{Contract, Events, candidates, request_in};
use tower::ServiceExt;

use super::{Reply, Script, failure, status};

#[tokio::test(start_paused = true)]
async fn the_contract_of_every_layer() {
    Contract::new(FallbackLayer::new(candidates(["a"]))).check().await;
    Contract::new(FallbackLayer::new(candidates(["a", "b", "c"]))).check().await;
}

/// An answer: a kind of failure, and whether the provider said it with a status of its own.
type Answer = Option<(FailureKind, bool)>;

fn failed((kind, answered): (FailureKind, bool)) -> Failure {
    if answered { status(kind, 418) } else { failure(kind) }
}

fn passes(answer: (FailureKind, bool)) -> bool {
    Disposition::of(&failed(answer), &DispositionRules::default()).fallback
}

/// How much an answer tells, said once more, in other words than the layer's.
fn worth((kind, answered): (FailureKind, bool)) -> u32 {
    use FailureKind::{CircuitOpen, Drained, Misconfigured, QueueClosed, QueueFull, QueueTimeout};
    match kind {
        CircuitOpen | QueueFull | QueueTimeout | QueueClosed | Drained | Misconfigured => 0,
        _ => 1 + u32::from(answered),
    }
}

proptest! {
    #[test]
    fn every_script_is_walked_in_order_and_ends_with_the_best(
        script in proptest::collection::vec(
            proptest::option::weighted(0.9, (0..FailureKind::ALL.len(), any::<bool>())), 1..7
        ),
    ) {
        let known = |(kind, told): (usize, bool)| (FailureKind::ALL[kind], told);
        let script: Vec<Answer> = script.into_iter().map(|answer| answer.map(known)).collect();
        let providers: Vec<String> = (0..script.len()).map(|index| format!("p{index}")).collect();
        let replies = script.iter().map(|answer| -> Reply { answer.map_or(Ok(()), |answer| Err(failed(answer))) });
        let inner = Script::new(replies);
        let list = candidates(providers.iter().map(String::as_str));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (result, lines) = runtime.block_on(async {
            let events = Events::new();
            let service = Fallback::new(inner.clone(), list);
            (service.oneshot(request_in(events.context())).await, events.lines())
        });

        // The walk stops at the first answer that is none to pass on, or at the end of the list.
        let stops = script.iter().position(|answer| !answer.is_some_and(passes)).unwrap_or(script.len() - 1);
        prop_assert_eq!(inner.asked(), &providers[..=stops]);
        let marker = |pair: &[String]| format!("M.fallback {}/gpt-x>{}/gpt-x", pair[0], pair[1]);
        let markers: Vec<_> = providers[..=stops].windows(2).map(marker).collect();
        prop_assert_eq!(lines, markers);

        let Err(failure) = result else {
            prop_assert!(script[stops].is_none());
            return Ok(());
        };
        let last = script[stops].expect("a failure");
        let best = if passes(last) {
            (0..=stops).max_by_key(|index| (worth(script[*index].unwrap()), *index)).unwrap()
        } else {
            stops
        };
        prop_assert_eq!(failure.kind(), script[best].unwrap().0);
        let name = format!("p{best}/gpt-x");
        prop_assert_eq!(failure.candidate().map(|name| &**name), Some(&*name));
        let asked = script[..=stops].iter().flatten().filter(|answer| worth(**answer) > 0).count();
        prop_assert_eq!(failure.attempts() as usize, asked);
    }
}
