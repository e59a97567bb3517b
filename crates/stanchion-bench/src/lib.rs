//! What the layers and the gateway cost, beside a bare relay and beside what a user would stack instead.
//!
//! | what | how |
//! |---|---|
//! | each layer and the whole onion, in nanoseconds and allocations | `cargo bench -p stanchion-bench --bench layers` |
//! | the paths of every request and chunk, in instructions | `.ci/instructions`, which CI runs |
//! | each layer and the decoder beside what one would take instead | `cargo run --release --manifest-path bench/peers/Cargo.toml` |
//! | a request where there are many models, domains, owners, streams, or requests that wait | `cargo bench -p stanchion-bench --bench scale` |
//! | the gateway beside a relay and other gateways, over sockets | `bench/run` |
//!
//! Never published; nothing here decides whether a test passes, but for counts that are the same on every machine.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "real time is what is measured, on threads of its own"
)]

pub mod drive;
pub mod http1;
pub mod load;
pub mod measure;
pub mod onions;
pub mod plot;
pub mod ready;
