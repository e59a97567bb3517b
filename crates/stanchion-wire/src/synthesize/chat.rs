//! Chat Completions: a role, the parts of the message, the finish with the usage, `[DONE]`.

use serde_json::value::RawValue;

use super::{object, quote};
use crate::error::object::Object;

pub(super) fn stream(reply: &Object<'_>) -> Option<String> {
    let choices = reply.array("choices").filter(|choices| !choices.is_empty())?;
    let mut bodies = Vec::new();
    for (index, choice) in choices.into_iter().enumerate() {
        let choice = Object::from_raw(choice)?;
        let message = choice.object("message")?;
        let index = choice.scalar("index").unwrap_or_else(|| index.to_string());
        for part in parts(&choice, &message) {
            bodies.push(object([("index", index.as_str())].into_iter().chain(part.members())));
        }
    }
    let mut stream = String::new();
    let last = bodies.len() - 1;
    for (number, body) in bodies.iter().enumerate() {
        // With the last finish and not by itself: who did not ask for a chunk without choices may not expect one.
        chunk(&mut stream, reply, body, reply.get("usage").filter(|_| number == last));
    }
    stream.push_str("data: [DONE]\n\n");
    Some(stream)
}

/// One chunk's choice, apart from its index.
struct Part {
    delta: String,
    finish: String,
    more: Vec<(String, String)>,
}

impl Part {
    fn delta(delta: String) -> Self {
        Self { delta, finish: "null".into(), more: Vec::new() }
    }

    fn members(&self) -> impl Iterator<Item = (&str, &str)> {
        let more = self.more.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        [("delta", self.delta.as_str()), ("finish_reason", self.finish.as_str())].into_iter().chain(more)
    }
}

fn parts(choice: &Object<'_>, message: &Object<'_>) -> Vec<Part> {
    let role = message.text("role").unwrap_or_else(|| "assistant".into());
    let mut parts = vec![Part::delta(object([("role", quote(&role).as_str()), ("content", "\"\"")]))];
    let mut members: Vec<_> = message.iter().filter(|(key, value)| *key != "role" && !is_empty(value)).collect();
    // A model thinks before it speaks, wherever the document puts it.
    members.sort_by_key(|(key, _)| match *key {
        _ if key.starts_with("reasoning") => 0,
        "content" | "refusal" => 1,
        _ => 2,
    });
    for (key, value) in members {
        if key == "tool_calls" {
            parts.extend(tool_calls(value));
            continue;
        }
        let mut part = Part::delta(object([(key, value.get())]));
        if key == "content"
            && let Some(logprobs) = choice.get("logprobs")
        {
            part.more.push(("logprobs".into(), logprobs.get().into()));
        }
        parts.push(part);
    }
    let finish =
        choice.get("finish_reason").map_or_else(|| quote(default_finish(message)), |reason| reason.get().into());
    let known = ["index", "message", "finish_reason", "logprobs"];
    let more =
        choice.iter().filter(|(key, _)| !known.contains(key)).map(|(key, value)| (key.into(), value.get().into()));
    parts.push(Part { delta: "{}".into(), finish, more: more.collect() });
    parts
}

/// Each call with its index, which documents leave out and streams need.
fn tool_calls(calls: &RawValue) -> Vec<Part> {
    let calls: Vec<&RawValue> = serde_json::from_str(calls.get()).unwrap_or_default();
    let parts = calls.into_iter().enumerate().filter_map(|(position, call)| {
        let call = Object::from_raw(call)?;
        let index = call.scalar("index").unwrap_or_else(|| position.to_string());
        let members = call.iter().filter(|(key, _)| *key != "index").map(|(key, value)| (key, value.get()));
        let call = object([("index", index.as_str())].into_iter().chain(members));
        Some(Part::delta(format!("{{\"tool_calls\":[{call}]}}")))
    });
    parts.collect()
}

/// A document is complete even where it does not say why it ended.
fn default_finish(message: &Object<'_>) -> &'static str {
    let calls = message.get("tool_calls").is_some_and(|calls| !is_empty(calls));
    if calls { "tool_calls" } else { "stop" }
}

fn is_empty(value: &RawValue) -> bool {
    matches!(value.get(), "null" | "\"\"" | "[]" | "{}")
}

fn chunk(stream: &mut String, reply: &Object<'_>, choice: &str, usage: Option<&RawValue>) {
    let choices = format!("[{choice}]");
    let head = reply.iter().filter(|(key, _)| !["choices", "usage", "object"].contains(key));
    let head = head.map(|(key, value)| (key, value.get()));
    let own = [("object", "\"chat.completion.chunk\""), ("choices", choices.as_str())];
    let usage = usage.map(|usage| ("usage", usage.get()));
    stream.push_str("data: ");
    stream.push_str(&object(head.chain(own).chain(usage)));
    stream.push_str("\n\n");
}
