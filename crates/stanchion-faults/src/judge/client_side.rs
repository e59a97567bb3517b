//! What the client saw.

use std::fmt::Debug;

use super::json::spaced;
use super::told;
use crate::client::Reply;
use crate::scenario::{Expect, Scenario};

/// The beginning of a long text.
fn short(text: &str) -> String {
    text.chars().take(60).collect()
}

fn same<T: PartialEq + Debug>(what: &str, got: Option<&T>, wanted: Option<&T>, complaints: &mut Vec<String>) {
    if let Some(wanted) = wanted.filter(|&wanted| got != Some(wanted)) {
        let got = got.map_or_else(|| "none".to_owned(), |got| format!("{got:?}"));
        complaints.push(format!("{what} {}, wanted {}", short(&got), short(&format!("{wanted:?}"))));
    }
}

/// Judges one reply.
pub(super) fn judge(expect: &Expect, reply: &Reply, complaints: &mut Vec<String>) {
    let outcome = reply.outcome();
    if !expect.outcome.contains(&outcome) {
        let wanted: Vec<String> = expect.outcome.iter().map(ToString::to_string).collect();
        complaints.push(format!("outcome {outcome}, wanted {}", wanted.join("/")));
    }
    same("text", Some(&reply.text), expect.text.as_ref(), complaints);
    if let Some(whole) = expect.text_prefix_of.as_ref().filter(|whole| !whole.starts_with(&reply.text)) {
        complaints.push(format!("text {:?} is no prefix of {:?}", short(&reply.text), short(whole)));
    }
    same("tool args", reply.tool_args.get(&0), expect.tool_args.as_ref(), complaints);
    same("reasoning", Some(&reply.reasoning), expect.reasoning.as_ref(), complaints);
    if !expect.status.is_empty() && !reply.status.is_some_and(|status| expect.status.contains(&status)) {
        let status = reply.status.map_or_else(|| "none".to_owned(), |status| status.to_string());
        complaints.push(format!("status {status}, wanted {:?}", expect.status));
    }
    if let Some(limit) = expect.status_within {
        match reply.status_at.map(|at| at.duration_since(reply.started_at)) {
            Some(after) if after <= limit => {}
            Some(after) => {
                complaints.push(format!("status after {:.2}s, wanted within {limit:?}", after.as_secs_f64()));
            }
            None => complaints.push(format!("status never, wanted within {limit:?}")),
        }
    }
    for (name, wanted) in &expect.headers {
        let got = reply.headers.get(name);
        if got != Some(wanted.as_str()) {
            complaints.push(format!(
                "header {name} {}, wanted {wanted:?}",
                got.map_or("none".to_owned(), |got| format!("{got:?}"))
            ));
        }
    }
    judge_body(expect, &reply.raw, complaints);
    if let Some(part) = &expect.error_contains {
        let error = spaced(reply.error.as_ref());
        if !error.to_lowercase().contains(&part.to_lowercase()) {
            complaints.push(format!("error {} lacks {part:?}", error.chars().take(100).collect::<String>()));
        }
    }
    same("finish", reply.finish.as_ref(), expect.finish.as_ref(), complaints);
    told::judge(expect, reply, complaints);
    let took = reply.elapsed();
    if let Some(limit) = expect.within.filter(|&limit| took > limit) {
        complaints.push(format!("took {:.2}s, wanted within {limit:?}", took.as_secs_f64()));
    }
    if let Some(limit) = expect.at_least.filter(|&limit| took < limit) {
        complaints.push(format!("took {:.2}s, wanted at least {limit:?}", took.as_secs_f64()));
    }
}

/// Judges what the body is made of, without a look at what it means.
fn judge_body(expect: &Expect, raw: &[u8], complaints: &mut Vec<String>) {
    let body = String::from_utf8_lossy(raw);
    let mut rest = body.as_ref();
    for part in &expect.body_contains {
        let Some(at) = rest.find(part.as_str()) else {
            let place = if body.contains(part.as_str()) { " in its place" } else { "" };
            complaints.push(format!("the body lacks {:?}{place}", short(part)));
            break;
        };
        rest = &rest[at + part.len()..];
    }
    for part in expect.body_lacks.iter().filter(|part| body.contains(part.as_str())) {
        complaints.push(format!("the body has {:?}", short(part)));
    }
}

/// Counts how many clients ended how.
pub(super) fn judge_each(scenario: &Scenario, replies: &[Reply], complaints: &mut Vec<String>) {
    for (&outcome, wanted) in &scenario.expect.each {
        let count = replies.iter().filter(|reply| reply.outcome() == outcome).count();
        if !wanted.allows(count) {
            complaints.push(format!("{count} of {} clients {outcome}, wanted {wanted}", replies.len()));
        }
    }
}
