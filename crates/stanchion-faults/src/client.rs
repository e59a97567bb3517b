//! A plain HTTP/1.1 client that asks as a scenario says, and tells what arrived.
//!
//! It reads each wire as that wire's own client libraries do, and goes no further than they: it neither retries nor
//! mends. What it saw is a [`Reply`]; in one word, an [`Outcome`](crate::Outcome).
//!
//! ```
//! use stanchion_faults::Outcome;
//! use stanchion_faults::client::Call;
//! use stanchion_faults::scenario::Scenario;
//! use stanchion_faults::upstream::Upstream;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let text = r#"
//! name = "an answer in one word"
//! dialect = "ollama"
//! upstream.a = [{ body = [{ text = '{"message":{"content":"Hello"},"done":true,"done_reason":"stop"}' }] }]
//! "#;
//! let scenario = Scenario::parse("word", text)?;
//! let upstream = Upstream::start(std::slice::from_ref(&scenario)).await?;
//! let reply = Call::new(&scenario, upstream.address(), "m", "/word/a").send().await;
//! assert_eq!((reply.outcome(), reply.text.as_str()), (Outcome::Complete, "Hello"));
//! # Ok(())
//! # }
//! ```

mod call;
mod dialects;
mod frames;
mod receive;
mod reply;

pub use call::Call;
pub use reply::{ReceivedEvent, Reply, Transport};
