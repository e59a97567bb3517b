//! Scenario files: what the provider does, what the client asks and what must come of it.
//!
//! The n-th POST that reaches a candidate plays its n-th script. Unknown keys are errors, so that a slip of the pen
//! does not silently weaken a scenario. Lengths of time are written `"300ms"` or `"3s"`.
//!
//! ```
//! use stanchion_faults::scenario::{Dialect, End, Scenario, Step};
//!
//! let scenario = Scenario::parse(
//!     "s99",
//!     r#"
//!     name = "two pings, then silence"
//!     dialect = "anthropic"
//!
//!     [[upstream.a]]
//!     body = [{ wait = "300ms", event = "ping", data = '{"type":"ping"}', times = 2 }]
//!     end = "hang"
//!
//!     [expect]
//!     outcome = "timeout"
//!     "#,
//! )?;
//! assert_eq!(scenario.dialect, Dialect::Anthropic);
//! let script = &scenario.upstream["a"][0];
//! assert_eq!(script.end, End::Hang);
//! assert_eq!(script.body_bytes(), b"event: ping\ndata: {\"type\":\"ping\"}\n\n".repeat(2));
//! assert_eq!(Step::sse("[DONE]").bytes(), "data: [DONE]\n\n");
//! # Ok::<(), stanchion_faults::scenario::ScenarioError>(())
//! ```
//!
//! | key | meaning |
//! |---|---|
//! | `name`, `why` | one line each |
//! | `dialect` | the request's wire: [`Dialect`], `openai-chat` unless told |
//! | `stream` | whether the client asks for a stream (true) |
//! | `needs` | what a gateway must offer for the scenario to make sense |
//! | `refuse` | `{ a = true }`: nothing listens at candidate a's address |
//! | `[[upstream.X]]` | the scripts of candidate X, in order: [`Script`] |
//! | `[config]`, `[config.TABLE]` | settings of this scenario's model, as under `[models.NAME]` and `[models.NAME.TABLE]` |
//! | `[provider]` | settings of every candidate's provider, as under `[providers.NAME]` |
//! | `[candidate.X]` | settings of candidate X, as in the list `candidates` of a model: `temperature = 0.2` |
//! | `[candidate.X.provider]` | settings of that candidate's provider, over those of `[provider]`: `api_keys = ["sk-x-1", "sk-x-2"]` |
//! | `[request]` | what the client does: [`Request`] |
//! | `[[request.then]]` | what it does after that, or another client: [`Later`] |
//! | `[expect]` | what must come of it: [`Expect`] |

mod amount;
mod candidate;
mod check;
mod dialect;
mod duration;
mod error;
mod expect;
mod load;
mod request;
mod script;
mod step;
mod told;

use std::collections::BTreeMap;

use serde::Deserialize;

pub use amount::Count;
pub use candidate::Candidate;
pub use dialect::Dialect;
pub use error::ScenarioError;
pub use expect::{Expect, Received};
pub use load::{load_folder, load_matching};
pub use request::{Judged, Later, Request};
pub use script::{Before, End, Script};
pub use step::{Content, Step};
pub use told::Told;

/// One scenario file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The short name: `s07` of `s07-cut-after-role.toml`; part of every address and the model's name.
    #[serde(skip)]
    pub id: String,
    /// The file's name, or the id of a scenario that came from no file.
    #[serde(skip)]
    pub file: String,
    /// What holds, in one line.
    pub name: String,
    /// Why it matters, in one line.
    #[serde(default)]
    pub why: String,
    /// The request's wire.
    #[serde(default)]
    pub dialect: Dialect,
    /// Whether the client asks for a stream.
    #[serde(default = "yes")]
    pub stream: bool,
    /// What a gateway must offer: `fallback`, `retry`, `anthropic` and the like.
    #[serde(default)]
    pub needs: Vec<String>,
    /// The candidates at whose address nothing listens.
    #[serde(default)]
    pub refuse: BTreeMap<String, bool>,
    /// Each candidate's scripts, in order.
    #[serde(default)]
    pub upstream: BTreeMap<String, Vec<Script>>,
    /// Settings of the scenario's model: plain ones, and tables of them.
    #[serde(default)]
    pub config: BTreeMap<String, toml::Value>,
    /// Settings of the provider that each candidate has.
    #[serde(default)]
    pub provider: BTreeMap<String, toml::Value>,
    /// Settings of single candidates, and of their providers.
    #[serde(default)]
    pub candidate: BTreeMap<String, Candidate>,
    /// What the client does.
    #[serde(default)]
    pub request: Request,
    /// What must come of it.
    #[serde(default)]
    pub expect: Expect,
}

impl Scenario {
    /// Every candidate, scripted or refused, by name.
    pub fn candidates(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.upstream.keys().chain(self.refuse.keys()).map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Whether nothing listens at this candidate's address.
    pub fn refuses(&self, candidate: &str) -> bool {
        self.refuse.get(candidate).copied().unwrap_or(false)
    }
}

fn yes() -> bool {
    true
}
