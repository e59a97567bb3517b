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

/// The replies to clients that start at these moments, counted from now.
async fn send(clients: Vec<(Duration, Call)>) -> Vec<Reply> {
    let mut calls = JoinSet::new();
    for (index, (start, call)) in clients.into_iter().enumerate() {
        calls.spawn(async move {
            sleep(start).await;
            (index, call.send().await)
        });
    }
    let mut ended = calls.join_all().await;
    ended.sort_by_key(|&(index, _)| index);
    ended.into_iter().map(|(_, reply)| reply).collect()
}

/// Plays a scenario's clients: all that ask at once, then the later requests, one after another but for those that are
/// sent beside the one before.
///
/// The reply that is to be judged comes first.
pub async fn play(scenario: &Scenario, target: Target) -> Vec<Reply> {
    let request = &scenario.request;
    let bare = target.call(scenario);
    let call = target.with_key(bare.clone());
    let mut clients: Vec<_> = (0..request.clients)
        .map(|index| (request.stagger * u32::try_from(index).unwrap_or(u32::MAX), call.clone()))
        .collect();
    let mut replies = Vec::new();
    let mut start = Duration::ZERO;
    for later in &request.then {
        if later.beside {
            start += later.wait;
        } else {
            replies.extend(send(std::mem::take(&mut clients)).await);
            start = later.wait;
        }
        let call = target.with_key(bare.clone().later(later));
        clients.extend(std::iter::repeat_n((start, call), later.clients));
    }
    replies.extend(send(clients).await);
    if request.judge == Judged::Last && !replies.is_empty() {
        replies.rotate_right(1);
    }
    // Time for the provider to notice that its client has gone.
    if let Some(limit) = scenario.expect.upstream_freed_within {
        sleep(limit).await;
    }
    replies
}
