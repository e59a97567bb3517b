//! Pure parsing of what model providers send: frames, dialects, usage and errors. No async, no I/O.
//!
//! | module | reads |
//! |---|---|
//! | [`frame`] | bytes into frames: Server-Sent Events, NDJSON, a streamed JSON array |
//! | [`dialect`] | frames into what they mean: output, finish, usage, end marker, in-band error |
//! | [`error`] | error bodies into [`Failure`](stanchion_core::Failure)s |
//! | [`render`] | a failure back into the client's dialect, as a response or in band |
//! | [`request`] | routes and request bodies: which model, streamed or not |
//! | [`synthesize`] | a whole reply into the stream that the client asked for |

pub mod dialect;
pub mod error;
pub mod frame;
mod json;
pub mod render;
pub mod request;
pub mod synthesize;
