//! What it costs to find a price, in the catalogue that is built in and in one of 3,000 models.
//!
//! `cargo bench -p stanchion-usage`. Each line is the best of several runs.

use std::{fmt::Write, hint::black_box};

use stanchion_usage::Catalogue;
use tokio::time::Instant;

const LOOKUPS: u32 = 1_000;

fn main() {
    // What `cargo test` passes to a target without a harness; a smoke test is enough then.
    let runs = if std::env::args().any(|argument| argument == "--bench") { 50 } else { 1 };
    let large = large();
    for (name, catalogue) in [("built in", Catalogue::built_in()), ("3,000 models", &large)] {
        for (how, provider, id) in [
            ("a model of its provider", "openai", "gpt-4o"),
            ("an alias", "primary", "4o"),
            ("a name within this one", "primary", "openai/gpt-4o-2024-11-20"),
            ("a family", "primary", "accounts/house/models/deepseek-v9"),
            ("nothing", "primary", "accounts/house/models/unheard-of"),
        ] {
            let timed = |_| {
                let began = Instant::now();
                for _ in 0..LOOKUPS {
                    black_box(catalogue.price(Some(black_box(provider)), black_box(id)));
                }
                began.elapsed() / LOOKUPS
            };
            let cost = (0..runs).map(timed).min().unwrap_or_default();
            println!("{name}, {how}: {} ns", cost.as_nanos());
        }
    }
}

/// As large as the lists that gateways pass around.
fn large() -> Catalogue {
    let mut text = String::new();
    for number in 0..3_000 {
        write!(
            text,
            "[[models]]\nid = \"vendor-{}/model-{number}-instruct\"\nprovider = \"vendor-{}\"\n\
             price = {{ input = 1, output = 2, date = \"2026-09-01\", source = \"bench\" }}\n",
            number % 40,
            number % 40
        )
        .expect("memory");
    }
    Catalogue::built_in().with(Catalogue::parse("large.toml", &text).expect("it is sound"))
}
