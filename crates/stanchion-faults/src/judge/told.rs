//! The control events that a client was told.

use serde_json::{Map, Value};

use super::json::spaced;
use crate::client::Reply;
use crate::scenario::{Expect, Told};

/// Before the name of each control event.
const OURS: &str = "stanchion.";

/// Judges what a client was told beside its reply.
pub(super) fn judge(expect: &Expect, reply: &Reply, complaints: &mut Vec<String>) {
    if expect.told.is_empty() && expect.not_told.is_empty() {
        return;
    }
    let told: Vec<Told> = events(reply).collect();
    let mut rest = told.as_slice();
    for wanted in &expect.told {
        match rest.iter().position(|event| event.name == wanted.name && has(&event.members, &wanted.members)) {
            Some(at) => rest = &rest[at + 1..],
            None => {
                let place = if rest.len() < told.len() { " after that" } else { "" };
                complaints.push(format!("was not told{place} of {}, but: {}", shown(wanted), list(rest)));
                break;
            }
        }
    }
    for event in told.iter().filter(|event| expect.not_told.contains(&event.name)) {
        complaints.push(format!("was told of {}", shown(event)));
    }
}

/// All control events in a reply. Data that is no object has no members.
fn events(reply: &Reply) -> impl Iterator<Item = Told> {
    reply.events.iter().filter_map(|event| {
        let name = event.name.as_deref()?.strip_prefix(OURS)?.to_owned();
        Some(Told { name, members: serde_json::from_str(&event.data).unwrap_or_default() })
    })
}

/// Whether these members are among those, to any depth.
fn has(members: &Map<String, Value>, wanted: &Map<String, Value>) -> bool {
    wanted.iter().all(|(name, wanted)| match (members.get(name), wanted) {
        (Some(Value::Object(members)), Value::Object(wanted)) => has(members, wanted),
        (member, wanted) => member == Some(wanted),
    })
}

fn shown(event: &Told) -> String {
    format!("{} {}", event.name, spaced(Some(&Value::Object(event.members.clone()))))
}

fn list(events: &[Told]) -> String {
    let events: Vec<String> = events.iter().map(shown).collect();
    if events.is_empty() { "of nothing".to_owned() } else { events.join("; ") }
}
