//! A tree of agents that shares one place in the queue: sub-agents inherit the root's owner.
//!
//! Ann's root agent asks the model once and then sends six scouts at a time. Cid has three calls of his own, and Ben
//! comes last with one. The tree is run twice: with the root's owner for all of Ann's agents, and, for comparison, with
//! an owner for each of them.
//!
//! ```sh
//! cargo run -p stanchion-examples --example agent_tree
//! ```

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use stanchion::{
    Onion,
    admission::{AdmissionLayer, AdmissionPolicy, AdmissionScheduler},
    core::{Candidate, Candidates, Context, Failure, Family, RequestClass},
};
use tokio::{task::JoinSet, time::Instant};
use tower::{ServiceExt, service_fn};

/// How many calls the model takes at a time.
const PLACES: u32 = 3;
/// How many of them one owner may have.
const SHARE: u32 = 2;
/// Ann's weight. Everyone else's is 1.
const WEIGHT: u32 = 2;

/// Whose owner a sub-agent's calls are charged to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Charge {
    Root,
    Itself,
}

/// A call as the model saw it begin.
#[derive(Debug, Clone)]
struct Start {
    at: Duration,
    /// `ann/scout-1`: who the root is, and which of its agents this is.
    agent: String,
    /// How many calls of that root's tree are in flight, this one included.
    of_tree: u32,
}

#[derive(Debug, Default)]
struct Log {
    starts: Vec<Start>,
    in_flight: HashMap<String, u32>,
}

/// What came of it all.
#[derive(Debug)]
struct Account {
    starts: Vec<Start>,
    /// When the sub-agents and the other owners asked.
    asked: Duration,
}

impl Account {
    /// The most calls of one root's tree that were in flight together.
    fn peak(&self, root: &str) -> u32 {
        self.starts.iter().filter(|start| tree(&start.agent) == root).map(|start| start.of_tree).max().unwrap_or(0)
    }

    /// How many calls were let in between this agent's asking and its turn.
    fn ahead_of(&self, agent: &str) -> usize {
        // Those that began at the very instant had their places already.
        self.starts.iter().take_while(|start| start.agent != agent).filter(|start| start.at > self.asked).count()
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for start in &self.starts {
            let root = tree(&start.agent);
            writeln!(f, "  {:>2} s  {:<12} {} of {root}'s in flight", start.at.as_secs(), start.agent, start.of_tree)?;
        }
        writeln!(f, "  Ann's agents had {} of {PLACES} places at most.", self.peak("ann"))?;
        writeln!(f, "  {} calls were let in before Ben's.", self.ahead_of("ben/root"))
    }
}

fn tree(agent: &str) -> &str {
    agent.split('/').next().unwrap_or(agent)
}

/// The model: takes a second for each answer, and writes down who came.
async fn answer(
    request: Request<Full<Bytes>>,
    log: Arc<Mutex<Log>>,
    begun: Instant,
) -> Result<Response<Full<Bytes>>, Failure> {
    let agent = Context::of(&request).and_then(Context::session).unwrap_or("nobody").to_owned();
    let root = tree(&agent).to_owned();
    {
        let mut log = log.lock().unwrap();
        let count = log.in_flight.entry(root.clone()).or_default();
        *count += 1;
        let of_tree = *count;
        log.starts.push(Start { at: begun.elapsed(), agent, of_tree });
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    if let Some(count) = log.lock().unwrap().in_flight.get_mut(&root) {
        *count -= 1;
    }
    let reply = r#"{"choices":[{"message":{"role":"assistant","content":"Done."},"finish_reason":"stop"}]}"#;
    Ok(Response::new(Full::new(Bytes::from_static(reply.as_bytes()))))
}

/// A call of `agent`, charged to `owner`.
fn call(agent: &str, owner: &str, class: RequestClass) -> Request<Full<Bytes>> {
    let body = r#"{"model":"m","messages":[{"role":"user","content":"Look around."}]}"#;
    let mut request =
        Request::post("/v1/chat/completions").body(Full::new(Bytes::from_static(body.as_bytes()))).unwrap();
    request.extensions_mut().insert(Context::builder().session(agent).owner(owner).class(class).build());
    request
}

async fn run(charge: Charge) -> Account {
    let (log, begun) = (Arc::new(Mutex::new(Log::default())), Instant::now());
    let model = service_fn({
        let log = log.clone();
        move |request| answer(request, log.clone(), begun)
    });
    let scheduler = AdmissionScheduler::builder()
        .global_concurrency(PLACES)
        .owner_concurrency(SHARE)
        .weight("ann", WEIGHT)
        .build()
        .expect("the settings are within their ranges");
    let candidates = Candidates::new([Candidate::new("primary", Family::OpenAi, "https://provider.example/v1")]);
    let admission = AdmissionLayer::new(scheduler, AdmissionPolicy::default());
    let service = Onion::standard(candidates).admission(admission).service(model);

    let ask = |agent: &str, owner: &str, class| {
        let reply = service.clone().oneshot(call(agent, owner, class));
        // The permit is in the body: whoever does not read on keeps the others waiting.
        async move { reply.await.unwrap().into_body().collect().await.unwrap().to_bytes() }
    };
    // Ann waits for her root agent herself; what it sends out is background.
    ask("ann/root", "ann", RequestClass::Foreground).await;

    let asked = begun.elapsed();
    let mut calls = JoinSet::new();
    for number in 1..=6 {
        let agent = format!("ann/scout-{number}");
        let owner = if charge == Charge::Root { "ann" } else { &agent };
        calls.spawn(ask(&agent, owner, RequestClass::Background));
    }
    for number in 1..=3 {
        calls.spawn(ask(&format!("cid/job-{number}"), "cid", RequestClass::Background));
    }
    // The same class, so that his turn comes by the rotation and not by rank.
    calls.spawn(ask("ben/root", "ben", RequestClass::Background));
    calls.join_all().await;

    let starts = log.lock().unwrap().starts.clone();
    Account { starts, asked }
}

// The clock is paused: it jumps to whatever is waited for, so that the seconds above take no time.
#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() {
    println!("The sub-agents inherit the root's owner:\n{}", run(Charge::Root).await);
    println!("Each sub-agent is an owner of its own:\n{}", run(Charge::Itself).await);
}

#[cfg(test)]
mod tests {
    use super::{Charge, PLACES, SHARE, WEIGHT, run};

    #[tokio::test(start_paused = true)]
    async fn a_tree_has_its_owners_share_and_no_more() {
        let account = run(Charge::Root).await;
        assert_eq!(account.peak("ann"), SHARE, "{account}");
        assert_eq!(account.starts.len(), 11);
    }

    #[tokio::test(start_paused = true)]
    async fn another_owner_is_served_within_a_rotation() {
        let account = run(Charge::Root).await;
        // One visit to Ann, of her weight, and one to Cid.
        assert!(account.ahead_of("ben/root") <= WEIGHT as usize + 1, "{account}");
    }

    #[tokio::test(start_paused = true)]
    async fn owners_of_their_own_would_get_around_it() {
        let account = run(Charge::Itself).await;
        assert_eq!(account.peak("ann"), PLACES, "{account}");
        assert!(account.ahead_of("ben/root") > WEIGHT as usize + 1, "{account}");
    }
}
