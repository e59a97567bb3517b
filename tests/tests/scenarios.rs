//! Every scenario file, through the real binary.

use std::path::{Path, PathBuf};

use stanchion_faults::{
    runner::{Verdict, gateway_config, run_all},
    scenario::{Scenario, load_folder},
    upstream::Upstream,
};
use stanchion_tests::gateway::Gateway;

/// So many scenarios at once: they wait far more than they work.
const JOBS: usize = 16;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_scenario_holds_and_nothing_private_is_printed() {
    let scenarios = load_folder(folder()).expect("scenario files");
    assert!(!scenarios.is_empty(), "{} has no scenario", folder().display());
    let upstream = Upstream::start(&scenarios).await.expect("a scripted provider");
    // A process has room for 128 circuits. What a circuit has seen must not be forgotten for so many others.
    let (circuits, others): (Vec<_>, Vec<_>) =
        scenarios.iter().cloned().partition(|scenario| scenario.config.contains_key("circuit"));
    let printed = [play_all(&others, &upstream).await, play_all(&circuits, &upstream).await].concat();
    for private in PRIVATE {
        assert!(!printed.contains(private), "{private:?} was printed:\n{}", lines_with(&printed, private));
    }
    every_private_thing_is_in_a_scenario(&scenarios);
}

/// Plays scenarios through a gateway of their own; all that it has printed.
async fn play_all(scenarios: &[Scenario], upstream: &Upstream) -> String {
    let mut gateway = Gateway::start(|listen| gateway_config(scenarios, upstream, listen)).await.expect("a gateway");

    // An event of 4 MB, read without optimisation, holds a processor for long: it must not hold up the others' clocks.
    let (large, small): (Vec<_>, Vec<_>) = scenarios.iter().cloned().partition(is_large);
    let mut verdicts = run_all(&small, upstream, gateway.address(), JOBS).await;
    verdicts.extend(run_all(&large, upstream, gateway.address(), 1).await);
    assert_eq!(verdicts.len(), scenarios.len());

    let failed: String = verdicts.iter().filter_map(|verdict| complaints(verdict, &gateway.printed())).collect();
    assert!(failed.is_empty(), "{failed}the end of what the gateway printed:\n{}", gateway.tail(20));
    assert!(gateway.runs().expect("a process"), "the gateway has ended:\n{}", gateway.tail(20));
    let printed = gateway.end().await.expect("a process");
    assert!(printed.contains("listening on"), "nothing was printed, so nothing is proven:\n{printed}");
    printed
}

fn is_large(scenario: &Scenario) -> bool {
    scenario.upstream.values().flatten().any(|script| script.body_bytes().len() > 1 << 20)
}

/// What the scenario with the canaries plants, and the key of every provider.
const PRIVATE: [&str; 9] = [
    "sk-x",
    "canary-client-key",
    "canary-prompt",
    "canary-output",
    "canary-thought",
    "canary_tool",
    "canary-argument",
    "canary-refusal",
    "canary-page",
];

fn lines_with(text: &str, part: &str) -> String {
    text.lines().filter(|line| line.contains(part)).flat_map(|line| ["    ", line, "\n"]).collect()
}

/// What is wrong with a scenario, and what the gateway printed of its candidates; `None` if it holds.
fn complaints(verdict: &Verdict, printed: &str) -> Option<String> {
    let told = match verdict.passed() {
        Some(true) => return None,
        Some(false) => verdict.complaints.join("; "),
        None => format!("not played, for want of {}", verdict.lacks.join(", ")),
    };
    let lines = lines_with(printed, &format!("={}-", verdict.id));
    Some(format!("{}: {}\n  {told}\n{lines}\n", verdict.file, verdict.name))
}

/// A canary that nobody planted would prove nothing.
fn every_private_thing_is_in_a_scenario(scenarios: &[Scenario]) {
    let files: String = scenarios
        .iter()
        .map(|scenario| std::fs::read_to_string(folder().join(&scenario.file)).expect("a scenario file"))
        .collect();
    for canary in PRIVATE.iter().filter(|name| name.starts_with("canary")) {
        assert!(files.contains(canary), "{canary} is planted nowhere");
    }
}
