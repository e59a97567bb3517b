//! What the client of a scenario does.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::script::header_fields;
use super::{Expect, duration};

/// What the client of a scenario does.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Request {
    /// Header fields beside the usual ones.
    #[serde(deserialize_with = "header_fields")]
    pub headers: BTreeMap<String, String>,
    /// Keys that are put into the default body, or replace its own.
    pub body: Map<String, Value>,
    /// How many clients ask at once (1).
    pub clients: usize,
    /// How much later each of them starts than the one before.
    #[serde(deserialize_with = "duration::plain")]
    pub stagger: Duration,
    /// The client leaves once so many events have come.
    pub leave_after_events: Option<usize>,
    /// The client leaves after so long.
    #[serde(deserialize_with = "duration::optional")]
    pub leave_after: Option<Duration>,
    /// The client reads nothing for so long, once. It has little room for what comes meanwhile.
    #[serde(deserialize_with = "duration::optional")]
    pub pause: Option<Duration>,
    /// How many events have come before that pause (1).
    pub pause_after_events: usize,
    /// The client's own limit (20 s).
    #[serde(deserialize_with = "duration::plain")]
    pub give_up: Duration,
    /// Later requests of the same scenario, in turn.
    pub then: Vec<Later>,
    /// Which reply is judged.
    pub judge: Judged,
}

/// Which of several replies is judged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judged {
    /// The first client's.
    #[default]
    First,
    /// The last request's.
    Last,
}

/// A later request of the same scenario.
///
/// It has the body of the first ones, but none of their additional header fields.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Later {
    /// How long after the reply before.
    #[serde(deserialize_with = "duration::plain")]
    pub wait: Duration,
    /// Whether it does not wait for that reply: `wait` then counts from when the request before was sent.
    pub beside: bool,
    /// How many clients ask at once (1); the next of the later requests follows when all of them have their replies.
    pub clients: usize,
    /// The client leaves after so long; as the first ones unless told, and `"0s"` stays.
    #[serde(deserialize_with = "duration::optional")]
    pub leave_after: Option<Duration>,
    /// Header fields beside the usual ones.
    #[serde(deserialize_with = "header_fields")]
    pub headers: BTreeMap<String, String>,
    /// Keys that are put into the body, or replace its own.
    pub body: Map<String, Value>,
    /// What each of its clients must see, whichever reply is judged.
    pub expect: Option<Box<Expect>>,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            headers: BTreeMap::new(),
            body: Map::new(),
            clients: 1,
            stagger: Duration::ZERO,
            leave_after_events: None,
            leave_after: None,
            pause: None,
            pause_after_events: 1,
            give_up: Duration::from_secs(20),
            then: Vec::new(),
            judge: Judged::First,
        }
    }
}

impl Default for Later {
    fn default() -> Self {
        Self {
            wait: Duration::ZERO,
            beside: false,
            clients: 1,
            leave_after: None,
            headers: BTreeMap::new(),
            body: Map::new(),
            expect: None,
        }
    }
}
