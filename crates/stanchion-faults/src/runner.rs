//! Many scenarios, through a gateway or without one.
//!
//! A gateway under test needs one model for each scenario, named by the scenario's id, whose candidates are those of
//! the scenario; [`gateway_config`] writes that down for Stanchion. Each scenario is played once for each
//! [`Upstream`]: what the provider has played, it does not play again.
//!
//! ```
//! use stanchion_faults::runner::{Report, run_direct};
//! use stanchion_faults::scenario::Scenario;
//! use stanchion_faults::upstream::Upstream;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let text = "name = 'only an end'\nupstream.a = [{ body = [{ sse = '[DONE]' }] }]";
//! let scenarios = [Scenario::parse("s01", text)?];
//! let upstream = Upstream::start(&scenarios).await?;
//! let verdicts = run_direct(&scenarios, &upstream, 4).await;
//! assert_eq!(Report(&verdicts).failed(), 0);
//! # Ok(())
//! # }
//! ```

mod config;
mod play;
mod report;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

pub use config::{Addresses, gateway_config, gateway_config_for};
pub use play::{Target, play};
pub use report::Report;

use crate::judge;
use crate::outcome::Outcome;
use crate::scenario::Scenario;
use crate::upstream::{Ledger, Upstream};

/// What came of one scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The scenario's id.
    pub id: String,
    /// Its file's name.
    pub file: String,
    /// What it says holds.
    pub name: String,
    /// What it needs and was not offered; it was played when there is none.
    pub lacks: Vec<String>,
    /// What is wrong; it holds when there is none.
    pub complaints: Vec<String>,
    /// What the client saw.
    pub outcome: Option<Outcome>,
    /// Whether the better of several accepted outcomes came, where one is better.
    pub preferred: Option<bool>,
    /// Whether the bytes arrived as they were sent, where that is asked.
    pub verbatim: Option<bool>,
}

impl Verdict {
    /// Whether the scenario holds; `None` when it was not played.
    pub fn passed(&self) -> Option<bool> {
        self.lacks.is_empty().then_some(self.complaints.is_empty())
    }

    fn of(scenario: &Scenario) -> Self {
        Self {
            id: scenario.id.clone(),
            file: scenario.file.clone(),
            name: scenario.name.clone(),
            lacks: Vec::new(),
            complaints: Vec::new(),
            outcome: None,
            preferred: None,
            verbatim: None,
        }
    }
}

/// Plays all scenarios through a gateway, some at a time; the verdicts come in the scenarios' order.
pub async fn run_all(scenarios: &[Scenario], upstream: &Upstream, gateway: SocketAddr, jobs: usize) -> Vec<Verdict> {
    run(scenarios, upstream, Target::Gateway(gateway), jobs).await
}

/// Lets the bare client ask the provider; scenarios that need something of a gateway are passed over.
pub async fn run_direct(scenarios: &[Scenario], upstream: &Upstream, jobs: usize) -> Vec<Verdict> {
    run(scenarios, upstream, Target::Direct(upstream.address()), jobs).await
}

async fn run(scenarios: &[Scenario], upstream: &Upstream, target: Target, jobs: usize) -> Vec<Verdict> {
    let slots = Arc::new(Semaphore::new(jobs.clamp(1, Semaphore::MAX_PERMITS)));
    let mut verdicts: Vec<Verdict> = scenarios.iter().map(Verdict::of).collect();
    let mut tasks = JoinSet::new();
    for (index, scenario) in scenarios.iter().enumerate() {
        if matches!(target, Target::Direct(_)) && !scenario.needs.is_empty() {
            verdicts[index].lacks.clone_from(&scenario.needs);
            continue;
        }
        // Told of a task that ends without a verdict.
        verdicts[index].complaints.push("the runner failed".to_owned());
        let (scenario, ledger, slots) = (scenario.clone(), Arc::clone(upstream.ledger()), Arc::clone(&slots));
        tasks.spawn(async move {
            let _slot = slots.acquire().await;
            (index, verdict(&scenario, &ledger, target).await)
        });
    }
    while let Some(ended) = tasks.join_next().await {
        if let Ok((index, verdict)) = ended {
            verdicts[index] = verdict;
        }
    }
    verdicts
}

async fn verdict(scenario: &Scenario, ledger: &Ledger, target: Target) -> Verdict {
    let replies = play(scenario, target).await;
    let reply = replies.first();
    Verdict {
        complaints: judge::complaints(scenario, &replies, ledger),
        outcome: reply.map(crate::client::Reply::outcome),
        preferred: reply.and_then(|reply| judge::preferred(scenario, reply)),
        verbatim: reply.and_then(|reply| judge::verbatim(scenario, reply)),
        ..Verdict::of(scenario)
    }
}
