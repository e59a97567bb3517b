//! What the clients of one scenario do.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::client::{Call, Reply};
use crate::scenario::{Judged, Scenario};

/// Whom the clients ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A gateway that knows the scenario as a model of that name.
    Gateway(SocketAddr),
    /// The provider itself: candidate `a` of the scenario.
    Direct(SocketAddr),
}

impl Target {
    fn call(self, scenario: &Scenario) -> Call {
        match self {
            Self::Gateway(address) => Call::new(scenario, address, &scenario.id, ""),
            Self::Direct(address) => Call::new(scenario, address, "m", &format!("/{}/a", scenario.id)),
        }
    }

    fn with_key(self, call: Call) -> Call {
        match self {
            Self::Gateway(_) => call.default_header("authorization", "Bearer sk-x"),
            Self::Direct(_) => call,
        }
    }
}

/// The replies to so many clients that ask the same, each a little later than the one before.
async fn send(call: &Call, clients: usize, stagger: Duration) -> Vec<Reply> {
    let mut calls = JoinSet::new();
    for index in 0..clients {
        let (call, start) = (call.clone(), stagger * u32::try_from(index).unwrap_or(u32::MAX));
        calls.spawn(async move {
            sleep(start).await;
            (index, call.send().await)
        });
    }
    let mut ended = calls.join_all().await;
    ended.sort_by_key(|&(index, _)| index);
    ended.into_iter().map(|(_, reply)| reply).collect()
}

/// Plays a scenario's clients: all that ask at once, then the later requests, one after another.
///
/// The reply that is to be judged comes first.
pub async fn play(scenario: &Scenario, target: Target) -> Vec<Reply> {
    let request = &scenario.request;
    let bare = target.call(scenario);
    let call = target.with_key(bare.clone());
    let mut replies = send(&call, request.clients, request.stagger).await;
    for later in &request.then {
        sleep(later.wait).await;
        let call = target.with_key(bare.clone().later(later));
        replies.extend(send(&call, later.clients, Duration::ZERO).await);
    }
    if request.judge == Judged::Last && !replies.is_empty() {
        replies.rotate_right(1);
    }
    // Time for the provider to notice that its client has gone.
    if let Some(limit) = scenario.expect.upstream_freed_within {
        sleep(limit).await;
    }
    replies
}
