//! A scripted model provider that plays scenario files byte for byte.
//!
//! A *scenario* is one TOML file: what the provider does, what the client asks and what must come of it. The provider
//! speaks over raw sockets, so that resets, truncations, odd line ends and silence are exact. Use it to test a client,
//! a layer or a whole gateway against the ways in which providers really fail.
//!
//! ```
//! use stanchion_faults::client::Call;
//! use stanchion_faults::judge::judge;
//! use stanchion_faults::scenario::Scenario;
//! use stanchion_faults::upstream::Upstream;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let scenario = Scenario::parse(
//!     "cut",
//!     r#"
//!     name = "a stream that dies after its first word"
//!
//!     [[upstream.a]]
//!     body = [{ sse = '{"choices":[{"index":0,"delta":{"content":"Hello"}}]}' }]
//!     end = "truncate"
//!
//!     [expect]
//!     outcome = "cut"
//!     text = "Hello"
//!     attempts = { a = 1 }
//!     "#,
//! )?;
//! let upstream = Upstream::start(std::slice::from_ref(&scenario)).await?;
//! let reply = Call::new(&scenario, upstream.address(), "m", "/cut/a").send().await;
//! assert_eq!(judge(&scenario, &[reply], &upstream), Vec::<String>::new());
//! # Ok(())
//! # }
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`scenario`] | the file format |
//! | [`upstream`] | the provider, over HTTP/1.1 |
//! | [`http2`] | a provider over HTTP/2, for tests of a library |
//! | [`client`] | a plain client that says what arrived |
//! | [`judge`] | whether a scenario holds |
//! | [`runner`] | many scenarios through a gateway |
//! | [`steady`] | a provider that never fails, for measuring speed |

#![forbid(unsafe_code)]

pub mod client;
mod headers;
mod http1;
pub mod http2;
pub mod judge;
mod outcome;
pub mod runner;
pub mod scenario;
pub mod steady;
pub mod upstream;

pub use headers::Headers;
pub use outcome::Outcome;
