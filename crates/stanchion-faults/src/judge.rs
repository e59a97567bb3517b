//! Whether a scenario holds.
//!
//! ```
//! use stanchion_faults::client::{Reply, Transport};
//! use stanchion_faults::judge::judge;
//! use stanchion_faults::scenario::Scenario;
//! use stanchion_faults::upstream::Upstream;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let scenario = Scenario::parse("s", "name = 'silence'\nexpect = { outcome = 'timeout', attempts = { a = 1 } }")?;
//! let upstream = Upstream::start(std::slice::from_ref(&scenario)).await?;
//! let mut reply = Reply::default();
//! reply.transport = Transport::Timeout;
//! assert_eq!(judge(&scenario, &[reply], &upstream), ["0 requests reached a, wanted 1"]);
//! # Ok(())
//! # }
//! ```

mod client_side;
mod json;
mod ours;
mod provider_side;

use crate::client::Reply;
use crate::scenario::{Expect, Scenario};
use crate::upstream::{Ledger, Upstream};

/// What is wrong; nothing is when the scenario holds.
///
/// The first reply is the one that is judged; `each` counts all of them.
pub fn judge(scenario: &Scenario, replies: &[Reply], upstream: &Upstream) -> Vec<String> {
    complaints(scenario, replies, upstream.ledger())
}

/// Whether the client got the serving script's bytes exactly as they were sent; `None` where that is not asked.
pub fn verbatim(scenario: &Scenario, reply: &Reply) -> Option<bool> {
    let script = scenario.upstream.get(&scenario.expect.served_by)?.last()?;
    let Expect { verbatim, verbatim_but_ours, .. } = scenario.expect;
    let sent = script.body_bytes();
    (verbatim || verbatim_but_ours)
        .then(|| if verbatim { reply.raw == sent } else { ours::without_ours(&reply.raw) == sent })
}

/// Whether the better one of several accepted outcomes came; `None` where none is better.
pub fn preferred(scenario: &Scenario, reply: &Reply) -> Option<bool> {
    scenario.expect.prefer.map(|outcome| reply.outcome() == outcome)
}

pub(crate) fn complaints(scenario: &Scenario, replies: &[Reply], ledger: &Ledger) -> Vec<String> {
    let Some(reply) = replies.first() else { return vec!["nobody asked".to_owned()] };
    let mut complaints = Vec::new();
    client_side::judge(scenario, reply, &mut complaints);
    provider_side::judge(scenario, reply, ledger, &mut complaints);
    client_side::judge_each(scenario, replies, &mut complaints);
    complaints
}

#[cfg(test)]
mod tests;
