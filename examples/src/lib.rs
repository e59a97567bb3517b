//! Examples that use several layers at once. Run one with `cargo run -p stanchion-examples --example axum_service`.
//!
//! | example | shows |
//! |---|---|
//! | `axum_service` | the whole onion in an axum application |
//! | `one_layer` | a layer alone, around a service of one's own |
