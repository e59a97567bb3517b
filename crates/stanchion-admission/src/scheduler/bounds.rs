//! Which limit a request would break, by running or by waiting.

use stanchion_core::{AdmissionResource, AdmissionScope, RequestClass};

use super::{
    Arrival, Classes, Constraint, Limits, Scheduler,
    account::{Allowed, Counts, Domain, Owner, Room},
};

impl<W> Scheduler<W> {
    /// The first limit that a request would break by running.
    pub(super) fn blocking(&self, arrival: &Arrival, domain: &Domain, owner: Option<&Owner>) -> Option<Constraint> {
        use AdmissionScope as Scope;
        let Room { own, own_limit, limit } = domain.room(arrival.share);
        let zero = Counts::default();
        let (domain, owner, all) = (&domain.counts, owner.map_or(&zero, |owner| &owner.counts), &self.counts);
        let classes = self.limits.classes.filter(|_| arrival.class != RequestClass::Foreground);
        let is_internal = arrival.class == RequestClass::Internal;
        let check = |scope, in_flight, limit| (in_flight >= limit).then(|| stream(scope, in_flight, limit));
        let others = |counts: &Counts| counts.in_flight[1] + counts.in_flight[2];
        let own_others = own[1] + own[2];
        check(Scope::Owner, owner.in_flight(), self.limits.owner)
            .or_else(|| check(Scope::Class, others(owner), classes?.non_foreground_owner))
            .or_else(|| check(Scope::Domain, own.iter().sum(), own_limit))
            .or_else(|| check(Scope::Domain, domain.in_flight(), limit))
            .or_else(|| check(Scope::Class, own_others, classes.map(|_| non_foreground(own_limit))?))
            .or_else(|| check(Scope::Class, others(domain), classes.map(|_| non_foreground(limit))?))
            .or_else(|| {
                let limited = classes.filter(|_| is_internal);
                limited.and_then(|_| check(Scope::Class, domain.in_flight[2], Classes::INTERNAL_DOMAIN))
            })
            .or_else(|| check(Scope::Global, all.in_flight(), self.limits.global))
            .or_else(|| check(Scope::Class, others(all), classes?.non_foreground_global))
            .or_else(|| check(Scope::Class, all.in_flight[2], classes.filter(|_| is_internal)?.internal_global))
    }

    pub(super) fn domain_total(arrival: &Arrival, domain: &Domain) -> Constraint {
        let Room { limit, .. } = domain.room(arrival.share);
        stream(AdmissionScope::Domain, domain.counts.in_flight(), limit)
    }

    /// The first limit that a request would break by waiting.
    pub(super) fn pending(&self, arrival: &Arrival, domain: &Domain, owner: Option<&Owner>) -> Option<Constraint> {
        use AdmissionScope as Scope;
        let Room { limit: cap, .. } = domain.room(arrival.share);
        let zero = Counts::default();
        let (domain, owner, all) = (&domain.counts, owner.map_or(&zero, |owner| &owner.counts), &self.counts);
        let Limits { pending, owner_pending, bytes, owner_bytes, .. } = self.limits;
        let internal = arrival.class == RequestClass::Internal;
        let other = arrival.class != RequestClass::Foreground;
        let class_limits = self.limits.classes.is_some();

        let counts = [
            (all, Scope::Global, pending, 8),
            (owner, Scope::Owner, owner_pending.min(pending), 4),
            (domain, Scope::Domain, arrival.limits.pending.min(pending), 8),
        ];
        let count = |scope, queued: u32, limit: u32| {
            (queued >= limit).then_some(Constraint {
                resource: AdmissionResource::PendingCount,
                scope,
                in_flight: queued,
                limit,
            })
        };
        let by_class = counts.iter().find_map(|(counts, _, limit, share)| {
            let limit = (limit / share).max(1).min(three_quarters(u64::from(*limit)) as u32);
            if internal && class_limits { count(Scope::Class, counts.queued[2], limit) } else { None }
        });
        let by_class = by_class.or_else(|| {
            counts.iter().find_map(|(counts, _, limit, _)| {
                let limit = three_quarters(u64::from(*limit)) as u32;
                let queued = counts.queued[1] + counts.queued[2];
                if other && class_limits { count(Scope::Class, queued, limit) } else { None }
            })
        });
        let by_count = by_class
            .or_else(|| counts.iter().find_map(|(counts, scope, limit, _)| count(*scope, counts.queued(), *limit)));

        // Bytes are never told: what runs in the scope is.
        let domain_bytes = arrival.limits.bytes.min(bytes);
        let owner_bytes = owner_bytes.min(bytes);
        let scopes = [
            (all, Scope::Global, bytes, (three_quarters(bytes), bytes / 8), self.limits.global),
            (owner, Scope::Owner, owner_bytes, ((owner_bytes / 2).max(1), owner_bytes / 4), self.limits.owner),
            (domain, Scope::Domain, domain_bytes, (three_quarters(domain_bytes), domain_bytes / 4), cap),
        ];
        let fits = |held: u64, ceiling: u64| held.saturating_add(arrival.bytes.into()) <= ceiling;
        let memory =
            |scope, in_flight, limit| Constraint { resource: AdmissionResource::PendingBytes, scope, in_flight, limit };
        let of_class = memory(Scope::Class, all.in_flight(), self.limits.global);
        by_count
            .or_else(|| {
                let full = |(counts, _, _, (_, ceiling), _): &(&Counts, _, _, (u64, u64), u32)| {
                    !fits(counts.bytes[2].into(), (*ceiling).max(1))
                };
                (internal && scopes.iter().any(full)).then_some(of_class)
            })
            .or_else(|| {
                let full = |(counts, _, _, (ceiling, _), _): &(&Counts, _, _, (u64, u64), u32)| {
                    !fits(u64::from(counts.bytes[1]) + u64::from(counts.bytes[2]), *ceiling)
                };
                (other && scopes.iter().any(full)).then_some(of_class)
            })
            .or_else(|| {
                // What those who run have their layers hold is of no scope but the whole.
                let held = |scope: &Scope| if *scope == Scope::Global { self.elsewhere } else { 0 };
                let full = scopes
                    .iter()
                    .find(|(counts, scope, ceiling, ..)| !fits(counts.bytes().saturating_add(held(scope)), *ceiling));
                full.map(|(counts, scope, _, _, limit)| memory(*scope, counts.in_flight(), *limit))
            })
    }
}

pub(super) fn stream(scope: AdmissionScope, in_flight: u32, limit: u32) -> Constraint {
    Constraint { resource: AdmissionResource::Stream, scope, in_flight, limit }
}

pub(super) fn allowed(limits: &Limits, counts: &Counts) -> Allowed {
    let foreground = counts.in_flight() < limits.owner;
    let others = counts.in_flight[1] + counts.in_flight[2];
    let room = limits.classes.is_none_or(|classes| others < classes.non_foreground_owner);
    Allowed { foreground, others: foreground && room }
}

/// What of a domain's permits is not kept for the foreground.
pub(super) fn non_foreground(limit: u32) -> u32 {
    limit.saturating_sub(1).max(1)
}

fn three_quarters(limit: u64) -> u64 {
    (limit / 4 * 3 + limit % 4 * 3 / 4).max(1)
}
