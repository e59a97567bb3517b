//! Which credential of a pool serves next, and what becomes of it. Knows places in a list: no key, no clock, no lock.

use std::time::Duration;

use stanchion_core::{CredentialOutcome, CredentialStrategy, FailureKind, RotationReason};
use tokio::time::Instant;

/// The settings that a rotation needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) strategy: CredentialStrategy,
    /// For how long a rate limit without a hint takes out.
    pub(crate) cooldown: Duration,
    /// The longest hint that is believed.
    pub(crate) max_cooldown: Duration,
    /// For how long, at least, an exhausted quota takes out.
    pub(crate) exhausted_for: Duration,
    /// For how long a refusal takes out; `None` until a hand puts it back.
    pub(crate) refused_for: Option<Duration>,
    pub(crate) reservation: Duration,
}

/// Why a credential is out of service. Later outweighs earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Why {
    Limited,
    Exhausted,
    Refused,
    ByHand,
}

impl Why {
    fn reason(self) -> RotationReason {
        match self {
            Self::Limited => RotationReason::RateLimitCooldown,
            Self::Exhausted => RotationReason::Quota,
            Self::Refused => RotationReason::AuthFailure,
            Self::ByHand => RotationReason::Manual,
        }
    }

    /// What a pool suffers from whose credentials are all out.
    fn failure(self) -> FailureKind {
        match self {
            Self::Limited => FailureKind::RateLimited,
            Self::Exhausted => FailureKind::QuotaExhausted,
            Self::Refused => FailureKind::Authentication,
            Self::ByHand => FailureKind::Misconfigured,
        }
    }
}

/// Out of service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Out {
    pub(crate) why: Why,
    /// Until when; `None` until a hand puts it back.
    pub(crate) until: Option<Instant>,
}

/// One credential.
#[derive(Debug, Clone, Default)]
pub(crate) struct Slot {
    /// Requests that it has served.
    pub(crate) usage: u64,
    /// Its place among the least used: how often it was picked, whatever came of it. One that was out, or is new, goes on
    /// from where the others are.
    pub(crate) picked: u64,
    /// The number of the last pick.
    pub(crate) last_pick: u64,
    /// Rate limits that it has met.
    pub(crate) rate_limits: u64,
    /// When it served last.
    pub(crate) last_used: Option<Instant>,
    /// Requests that use it now, up to the ends of their bodies.
    pub(crate) in_flight: u32,
    pub(crate) out: Option<Out>,
    /// Not to be used until then while there is another. With the number of the pick that was the last one then.
    pub(crate) passed_over: Option<(Instant, u64)>,
    /// It is passed over, and its circuit has let nobody in since.
    pub(crate) turned_away: bool,
    /// The last who picked it has not heard of the outcome, and how long that is waited for.
    pub(crate) reserved: Option<(Instant, u64)>,
    /// It was out, and has not been picked since.
    pub(crate) returning: bool,
    /// How often a hand has put it back. What was asked before counts for nothing.
    pub(crate) put_back: u32,
}

impl Slot {
    fn end_passing_over(&mut self) {
        self.passed_over = None;
        self.turned_away = false;
    }

    fn is_reserved(&self, now: Instant) -> bool {
        self.reserved.is_some_and(|(until, _)| now < until)
    }
}

/// The credentials of one pool.
#[derive(Debug)]
pub(crate) struct Rotation {
    terms: Terms,
    slots: Box<[Slot]>,
    /// Where the next turn begins, for one after the other.
    cursor: usize,
    /// How often a credential was picked.
    picks: u64,
    /// Where the least used of those in service was when it was picked last.
    floor: u64,
    /// Grows with every change that a state file tells of.
    version: u64,
}

/// One use of a credential, from its choice to the end of the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) index: usize,
    number: u64,
    put_back: u32,
}

/// A choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pick {
    pub(crate) ticket: Ticket,
    /// Whether it is worth telling.
    pub(crate) told: Option<RotationReason>,
}

/// No credential is in service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Empty {
    pub(crate) kind: FailureKind,
    /// When the first comes back, where that is known.
    pub(crate) until: Option<Instant>,
}

/// What an outcome has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settled {
    /// The credential has gone out of service, why, and for how long.
    pub(crate) left: Option<(RotationReason, Option<Duration>)>,
    pub(crate) standing: Standing,
}

/// What whoever would ask again finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Another credential.
    Another,
    /// The same again.
    Same,
    /// None.
    Empty(Empty),
}

impl Rotation {
    pub(crate) fn new(terms: Terms, count: usize) -> Self {
        Self { terms, slots: vec![Slot::default(); count].into(), cursor: 0, picks: 0, floor: 0, version: 0 }
    }

    pub(crate) fn terms(&self) -> &Terms {
        &self.terms
    }

    pub(crate) fn strategy(&self) -> CredentialStrategy {
        self.terms.strategy
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn cursor(&self) -> usize {
        self.cursor
    }

    /// The credentials as they stand.
    pub(crate) fn slots(&mut self, now: Instant) -> &[Slot] {
        self.pass(now);
        &self.slots
    }

    /// How many are in service.
    pub(crate) fn ready_count(&self) -> usize {
        self.slots.iter().filter(|slot| slot.out.is_none()).count()
    }

    /// Takes over what is known of a credential from before. Only at the beginning.
    pub(crate) fn restore(&mut self, index: usize, known: Slot) {
        self.slots[index] = known;
    }

    /// Takes over where the least used is.
    pub(crate) fn restore_floor(&mut self, floor: u64) {
        self.floor = floor;
    }

    /// Takes over whose turn it is.
    pub(crate) fn restore_cursor(&mut self, index: usize) {
        self.cursor = index;
    }

    /// The longest time that a restored credential may be out for this reason.
    pub(crate) fn longest(&self, why: Why) -> Duration {
        match why {
            Why::Limited => self.terms.max_cooldown,
            _ => self.terms.max_cooldown.max(self.terms.exhausted_for),
        }
    }

    /// What is over at `now` is over.
    fn pass(&mut self, now: Instant) {
        for slot in &mut self.slots {
            if slot.out.is_some_and(|out| out.until.is_some_and(|until| until <= now)) {
                slot.out = None;
                slot.returning = true;
                self.version += 1;
            }
            if slot.passed_over.is_some_and(|(until, _)| until <= now) {
                slot.end_passing_over();
            }
        }
    }

    /// Chooses the credential of a request. `random` gives a number below the one that it is asked for.
    pub(crate) fn pick(&mut self, now: Instant, random: impl FnOnce(usize) -> usize) -> Result<Pick, Empty> {
        self.pass(now);
        let Some(index) = self.choose(now, random) else { return Err(self.empty()) };
        let told = match (self.picks, self.slots[index].returning) {
            (0, _) => Some(RotationReason::Initial),
            (_, true) => Some(RotationReason::Returned),
            _ => None,
        };
        self.picks += 1;
        self.version += 1;
        if self.terms.strategy == CredentialStrategy::RoundRobin {
            self.cursor = (index + 1) % self.slots.len();
        }
        let slot = &mut self.slots[index];
        self.floor = self.floor.max(slot.picked);
        slot.picked = self.floor.saturating_add(1);
        slot.last_pick = self.picks;
        slot.returning = false;
        slot.in_flight += 1;
        slot.reserved = Some((now + self.terms.reservation, self.picks));
        Ok(Pick { ticket: Ticket { index, number: self.picks, put_back: slot.put_back }, told })
    }

    fn choose(&self, now: Instant, random: impl FnOnce(usize) -> usize) -> Option<usize> {
        let in_service = || self.slots.iter().enumerate().filter(|(_, slot)| slot.out.is_none());
        let good = || in_service().filter(|(_, slot)| slot.passed_over.is_none());
        if good().next().is_none() {
            // None is good: then the one whose trouble is over first, of those that may let somebody in.
            let first =
                in_service().min_by_key(|(_, slot)| (slot.turned_away, slot.passed_over.map(|(until, _)| until)));
            return first.map(|(index, _)| index);
        }
        let chosen = match self.terms.strategy {
            CredentialStrategy::FillFirst => {
                good().find(|(_, slot)| !slot.is_reserved(now)).or_else(|| good().min_by_key(|(_, slot)| slot.reserved))
            }
            CredentialStrategy::RoundRobin => good().find(|(index, _)| *index >= self.cursor).or_else(|| good().next()),
            CredentialStrategy::Random => {
                let count = good().count();
                good().nth(random(count).min(count - 1))
            }
            // By what it was given, not by what it served: one that never answers well would be given everything.
            CredentialStrategy::LeastUsed => {
                good().min_by_key(|(_, slot)| (slot.picked, slot.last_pick, slot.last_used))
            }
        };
        chosen.map(|(index, _)| index)
    }

    /// What the pool suffers from if none is in service: what passes by itself, if anything does.
    fn empty(&self) -> Empty {
        let outs = || self.slots.iter().filter_map(|slot| slot.out);
        let why = outs().map(|out| out.why).min().unwrap_or(Why::ByHand);
        // Nobody is sent away for an hour to wait for a key that is refused.
        let until = outs().filter(|_| why < Why::Refused).filter_map(|out| out.until).min();
        Empty { kind: why.failure(), until }
    }

    /// A request was served.
    pub(crate) fn succeed(&mut self, ticket: Ticket, now: Instant) {
        self.answered(ticket);
        self.version += 1;
        let slot = &mut self.slots[ticket.index];
        slot.usage = slot.usage.saturating_add(1);
        slot.last_used = Some(now);
        // What was asked before says nothing about the trouble since.
        if slot.passed_over.is_some_and(|(_, since)| ticket.number > since) {
            slot.end_passing_over();
        }
    }

    /// A request was not served, or broke off, and this is what it says about the credential. With the wait that the
    /// provider asks for.
    pub(crate) fn fail(
        &mut self,
        ticket: Ticket,
        outcome: CredentialOutcome,
        hint: Option<Duration>,
        now: Instant,
    ) -> Settled {
        self.pass(now);
        self.answered(ticket);
        let terms = self.terms;
        let current = self.slots[ticket.index].put_back == ticket.put_back;
        let hint = hint.filter(|hint| !hint.is_zero()).map(|hint| hint.min(terms.max_cooldown));
        let left = match outcome {
            _ if !current => None,
            CredentialOutcome::Untouched => None,
            CredentialOutcome::PassOver => {
                self.pass_over(ticket, hint.unwrap_or(terms.cooldown), now);
                None
            }
            CredentialOutcome::Limited => {
                let slot = &mut self.slots[ticket.index];
                slot.rate_limits = slot.rate_limits.saturating_add(1);
                self.version += 1;
                self.take_out(ticket.index, Why::Limited, Some(hint.unwrap_or(terms.cooldown)), now)
            }
            CredentialOutcome::Exhausted => {
                let time = hint.map_or(terms.exhausted_for, |hint| hint.max(terms.exhausted_for));
                self.take_out(ticket.index, Why::Exhausted, Some(time), now)
            }
            CredentialOutcome::Refused => self.take_out(ticket.index, Why::Refused, terms.refused_for, now),
        };
        Settled { left, standing: self.standing(ticket.index, outcome) }
    }

    fn standing(&self, index: usize, outcome: CredentialOutcome) -> Standing {
        let mut others = self.slots.iter().enumerate().filter(|(other, slot)| *other != index && slot.out.is_none());
        let another = match outcome {
            CredentialOutcome::Untouched => false,
            // One that was passed over itself would be so again.
            CredentialOutcome::PassOver => others.any(|(_, slot)| slot.passed_over.is_none()),
            _ => others.next().is_some(),
        };
        match another {
            true => Standing::Another,
            false if self.ready_count() == 0 => Standing::Empty(self.empty()),
            false => Standing::Same,
        }
    }

    /// A credential's own circuit has turned the request away. Nobody knows what the others' do before they are asked: each is
    /// tried until it has turned somebody away too.
    pub(crate) fn turn_away(&mut self, ticket: Ticket, hint: Option<Duration>, now: Instant) -> Standing {
        let Settled { standing, .. } = self.fail(ticket, CredentialOutcome::PassOver, hint, now);
        let slot = &mut self.slots[ticket.index];
        slot.turned_away = slot.passed_over.is_some();
        let mut others = self.slots.iter().enumerate().filter(|(other, _)| *other != ticket.index);
        if others.any(|(_, slot)| slot.out.is_none() && !slot.turned_away) { Standing::Another } else { standing }
    }

    /// Another is better for so long, if there is one.
    pub(crate) fn pass_over(&mut self, ticket: Ticket, time: Duration, now: Instant) {
        let slot = &mut self.slots[ticket.index];
        if slot.put_back == ticket.put_back {
            let until = now + time.min(self.terms.max_cooldown);
            let until = slot.passed_over.map_or(until, |(known, _)| known.max(until));
            slot.passed_over = Some((until, self.picks));
            slot.turned_away = false;
        }
    }

    /// Takes a credential out of service. Says so if it was not out for the same reason already.
    fn take_out(
        &mut self,
        index: usize,
        why: Why,
        time: Option<Duration>,
        now: Instant,
    ) -> Option<(RotationReason, Option<Duration>)> {
        let slot = &mut self.slots[index];
        let until = time.map(|time| now + time);
        let (news, out) = match slot.out {
            Some(known) if known.why > why => (false, known),
            Some(known) if known.why == why => {
                let until = known.until.zip(until).map(|(known, until)| known.max(until));
                (false, Out { why, until })
            }
            _ => (true, Out { why, until }),
        };
        self.version += u64::from(slot.out != Some(out));
        slot.out = Some(out);
        news.then_some((why.reason(), time))
    }

    /// Takes a credential out of service until it is put back. `false` if a hand did so before.
    pub(crate) fn park(&mut self, index: usize, now: Instant) -> bool {
        self.take_out(index, Why::ByHand, None, now).is_some()
    }

    /// Puts a credential back into service, whatever it was taken out for. `false` if it was in.
    pub(crate) fn put_back(&mut self, index: usize) -> bool {
        let slot = &mut self.slots[index];
        slot.put_back = slot.put_back.wrapping_add(1);
        slot.end_passing_over();
        let was_out = slot.out.take().is_some();
        // It is told here, not when it is picked.
        slot.returning = false;
        self.version += u64::from(was_out);
        was_out
    }

    /// The outcome is known: the next may come.
    pub(crate) fn answered(&mut self, ticket: Ticket) {
        let slot = &mut self.slots[ticket.index];
        slot.reserved = slot.reserved.filter(|(_, number)| *number != ticket.number);
    }

    /// The request is over, in whatever way.
    pub(crate) fn finish(&mut self, ticket: Ticket) {
        self.answered(ticket);
        let slot = &mut self.slots[ticket.index];
        slot.in_flight = slot.in_flight.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests;
