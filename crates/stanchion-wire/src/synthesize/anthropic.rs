//! Messages: the start, each block with its deltas, the stop reason with the usage, the end.

use serde_json::value::RawValue;

use super::{event, object, quote, with};
use crate::error::object::Object;

/// What a client library counts with where the document has no usage.
const NO_USAGE: &str = r#"{"input_tokens":0,"output_tokens":0}"#;

pub(super) fn stream(reply: &Object<'_>) -> Option<String> {
    if reply.text("type").is_some_and(|kind| kind != "message") {
        return None;
    }
    let blocks = reply.array("content")?;
    let usage = reply.get("usage").map_or(NO_USAGE, RawValue::get);
    let mut stream = String::new();
    let start = [("content", "[]"), ("stop_reason", "null"), ("stop_sequence", "null"), ("usage", usage)];
    send(&mut stream, "message_start", &[("message", &with(reply, &start))]);
    for (index, block) in blocks.into_iter().enumerate() {
        let block = Object::from_raw(block)?;
        let index = index.to_string();
        let (start, deltas) = tell(&block);
        send(&mut stream, "content_block_start", &[("index", &index), ("content_block", &start)]);
        for delta in deltas {
            send(&mut stream, "content_block_delta", &[("index", &index), ("delta", &delta)]);
        }
        send(&mut stream, "content_block_stop", &[("index", &index)]);
    }
    let reason = reply.get("stop_reason").map_or("\"end_turn\"", RawValue::get);
    let sequence = reply.get("stop_sequence").map_or("null", RawValue::get);
    let delta = object([("stop_reason", reason), ("stop_sequence", sequence)]);
    send(&mut stream, "message_delta", &[("delta", &delta), ("usage", usage)]);
    send(&mut stream, "message_stop", &[]);
    Some(stream)
}

/// A block as it starts, and the deltas that make it whole. A block without deltas of its own starts whole.
fn tell(block: &Object<'_>) -> (String, Vec<String>) {
    let told = |key: &str| block.get(key).map(RawValue::get).filter(|value| *value != "\"\"");
    let delta = |kind: &str, key: &str, value: &str| object([("type", quote(kind).as_str()), (key, value)]);
    match block.text("type").as_deref() {
        Some("text") => {
            let citations = block.array("citations");
            let mut deltas: Vec<_> = told("text").map(|text| delta("text_delta", "text", text)).into_iter().collect();
            for citation in citations.iter().flatten() {
                deltas.push(delta("citations_delta", "citation", citation.get()));
            }
            let empty = [("text", "\"\""), ("citations", "[]")];
            (with(block, &empty[..if citations.is_some() { 2 } else { 1 }]), deltas)
        }
        Some("thinking") => {
            let thinking = told("thinking").map(|text| delta("thinking_delta", "thinking", text));
            let signature = told("signature").map(|text| delta("signature_delta", "signature", text));
            (
                with(block, &[("thinking", "\"\""), ("signature", "\"\"")]),
                thinking.into_iter().chain(signature).collect(),
            )
        }
        Some("tool_use" | "server_tool_use" | "mcp_tool_use") => {
            let input = told("input").map(|input| delta("input_json_delta", "partial_json", &quote(input)));
            (with(block, &[("input", "{}")]), input.into_iter().collect())
        }
        _ => (with(block, &[]), Vec::new()),
    }
}

fn send(stream: &mut String, name: &str, members: &[(&str, &str)]) {
    let kind = quote(name);
    event(stream, name, &object([("type", kind.as_str())].into_iter().chain(members.iter().copied())));
}
