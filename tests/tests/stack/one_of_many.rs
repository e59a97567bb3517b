//! Whatever the candidates do: what reaches the client is of one attempt at one of them, and nobody is asked more often
//! than the limits say.

use std::collections::BTreeSet;

use proptest::prelude::*;
use stanchion::{
    circuit::{CircuitPolicy, CircuitRegistry},
    core::{CredentialStrategy, Dialect, DispositionRules, FallbackOn, Secret},
    credentials::{CredentialPool, CredentialPools},
};
use stanchion_faults::scenario::{Before, End, Script, Step};
use stanchion_tests::{
    provider::{Provider, Seen},
    replies::{done, ending, finish, json, refusal, role, stream, text},
    stack::{Outcome, Stack, candidate},
};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// What an attempt may come to. Some come to it after output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Overloaded,
    Limited { hint: u32 },
    Quota,
    Refused,
    TooLong,
    NotFound,
    Reset,
    Page,
    Empty,
    Cut { shown: bool },
    Unended { shown: bool },
    Silent { shown: bool },
    ErrorInBand { shown: bool },
    Whole,
}

impl Fault {
    /// Whether the client sees any of it.
    fn shows(self) -> bool {
        use Fault::{Cut, ErrorInBand, Silent, Unended, Whole};
        matches!(
            self,
            Whole
                | Cut { shown: true }
                | Unended { shown: true }
                | Silent { shown: true }
                | ErrorInBand { shown: true }
        )
    }

    /// The script, whose output is the label.
    fn script(self, label: &str) -> Script {
        let begun = |shown: bool| [role()].into_iter().chain(shown.then(|| text(label)));
        match self {
            Self::Overloaded => json(503, r#"{"error":{"message":"down"}}"#),
            Self::Limited { hint } => refusal(429, "retry-after", &hint.to_string()),
            Self::Quota => json(429, r#"{"error":{"message":"no credit","code":"insufficient_quota"}}"#),
            Self::Refused => json(401, r#"{"error":{"message":"no"}}"#),
            Self::TooLong => json(400, r#"{"error":{"message":"too long","code":"context_length_exceeded"}}"#),
            Self::NotFound => json(404, r#"{"error":{"message":"what?"}}"#),
            Self::Reset => Script { before: Some(Before::Reset), ..Script::default() },
            Self::Page => stream([Step::text("<html>")]),
            Self::Empty => stream([]),
            Self::Cut { shown } => ending(End::Truncate, begun(shown)),
            Self::Unended { shown } => ending(End::Fin, begun(shown)),
            Self::Silent { shown } => ending(End::Hang, begun(shown)),
            Self::ErrorInBand { shown } => {
                stream(begun(shown).chain([Step::sse(r#"{"error":{"message":"oh","type":"server_error"}}"#)]))
            }
            Self::Whole => stream([role(), text(label), text(label), finish("stop"), done()]),
        }
    }
}

fn fault() -> impl Strategy<Value = Fault> {
    let late = any::<bool>();
    prop_oneof![
        4 => Just(Fault::Overloaded),
        3 => (0_u32..70).prop_map(|hint| Fault::Limited { hint }),
        1 => Just(Fault::Quota),
        2 => Just(Fault::Refused),
        2 => Just(Fault::TooLong),
        1 => Just(Fault::NotFound),
        2 => Just(Fault::Reset),
        1 => Just(Fault::Page),
        1 => Just(Fault::Empty),
        1 => late.prop_map(|shown| Fault::Cut { shown }),
        1 => late.prop_map(|shown| Fault::Unended { shown }),
        1 => late.prop_map(|shown| Fault::Silent { shown }),
        1 => late.prop_map(|shown| Fault::ErrorInBand { shown }),
        2 => Just(Fault::Whole),
    ]
}

#[derive(Debug, Clone)]
struct One {
    faults: Vec<Fault>,
    window: Option<u32>,
    keys: usize,
}

#[derive(Debug, Clone)]
struct Setup {
    candidates: Vec<One>,
    retries: Option<u32>,
    recovery: Option<u32>,
    chain: bool,
    larger_windows: bool,
    widened: bool,
    overflows: bool,
    /// The prompt is too long for the smallest window, as anybody can tell.
    long: bool,
    strategy: CredentialStrategy,
    edge: bool,
}

fn setup() -> impl Strategy<Value = Setup> {
    let window = prop::option::of(prop::sample::select(vec![4_000_u32, 8_000, 128_000]));
    let one = (prop::collection::vec(fault(), 1..7), window, 0_usize..4);
    let one = one.prop_map(|(faults, window, keys)| One { faults, window, keys });
    (
        prop::collection::vec(one, 1..5),
        prop::option::of(0_u32..5),
        prop::option::of(0_u32..8),
        prop::sample::select(CredentialStrategy::ALL.to_vec()),
        any::<[bool; 6]>(),
    )
        .prop_map(
            |(candidates, retries, recovery, strategy, [chain, larger_windows, widened, edge, overflows, long])| {
                Setup { candidates, retries, recovery, chain, larger_windows, widened, overflows, long, strategy, edge }
            },
        )
}

impl Setup {
    fn provider(&self) -> Provider {
        Provider::with(NAMES.into_iter().zip(&self.candidates).map(|(name, one)| {
            let label = |number: usize| format!("<{name}{number}>");
            let scripts = one.faults.iter().enumerate().map(|(number, fault)| fault.script(&label(number)));
            let mut scripts: Vec<Script> = scripts.collect();
            if let Some(last) = scripts.last_mut() {
                last.repeat = true;
            }
            (name, scripts)
        }))
    }

    fn keys(&self) -> CredentialPools {
        let pools = NAMES.into_iter().zip(&self.candidates).filter(|(_, one)| one.keys > 0).map(|(name, one)| {
            (1..=one.keys)
                .fold(CredentialPool::builder(name).strategy(self.strategy), |pool, number| {
                    pool.credential(format!("{number}"), Secret::new(format!("sk-{name}-{number}")))
                })
                .build()
                .expect("a pool")
        });
        CredentialPools::new(pools).expect("one for each")
    }

    fn stack(&self) -> Stack {
        let candidates = NAMES.into_iter().zip(&self.candidates).enumerate().map(|(place, (name, one))| {
            let candidate = candidate(Dialect::OpenAiChat, name, &format!("http://{name}.test"))
                .with_max_output_tokens(100 + place as u32)
                .with_tier(name);
            match one.window {
                Some(window) => candidate.with_context_window(window),
                None => candidate,
            }
        });
        let mut stack = Stack::of(Dialect::OpenAiChat, candidates).limits(60, 60, 300);
        stack = stack.registry(&CircuitRegistry::new()).keys(&self.keys());
        if let Some(retries) = self.retries {
            stack = stack.max_retries(retries);
        }
        if let Some(attempts) = self.recovery {
            stack = stack.recovers(600, attempts);
        }
        if self.chain {
            stack = stack.circuit(CircuitPolicy::chain().build().expect("as it comes"));
        }
        if self.larger_windows {
            stack = stack.to_larger_windows();
        }
        let widened = [FallbackOn::Quota, FallbackOn::Auth, FallbackOn::NotFound].into_iter().filter(|_| self.widened);
        let overflows = Some(FallbackOn::Overflow).filter(|_| self.overflows);
        let rules = widened.chain(overflows).fold(DispositionRules::default(), DispositionRules::with_fallback_on);
        stack = stack.rules(rules);
        if self.long {
            // About 5,000 tokens.
            stack = stack.prompt("word ".repeat(4_000));
        }
        stack
    }

    /// Whether a candidate is asked at all, with a prompt of this length.
    fn takes(&self, one: &One) -> bool {
        let fits = |one: &One| !self.long || one.window != Some(4_000);
        fits(one) || !self.candidates.iter().any(fits)
    }

    fn place(seen: &Seen) -> usize {
        NAMES.iter().position(|name| *name == seen.candidate).expect("a candidate")
    }

    /// What an attempt came to, which was the n-th of all that its candidate has seen.
    fn fault(&self, place: usize, number: usize) -> Fault {
        let faults = &self.candidates[place].faults;
        faults[number.min(faults.len() - 1)]
    }

    /// The most attempts at one candidate: those of its own, and the one that another key is asked for nothing. `floor` is
    /// the window that the prompt was too long for, if it was; 0 if it was not.
    fn most_at(&self, place: usize, floor: u32) -> usize {
        let follows = |one: &One| self.takes(one) && (floor == 0 || one.window.is_some_and(|window| window > floor));
        let last = !self.candidates[place + 1..].iter().any(follows);
        let retries = match (self.retries, self.recovery) {
            (Some(retries), _) => retries,
            // Before the last only the standard two are made.
            (None, Some(attempts)) if last => attempts,
            (None, Some(attempts)) => attempts.min(2),
            (None, None) => 2,
        };
        1 + retries as usize + usize::from(self.candidates[place].keys > 1 && retries > 0)
    }

    /// The most attempts of a request. A recovery without a number of its own shares them among all candidates.
    fn most(&self) -> Option<usize> {
        self.recovery.filter(|_| self.retries.is_none()).map(|attempts| attempts as usize + 1)
    }
}

/// Every label that stands in a body.
fn labels(outcome: &Outcome) -> BTreeSet<String> {
    let body = outcome.body();
    body.split('<').skip(1).filter_map(|rest| Some(rest.split_once('>')?.0.to_owned())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn one_attempt_reaches_the_client_and_no_limit_is_passed(setup in setup()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (provider, stack) = (setup.provider(), setup.stack());
            let mut played = [0_usize; NAMES.len()];
            // Several requests in a row: what circuits and keys have learnt changes who is asked.
            for _ in 0..4 {
                let before = provider.attempts();
                let outcome =
                    if setup.edge { stack.ask(&provider).await } else { stack.ask_inner(&provider).await };
                prop_assert_eq!(provider.in_flight(), 0);
                let seen = &provider.seen()[before..];

                prop_assert!(setup.most().is_none_or(|most| seen.len() <= most), "{} attempts", seen.len());
                let mut attempts = Vec::new();
                for seen in seen {
                    let place = Setup::place(seen);
                    attempts.push((place, played[place], setup.fault(place, played[place])));
                    played[place] += 1;
                    check_key(&setup.candidates[place], seen)?;
                    let body = String::from_utf8_lossy(&seen.body);
                    let own = format!(r#""max_completion_tokens": {}, "service_tier": "{}""#, 100 + place, NAMES[place]);
                    prop_assert!(body.contains(&own), "what is the candidate's own: {}", body);
                }
                let mut floor = 0;
                for (place, one) in setup.candidates.iter().enumerate() {
                    let here = || attempts.iter().filter(|(asked, ..)| *asked == place);
                    let (count, most) = (here().count(), setup.most_at(place, floor));
                    prop_assert!(count <= most, "{} attempts at {}", count, NAMES[place]);
                    if here().any(|(.., fault)| *fault == Fault::TooLong) && setup.larger_windows {
                        floor = one.window.unwrap_or(floor);
                    }
                }
                for pair in attempts.windows(2) {
                    let ((place, _, fault), (next, ..)) = (pair[0], pair[1]);
                    prop_assert!(!fault.shows(), "asked again after {:?}", fault);
                    prop_assert!(place <= next, "back to {}", NAMES[next]);
                }
                // What was too long for one goes to larger ones only, from then on; or to any, where a rule says so and no window.
                let mut least = None;
                for (number, (place, _, fault)) in attempts.iter().enumerate() {
                    let one = &setup.candidates[*place];
                    prop_assert!(setup.takes(one), "{} is too small", NAMES[*place]);
                    prop_assert!(least.is_none() || one.window > least, "{:?} is no larger than {:?}", one.window, least);
                    if *fault == Fault::TooLong {
                        let larger = one.window.filter(|_| setup.larger_windows);
                        let goes_on = larger.is_some() || setup.overflows;
                        prop_assert!(goes_on || number + 1 == attempts.len(), "an overflow goes nowhere");
                        least = larger.or(least);
                    }
                }

                // What the client sees is of the last attempt, and all that this one showed is seen.
                let shown = attempts.last().filter(|(.., fault)| fault.shows());
                let expected = shown.map(|(place, number, _)| {
                    let number = (*number).min(setup.candidates[*place].faults.len() - 1);
                    format!("{}{number}", NAMES[*place])
                });
                prop_assert_eq!(labels(&outcome), expected.into_iter().collect::<BTreeSet<_>>());
                prop_assert_eq!(outcome.events.iter().filter(|line| line.starts_with("P.started")).count(), seen.len());
            }
            Ok(())
        })?;
    }
}

/// A candidate is asked with a key of its own, if it has any.
fn check_key(one: &One, seen: &Seen) -> Result<(), TestCaseError> {
    let key = seen.headers.get("authorization").map(|value| value.to_str().expect("text").to_owned());
    let own: Vec<String> = (1..=one.keys).map(|number| format!("Bearer sk-{}-{number}", seen.candidate)).collect();
    match key {
        Some(key) => prop_assert!(own.contains(&key), "{}", key),
        None => prop_assert!(own.is_empty()),
    }
    Ok(())
}
