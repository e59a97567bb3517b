use proptest::prelude::*;

use super::*;

mod model;

const SECOND: Duration = Duration::from_secs(1);

fn terms(strategy: CredentialStrategy) -> Terms {
    Terms {
        strategy,
        cooldown: 60 * SECOND,
        max_cooldown: 600 * SECOND,
        exhausted_for: 100 * SECOND,
        refused_for: None,
        reservation: 5 * SECOND,
    }
}

fn rotation(strategy: CredentialStrategy) -> Rotation {
    Rotation::new(terms(strategy), 3)
}

/// Picks, hears of the outcome at once, and is done.
fn serve(rotation: &mut Rotation, now: Instant) -> usize {
    let ticket = rotation.pick(now, |_| 0).unwrap().ticket;
    rotation.succeed(ticket, now);
    rotation.finish(ticket);
    ticket.index
}

fn limit(rotation: &mut Rotation, hint: Option<Duration>, now: Instant) -> (usize, Settled) {
    let ticket = rotation.pick(now, |_| 0).unwrap().ticket;
    let settled = rotation.fail(ticket, CredentialOutcome::Limited, hint, now);
    rotation.finish(ticket);
    (ticket.index, settled)
}

#[test]
fn one_caller_after_the_other_is_served_as_the_strategy_says() {
    let now = Instant::now();
    for (strategy, expected) in [
        (CredentialStrategy::FillFirst, [0, 0, 0, 0, 0]),
        (CredentialStrategy::RoundRobin, [0, 1, 2, 0, 1]),
        (CredentialStrategy::Random, [0, 0, 0, 0, 0]),
        (CredentialStrategy::LeastUsed, [0, 1, 2, 0, 1]),
    ] {
        let mut rotation = rotation(strategy);
        let served: Vec<_> = (0u32..5).map(|at| serve(&mut rotation, now + SECOND * at)).collect();
        assert_eq!(served, expected, "{strategy}");
    }
}

#[test]
fn callers_at_once_are_spread() {
    let now = Instant::now();
    for strategy in [CredentialStrategy::FillFirst, CredentialStrategy::RoundRobin, CredentialStrategy::LeastUsed] {
        let mut rotation = rotation(strategy);
        let mut counts = [0; 3];
        for _ in 0..30 {
            counts[rotation.pick(now, |_| 0).unwrap().ticket.index] += 1;
        }
        assert_eq!(counts, [10; 3], "{strategy}");
    }
    let mut rotation = rotation(CredentialStrategy::Random);
    let mut random = fastrand::Rng::with_seed(7);
    let mut counts = [0; 3];
    for _ in 0..300 {
        counts[rotation.pick(now, |below| random.usize(..below)).unwrap().ticket.index] += 1;
    }
    assert!(counts.iter().all(|count| (70..130).contains(count)), "{counts:?}");
}

#[test]
fn a_reservation_ends_with_the_outcome_or_by_time() {
    let now = Instant::now();
    let mut rotation = rotation(CredentialStrategy::FillFirst);
    let mut pick = |now| rotation.pick(now, |_| 0).unwrap().ticket;
    let (first, second) = (pick(now), pick(now));
    assert_eq!((first.index, second.index), (0, 1));
    let almost = now + 5 * SECOND - Duration::from_nanos(1);
    assert_eq!(pick(almost).index, 2);
    assert_eq!(pick(now + 5 * SECOND).index, 0, "after 5 s nobody waits for the outcome");
    let mut again = Rotation::new(terms(CredentialStrategy::FillFirst), 3);
    let ticket = again.pick(now, |_| 0).unwrap().ticket;
    again.answered(ticket);
    assert_eq!(again.pick(now, |_| 0).unwrap().ticket.index, 0);
    // The outcome of one does not end the reservation of another.
    again.answered(ticket);
    assert_eq!(again.pick(now, |_| 0).unwrap().ticket.index, 1);
}

#[test]
fn the_least_used_has_its_share_and_no_more_whatever_it_answers() {
    let now = Instant::now();
    let mut rotation = rotation(CredentialStrategy::LeastUsed);
    let mut counts = [0; 3];
    for at in 0..30 {
        let ticket = rotation.pick(now + at * SECOND, |_| 0).unwrap().ticket;
        counts[ticket.index] += 1;
        match ticket.index {
            // The first answers 404 and the like, the second hangs.
            0 => {
                rotation.fail(ticket, CredentialOutcome::Untouched, None, now + at * SECOND);
                rotation.finish(ticket);
            }
            1 => {}
            _ => {
                rotation.succeed(ticket, now + at * SECOND);
                rotation.finish(ticket);
            }
        }
    }
    assert_eq!(counts, [10; 3]);
    // One that hangs up leaves no other trace.
    let ticket = rotation.pick(now, |_| 0).unwrap().ticket;
    rotation.finish(ticket);
    assert_eq!((ticket.index, serve(&mut rotation, now)), (0, 1));
}

#[test]
fn one_that_was_out_is_not_made_up_for_at_once() {
    let now = Instant::now();
    let mut rotation = rotation(CredentialStrategy::LeastUsed);
    assert_eq!(limit(&mut rotation, Some(10 * SECOND), now).0, 0);
    let served: Vec<_> = (0..40).map(|_| serve(&mut rotation, now)).collect();
    assert_eq!(served, [1, 2].repeat(20));
    // It has been picked once, the others twenty times.
    let served: Vec<_> = (0..4).map(|_| serve(&mut rotation, now + 10 * SECOND)).collect();
    assert_eq!(served, [0, 1, 2, 0]);
}

#[test]
fn a_new_one_among_restored_ones_is_not_made_up_for_either() {
    let now = Instant::now();
    let mut rotation = rotation(CredentialStrategy::LeastUsed);
    for index in [1, 2] {
        rotation.restore(index, Slot { picked: 1_000_000, ..Slot::default() });
    }
    rotation.restore_floor(1_000_000);
    let served: Vec<_> = (0..6).map(|_| serve(&mut rotation, now)).collect();
    assert_eq!(served.iter().filter(|index| **index == 0).count(), 2, "{served:?}");
}

#[test]
fn a_rate_limit_cools_for_its_hint_or_for_a_minute() {
    let now = Instant::now();
    for (hint, expected) in
        [(None, 60), (Some(20), 20), (Some(0), 60), (Some(100_000), 600)].map(|(hint, s)| (hint.map(|h| SECOND * h), s))
    {
        let mut rotation = rotation(CredentialStrategy::FillFirst);
        let (index, settled) = limit(&mut rotation, hint, now);
        let cooldown = SECOND * expected;
        assert_eq!(index, 0);
        assert_eq!(settled.left, Some((RotationReason::RateLimitCooldown, Some(cooldown))));
        assert_eq!(settled.standing, Standing::Another);
        assert_eq!(serve(&mut rotation, now + cooldown - Duration::from_nanos(1)), 1);
        let back = rotation.pick(now + cooldown, |_| 0).unwrap();
        assert_eq!((back.ticket.index, back.told), (0, Some(RotationReason::Returned)));
        assert_eq!(rotation.slots(now + cooldown)[0].rate_limits, 1);
    }
}

#[test]
fn a_pool_without_a_credential_says_when_the_first_is_back() {
    let now = Instant::now();
    let mut rotation = rotation(CredentialStrategy::RoundRobin);
    limit(&mut rotation, Some(30 * SECOND), now);
    limit(&mut rotation, Some(10 * SECOND), now);
    let empty = Empty { kind: FailureKind::RateLimited, until: Some(now + 10 * SECOND) };
    assert_eq!(limit(&mut rotation, None, now).1.standing, Standing::Empty(empty));
    assert_eq!(rotation.pick(now, |_| 0), Err(empty));
    assert_eq!(rotation.pick(now + 10 * SECOND, |_| 0).unwrap().ticket.index, 1);
}

#[test]
fn what_passes_soonest_is_what_a_pool_suffers_from() {
    use CredentialOutcome::{Exhausted, Limited, Refused};
    let now = Instant::now();
    let kinds = [
        ([Limited, Exhausted, Refused], FailureKind::RateLimited, Some(60)),
        ([Exhausted, Refused, Refused], FailureKind::QuotaExhausted, Some(100)),
        ([Refused, Refused, Refused], FailureKind::Authentication, None),
    ];
    for (outcomes, kind, until) in kinds {
        let mut rotation = rotation(CredentialStrategy::RoundRobin);
        for outcome in outcomes {
            let ticket = rotation.pick(now, |_| 0).unwrap().ticket;
            rotation.fail(ticket, outcome, None, now);
        }
        let until = until.map(|seconds: u32| now + SECOND * seconds);
        assert_eq!(rotation.pick(now, |_| 0), Err(Empty { kind, until }));
    }
    let mut rotation = rotation(CredentialStrategy::RoundRobin);
    assert!((0..3).all(|index| rotation.park(index, now)) && !rotation.park(0, now));
    assert_eq!(rotation.pick(now, |_| 0), Err(Empty { kind: FailureKind::Misconfigured, until: None }));
}

#[test]
fn whoever_may_not_do_one_thing_is_passed_over_and_serves_if_it_must() {
    let now = Instant::now();
    let mut rotation = Rotation::new(terms(CredentialStrategy::FillFirst), 2);
    let mut deny = |at: Instant| {
        let ticket = rotation.pick(at, |_| 0).unwrap().ticket;
        let settled = rotation.fail(ticket, CredentialOutcome::PassOver, None, at);
        assert_eq!(settled.left, None);
        (ticket.index, settled.standing)
    };
    assert_eq!(deny(now), (0, Standing::Another));
    assert_eq!(deny(now + SECOND), (1, Standing::Same), "nobody is left who was not asked");
    assert_eq!(deny(now + 2 * SECOND), (0, Standing::Same), "the first whose trouble is over");
    assert_eq!(serve(&mut rotation, now + 3 * SECOND), 1);
    assert_eq!(serve(&mut rotation, now + 4 * SECOND), 1, "its success ends its being passed over");
    assert_eq!(serve(&mut rotation, now + 62 * SECOND), 0);
}

#[test]
fn the_success_of_one_asked_before_proves_nothing() {
    let now = Instant::now();
    let mut rotation = Rotation::new(terms(CredentialStrategy::FillFirst), 1);
    let (early, late) = (rotation.pick(now, |_| 0).unwrap().ticket, rotation.pick(now, |_| 0).unwrap().ticket);
    rotation.pass_over(late, 10 * SECOND, now);
    rotation.succeed(early, now);
    assert!(rotation.slots(now)[0].passed_over.is_some());
    rotation.fail(late, CredentialOutcome::Limited, None, now);
    rotation.succeed(early, now);
    assert!(rotation.slots(now)[0].out.is_some());
}

#[test]
fn what_was_asked_before_a_hand_put_it_back_counts_for_nothing() {
    let now = Instant::now();
    let mut rotation = rotation(CredentialStrategy::FillFirst);
    let (first, second) = (rotation.pick(now, |_| 0).unwrap().ticket, rotation.pick(now, |_| 0).unwrap().ticket);
    assert_eq!((first.index, second.index), (0, 1));
    rotation.fail(first, CredentialOutcome::Refused, None, now);
    assert!(rotation.put_back(0) && !rotation.put_back(1));
    for ticket in [first, second] {
        let settled = rotation.fail(ticket, CredentialOutcome::Refused, None, now);
        assert_eq!((settled.left, settled.standing), (None, Standing::Another));
    }
    assert_eq!(rotation.ready_count(), 3);
}

#[test]
fn the_graver_reason_stays_and_of_equals_the_longer() {
    use CredentialOutcome::{Exhausted, Limited, Refused};
    let now = Instant::now();
    let mut rotation = Rotation::new(terms(CredentialStrategy::FillFirst), 1);
    let ticket = rotation.pick(now, |_| 0).unwrap().ticket;
    let mut fail = |outcome, hint: u32| {
        let left = rotation.fail(ticket, outcome, Some(SECOND * hint), now).left.map(|(reason, _)| reason);
        let out = rotation.slots(now)[0].out.unwrap();
        (left, out.until.map(|until| (until - now).as_secs()))
    };
    assert_eq!(fail(Limited, 20), (Some(RotationReason::RateLimitCooldown), Some(20)));
    assert_eq!(fail(Limited, 10), (None, Some(20)));
    assert_eq!(fail(Limited, 30), (None, Some(30)));
    assert_eq!(fail(Exhausted, 10), (Some(RotationReason::Quota), Some(100)));
    assert_eq!(fail(Limited, 500), (None, Some(100)));
    assert_eq!(fail(Exhausted, 500), (None, Some(500)));
    assert_eq!(fail(Refused, 1), (Some(RotationReason::AuthFailure), None));
    assert_eq!(fail(Exhausted, 1), (None, None));
}
