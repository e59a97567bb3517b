//! The same rotation once more: slow, and obvious. It keeps everything that ever happened, and works out the rest.

use super::*;

/// What may happen to a rotation.
#[derive(Debug, Clone)]
enum Step {
    Pass(u64),
    Pick(usize),
    Succeed(usize),
    Fail(usize, CredentialOutcome, Option<u64>),
    PassOver(usize, u64),
    TurnAway(usize, u64),
    Finish(usize),
    Park(usize),
    PutBack(usize),
}

/// What happened to a credential.
#[derive(Debug, Clone, Copy)]
enum Happened {
    Picked,
    Succeeded(usize),
    Limited,
    Out(Why, Option<Instant>),
    PassedOver(Instant, usize),
    TurnedAway,
    PutBack,
}

struct Request {
    ticket: Ticket,
    at: Instant,
    answered: bool,
    finished: bool,
}

struct Model {
    terms: Terms,
    now: Instant,
    history: Vec<(Instant, usize, Happened)>,
    requests: Vec<Request>,
}

#[derive(Debug, Default, PartialEq)]
struct Known {
    usage: u64,
    rate_limits: u64,
    last_used: Option<Instant>,
    out: Option<Out>,
    passed_over: Option<Instant>,
    turned_away: bool,
    returning: bool,
    put_back: usize,
}

impl Model {
    /// Everything about one credential, told from the beginning.
    fn known(&self, index: usize) -> Known {
        let mut known = Known::default();
        let mut since = 0;
        let expire = |known: &mut Known, at: Instant| {
            if known.out.is_some_and(|out| out.until.is_some_and(|until| until <= at)) {
                known.out = None;
                known.returning = true;
            }
            known.passed_over = known.passed_over.filter(|until| *until > at);
            known.turned_away &= known.passed_over.is_some();
        };
        for (at, _, happened) in self.history.iter().filter(|(_, about, _)| *about == index) {
            expire(&mut known, *at);
            match *happened {
                Happened::Picked => known.returning = false,
                Happened::Succeeded(number) => {
                    known.usage += 1;
                    known.last_used = Some(*at);
                    if number >= since && known.passed_over.is_some() {
                        known.passed_over = None;
                        known.turned_away = false;
                    }
                }
                Happened::Limited => known.rate_limits += 1,
                Happened::Out(why, until) => {
                    known.out = Some(match known.out {
                        Some(out) if out.why > why => out,
                        Some(Out { why: same, until: before }) if same == why => {
                            let until = if before.is_none() || until.is_none() { None } else { before.max(until) };
                            Out { why, until }
                        }
                        _ => Out { why, until },
                    });
                }
                Happened::PassedOver(until, picks) => {
                    known.passed_over = known.passed_over.max(Some(until));
                    known.turned_away = false;
                    since = picks;
                }
                Happened::TurnedAway => known.turned_away = true,
                Happened::PutBack => {
                    known.out = None;
                    known.passed_over = None;
                    known.turned_away = false;
                    known.returning = false;
                    known.put_back += 1;
                }
            }
        }
        expire(&mut known, self.now);
        known
    }

    fn in_flight(&self, index: usize) -> u32 {
        self.requests.iter().filter(|request| request.ticket.index == index && !request.finished).count() as u32
    }

    /// When the last pick was made, if its outcome is still waited for.
    fn reserved(&self, index: usize) -> Option<Instant> {
        let last = self.requests.iter().rfind(|request| request.ticket.index == index)?;
        (!last.answered).then_some(last.at)
    }

    fn choose(&self, count: usize, random: usize) -> Option<usize> {
        let known: Vec<Known> = (0..count).map(|index| self.known(index)).collect();
        let ready: Vec<usize> = (0..count).filter(|index| known[*index].out.is_none()).collect();
        let good: Vec<usize> = ready.iter().copied().filter(|index| known[*index].passed_over.is_none()).collect();
        if good.is_empty() {
            return ready.into_iter().min_by_key(|index| (known[*index].turned_away, known[*index].passed_over));
        }
        let last = self.requests.last().map(|request| request.ticket.index);
        match self.terms.strategy {
            CredentialStrategy::FillFirst => {
                let is_free =
                    |index: &usize| self.reserved(*index).is_none_or(|at| at + self.terms.reservation <= self.now);
                let free = good.iter().copied().find(is_free);
                let place = |index: &usize| self.requests.iter().rposition(|request| request.ticket.index == *index);
                free.or_else(|| good.iter().copied().min_by_key(place))
            }
            CredentialStrategy::RoundRobin => {
                let from = last.map_or(0, |last| last + 1);
                (from..from + count).map(|index| index % count).find(|index| good.contains(index))
            }
            CredentialStrategy::Random => Some(good[random % good.len()]),
            CredentialStrategy::LeastUsed => {
                // One that was away goes on from where the least used of the others is.
                let (mut places, mut floor) = (vec![(0, None); count], 0);
                for (number, request) in self.requests.iter().enumerate() {
                    let place = &mut places[request.ticket.index];
                    floor = floor.max(place.0);
                    *place = (floor + 1, Some(number));
                }
                good.iter().copied().min_by_key(|index| places[*index])
            }
        }
    }

    fn happened(&mut self, index: usize, happened: Happened) {
        self.history.push((self.now, index, happened));
    }
}

fn step() -> impl Strategy<Value = Step> {
    use CredentialOutcome::{Exhausted, Limited, PassOver, Refused, Untouched};
    let outcome = prop::sample::select(vec![Untouched, PassOver, Limited, Limited, Exhausted, Refused]);
    let hint = prop::option::of(0u64..900);
    prop_oneof![
        3 => prop_oneof![0u64..8, 0u64..120].prop_map(Step::Pass),
        6 => any::<usize>().prop_map(Step::Pick),
        2 => any::<usize>().prop_map(Step::Succeed),
        3 => (any::<usize>(), outcome, hint).prop_map(|(of, outcome, hint)| Step::Fail(of, outcome, hint)),
        1 => (any::<usize>(), 0u64..30).prop_map(|(of, time)| Step::PassOver(of, time)),
        2 => (any::<usize>(), 1u64..30).prop_map(|(of, time)| Step::TurnAway(of, time)),
        3 => any::<usize>().prop_map(Step::Finish),
        1 => any::<usize>().prop_map(Step::Park),
        2 => any::<usize>().prop_map(Step::PutBack),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn the_rotation_does_as_the_model_says(
        strategy in prop::sample::select(CredentialStrategy::ALL.to_vec()),
        refused_for in prop::option::of(1u64..200),
        count in 1usize..5,
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let seconds = Duration::from_secs;
        let terms = Terms { refused_for: refused_for.map(seconds), ..terms(strategy) };
        let mut rotation = Rotation::new(terms, count);
        let mut model = Model { terms, now: Instant::now(), history: Vec::new(), requests: Vec::new() };
        for step in steps {
            let now = model.now;
            let some = |of: usize, model: &Model| (!model.requests.is_empty()).then(|| of % model.requests.len());
            match step {
                Step::Pass(time) => model.now += seconds(time),
                Step::Pick(random) => {
                    let expected = model.choose(count, random);
                    let picked = rotation.pick(now, |below| random % below);
                    prop_assert_eq!(picked.ok().map(|pick| pick.ticket.index), expected);
                    if let Ok(Pick { ticket, told }) = picked {
                        let reason = match model.requests.len() {
                            0 => Some(RotationReason::Initial),
                            _ => model.known(ticket.index).returning.then_some(RotationReason::Returned),
                        };
                        prop_assert_eq!(told, reason);
                        model.happened(ticket.index, Happened::Picked);
                        model.requests.push(Request { ticket, at: now, answered: false, finished: false });
                    } else {
                        let Err(Empty { kind, until }) = picked else { unreachable!() };
                        let outs: Vec<Out> = (0..count).filter_map(|index| model.known(index).out).collect();
                        prop_assert_eq!(outs.len(), count);
                        let why = outs.iter().map(|out| out.why).min().unwrap();
                        prop_assert_eq!(kind, why.failure());
                        let first = outs.iter().filter_map(|out| out.until).min();
                        prop_assert_eq!(until, first.filter(|_| why < Why::Refused));
                    }
                }
                Step::Succeed(of) => if let Some(of) = some(of, &model) {
                    let ticket = model.requests[of].ticket;
                    rotation.succeed(ticket, now);
                    model.requests[of].answered = true;
                    model.happened(ticket.index, Happened::Succeeded(of));
                },
                Step::Fail(of, outcome, hint) => if let Some(of) = some(of, &model) {
                    let ticket = model.requests[of].ticket;
                    let index = ticket.index;
                    let before = model.known(index);
                    let settled = rotation.fail(ticket, outcome, hint.map(seconds), now);
                    model.requests[of].answered = true;
                    let hint = hint.filter(|hint| *hint > 0).map(|hint| seconds(hint).min(terms.max_cooldown));
                    let stale = before.put_back as u32 != ticket.put_back;
                    let out = match outcome {
                        _ if stale => None,
                        CredentialOutcome::Untouched => None,
                        CredentialOutcome::PassOver => {
                            let until = now + hint.unwrap_or(terms.cooldown);
                            model.happened(index, Happened::PassedOver(until, model.requests.len()));
                            None
                        }
                        CredentialOutcome::Limited => {
                            model.happened(index, Happened::Limited);
                            Some((Why::Limited, Some(hint.unwrap_or(terms.cooldown))))
                        }
                        CredentialOutcome::Exhausted => {
                            Some((Why::Exhausted, Some(terms.exhausted_for.max(hint.unwrap_or_default()))))
                        }
                        CredentialOutcome::Refused => Some((Why::Refused, terms.refused_for)),
                    };
                    if let Some((why, time)) = out {
                        model.happened(index, Happened::Out(why, time.map(|time| now + time)));
                        let news = before.out.is_none_or(|before| before.why < why);
                        prop_assert_eq!(settled.left, news.then_some((why.reason(), time)));
                    } else {
                        prop_assert_eq!(settled.left, None);
                    }
                    let others = || (0..count).filter(|other| *other != index).map(|other| model.known(other));
                    let another = match outcome {
                        CredentialOutcome::Untouched => false,
                        CredentialOutcome::PassOver =>
                            others().any(|known| known.out.is_none() && known.passed_over.is_none()),
                        _ => others().any(|known| known.out.is_none()),
                    };
                    prop_assert_eq!(settled.standing == Standing::Another, another);
                    let none = (0..count).all(|index| model.known(index).out.is_some());
                    prop_assert_eq!(matches!(settled.standing, Standing::Empty(_)), none && !another);
                },
                Step::PassOver(of, time) => if let Some(of) = some(of, &model) {
                    let ticket = model.requests[of].ticket;
                    rotation.pass_over(ticket, seconds(time), now);
                    if model.known(ticket.index).put_back as u32 == ticket.put_back {
                        let passed_over = Happened::PassedOver(now + seconds(time), model.requests.len());
                        model.happened(ticket.index, passed_over);
                    }
                },
                Step::TurnAway(of, time) => if let Some(of) = some(of, &model) {
                    let ticket = model.requests[of].ticket;
                    let standing = rotation.turn_away(ticket, Some(seconds(time)), now);
                    model.requests[of].answered = true;
                    if model.known(ticket.index).put_back as u32 == ticket.put_back {
                        let passed_over = Happened::PassedOver(now + seconds(time), model.requests.len());
                        model.happened(ticket.index, passed_over);
                    }
                    if model.known(ticket.index).passed_over.is_some() {
                        model.happened(ticket.index, Happened::TurnedAway);
                    }
                    let mut others = (0..count).filter(|other| *other != ticket.index).map(|other| model.known(other));
                    let another = others.any(|known| known.out.is_none() && !known.turned_away);
                    prop_assert_eq!(standing == Standing::Another, another);
                },
                Step::Finish(of) => if let Some(of) = some(of, &model).filter(|of| !model.requests[*of].finished) {
                    rotation.finish(model.requests[of].ticket);
                    model.requests[of].finished = true;
                    model.requests[of].answered = true;
                },
                Step::Park(index) => {
                    let index = index % count;
                    rotation.slots(now);
                    let changed = model.known(index).out.is_none_or(|out| out.why < Why::ByHand);
                    prop_assert_eq!(rotation.park(index, now), changed);
                    model.happened(index, Happened::Out(Why::ByHand, None));
                }
                Step::PutBack(index) => {
                    let index = index % count;
                    rotation.slots(now);
                    let changed = model.known(index).out.is_some();
                    prop_assert_eq!(rotation.put_back(index), changed);
                    model.happened(index, Happened::PutBack);
                }
            }
            let slots = rotation.slots(model.now).to_vec();
            for (index, slot) in slots.iter().enumerate() {
                let known = model.known(index);
                let told = Known {
                    usage: slot.usage,
                    rate_limits: slot.rate_limits,
                    last_used: slot.last_used,
                    out: slot.out,
                    passed_over: slot.passed_over.map(|(until, _)| until),
                    turned_away: slot.turned_away,
                    returning: slot.returning,
                    put_back: slot.put_back as usize,
                };
                prop_assert_eq!(told, known);
                prop_assert_eq!(slot.in_flight, model.in_flight(index));
            }
            let ready = (0..count).filter(|index| model.known(*index).out.is_none()).count();
            prop_assert_eq!(rotation.ready_count(), ready);
        }
    }
}
