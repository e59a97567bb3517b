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
mod told;

use crate::client::Reply;
use crate::scenario::{Expect, Judged, Scenario};
use crate::upstream::{Ledger, Upstream};

/// What is wrong; nothing is when the scenario holds.
///
/// The first reply is the one that is judged, and the others follow in order, as [`play`](crate::runner::play) gives
/// them. Later requests are judged by their own expectations, too; `each` counts all replies.
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
    client_side::judge(&scenario.expect, reply, &mut complaints);
    if verbatim(scenario, reply) == Some(false) {
        complaints.push(format!("the {} bytes that arrived are not those that were sent", reply.raw.len()));
    }
    judge_later(scenario, replies, &mut complaints);
    provider_side::judge(scenario, reply, ledger, &mut complaints);
    client_side::judge_each(scenario, replies, &mut complaints);
    complaints
}

/// Judges later requests by what they themselves expect.
fn judge_later(scenario: &Scenario, replies: &[Reply], complaints: &mut Vec<String>) {
    let request = &scenario.request;
    // The one that is judged comes first, also where it was the last.
    let first = usize::from(request.judge == Judged::Last);
    let mut in_order = replies[first..].iter().chain(&replies[..first]).enumerate().skip(request.clients);
    for later in &request.then {
        for (index, reply) in in_order.by_ref().take(later.clients) {
            let Some(expect) = &later.expect else { continue };
            let mut own = Vec::new();
            client_side::judge(expect, reply, &mut own);
            complaints.extend(own.into_iter().map(|complaint| format!("request {}: {complaint}", index + 1)));
        }
    }
}

#[cfg(test)]
mod tests;
