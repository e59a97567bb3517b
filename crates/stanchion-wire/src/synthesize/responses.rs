//! Responses: created, each item with its deltas, completed with the whole object.

use serde_json::value::RawValue;

use super::{event, object, quote, with};
use crate::error::object::Object;

pub(super) fn stream(document: &str, reply: &Object<'_>) -> Option<String> {
    if reply.text("object").is_some_and(|kind| kind != "response") {
        return None;
    }
    let items = reply.array("output")?;
    let end = match reply.text("status").as_deref() {
        Some("completed") | None => "response.completed",
        Some("incomplete") => "response.incomplete",
        // Failed, or still at work in the background: no complete reply.
        Some(_) => return None,
    };
    let mut events = Events::default();
    let begun = with(reply, &[("status", "\"in_progress\""), ("output", "[]"), ("usage", "null")]);
    events.send("response.created", &[("response", &begun)]);
    for (index, item) in items.into_iter().enumerate() {
        events.item(index, item)?;
    }
    events.send(end, &[("response", document)]);
    Some(events.stream)
}

#[derive(Default)]
struct Events {
    stream: String,
    sequence: u64,
}

/// Where in the reply something stands.
#[derive(Clone, Copy)]
struct Place<'a> {
    item: &'a str,
    output: &'a str,
    /// The name of the index of a part, and the index.
    part: Option<(&'a str, &'a str)>,
}

impl Events {
    fn send(&mut self, name: &str, members: &[(&str, &str)]) {
        let (kind, sequence) = (quote(name), self.sequence.to_string());
        let head = [("type", kind.as_str()), ("sequence_number", sequence.as_str())];
        event(&mut self.stream, name, &object(head.into_iter().chain(members.iter().copied())));
        self.sequence += 1;
    }

    fn at(&mut self, name: &str, place: Place<'_>, members: &[(&str, &str)]) {
        let mut all = vec![("item_id", place.item), ("output_index", place.output)];
        all.extend(place.part);
        all.extend_from_slice(members);
        self.send(name, &all);
    }

    fn item(&mut self, index: usize, raw: &RawValue) -> Option<()> {
        let item = Object::from_raw(raw)?;
        let output = index.to_string();
        let id = quote(&item.text("id").unwrap_or_default());
        let place = Place { item: &id, output: &output, part: None };
        let empty: &[(&str, &str)] = match item.text("type").as_deref() {
            Some("message") => &[("status", "\"in_progress\""), ("content", "[]")],
            Some("reasoning") if item.get("content").is_some() => &[("summary", "[]"), ("content", "[]")],
            Some("reasoning") => &[("summary", "[]")],
            Some("function_call" | "mcp_call") => &[("arguments", "\"\"")],
            Some("custom_tool_call") => &[("input", "\"\"")],
            _ => &[],
        };
        self.send("response.output_item.added", &[("output_index", &output), ("item", &with(&item, empty))]);
        match item.text("type").as_deref() {
            Some("message") => self.parts(place, item.array("content")?, "content_index"),
            Some("reasoning") => {
                self.parts(place, item.array("summary").unwrap_or_default(), "summary_index");
                self.parts(place, item.array("content").unwrap_or_default(), "content_index");
            }
            Some("function_call") => self.whole(place, "response.function_call_arguments", "arguments", &item),
            Some("mcp_call") => self.whole(place, "response.mcp_call_arguments", "arguments", &item),
            Some("custom_tool_call") => self.whole(place, "response.custom_tool_call_input", "input", &item),
            _ => {}
        }
        self.send("response.output_item.done", &[("output_index", &output), ("item", raw.get())]);
        Some(())
    }

    fn parts(&mut self, place: Place<'_>, parts: Vec<&RawValue>, index_name: &str) {
        for (index, raw) in parts.into_iter().enumerate() {
            let index = index.to_string();
            let place = Place { part: Some((index_name, &index)), ..place };
            let Some(part) = Object::from_raw(raw) else { continue };
            let kind = part.text("type");
            // The part's events, its text's events, and the key of the text.
            let (of_part, of_text, key) = match kind.as_deref() {
                Some("summary_text") => ("response.reasoning_summary_part", "response.reasoning_summary_text", "text"),
                Some("reasoning_text") => ("response.content_part", "response.reasoning_text", "text"),
                Some("refusal") => ("response.content_part", "response.refusal", "refusal"),
                _ => ("response.content_part", "response.output_text", "text"),
            };
            let told = part.get(key).map(RawValue::get);
            let begun: &[(&str, &str)] = if told.is_some() { &[(key, "\"\"")] } else { &[] };
            let annotated = if part.get("annotations").is_some() { &[("annotations", "[]")][..] } else { &[] };
            let begun = with(&part, &[begun, annotated].concat());
            self.at(&format!("{of_part}.added"), place, &[("part", &begun)]);
            if let Some(told) = told {
                let logprobs = part.get("logprobs").map_or("[]", RawValue::get);
                let logprobs = (of_text == "response.output_text").then_some(("logprobs", logprobs));
                let delta: Vec<_> = [("delta", told)].into_iter().chain(logprobs).collect();
                let done: Vec<_> = [(key, told)].into_iter().chain(logprobs).collect();
                self.at(&format!("{of_text}.delta"), place, &delta);
                self.at(&format!("{of_text}.done"), place, &done);
            }
            self.at(&format!("{of_part}.done"), place, &[("part", raw.get())]);
        }
    }

    /// A text that is the item's only part.
    fn whole(&mut self, place: Place<'_>, events: &str, key: &str, item: &Object<'_>) {
        let Some(told) = item.get(key).map(RawValue::get) else {
            return;
        };
        self.at(&format!("{events}.delta"), place, &[("delta", told)]);
        let name = item.get("name").map(|name| ("name", name.get()));
        let done: Vec<_> = [(key, told)].into_iter().chain(name).collect();
        self.at(&format!("{events}.done"), place, &done);
    }
}
