//! Requests: where they were sent, which model they name, whether they ask for a stream, and where they go on to.
//!
//! | step | function |
//! |---|---|
//! | a path into the dialect that is spoken there | [`route`] |
//! | a body into the model and the stream flag, checked to be one JSON object | [`peek`] |
//! | another model name into the body, every other byte unchanged | [`replace_model`] |
//! | what a candidate sets of its own into the body | [`with_overrides`] |
//! | a body into about how many tokens it holds | [`estimate_tokens`] |
//! | the output limits out of the body | [`without_output_limits`] |
//! | the breakpoints of a prompt cache out of the body, or made to last | [`with_cache_retention`] |
//! | the wish for usage into the body of a stream | [`with_usage`] |
//! | a candidate's base URL into the provider's URI for the call | [`target`] |
//!
//! ```
//! use bytes::Bytes;
//! use stanchion_core::Dialect;
//! use stanchion_wire::request;
//!
//! let route = request::route("/v1/chat/completions").unwrap();
//! assert_eq!(route.dialect, Dialect::OpenAiChat);
//!
//! let body = Bytes::from_static(br#"{"model": "fast", "stream": true, "messages": [{"content": "\u00e9"}]}"#);
//! let peek = request::peek(route.dialect, &body).unwrap();
//! assert_eq!((peek.model.as_deref(), peek.stream), (Some("fast"), true));
//!
//! let sent = request::replace_model(&body, "gpt-x");
//! assert_eq!(sent, br#"{"model": "gpt-x", "stream": true, "messages": [{"content": "\u00e9"}]}"#[..]);
//! ```

mod estimate;
mod limits;
mod members;
mod model;
mod overrides;
mod peek;
mod retention;
mod route;
mod target;
mod usage;

pub use estimate::estimate_tokens;
pub use limits::without_output_limits;
pub use model::replace_model;
pub use overrides::with_overrides;
pub use peek::{BadRequest, Peek, peek};
pub use retention::with_cache_retention;
pub use route::{Route, route};
pub use target::{BadTarget, target};
pub use usage::with_usage;
