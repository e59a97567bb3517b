//! What holds of every count and every price.

use proptest::prelude::*;
use stanchion_core::Usage;
use stanchion_usage::{CacheBilling, Catalogue, Money, Price, Rates, normalise};

fn count() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![Just(None), (0..1_000_u64).prop_map(Some), any::<u64>().prop_map(Some)]
}

fn usage() -> impl Strategy<Value = Usage> {
    (count(), count(), count(), count(), count(), count(), count()).prop_map(
        |(input, cache_read, cache_write, cache_write_5m, cache_write_1h, output, reasoning)| Usage {
            input,
            cache_read,
            cache_write,
            cache_write_5m,
            cache_write_1h,
            output,
            reasoning,
        },
    )
}

/// Counts that are known and small enough to be added.
fn known() -> impl Strategy<Value = [u64; 5]> {
    prop::array::uniform5(0..1_000_000_000_u64)
}

fn of([input, output, cache_read, short, long]: [u64; 5]) -> Usage {
    Usage {
        input: Some(input),
        cache_read: Some(cache_read),
        cache_write: Some(short + long),
        cache_write_5m: Some(short),
        cache_write_1h: Some(long),
        output: Some(output),
        reasoning: None,
    }
}

fn rates() -> impl Strategy<Value = Rates> {
    let price = || (0..100_000_u64, 0..10_000_000_u64);
    let billing = prop::sample::select(vec![CacheBilling::Anthropic, CacheBilling::Gemini, CacheBilling::Other]);
    (price(), price(), billing).prop_map(|(input, output, billing)| {
        let price = |(whole, parts): (u64, u64)| Price::parse(&format!("{whole}.{parts:07}")).unwrap();
        Rates::new(price(input), price(output), billing)
    })
}

proptest! {
    #[test]
    fn no_part_is_larger_than_its_whole(usage in usage()) {
        let normal = normalise(usage);
        prop_assert_eq!(normalise(normal), normal);
        // What was known of the whole stays, and what nobody told stays untold.
        prop_assert_eq!((normal.input, normal.cache_read, normal.output), (usage.input, usage.cache_read, usage.output));
        if usage.cache_write.is_some() {
            prop_assert_eq!(normal.cache_write, usage.cache_write);
        }
        let parts = [normal.cache_write_5m, normal.cache_write_1h];
        match normal.cache_write {
            None => prop_assert_eq!(parts, [None, None]),
            Some(write) => if parts != [None, None] {
                prop_assert_eq!(u128::from(parts[0].unwrap()) + u128::from(parts[1].unwrap()), u128::from(write));
            },
        }
        if let (Some(reasoning), Some(output)) = (normal.reasoning, normal.output) {
            prop_assert!(reasoning <= output);
        }
        prop_assert_eq!(normal.reasoning.is_some(), usage.reasoning.is_some());
    }

    #[test]
    fn costs_add_up_exactly(rates in rates(), one in known(), other in known()) {
        let both = std::array::from_fn(|at| one[at] + other[at]);
        let cost = |counts| rates.cost(&of(counts)).unwrap();
        prop_assert_eq!(cost(one) + cost(other), cost(both));
        prop_assert_eq!(cost([0; 5]), Money::ZERO);
    }

    #[test]
    fn more_of_anything_never_costs_less(rates in rates(), counts in known(), at in 0..5_usize, more in 0..1_000_u64) {
        let mut larger = counts;
        larger[at] += more;
        prop_assert!(rates.cost(&of(larger)) >= rates.cost(&of(counts)));
    }

    #[test]
    fn no_count_makes_a_cost_overflow(usage in usage(), rates in rates()) {
        let cost = rates.cost(&usage);
        prop_assert_eq!(cost.is_some(), usage.input.is_some() && usage.output.is_some());
        let _ = (cost.map(Money::nanodollars), rates.cost(&normalise(usage)));
    }

    #[test]
    fn no_name_and_no_file_makes_it_panic(name in ".{0,24}", file in "[\\[\\]{}=\",a-z0-9.\n #é]{0,80}") {
        let catalogue = Catalogue::built_in();
        let _ = (catalogue.price(Some(&name), &name), catalogue.model(&name), catalogue.provider_of(&name));
        for text in [file.clone(), format!("[[models]]\n{file}"), format!("[[models]]\nid = \"{file}")] {
            if let Err(wrong) = Catalogue::parse("f", &text) {
                prop_assert!(wrong.line >= 1 && !wrong.reason.contains('\n'));
            }
        }
    }
}
