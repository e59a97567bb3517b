use std::time::Duration;

use proptest::prelude::*;
use stanchion_core::{Family, Secret};

use super::*;

fn candidate(key: &str) -> Arc<Candidate> {
    Arc::new(Candidate::new("p", Family::OpenAi, "https://provider.example/v1").with_credential(Secret::new(key)))
}

fn budget(capacity: u32, refund: f64, per_second: f64) -> RetryBudget {
    RetryBudget::builder().capacity(capacity).refund(refund).per_second(per_second).build().unwrap()
}

fn drained(budget: &RetryBudget, candidate: &Arc<Candidate>, now: Instant) -> usize {
    (0..2000).take_while(|_| budget.withdraw(Some(candidate), now)).count()
}

#[test]
fn a_bucket_holds_its_capacity_and_candidates_that_fail_apart_have_buckets_apart() {
    let budget = budget(5, 0.1, 0.0);
    let now = Instant::now();
    let (one, same, other) = (candidate("a"), candidate("a"), candidate("b"));
    assert_eq!(drained(&budget, &one, now), 5);
    assert!(!budget.withdraw(Some(&same), now), "equal candidates fail together");
    assert_eq!(drained(&budget, &other, now), 5);
    assert!(budget.withdraw(None, now), "requests without a candidate have one of their own");
    assert!(!budget.clone().withdraw(Some(&one), now), "clones share");
}

#[test]
fn successes_refund_a_tenth_and_those_after_a_retry_all_of_it() {
    let budget = budget(10, 0.1, 0.0);
    let now = Instant::now();
    let one = candidate("a");
    drained(&budget, &one, now);
    for _ in 0..9 {
        budget.refund(Some(&one), false, || now);
    }
    assert!(!budget.withdraw(Some(&one), now));
    // Tenths do not add up to one exactly; the next one is beyond doubt.
    budget.refund(Some(&one), false, || now);
    budget.refund(Some(&one), false, || now);
    assert!(budget.withdraw(Some(&one), now));
    assert!(!budget.withdraw(Some(&one), now));
    budget.refund(Some(&one), true, || now);
    assert!(budget.withdraw(Some(&one), now));
}

#[test]
fn time_refills_and_a_full_bucket_is_forgotten() {
    let budget = budget(3, 0.0, 2.0);
    let start = Instant::now();
    let one = candidate("a");
    assert_eq!(drained(&budget, &one, start), 3);
    assert_eq!(drained(&budget, &one, start + Duration::from_millis(499)), 0);
    assert_eq!(drained(&budget, &one, start + Duration::from_secs(1)), 2);
    assert_eq!(drained(&budget, &one, start + Duration::from_secs(900)), 3, "never more than the capacity");
    budget.refund(Some(&one), false, || start + Duration::from_secs(1800));
    assert_eq!(budget.shared.low.lock().unwrap().len(), 0);
    budget.refund(Some(&one), false, || unreachable!("nothing is low"));
}

#[test]
fn domains_are_bounded_and_beyond_that_nothing_is_denied() {
    let budget = budget(1, 0.0, 1.0);
    let start = Instant::now();
    let many: Vec<_> = (0..MAX_DOMAINS + 10).map(|number| candidate(&number.to_string())).collect();
    for candidate in &many {
        assert!(budget.withdraw(Some(candidate), start));
    }
    assert_eq!(budget.shared.low.lock().unwrap().len(), MAX_DOMAINS);
    let last = many.last().unwrap();
    assert!(budget.withdraw(Some(last), start), "not remembered, so not denied");
    // A second later all buckets are full, and make room.
    assert!(budget.withdraw(Some(last), start + Duration::from_secs(1)));
    assert_eq!(budget.shared.low.lock().unwrap().len(), 1);
    assert!(!budget.withdraw(Some(last), start + Duration::from_secs(1)));
}

#[test]
fn a_setting_outside_its_range_is_named() {
    let of = RetryBudget::builder;
    for (builder, setting) in [
        (of().capacity(0), "capacity"),
        (of().capacity(1_000_001), "capacity"),
        (of().refund(-0.1), "refund"),
        (of().refund(1.1), "refund"),
        (of().refund(f64::NAN), "refund"),
        (of().per_second(1001.0), "per_second"),
    ] {
        assert_eq!(builder.build().unwrap_err().setting(), setting);
    }
    assert!(of().capacity(1).refund(0.0).per_second(0.0).build().is_ok());
    let error = of().capacity(0).build().unwrap_err().to_string();
    assert_eq!(error, "the retry budget's setting `capacity` must be between 1 and 1000000");
    assert!(!format!("{:?}", RetryBudget::default()).contains("domain"));
}

proptest! {
    /// Whatever happens in whatever order, retries come to no more than what the settings allow in that time.
    #[test]
    fn retries_are_bounded_by_capacity_successes_and_time(
        steps in prop::collection::vec((0_u8..3, 0_u64..400), 1..400),
        capacity in 1_u32..20,
        refund in 0.0_f64..=1.0,
        per_second in 0.0_f64..5.0,
    ) {
        let budget = budget(capacity, refund, per_second);
        let one = candidate("a");
        let start = Instant::now();
        let (mut now, mut granted, mut refunded) = (start, 0.0, 0.0);
        for (what, wait) in steps {
            now += Duration::from_millis(wait);
            match what {
                0 => granted += f64::from(u8::from(budget.withdraw(Some(&one), now))),
                1 => {
                    budget.refund(Some(&one), false, || now);
                    refunded += refund;
                }
                _ => {
                    budget.refund(Some(&one), true, || now);
                    refunded += 1.0;
                }
            }
            let bound = f64::from(capacity) + refunded + (now - start).as_secs_f64() * per_second;
            prop_assert!(granted <= bound + 1e-6, "{granted} of {bound}");
        }
    }
}
