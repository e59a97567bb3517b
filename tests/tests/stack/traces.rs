//! Whole requests as their events tell them: who waits for what, for how long, and how it ends.
//!
//! The numbers are those of a published control plane, whose waits and counts these layers keep. Where a trace differs, its test says why.

use stanchion::{
    circuit::{CircuitPolicy, CircuitRegistry},
    core::FailureKind,
    retry::RetryPolicy,
};
use stanchion_faults::scenario::{End, Script};
use stanchion_tests::{
    provider::Provider,
    replies::{done, ending, finish, json, millis, refusal, role, secs, stream, text},
    stack::{Outcome, Stack},
};

fn ok() -> Script {
    stream([role(), text("Hello."), finish("stop"), done()])
}

fn down() -> Script {
    Script { repeat: true, ..json(503, r#"{"error":{"message":"down"}}"#) }
}

/// The failing candidate first, the others after it.
fn then_ok(failures: usize) -> Vec<Script> {
    (0..failures).map(|_| Script { repeat: false, ..down() }).chain([ok()]).collect()
}

/// The events of retries, circuits, stalls and fallbacks, without those of each attempt.
fn trace(outcome: &Outcome) -> Vec<&str> {
    outcome.timed_events.iter().map(String::as_str).filter(|line| !line.contains(" P.")).collect()
}

/// A request that asks at most twice in standard mode, with a person waiting for at most `budget` seconds.
fn bounded(provider: &Provider, budget: u64) -> Stack {
    Stack::chat(provider).recovery(budget)
}

/// Opens the circuit of a stack's only candidate by four failures, at the cost of 3.5 s.
async fn opened(registry: &CircuitRegistry) {
    let provider = Provider::new([down()]);
    let stack = Stack::chat(&provider).registry(registry).max_retries(5);
    let outcome = stack.ask_inner(&provider).await;
    assert_eq!((outcome.kind(), provider.attempts()), (Some(FailureKind::CircuitOpen), 4));
}

#[tokio::test(start_paused = true)]
async fn a_failure_and_then_success() {
    let provider = Provider::new(then_ok(1));
    let outcome = Stack::chat(&provider).ask_inner(&provider).await;
    assert_eq!(trace(&outcome), ["0 R.scheduled#1~500", "500 R.attempt#1", "500 R.recovered#1"]);
}

#[tokio::test(start_paused = true)]
async fn without_retries_the_end_is_told_all_the_same() {
    let provider = Provider::new([down()]);
    let outcome = Stack::chat(&provider).max_retries(0).ask_inner(&provider).await;
    assert_eq!(trace(&outcome), ["0 R.exhausted#0(server_error/503)"]);
    assert_eq!(outcome.kind(), Some(FailureKind::Overloaded));
}

#[tokio::test(start_paused = true)]
async fn nothing_but_failures() {
    let provider = Provider::new([down()]);
    let outcome = Stack::chat(&provider).ask_inner(&provider).await;
    assert_eq!(
        trace(&outcome),
        [
            "0 R.scheduled#1~500",
            "500 R.attempt#1",
            "500 R.scheduled#2~1000",
            "1500 R.attempt#2",
            "1500 R.exhausted#2(server_error/503)"
        ]
    );
    assert_eq!((provider.attempts(), outcome.took), (3, millis(1500)));
}

#[tokio::test(start_paused = true)]
async fn a_failure_and_then_a_refusal() {
    let provider = Provider::new([Script { repeat: false, ..down() }, json(400, r#"{"error":{"message":"no"}}"#)]);
    let outcome = Stack::chat(&provider).ask_inner(&provider).await;
    assert_eq!(trace(&outcome), ["0 R.scheduled#1~500", "500 R.attempt#1", "500 R.exhausted#1(server_error/503)"]);
    assert_eq!(outcome.kind(), Some(FailureKind::InvalidRequest));
}

/// The fourth failure opens the circuit, and nobody waits for it.
#[tokio::test(start_paused = true)]
async fn the_failure_that_opens_the_circuit_ends_a_request_in_standard_mode() {
    let provider = Provider::new([down()]);
    let outcome = Stack::chat(&provider).max_retries(5).ask_inner(&provider).await;
    assert_eq!(
        trace(&outcome)[6..],
        ["3500 C.opened~10000(4/4)", "3500 C.rejected~10000"],
        "{:?}",
        outcome.timed_events
    );
    assert_eq!((provider.attempts(), outcome.took), (4, millis(3500)));
    let failure = outcome.failure.unwrap();
    assert_eq!((failure.kind(), failure.attempts()), (FailureKind::CircuitOpen, 4));
    assert_eq!(failure.hint().unwrap().delay(), secs(10));
}

/// The circuit closes before recovery is told: it stands within the retries.
#[tokio::test(start_paused = true)]
async fn a_person_waits_the_opening_out() {
    let provider = Provider::new(then_ok(4));
    let outcome = bounded(&provider, 600).ask_inner(&provider).await;
    assert_eq!(
        trace(&outcome)[6..],
        [
            "3500 C.opened~10000(4/4)",
            "3500 C.waiting~10000",
            "3500 R.scheduled#4~10000",
            "13500 R.attempt#4",
            "13500 C.probe",
            "13500 C.closed",
            "13500 R.recovered#4"
        ],
        "{:?}",
        outcome.timed_events
    );
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_fails_is_waited_for_again() {
    let provider = Provider::new(then_ok(5));
    let outcome = bounded(&provider, 600).ask_inner(&provider).await;
    assert_eq!(
        trace(&outcome)[9..],
        [
            "13500 R.attempt#4",
            "13500 C.probe",
            "13500 C.reopened~10000(server_error/503)",
            "13500 C.waiting~10000",
            "13500 R.scheduled#5~10000",
            "23500 R.attempt#5",
            "23500 C.probe",
            "23500 C.closed",
            "23500 R.recovered#5"
        ],
        "{:?}",
        outcome.timed_events
    );
}

#[tokio::test(start_paused = true)]
async fn a_directive_beyond_the_budget_is_waited_for_until_the_budget_ends() {
    let provider = Provider::new([refusal(429, "retry-after", "60"), ok()]);
    let outcome = bounded(&provider, 30).ask_inner(&provider).await;
    assert_eq!(
        trace(&outcome),
        ["0 R.scheduled#1~30000", "15000 R.waiting#1~30000", "30000 R.exhausted#1(rate_limit/429)!recovery_budget"]
    );
    assert_eq!((outcome.kind(), provider.attempts()), (Some(FailureKind::RecoveryBudget), 1));
    // What the provider asked for is of use to the caller still.
    assert_eq!(outcome.failure.unwrap().hint().unwrap().delay(), secs(60));
}

fn chain(names: &[&'static str]) -> Provider {
    Provider::with(names.iter().map(|name| (*name, vec![down()])))
}

#[tokio::test(start_paused = true)]
async fn candidates_share_twelve_attempts_after_the_first() {
    let provider = chain(&["a", "b"]);
    let outcome = bounded(&provider, 600).without_circuits().ask_inner(&provider).await;
    let lines = trace(&outcome);
    assert_eq!(
        lines[4..7],
        ["1500 R.exhausted#2(server_error/503)", "1500 M.fallback a/m>b/m", "1500 R.scheduled#4~4000"]
    );
    assert_eq!(*lines.last().unwrap(), "361500 R.exhausted#12(server_error/503)!attempt_limit");
    let order = provider.order();
    assert_eq!((order.iter().filter(|name| *name == "a").count(), order.len()), (3, 13));
    assert_eq!(outcome.kind(), Some(FailureKind::Overloaded));
}

#[tokio::test(start_paused = true)]
async fn three_candidates_share_them_too_and_a_number_that_is_set_is_each_ones_own() {
    let each = |provider: &Provider| ["a", "b", "c"].map(|name| provider.order().iter().filter(|n| *n == name).count());
    let provider = chain(&["a", "b", "c"]);
    let outcome = bounded(&provider, 3600).without_circuits().ask_inner(&provider).await;
    assert_eq!(each(&provider), [3, 3, 7], "{:?}", outcome.events);
    for (max, attempts) in [(1, [2, 2, 2]), (0, [1, 1, 1])] {
        let provider = chain(&["a", "b", "c"]);
        let outcome = bounded(&provider, 600).without_circuits().max_retries(max).ask_inner(&provider).await;
        assert_eq!(each(&provider), attempts);
        let ends: Vec<_> = outcome.events.iter().filter(|line| line.starts_with("R.exhausted")).collect();
        let (plain, last) = (
            format!("R.exhausted#{max}(server_error/503)"),
            format!("R.exhausted#{max}(server_error/503)!attempt_limit"),
        );
        assert_eq!(ends, [&plain, &plain, &last]);
    }
}

#[tokio::test(start_paused = true)]
async fn no_marker_follows_the_last_attempt() {
    let provider = chain(&["a", "b", "c", "d", "e", "f", "g"]);
    let outcome = bounded(&provider, 3600).without_circuits().ask_inner(&provider).await;
    assert_eq!(provider.attempts(), 13);
    let markers = outcome.events.iter().filter(|line| line.starts_with("M.fallback")).count();
    assert_eq!(markers, 4);
    let last = trace(&outcome).pop().unwrap().to_owned();
    assert!(last.ends_with("R.exhausted#12(server_error/503)!attempt_limit"), "{last}");
}

#[tokio::test(start_paused = true)]
async fn an_open_circuit_turns_away_in_standard_mode() {
    let registry = CircuitRegistry::new();
    opened(&registry).await;
    let provider = Provider::new([ok()]);
    let outcome = Stack::chat(&provider).registry(&registry).ask_inner(&provider).await;
    assert_eq!(trace(&outcome), ["0 C.rejected~10000"]);
    assert_eq!((outcome.kind(), provider.attempts()), (Some(FailureKind::CircuitOpen), 0));
}

#[tokio::test(start_paused = true)]
async fn an_open_circuit_is_waited_for_where_a_person_waits() {
    let registry = CircuitRegistry::new();
    opened(&registry).await;
    let provider = Provider::new([ok()]);
    let outcome = bounded(&provider, 600).registry(&registry).ask_inner(&provider).await;
    assert_eq!(trace(&outcome), ["0 C.waiting~10000", "10000 C.probe", "10000 C.closed"]);
    assert_eq!((outcome.failure.is_none(), provider.attempts()), (true, 1));
}

/// Who comes too late for the probe is woken by its end, and tells one wait: there, it polled and told it twenty times a second.
#[tokio::test(start_paused = true)]
async fn two_wait_for_one_probe() {
    let registry = CircuitRegistry::new();
    opened(&registry).await;
    let slow = stream([role(), text("Hello.").after(millis(120)), finish("stop"), done()]);
    let provider = Provider::new([slow, ok()]);
    let stack = bounded(&provider, 600).registry(&registry);
    let (first, second) = tokio::join!(stack.ask_inner(&provider), stack.ask_inner(&provider));
    assert_eq!(trace(&first), ["0 C.waiting~10000", "10000 C.probe", "10120 C.closed"]);
    assert_eq!(trace(&second), ["0 C.waiting~10000"]);
    assert_eq!((provider.attempts(), second.took), (2, millis(10_120)));
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_is_answered_with_a_refusal_closes_the_circuit() {
    let registry = CircuitRegistry::new();
    opened(&registry).await;
    tokio::time::advance(secs(10)).await;
    let provider = Provider::new([json(400, r#"{"error":{"message":"no"}}"#)]);
    let outcome = Stack::chat(&provider).registry(&registry).ask_inner(&provider).await;
    assert_eq!(trace(&outcome), ["0 C.probe", "0 C.closed"]);
    assert_eq!(outcome.kind(), Some(FailureKind::InvalidRequest));
    assert_eq!(registry.status()[0].sample_count, 0);
}

/// The good status of a stream that broke is not told as its cause.
#[tokio::test(start_paused = true)]
async fn a_probe_whose_stream_ends_early_opens_it_again() {
    let registry = CircuitRegistry::new();
    opened(&registry).await;
    tokio::time::advance(secs(10)).await;
    let provider = Provider::new([ending(End::Fin, [role()])]);
    let outcome = Stack::chat(&provider).registry(&registry).ask_inner(&provider).await;
    assert_eq!(trace(&outcome), ["0 C.probe", "0 C.reopened~10000(stream_closed)", "0 C.rejected~10000"]);
    assert_eq!(outcome.kind(), Some(FailureKind::CircuitOpen));
}

/// A probe that outlives its total limit has learnt nothing, with headers or without: there, headers closed the circuit.
#[tokio::test(start_paused = true)]
async fn a_probe_that_outlives_its_limit_is_made_anew() {
    let silent = Script { before: Some(stanchion_faults::scenario::Before::Hang), ..Script::default() };
    let with_headers = ending(End::Hang, [role()]);
    for script in [silent, with_headers] {
        let registry = CircuitRegistry::new();
        opened(&registry).await;
        tokio::time::advance(secs(10)).await;
        let provider = Provider::new([script, ok()]);
        let stack = Stack::chat(&provider).registry(&registry).limits(0, 0, 20);
        let outcome = stack.ask_inner(&provider).await;
        let told: Vec<_> = outcome
            .timed_events
            .iter()
            .filter(|line| line.contains(" C.") || line.contains(" R."))
            .map(String::as_str)
            .collect();
        assert_eq!(
            told,
            [
                "0 C.probe",
                "20000 R.scheduled#1~500",
                "20500 R.attempt#1",
                "20500 C.probe",
                "20500 C.closed",
                "20500 R.recovered#1"
            ]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_candidate_is_followed_by_the_next() {
    let provider = Provider::with([("a", vec![ending(End::Hang, [role()])]), ("b", vec![ok()])]);
    let outcome = Stack::chat(&provider).limits(20, 20, 60).ask_inner(&provider).await;
    assert_eq!(trace(&outcome), ["10000 S.detected#1~10000", "20000 M.fallback a/m>b/m"]);
    assert_eq!(provider.order(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn silence_after_output_is_told_and_ends_the_reply() {
    let provider = Provider::new([ending(End::Hang, [role(), text("Hel")])]);
    let outcome = Stack::chat(&provider).limits(20, 20, 60).ask_inner(&provider).await;
    assert_eq!(trace(&outcome), ["10000 S.detected#1~10000(output)"]);
    assert_eq!((outcome.kind(), provider.attempts()), (Some(FailureKind::IdleTimeout), 1));
}

#[tokio::test(start_paused = true)]
async fn a_prompt_that_is_too_long_is_nobodys_fault_but_its_own() {
    let overflow = json(500, r#"{"error":{"message":"maximum context length is 128000 tokens"}}"#);
    let provider = Provider::with([("a", vec![overflow]), ("b", vec![ok()])]);
    let registry = CircuitRegistry::new();
    let outcome = Stack::chat(&provider).registry(&registry).ask_inner(&provider).await;
    assert_eq!(trace(&outcome), [""; 0]);
    assert_eq!((outcome.kind(), provider.attempts()), (Some(FailureKind::ContextOverflow), 1));
    let counts: Vec<_> = registry.status().iter().map(|circuit| circuit.sample_count).collect();
    assert_eq!(counts, [0]);
}

#[tokio::test(start_paused = true)]
async fn silence_on_a_retry_ends_the_retries_of_that_candidate() {
    let silent = ending(End::Hang, [role()]);
    let provider = Provider::with([("a", vec![Script { repeat: false, ..down() }, silent]), ("b", vec![ok()])]);
    let outcome = Stack::chat(&provider).limits(20, 20, 60).ask_inner(&provider).await;
    assert_eq!(
        trace(&outcome),
        [
            "0 R.scheduled#1~500",
            "500 R.attempt#1",
            "10500 S.detected#1~10000",
            "20500 R.exhausted#1(server_error/503)",
            "20500 M.fallback a/m>b/m"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn the_last_candidates_circuit_is_waited_for_within_what_the_first_left() {
    let registry = CircuitRegistry::new();
    let broken = Provider::with([("b", vec![down()])]);
    Stack::chat(&broken).registry(&registry).max_retries(5).ask_inner(&broken).await;
    let provider = Provider::with([("a", vec![down()]), ("b", vec![ok()])]);
    // Two candidates know of each other, and all but one may be open: here only one is.
    let stack = bounded(&provider, 600).registry(&registry);
    let outcome = stack.ask_inner(&provider).await;
    assert_eq!(
        trace(&outcome)[4..],
        [
            "1500 R.exhausted#2(server_error/503)",
            "1500 M.fallback a/m>b/m",
            "1500 C.waiting~8500",
            "10000 C.probe",
            "10000 C.closed",
            "10000 R.recovered#3"
        ],
        "{:?}",
        outcome.timed_events
    );
}

#[tokio::test(start_paused = true)]
async fn no_retry_starts_no_clock() {
    let provider = chain(&["a", "b"]);
    let outcome = bounded(&provider, 30).max_retries(0).ask_inner(&provider).await;
    assert_eq!(
        trace(&outcome),
        [
            "0 R.exhausted#0(server_error/503)",
            "0 M.fallback a/m>b/m",
            "0 R.exhausted#0(server_error/503)!attempt_limit"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn each_silence_is_told_with_its_number() {
    let slow = |content: &str| text(content).after(secs(12));
    let provider = Provider::new([stream([role(), slow("a"), slow("b"), slow("c"), finish("stop"), done()])]);
    let outcome = Stack::chat(&provider).limits(20, 20, 60).ask_inner(&provider).await;
    assert_eq!(
        trace(&outcome),
        [
            "10000 S.detected#1~10000",
            "12000 S.recovered#1~12000",
            "22000 S.detected#2~10000(output)",
            "24000 S.recovered#2~12000(output)",
            "34000 S.detected#3~10000(output)",
            "36000 S.recovered#3~12000(output)"
        ]
    );
}

/// One deadline over all candidates: what each of them may wait is what is left.
#[tokio::test(start_paused = true)]
async fn one_deadline_for_all_candidates_and_every_attempt() {
    let provider = Provider::with([
        ("a", vec![down()]),
        ("b", vec![Script { repeat: false, ..down() }, ending(End::Hang, [role()])]),
    ]);
    let outcome = bounded(&provider, 30).limits(0, 0, 0).ask_inner(&provider).await;
    // 1.5 s at the first, 4 s of backoff at the second, and then the silence, which is cut.
    assert_eq!((outcome.took, outcome.kind()), (secs(30), Some(FailureKind::RecoveryBudget)));
    assert_eq!(trace(&outcome).pop().unwrap(), "30000 R.exhausted#4(server_error/503)!recovery_budget");
    assert_eq!(outcome.failure.as_ref().unwrap().candidate().map(|name| &**name), Some("b/m"));
    assert_eq!((provider.order(), provider.in_flight()), (["a", "a", "a", "b", "b"].map(str::to_owned).to_vec(), 0));
}

#[tokio::test(start_paused = true)]
async fn the_end_names_the_candidate_that_it_cut() {
    let provider = Provider::with([("a", vec![down()]), ("b", vec![ending(End::Hang, [role()])])]);
    let outcome = bounded(&provider, 30).without_circuits().limits(0, 0, 0).ask_inner(&provider).await;
    assert_eq!(trace(&outcome).pop().unwrap(), "30000 R.exhausted#3(timeout)!recovery_budget");
    let failure = outcome.failure.unwrap();
    assert_eq!((failure.candidate().map(|name| &**name), failure.attempts()), (Some("b/m"), 4));
}

/// What the provider itself said is the better answer, although its circuit opened by it.
#[tokio::test(start_paused = true)]
async fn a_candidate_whose_failure_opened_its_circuit_has_answered() {
    let policy = CircuitPolicy::builder().consecutive(1).build().unwrap();
    let reset =
        || Script { before: Some(stanchion_faults::scenario::Before::Reset), repeat: true, ..Script::default() };
    let provider = Provider::with([("a", vec![down()]), ("b", vec![reset()])]);
    let outcome = Stack::chat(&provider).circuit(policy.clone()).ask_inner(&provider).await;
    let failure = outcome.failure.unwrap();
    assert_eq!((failure.kind(), failure.candidate().map(|name| &**name)), (FailureKind::CircuitOpen, Some("a/m")));
    // And the client's library is told not to multiply the attempts that were made.
    let provider = Provider::new([down()]);
    let outcome = Stack::chat(&provider).circuit(policy).ask(&provider).await;
    assert_eq!((outcome.status(), outcome.header("x-should-retry")), (Some(503), Some("false")));
    assert_eq!(outcome.header("retry-after"), Some("10"));
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_begins_in_time_is_cut_by_the_budget_all_the_same() {
    let provider = Provider::new([Script { repeat: false, ..down() }, ending(End::Hang, [role(), text("Hel")])]);
    let outcome = bounded(&provider, 30).limits(0, 0, 0).ask_inner(&provider).await;
    assert_eq!((outcome.took, outcome.kind()), (secs(30), Some(FailureKind::RecoveryBudget)));
    assert_eq!(trace(&outcome).pop().unwrap(), "500 R.recovered#1", "after output there is nothing to tell");
}

#[tokio::test(start_paused = true)]
async fn on_a_tie_the_budget_is_the_cause() {
    // The total of the second attempt and the budget end at the same instant.
    let provider = Provider::new([Script { repeat: false, ..down() }, ending(End::Hang, [role()])]);
    let policy = RetryPolicy::builder().base(secs(1)).build().unwrap();
    let outcome = bounded(&provider, 30).retry(policy).limits(0, 0, 29).ask_inner(&provider).await;
    assert_eq!((outcome.took, outcome.kind()), (secs(30), Some(FailureKind::RecoveryBudget)));
    // One moment earlier the attempt itself is.
    let provider = Provider::new([Script { repeat: false, ..down() }, ending(End::Hang, [role()])]);
    let policy = RetryPolicy::builder().base(secs(1)).max_retries(1).build().unwrap();
    let outcome = bounded(&provider, 30).retry(policy).limits(0, 0, 28).ask_inner(&provider).await;
    assert_eq!((outcome.took, outcome.kind()), (secs(29), Some(FailureKind::TotalTimeout)));
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_is_none_of_a_providers_leaves_its_circuit_alone() {
    let registry = CircuitRegistry::new();
    let refused = Script { repeat: true, ..json(400, r#"{"error":{"message":"no"}}"#) };
    let silent = Script { repeat: true, ..ending(End::Hang, [role()]) };
    for script in [refused, silent] {
        let provider = Provider::new([script]);
        let stack = Stack::chat(&provider).registry(&registry).limits(5, 5, 60);
        for _ in 0..10 {
            stack.ask_inner(&provider).await;
        }
        assert_eq!(provider.attempts(), 10);
    }
    let status = registry.status();
    assert_eq!(status.len(), 1);
    assert_eq!((status[0].failure_count, status[0].sample_count), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_hint_of_the_providers_stretches_the_opening() {
    let limited = Script { repeat: true, ..refusal(429, "retry-after", "40") };
    let registry = CircuitRegistry::new();
    let provider = Provider::new([limited]);
    let stack = Stack::chat(&provider).registry(&registry).max_retries(0);
    for _ in 0..4 {
        stack.ask_inner(&provider).await;
    }
    let outcome = stack.ask_inner(&provider).await;
    assert_eq!(trace(&outcome), ["0 C.rejected~40000"]);
}

/// The number of the retry that was cut, where the original tells one less; and no `wait_timeout`.
#[tokio::test(start_paused = true)]
async fn the_budget_cuts_a_wait_in_the_queue() {
    let provider = Provider::new([Script { repeat: false, ..down() }, ending(End::Hang, [role(), text("Hel")]), ok()]);
    let stack = bounded(&provider, 30).concurrency(1).limits(0, 0, 0);
    let thief = async {
        // In the backoff the place is free, and another takes it for good.
        tokio::time::sleep(millis(100)).await;
        tokio::time::timeout(secs(60), Stack::clone(&stack).ask_inner(&provider)).await
    };
    let (outcome, thief) = tokio::join!(stack.ask_inner(&provider), thief);
    assert!(thief.is_err(), "it streams on");
    assert_eq!(
        trace(&outcome),
        [
            "0 R.scheduled#1~500",
            "500 R.attempt#1",
            "500 A.queued#1/1~0(domain)",
            "15500 A.queued#1/1~15000(domain)",
            "30000 R.exhausted#1(server_error/503)!recovery_budget"
        ]
    );
    assert_eq!((outcome.took, outcome.kind()), (secs(30), Some(FailureKind::RecoveryBudget)));
    assert_eq!((provider.attempts(), provider.in_flight()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_backoff_holds_no_place_in_the_queue() {
    let provider = Provider::new([Script { repeat: false, ..down() }, ok(), ok()]);
    let stack = Stack::chat(&provider).concurrency(1);
    let other = async {
        tokio::time::sleep(millis(100)).await;
        stack.ask_inner(&provider).await
    };
    let (first, other) = tokio::join!(stack.ask_inner(&provider), other);
    assert_eq!((first.took, other.took), (millis(500), secs(0)));
    assert!(other.events.iter().all(|line| !line.starts_with("A.")), "{:?}", other.events);
}

/// The circuit opens while a request queues: it gets its place, finds the circuit open, and gives the place back unused.
#[tokio::test(start_paused = true)]
async fn a_circuit_that_opens_while_a_request_queues_turns_it_away_without_traffic() {
    let policy = CircuitPolicy::builder().consecutive(1).build().unwrap();
    let slow = Script { delay: Some(secs(2)), repeat: false, ..down() };
    let provider = Provider::new([slow, ok()]);
    let stack = Stack::chat(&provider).circuit(policy).registry(&CircuitRegistry::new()).max_retries(0).concurrency(1);
    let second = async {
        tokio::time::sleep(secs(1)).await;
        stack.ask_inner(&provider).await
    };
    let (first, second) = tokio::join!(stack.ask_inner(&provider), second);
    assert_eq!(first.kind(), Some(FailureKind::Overloaded));
    assert_eq!(trace(&second), ["0 A.queued#1/1~0(domain)", "1000 A.admitted~1000", "1000 C.rejected~10000"]);
    assert_eq!((second.kind(), provider.attempts()), (Some(FailureKind::CircuitOpen), 1));
    let queue = stack.queue().scheduler().status();
    assert_eq!((queue.in_flight, queue.queued), (0, 0));
}
