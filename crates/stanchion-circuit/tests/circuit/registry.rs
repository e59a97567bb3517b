//! Which circuits there are: bounds, forgetting, and what counts as use.

use std::sync::Arc;

use proptest::prelude::*;
use stanchion_circuit::{CircuitHandle, CircuitLayer, CircuitPolicy, CircuitRegistry, CircuitState, CircuitToken};
use stanchion_core::{Candidate, DispositionRules};
use stanchion_testkit::candidate;
use tokio::time::Instant;

use super::{One, ms, overloaded, pass, succeed, touchy};

fn small(circuits: usize) -> CircuitRegistry {
    CircuitRegistry::builder().max_circuits(circuits).build().unwrap()
}

fn named(layer: &CircuitLayer, name: &str) -> One {
    One::of(layer.clone(), candidate(name))
}

fn names(registry: &CircuitRegistry) -> Vec<String> {
    registry.status().iter().map(|status| status.candidate.trim_end_matches("/gpt-x").to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn an_idle_closed_circuit_is_forgotten_strictly_after_its_time() {
    let layer = CircuitLayer::new(CircuitRegistry::new(), CircuitPolicy::default());
    let (idle, used) = (named(&layer, "idle"), named(&layer, "used"));
    idle.fail();
    used.fail();
    pass(1_000).await;
    drop(used.allowed());
    pass(1_799_000).await;
    drop(used.allowed());
    assert_eq!(names(layer.registry()), ["idle", "used"]);
    pass(1).await;
    // A page of the operator's forgets nothing, and is no use.
    assert_eq!(names(layer.registry()), ["idle", "used"]);
    drop(used.allowed());
    assert_eq!(names(layer.registry()), ["used"]);
    assert!(idle.handle.status().is_none());
}

#[tokio::test(start_paused = true)]
async fn the_circuit_that_is_asked_for_may_be_the_one_that_is_forgotten() {
    let one = One::new(CircuitPolicy::builder());
    for _ in 0..3 {
        one.fail();
    }
    let under_way = one.allowed();
    pass(1_800_001).await;
    assert!(one.fail().is_none());
    assert_eq!(one.counts(), (1, 1));
    // What was let in before counts for nothing, although the circuit is there again.
    super::fail(under_way, overloaded());
    assert_eq!(one.counts(), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn an_open_circuit_is_never_forgotten() {
    let layer = CircuitLayer::new(CircuitRegistry::new(), CircuitPolicy::default());
    let (open, other) = (named(&layer, "open"), named(&layer, "other"));
    open.open();
    pass(86_400_000).await;
    drop(other.allowed());
    assert_eq!(names(layer.registry()), ["open", "other"]);
    let probe = open.probe();
    pass(1_800_001).await;
    drop(other.allowed());
    assert_eq!(open.state(), CircuitState::HalfOpen);
    succeed(probe);
    pass(1_800_001).await;
    drop(other.allowed());
    assert_eq!(names(layer.registry()), ["other"]);
}

#[tokio::test(start_paused = true)]
async fn the_closed_circuit_used_longest_ago_makes_room() {
    let layer = CircuitLayer::new(small(3), CircuitPolicy::default());
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| named(&layer, name));
    a.open();
    pass(1).await;
    for one in [&b, &c] {
        one.fail();
        pass(1).await;
    }
    // Looking is use.
    b.preflight().unwrap();
    pass(1).await;
    d.fail();
    assert_eq!(names(layer.registry()), ["a", "b", "d"]);
    pass(1).await;
    // An outcome is use.
    let under_way = b.allowed();
    pass(1).await;
    drop(d.allowed());
    pass(1).await;
    succeed(under_way);
    pass(1).await;
    c.fail();
    assert_eq!((names(layer.registry()), c.counts()), (vec!["a".into(), "b".into(), "c".into()], (1, 1)));
}

#[tokio::test(start_paused = true)]
async fn where_all_are_open_a_newcomer_goes_without() {
    let layer = CircuitLayer::new(small(2), touchy().build().unwrap());
    let [a, b, c] = ["a", "b", "c"].map(|name| named(&layer, name));
    a.open();
    b.open();
    for _ in 0..10 {
        assert!(c.handle.check(Instant::now()).unwrap().is_none());
        assert!(c.preflight().is_ok() && c.handle.status().is_none() && !c.handle.force_open());
    }
    assert_eq!(names(layer.registry()), ["a", "b"]);
    pass(10_000).await;
    succeed(a.probe());
    assert!(c.fail().is_some());
    assert_eq!(names(layer.registry()), ["b", "c"]);
    // The one that had to go is as one that never was.
    assert!(a.handle.check(Instant::now()).unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_registry_holds_no_more_than_it_may() {
    let layer = CircuitLayer::new(CircuitRegistry::new(), CircuitPolicy::default());
    for number in 0..1000 {
        named(&layer, &format!("p{number}")).fail();
        pass(1).await;
    }
    assert_eq!(layer.registry().len(), 128);
    let status = layer.registry().status();
    assert!(status.is_sorted_by(|a, b| a.candidate <= b.candidate));
}

#[tokio::test(start_paused = true)]
async fn with_room_for_all_nobody_forgets_for_another() {
    let registry = CircuitRegistry::new();
    registry.make_room(600);
    registry.make_room(300);
    let layer = CircuitLayer::new(registry, touchy().build().unwrap());
    let all: Vec<_> = (0..600).map(|number| named(&layer, &format!("p{number}"))).collect();
    for (number, one) in all.iter().enumerate() {
        if number % 2 == 0 {
            one.open();
        } else {
            succeed(one.allowed());
        }
        pass(1).await;
    }
    assert_eq!(layer.registry().len(), 600);
    for (number, one) in all.iter().enumerate() {
        assert_eq!(one.preflight().is_err(), number % 2 == 0, "{number}");
    }
    named(&layer, "one too many").fail();
    assert_eq!(layer.registry().len(), 600);
}

#[tokio::test(start_paused = true)]
async fn of_many_that_come_and_go_only_those_in_use_are_known() {
    let registry = CircuitRegistry::new();
    registry.make_room(CircuitRegistry::MOST_CIRCUITS);
    let layer = CircuitLayer::new(registry.clone(), CircuitPolicy::default());
    let kept: Vec<_> = (0..400).map(|number| named(&layer, &format!("kept{number}"))).collect();
    for one in &kept {
        one.fail();
    }
    for number in 0..2_000 {
        let layer = CircuitLayer::new(registry.clone(), CircuitPolicy::default());
        named(&layer, &format!("gone{number}"));
    }
    assert_eq!(layer.registry().len(), 400);
    // Each of them is still the one that its domain has.
    for number in 0..400 {
        let again = named(&layer, &format!("kept{number}"));
        assert_eq!(again.counts(), (1, 1), "{number}");
    }
}

/// What one of a few candidates does.
#[derive(Debug, Clone)]
enum Step {
    Pass(u64),
    Preflight(usize),
    Check(usize),
    Fail(usize),
    Succeed(usize),
    Drop(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let who = || 0_usize..6;
    prop_oneof![
        3 => prop_oneof![1_u64..20, 5_000_u64..15_000, Just(10_000), Just(60_000), 50_000_u64..90_000].prop_map(Step::Pass),
        2 => who().prop_map(Step::Preflight),
        8 => who().prop_map(Step::Check),
        6 => who().prop_map(Step::Fail),
        2 => who().prop_map(Step::Succeed),
        1 => who().prop_map(Step::Drop),
    ]
}

/// One circuit as the obvious registry keeps it.
#[derive(Debug, Clone, PartialEq)]
struct Known {
    who: usize,
    touched: u64,
    /// Until when it is open; `None` if it is closed.
    open_until: Option<u64>,
    /// The probe's number, and when its lease runs out.
    probe: Option<(u32, u64)>,
    /// Grows with every change, over all circuits.
    era: u32,
    failures: u32,
}

const ROOM: usize = 3;
const IDLE: u64 = 60_000;

#[derive(Default)]
struct Obvious {
    now: u64,
    known: Vec<Known>,
    eras: u32,
}

impl Obvious {
    fn era(&mut self) -> u32 {
        self.eras += 1;
        self.eras
    }

    fn find(&mut self, who: usize) -> Option<&mut Known> {
        self.known.iter_mut().find(|known| known.who == who)
    }

    /// The circuit of `who`, made if there is room for it.
    fn get(&mut self, who: usize) -> Option<&mut Known> {
        let now = self.now;
        self.known.retain(|known| known.open_until.is_some() || now - known.touched <= IDLE);
        if self.find(who).is_none() {
            if self.known.len() == ROOM {
                let closed = self.known.iter().filter(|known| known.open_until.is_none());
                let oldest = closed.min_by_key(|known| known.touched)?.who;
                self.known.retain(|known| known.who != oldest);
            }
            let era = self.era();
            self.known.push(Known { who, touched: now, open_until: None, probe: None, era, failures: 0 });
        }
        let known = self.find(who)?;
        known.touched = now;
        Some(known)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if std::env::var_os("CI").is_some() { 10_000 } else { 300 }))]

    /// Circuits that open at the second failure in a row, three at a time, forgotten after a minute.
    #[test]
    fn the_registry_does_what_the_obvious_one_does(steps in proptest::collection::vec(step(), 1..120)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let registry = CircuitRegistry::builder().max_circuits(ROOM).idle(ms(IDLE)).build().unwrap();
            let policy = CircuitPolicy::builder().window(ms(0)).consecutive(2).build().unwrap();
            let layer = CircuitLayer::new(registry.clone(), policy);
            let list: Vec<Arc<Candidate>> = (0..6).map(|who| Arc::new(candidate(&format!("p{who}")))).collect();
            let handles: Vec<CircuitHandle> = list.iter().map(|candidate| layer.circuit(candidate)).collect();
            let mut obvious = Obvious::default();
            // The open requests of each: the token, the era, and the probe's number.
            let mut open: Vec<Vec<(Option<CircuitToken>, u32, u32)>> = (0..6).map(|_| Vec::new()).collect();
            let mut probes = 0;
            for step in steps {
                match step {
                    Step::Pass(time) => {
                        pass(time).await;
                        obvious.now += time;
                    }
                    Step::Preflight(who) => {
                        let now = obvious.now;
                        let denied = obvious.get(who).is_some_and(|known| {
                            known.open_until.is_some_and(|until| now < until) || known.probe.is_some_and(|(_, ends)| now < ends)
                        });
                        prop_assert_eq!(handles[who].preflight(Instant::now()).is_err(), denied);
                    }
                    Step::Check(who) => {
                        let now = obvious.now;
                        let era = obvious.eras + 1;
                        let got = handles[who].check(Instant::now());
                        let expected = match obvious.get(who) {
                            None => Ok(None),
                            Some(Known { open_until: None, era, .. }) => Ok(Some((*era, 0))),
                            Some(known) => {
                                let until = known.open_until.expect("it is open");
                                match known.probe {
                                    _ if now < until => Err(()),
                                    Some((_, ends)) if now < ends => Err(()),
                                    _ => {
                                        probes += 1;
                                        known.probe = Some((probes, now + 300_000));
                                        known.era = era;
                                        Ok(Some((era, probes)))
                                    }
                                }
                            }
                        };
                        if expected == Ok(Some((era, probes))) {
                            obvious.eras = obvious.eras.max(era);
                        }
                        match (got, expected) {
                            (Ok(None), Ok(None)) | (Err(_), Err(())) => {}
                            (Ok(Some(token)), Ok(Some((era, probe)))) => {
                                prop_assert_eq!(token.is_probe(), probe > 0);
                                open[who].push((Some(token), era, probe));
                            }
                            (got, expected) => prop_assert!(false, "{:?} instead of {:?}", got, expected),
                        }
                    }
                    Step::Fail(who) | Step::Succeed(who) | Step::Drop(who) if !open[who].is_empty() => {
                        let (token, era, probe) = open[who].swap_remove(0);
                        let token = token.expect("it is open");
                        let now = obvious.now;
                        let next = obvious.eras + 1;
                        let counts = obvious.find(who).filter(|known| {
                            known.era == era && if probe > 0 { known.probe.is_some_and(|(id, _)| id == probe) } else { known.open_until.is_none() }
                        });
                        let changes = match (&step, counts) {
                            (_, None) => false,
                            (Step::Drop(_), Some(known)) => {
                                known.probe = None;
                                false
                            }
                            (Step::Succeed(_), Some(known)) => {
                                (known.touched, known.failures) = (now, 0);
                                if probe > 0 {
                                    (known.open_until, known.probe, known.era) = (None, None, next);
                                }
                                probe > 0
                            }
                            (_, Some(known)) => {
                                known.touched = now;
                                known.failures += 1;
                                let opens = probe > 0 || known.failures >= 2;
                                if opens {
                                    (known.open_until, known.probe, known.era) = (Some(now + 10_000), None, next);
                                }
                                opens
                            }
                        };
                        obvious.eras += u32::from(changes);
                        let changed = match step {
                            Step::Fail(_) => token.fail(&overloaded(), &DispositionRules::default(), Instant::now()).is_some(),
                            Step::Succeed(_) => token.succeed(Instant::now()).is_some(),
                            _ => { drop(token); false }
                        };
                        prop_assert_eq!(changed, changes);
                    }
                    _ => {}
                }
                let mut expected: Vec<_> = obvious.known.iter().map(|known| format!("p{}", known.who)).collect();
                expected.sort();
                prop_assert_eq!(names(&registry), expected);
            }
            Ok(())
        })?;
    }
}
