//! The catalogue of what the scheduler promises, line by line.

use stanchion_core::{
    AdmissionResource::{self, PendingBytes, PendingCount, Stream},
    AdmissionScope::{self, Class, Domain, Global, Owner},
    RequestClass::{self, Background, Foreground, Internal},
};

use super::*;

/// In the order of the catalogue's own defaults.
fn limits() -> Limits {
    Limits {
        global: 16,
        owner: 3,
        classes: Some(Classes { non_foreground_global: 12, non_foreground_owner: 2, internal_global: 2 }),
        pending: 128,
        owner_pending: 16,
        bytes: 128 << 20,
        owner_bytes: 32 << 20,
        aging: 30_000,
    }
}

pub(super) fn shared() -> Limits {
    Limits { global: u32::MAX, owner: u32::MAX, classes: None, ..limits() }
}

const DOMAIN: DomainLimits = DomainLimits { pending: 32, bytes: 64 << 20 };
/// What may be in flight in a domain.
const CONCURRENCY: u32 = 4;

/// How many domains are open.
const DOMAINS: u32 = 300;

/// A scheduler with somebody at it.
struct Desk {
    scheduler: Scheduler<&'static str>,
    now: u64,
    share: u32,
    domain: DomainLimits,
    running: Vec<(&'static str, Grant)>,
    waiting: Vec<(&'static str, u32)>,
}

#[derive(Debug, PartialEq, Eq)]
enum Got {
    Runs,
    Waits(Snapshot),
    Full(Constraint),
}

fn place(resource: AdmissionResource, scope: AdmissionScope, in_flight: u32, limit: u32) -> Constraint {
    Constraint { resource, scope, in_flight, limit }
}

fn waits(scope: AdmissionScope, in_flight: u32, limit: u32, position: u64) -> Got {
    Got::Waits(Snapshot { constraint: place(Stream, scope, in_flight, limit), position })
}

impl Desk {
    fn new(limits: Limits) -> Self {
        let (running, waiting) = (Vec::new(), Vec::new());
        let mut scheduler = Scheduler::new(limits);
        for domain in 0..DOMAINS {
            assert_eq!(scheduler.open_domain(u32::MAX), domain);
            assert_eq!(scheduler.open_share(domain, CONCURRENCY), 0);
        }
        Self { scheduler, now: 0, share: 0, domain: DOMAIN, running, waiting }
    }

    fn with_domain(self, domain: DomainLimits) -> Self {
        Self { domain, ..self }
    }

    fn concurrency(mut self, concurrency: u32) -> Self {
        for domain in 0..DOMAINS {
            self.scheduler.close_share(domain, 0);
            assert_eq!(self.scheduler.open_share(domain, concurrency), 0, "it is used anew");
        }
        self
    }

    fn arrival(&self, owner: &str, class: RequestClass) -> Arrival {
        let owner = owner.bytes().fold(0, |key: u64, byte| key << 8 | u64::from(byte));
        Arrival { domain: 0, share: self.share, limits: self.domain, owner, weight: 1, class, bytes: 0, cost: 1 }
    }

    fn ask(&mut self, name: &'static str, owner: &str, class: RequestClass) -> Got {
        let arrival = self.arrival(owner, class);
        self.put(name, &arrival)
    }

    fn ask_bytes(&mut self, name: &'static str, owner: &str, class: RequestClass, bytes: u32) -> Got {
        let arrival = Arrival { bytes, ..self.arrival(owner, class) };
        self.put(name, &arrival)
    }

    fn put(&mut self, name: &'static str, arrival: &Arrival) -> Got {
        if let Some(grant) = self.scheduler.start(arrival) {
            self.running.push((name, grant));
            return Got::Runs;
        }
        if let Err(full) = self.scheduler.may_wait(arrival, self.now) {
            return Got::Full(full.constraint);
        }
        let at = self.scheduler.enqueue(arrival, name, self.now);
        self.waiting.push((name, at));
        assert_eq!(self.drain(), [""; 0], "what could start has started");
        Got::Waits(self.scheduler.snapshot(at))
    }

    /// Who is granted now.
    fn drain(&mut self) -> Vec<&'static str> {
        let mut granted = Vec::new();
        self.scheduler.drain(self.now, |at, name| granted.push((at, *name)));
        for (at, name) in &granted {
            self.waiting.retain(|(_, other)| other != at);
            let (grant, _) = self.scheduler.take(*at);
            self.running.push((name, grant.expect("just granted")));
        }
        granted.into_iter().map(|(_, name)| name).collect()
    }

    fn release(&mut self, name: &str) -> Vec<&'static str> {
        let index = self.running.iter().position(|(other, _)| *other == name).expect("it runs");
        let (_, grant) = self.running.remove(index);
        self.scheduler.release(grant);
        self.drain()
    }

    fn leave(&mut self, name: &str) -> Vec<&'static str> {
        let index = self.waiting.iter().position(|(other, _)| *other == name).expect("it waits");
        let (_, at) = self.waiting.remove(index);
        assert!(self.scheduler.take(at).0.is_none());
        self.drain()
    }

    /// Lets one after another run. Returns the order.
    fn run_out(&mut self) -> Vec<&'static str> {
        let mut order = Vec::new();
        while let Some((name, _)) = self.running.first() {
            order.push(*name);
            self.release(name);
        }
        order
    }

    fn is_idle(&self) -> bool {
        *self.scheduler.counts() == Counts::default()
            && (self.scheduler.owner_count(), self.scheduler.domain_count()) == (0, 0)
    }
}

#[test]
fn a_full_domain_has_the_fifth_wait_and_a_release_admits_it() {
    let mut desk = Desk::new(limits());
    for (name, owner) in [("1", "a"), ("2", "b"), ("3", "c"), ("4", "d")] {
        assert_eq!(desk.ask(name, owner, Foreground), Got::Runs);
    }
    assert_eq!(desk.ask("5", "e", Foreground), waits(Domain, 4, 4, 1));
    assert_eq!((desk.scheduler.domain_count(), desk.scheduler.owner_count()), (1, 5));
    assert_eq!(desk.release("2"), ["5"]);
    desk.run_out();
    assert!(desk.is_idle());
}

#[test]
fn the_global_limit_holds_across_domains() {
    let mut desk = Desk::new(Limits { global: 2, ..limits() });
    for (name, domain) in [("1", 1), ("2", 2)] {
        let arrival = Arrival { domain, ..desk.arrival(name, Foreground) };
        assert_eq!(desk.put(name, &arrival), Got::Runs);
    }
    assert_eq!(desk.ask("3", "c", Foreground), waits(Global, 2, 2, 1));
}

#[test]
fn an_owner_at_its_limit_waits_while_others_pass() {
    let mut desk = Desk::new(Limits { owner: 2, ..limits() });
    assert_eq!((desk.ask("1", "a", Foreground), desk.ask("2", "a", Foreground)), (Got::Runs, Got::Runs));
    assert_eq!(desk.ask("3", "a", Foreground), waits(Owner, 2, 2, 1));
    assert_eq!(desk.ask("4", "b", Foreground), Got::Runs);
    assert_eq!(desk.release("4"), [""; 0]);
    assert_eq!(desk.release("1"), ["3"]);
}

#[test]
fn the_background_of_an_owner_leaves_room_for_its_foreground() {
    let mut desk = Desk::new(limits());
    assert_eq!((desk.ask("1", "a", Background), desk.ask("2", "a", Background)), (Got::Runs, Got::Runs));
    assert_eq!(desk.ask("3", "a", Background), waits(Class, 2, 2, 1));
    assert_eq!(desk.ask("4", "a", Foreground), Got::Runs);
}

#[test]
fn without_class_limits_the_background_may_have_it_all() {
    let mut desk = Desk::new(Limits { owner: 4, ..shared() }).concurrency(9);
    for name in ["1", "2", "3", "4"] {
        assert_eq!(desk.ask(name, "a", Background), Got::Runs);
    }
    assert_eq!(desk.ask("5", "a", Background), waits(Owner, 4, 4, 1));
}

#[test]
fn the_only_permit_of_a_domain_is_open_to_all_classes() {
    let mut desk = Desk::new(limits()).concurrency(1);
    assert_eq!(desk.ask("1", "a", Background), Got::Runs);
    assert_eq!(desk.ask("2", "b", Foreground), waits(Domain, 1, 1, 1));
}

#[test]
fn the_last_permit_of_a_domain_is_the_foregrounds() {
    let mut desk = Desk::new(limits()).concurrency(2);
    assert_eq!(desk.ask("1", "a", Background), Got::Runs);
    assert_eq!(desk.ask("2", "b", Background), waits(Class, 1, 1, 1));
    assert_eq!(desk.ask("3", "c", Foreground), Got::Runs);
}

#[test]
fn internal_requests_wait_for_each_other_while_the_background_passes() {
    let classes = Some(Classes { internal_global: 1, ..limits().classes.unwrap() });
    let mut desk = Desk::new(Limits { classes, ..limits() });
    assert_eq!(desk.ask("1", "a", Internal), Got::Runs);
    assert_eq!(desk.ask("2", "b", Internal), waits(Class, 1, 1, 1));
    assert_eq!(desk.ask("3", "c", Background), Got::Runs);
}

#[test]
fn owners_take_turns() {
    let mut desk = Desk::new(limits()).concurrency(1);
    desk.ask("running", "z", Foreground);
    for (name, owner) in [("a1", "a"), ("a2", "a"), ("b1", "b")] {
        desk.ask(name, owner, Foreground);
    }
    assert_eq!(desk.run_out(), ["running", "a1", "b1", "a2"]);
    for (name, owner) in [("0", "z"), ("a1", "a"), ("b1", "b"), ("a2", "a"), ("c1", "c"), ("b2", "b"), ("a3", "a")] {
        desk.ask(name, owner, Foreground);
    }
    assert_eq!(desk.run_out(), ["0", "a1", "b1", "c1", "a2", "b2", "a3"]);
}

#[test]
fn the_foreground_comes_before_the_background_before_the_internal() {
    let mut desk = Desk::new(limits()).concurrency(1);
    desk.ask("running", "z", Foreground);
    desk.ask("bg(A)", "a", Background);
    desk.ask("int(B)", "b", Internal);
    desk.ask("fg(A)", "a", Foreground);
    desk.ask("bg(C)", "c", Background);
    assert_eq!(desk.run_out(), ["running", "fg(A)", "bg(C)", "bg(A)", "int(B)"]);
}

#[test]
fn who_has_waited_long_enough_precedes() {
    // At 30 s a background request is the equal of the foreground, not before; an internal one at 60 s.
    for (class, waited, order) in [
        (Background, 29_999, ["new", "old"]),
        (Background, 30_000, ["old", "new"]),
        (Internal, 59_999, ["new", "old"]),
        (Internal, 60_000, ["old", "new"]),
    ] {
        let mut desk = Desk::new(limits()).concurrency(1);
        desk.ask("running", "z", Foreground);
        desk.ask("old", "a", class);
        desk.now = waited;
        desk.ask("new", "b", Foreground);
        assert_eq!(desk.run_out()[1..], order, "{class:?} {waited}");
    }
}

#[test]
fn the_aged_stay_charged_to_their_class() {
    let classes = Some(Classes { internal_global: 1, ..limits().classes.unwrap() });
    let mut desk = Desk::new(Limits { classes, ..limits() });
    desk.ask("running", "a", Internal);
    desk.ask_bytes("old", "b", Internal, 7);
    desk.now = 90_000;
    assert_eq!(desk.drain(), [""; 0], "of the best rank, and yet an internal one");
    let counts = desk.scheduler.counts();
    assert_eq!((counts.queued, counts.bytes), ([0, 0, 1], [0, 0, 7]));
    assert_eq!(desk.release("running"), ["old"]);
    assert_eq!(desk.scheduler.counts().in_flight, [0, 0, 1]);
}

#[test]
fn what_runs_at_once_may_be_larger_than_what_may_wait() {
    let mut desk = Desk::new(Limits { bytes: 10, ..limits() }).concurrency(1);
    assert_eq!(desk.ask_bytes("1", "a", Foreground, 11), Got::Runs);
    assert_eq!(desk.ask_bytes("2", "b", Foreground, 11), Got::Full(place(PendingBytes, Global, 1, 16)));
    let scheduler = &desk.scheduler;
    assert_eq!((scheduler.domain_count(), scheduler.owner_count()), (1, 1), "nothing was stored for it");
    assert_eq!((scheduler.counts().queued(), scheduler.counts().bytes()), (0, 0));
    assert_eq!((scheduler.tickets.len(), scheduler.lanes.len(), scheduler.groups.len()), (0, 0, 0));
}

#[test]
fn bytes_fit_exactly_or_not_at_all() {
    let mut desk = Desk::new(Limits { bytes: 10, ..limits() }).concurrency(1);
    desk.ask("1", "a", Foreground);
    assert!(matches!(desk.ask_bytes("2", "b", Foreground, 6), Got::Waits(_)));
    assert!(matches!(desk.ask_bytes("3", "c", Foreground, 4), Got::Waits(_)));
    assert_eq!(desk.ask_bytes("4", "d", Foreground, 1), Got::Full(place(PendingBytes, Global, 1, 16)));
    assert_eq!((desk.leave("2"), desk.leave("3"), desk.release("1")), (vec![], vec![], vec![]));
    assert!(desk.is_idle());
}

#[test]
fn the_bytes_of_an_owner_and_of_a_domain_are_bounded_each() {
    let mut desk = Desk::new(Limits { owner_bytes: 10, ..limits() }).concurrency(1);
    desk.ask("1", "z", Foreground);
    assert!(matches!(desk.ask_bytes("2", "a", Foreground, 8), Got::Waits(_)));
    assert_eq!(desk.ask_bytes("3", "a", Foreground, 3), Got::Full(place(PendingBytes, Owner, 0, 3)));
    assert!(matches!(desk.ask_bytes("4", "b", Foreground, 8), Got::Waits(_)));

    let mut desk = Desk::new(limits()).concurrency(1).with_domain(DomainLimits { pending: 32, bytes: 10 });
    desk.ask("1", "z", Foreground);
    assert!(matches!(desk.ask_bytes("2", "a", Foreground, 8), Got::Waits(_)));
    assert_eq!(desk.ask_bytes("3", "b", Foreground, 3), Got::Full(place(PendingBytes, Domain, 1, 1)));
}

#[test]
fn places_and_bytes_are_kept_for_the_foreground() {
    let mut desk = Desk::new(Limits { pending: 4, ..limits() }).concurrency(1);
    desk.ask("0", "z", Foreground);
    for (name, owner) in [("1", "a"), ("2", "b"), ("3", "c")] {
        assert!(matches!(desk.ask(name, owner, Background), Got::Waits(_)));
    }
    assert_eq!(desk.ask("4", "d", Background), Got::Full(place(PendingCount, Class, 3, 3)));
    assert!(matches!(desk.ask("5", "e", Foreground), Got::Waits(_)));

    // Also where classes share all else.
    for classes in [None, limits().classes] {
        let mut desk = Desk::new(Limits { bytes: 20, classes, ..limits() }).concurrency(1);
        desk.ask("0", "z", Foreground);
        assert!(matches!(desk.ask_bytes("1", "a", Background, 10), Got::Waits(_)));
        assert_eq!(desk.ask_bytes("2", "b", Background, 6), Got::Full(place(PendingBytes, Class, 1, 16)));
        assert!(matches!(desk.ask_bytes("3", "c", Foreground, 10), Got::Waits(_)));
    }
}

#[test]
fn the_default_ceilings_of_bytes_by_class() {
    let mebibytes = |count: u32| count << 20;
    for (class, fits) in [(Foreground, 32), (Background, 16), (Internal, 8)] {
        let mut desk = Desk::new(Limits { global: 1, classes: None, ..limits() });
        desk.ask("0", "z", Foreground);
        assert!(matches!(desk.ask_bytes("1", "a", class, mebibytes(fits)), Got::Waits(_)), "{class:?}");
        let full = desk.ask_bytes("2", "b", class, mebibytes(fits) + 1);
        // The class is told with the global numbers.
        let constraint =
            if class == Foreground { place(PendingBytes, Owner, 0, 3) } else { place(PendingBytes, Class, 1, 1) };
        assert_eq!(full, Got::Full(constraint));
    }
}

#[test]
fn a_full_queue_of_an_owner_a_domain_or_all_turns_away_and_stores_nothing() {
    let mut desk = Desk::new(Limits { owner_pending: 1, pending: 2, ..limits() }).concurrency(1);
    desk.ask("0", "z", Foreground);
    desk.ask("1", "a", Foreground);
    assert_eq!(desk.ask("2", "a", Foreground), Got::Full(place(PendingCount, Owner, 1, 1)));
    desk.ask("3", "b", Foreground);
    assert_eq!(desk.ask("4", "c", Foreground), Got::Full(place(PendingCount, Global, 2, 2)));
    assert_eq!(desk.scheduler.owner_count(), 3);

    let mut desk = Desk::new(limits()).concurrency(1).with_domain(DomainLimits { pending: 1, bytes: 1 << 20 });
    desk.ask("0", "z", Foreground);
    desk.ask("1", "a", Foreground);
    assert_eq!(desk.ask("2", "b", Foreground), Got::Full(place(PendingCount, Domain, 1, 1)));
    assert_eq!(desk.scheduler.owner_count(), 2);
}

#[test]
fn bytes_are_free_when_the_waiter_is_told() {
    let mut desk = Desk::new(limits()).concurrency(1);
    desk.ask("1", "a", Foreground);
    desk.ask_bytes("2", "b", Foreground, 100);
    assert_eq!(desk.scheduler.counts().bytes(), 100);
    let index = desk.running.iter().position(|(name, _)| *name == "1").unwrap();
    let (_, grant) = desk.running.remove(index);
    desk.scheduler.release(grant);
    let mut granted = Vec::new();
    desk.scheduler.drain(0, |at, _| granted.push(at));
    assert_eq!((desk.scheduler.counts().bytes(), desk.scheduler.counts().queued()), (0, 0));
    assert!(matches!(desk.scheduler.turn(granted[0]), Turn::Granted));
    // Dropped before it looks: the grant goes on.
    let (grant, _) = desk.scheduler.take(granted[0]);
    desk.scheduler.release(grant.unwrap());
    desk.waiting.clear();
    assert!(desk.is_idle());
}

#[test]
fn a_closed_scheduler_turns_away_and_lets_run_what_runs() {
    let mut desk = Desk::new(limits()).concurrency(1);
    desk.ask("1", "a", Foreground);
    desk.ask_bytes("2", "b", Foreground, 5);
    let mut closed = Vec::new();
    desk.scheduler.close(|name| closed.push(*name));
    assert_eq!((closed, desk.scheduler.counts().queued()), (vec!["2"], 0));
    let (_, at) = desk.waiting.pop().unwrap();
    assert!(matches!(desk.scheduler.turn(at), Turn::Closed));
    assert!(desk.scheduler.take(at).0.is_none());
    let arrival = desk.arrival("c", Foreground);
    assert!(desk.scheduler.start(&arrival).is_none() && desk.scheduler.is_closed());
    assert_eq!(desk.release("1"), [""; 0]);
    assert!(desk.is_idle());
}

#[test]
fn an_idle_domain_is_open_to_a_newcomer_however_many_wait_elsewhere() {
    let mut desk = Desk::new(Limits { pending: 1, ..limits() }).concurrency(1);
    desk.ask("1", "a", Foreground);
    desk.ask("2", "b", Foreground);
    assert!(matches!(desk.ask("3", "c", Foreground), Got::Full(_)), "the queue is full");
    let elsewhere = Arrival { domain: 7, ..desk.arrival("c", Foreground) };
    assert_eq!(desk.put("4", &elsewhere), Got::Runs);
}

#[test]
fn shares_count_together_in_a_domain_each_by_its_own_limit_and_all_by_the_widest() {
    let mut desk = Desk::new(shared()).concurrency(1);
    let wide = desk.scheduler.open_share(0, 3);
    assert_eq!(desk.ask("1", "a", Foreground), Got::Runs);
    assert_eq!(desk.ask("2", "b", Foreground), waits(Domain, 1, 1, 1));
    desk.share = wide;
    assert_eq!([desk.ask("3", "c", Foreground), desk.ask("4", "d", Foreground)], [Got::Runs, Got::Runs]);
    assert_eq!(
        desk.ask("5", "e", Foreground),
        waits(Domain, 3, 3, 2),
        "three are in flight, of which two in its share"
    );
    assert_eq!(desk.scheduler.domain_count(), 1);
    assert_eq!(desk.release("3"), ["5"]);
    assert_eq!(desk.ask("6", "f", Foreground), waits(Domain, 3, 3, 2));
    assert_eq!(desk.release("1"), ["6"], "the next in the rotation");
    assert_eq!(desk.release("4"), ["2"], "and then the one of the narrow share");
}

#[test]
fn a_narrow_share_is_not_starved_by_a_wide_one_that_is_never_empty() {
    let mut desk = Desk::new(shared()).concurrency(1);
    let wide = desk.scheduler.open_share(0, 4);
    desk.share = wide;
    for name in ["1", "2", "3", "4"] {
        assert_eq!(desk.ask(name, name, Foreground), Got::Runs);
    }
    desk.ask("5", "5", Foreground);
    desk.share = 0;
    assert_eq!(desk.ask("narrow", "a", Foreground), waits(Domain, 4, 4, 2));
    desk.share = wide;
    desk.ask("6", "6", Foreground);
    assert_eq!([desk.release("1"), desk.release("2")], [["5"], ["narrow"]]);
}

#[test]
fn a_wider_share_makes_room_where_it_is_opened_and_takes_it_along() {
    let mut desk = Desk::new(shared()).concurrency(2);
    let narrow = desk.scheduler.open_share(0, 1);
    assert_eq!([desk.ask("1", "a", Foreground), desk.ask("2", "b", Foreground)], [Got::Runs, Got::Runs]);
    desk.share = narrow;
    assert_eq!(desk.ask("3", "c", Foreground), waits(Domain, 2, 2, 1));
    let wide = desk.scheduler.open_share(0, 3);
    assert_eq!(desk.drain(), ["3"]);
    desk.scheduler.close_share(0, wide);
    desk.share = 0;
    assert_eq!(desk.release("1"), [""; 0]);
    assert_eq!(desk.ask("4", "d", Foreground), waits(Domain, 2, 2, 1));
}

#[test]
fn the_pace_of_the_queue_tells_how_long_it_takes() {
    let limits = Limits { pending: 3, ..shared() };
    let mut desk = Desk::new(limits).concurrency(1);
    desk.ask("0", "z", Foreground);
    for name in ["1", "2", "3"] {
        desk.ask(name, name, Foreground);
    }
    let full = |desk: &Desk| desk.scheduler.may_wait(&desk.arrival("c", Foreground), desk.now).unwrap_err();
    assert_eq!(full(&desk).drains_in, None, "nothing is known yet");
    for (running, next) in [("0", "4"), ("1", "5"), ("2", "6")] {
        desk.now += 1_000;
        desk.release(running);
        desk.ask(next, next, Foreground);
    }
    assert_eq!(full(&desk).drains_in, Some(3_000));
}

#[test]
fn more_groups_than_a_page_has_are_found_all_the_same() {
    let mut desk = Desk::new(Limits { global: 1, pending: 1_000, owner_pending: 1_000, ..shared() });
    desk.ask("0", "z", Foreground);
    for domain in 0..DOMAINS {
        let arrival = Arrival { domain, owner: (domain % 7).into(), ..desk.arrival("", Foreground) };
        desk.put("x", &arrival);
    }
    assert_eq!(desk.scheduler.pages.len(), 5);
    assert_eq!(desk.run_out().len(), 301);
    assert!(desk.is_idle() && desk.scheduler.pages.len() == 1);
}

#[test]
fn a_storm_of_cancellations_leaves_nothing() {
    let mut scheduler = Scheduler::new(Limits { pending: 1 << 20, owner_pending: 1 << 20, global: 1, ..shared() });
    let limits = DomainLimits { pending: 1 << 20, bytes: 1 << 30 };
    let class = [Foreground, Background, Internal];
    for domain in 0..90 {
        assert_eq!(scheduler.open_domain(u32::MAX), domain);
        assert_eq!(scheduler.open_share(domain, 1), 0);
    }
    let arrival = |number: u64| Arrival {
        domain: (number % 90) as u32,
        share: 0,
        limits,
        owner: number % 1_000,
        weight: 1,
        class: class[number as usize % 3],
        bytes: 1,
        cost: 1 + (number % 5) as u8,
    };
    let running = scheduler.start(&arrival(0)).unwrap();
    let mut tickets: Vec<u32> = (0..50_000).map(|number| scheduler.enqueue(&arrival(number), (), number)).collect();
    // In no order at all.
    let mut at = 0;
    while !tickets.is_empty() {
        at = (at + 7_919) % tickets.len();
        scheduler.take(tickets.swap_remove(at));
        scheduler.drain(60_000, |_, ()| panic!("nothing can start"));
    }
    scheduler.release(running);
    assert_eq!(*scheduler.counts(), Counts::default());
    assert_eq!((scheduler.owner_count(), scheduler.domain_count(), scheduler.pages.len()), (0, 0, 1));
}
