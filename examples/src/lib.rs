//! Examples that use several layers at once. Run one with `cargo run -p stanchion-examples --example axum_service`.
//!
//! | example | shows |
//! |---|---|
//! | `agent_tree` | sub-agents that share their root's place in the queue |
//! | `axum_service` | the whole onion in an axum application |
//! | `cache_doctor` | where prompt caches broke in a file of requests, why, and what that cost |
//! | `one_layer` | a layer alone, around a service of one's own |
