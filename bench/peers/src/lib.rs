//! The layers and the decoder beside what one would stack or take instead, in one run.
//!
//! `cargo run --release --manifest-path bench/peers/Cargo.toml` prints what `docs/benchmarks.md` shows.

use std::hint::black_box;

use stanchion_bench::measure::Subject;

pub mod decode;
pub mod layers;
pub mod wrapped;

/// How many times a round asks for memory, once everything that is made once is there.
pub fn allocations(subject: &Subject) -> f64 {
    const ROUNDS: u32 = 64;
    let mut worker = subject.worker();
    (0..ROUNDS).for_each(|_| worker());
    let counted = allocation_counter::measure(|| (0..ROUNDS).for_each(|_| black_box(&mut worker)()));
    counted.count_total as f64 / f64::from(ROUNDS)
}
