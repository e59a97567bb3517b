//! Settings, their ranges, and errors that name them.

use stanchion_admission::{AdmissionPolicy, AdmissionScheduler, ClassLimits, InvalidAdmission};

use super::*;

#[test]
fn the_defaults_are_the_known_ones() {
    assert_eq!((AdmissionScheduler::MAX_PENDING, AdmissionPolicy::MAX_PENDING), (128, 32));
    assert_eq!((AdmissionPolicy::MAX_WAIT, AdmissionScheduler::AGING), (s(180), s(30)));
    assert_eq!((AdmissionScheduler::OWNER_MAX_PENDING, AdmissionScheduler::MAX_PENDING_BYTES), (16, 128 << 20));
    assert_eq!(AdmissionScheduler::OWNER_MAX_PENDING_BYTES, 32 << 20);
    let classes = ClassLimits { non_foreground: 12, non_foreground_of_owner: 2, internal: 2 };
    assert_eq!(ClassLimits::default(), classes);
    let policy = AdmissionPolicy::default();
    assert_eq!((policy.concurrency(), policy.max_wait(), policy.adaptive()), (None, s(180), None));
    let status = AdmissionScheduler::default().status();
    assert_eq!((status.limit, status.owner_limit, status.max_pending), (None, None, 128));
    assert_eq!(AdmissionLayer::default().policy(), &policy);
}

#[test]
fn settings_outside_their_range_are_refused_by_name() {
    type Builder = AdmissionSchedulerBuilder;
    let (scheduler, policy) = (AdmissionScheduler::builder, AdmissionPolicy::builder);
    let classes = |limits: ClassLimits| scheduler().class_limits(limits);
    let refused = |builder: Builder| builder.build().map(drop).unwrap_err();
    for (error, setting) in [
        (refused(scheduler().global_concurrency(0)), "global_concurrency"),
        (refused(scheduler().owner_concurrency(1_000_001)), "owner_concurrency"),
        (refused(scheduler().max_pending(0)), "max_pending"),
        (refused(scheduler().owner_max_pending(0)), "owner_max_pending"),
        (refused(scheduler().max_pending_bytes(65_535)), "max_pending_bytes"),
        (refused(scheduler().max_pending_bytes((128 << 20) + 1)), "max_pending_bytes"),
        (refused(scheduler().owner_max_pending_bytes(1)), "owner_max_pending_bytes"),
        (refused(scheduler().aging(ms(30_001))), "aging"),
        (refused(scheduler().aging(ms(999))), "aging"),
        (refused(scheduler().weight("a", 0)), "weight"),
        (refused(scheduler().weight("a", 101)), "weight"),
        (refused(classes(ClassLimits { internal: 3, ..ClassLimits::default() })), "class_limits.internal"),
        (refused(classes(ClassLimits { non_foreground: 0, ..ClassLimits::default() })), "class_limits.non_foreground"),
    ] {
        assert_eq!(error.setting(), setting);
    }
    let refused = |builder: AdmissionPolicyBuilder| builder.build().unwrap_err();
    for (error, setting) in [
        (refused(policy().concurrency(0)), "concurrency"),
        (refused(policy().max_pending(0)), "max_pending"),
        (refused(policy().max_pending_bytes(0)), "max_pending_bytes"),
        (refused(policy().max_wait(ms(999))), "max_wait"),
        (refused(policy().max_wait(ms(600_001))), "max_wait"),
        (refused(policy().cost(0)), "cost"),
        (refused(policy().cost(101)), "cost"),
    ] {
        assert_eq!(error.setting(), setting);
    }
    let error: InvalidAdmission = refused(policy().max_wait(ms(1)));
    assert_eq!(error.to_string(), "`max_wait` must be 0, or between 1 s and 10 min");
    for wait in [s(0), s(1), s(600)] {
        assert_eq!(policy().max_wait(wait).build().unwrap().max_wait(), wait);
    }
}
