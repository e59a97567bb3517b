//! OpenAI Chat Completions and everything that imitates it.

use std::sync::LazyLock;

use memchr::{memchr, memmem::Finder};
use stanchion_core::{Dialect, FinishReason};

use super::{FrameClass, Reading, State, around::Around, finish_fault, is_filled, scan::Cursor, usage};
use crate::json::Value;

static DELTA: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"delta\""));
static FINISH: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"finish_reason\""));
static USAGE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"usage\""));
static ERROR: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"error\""));
static GROQ: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"x_groq\""));
static INDEX: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"index\""));

/// Knows a chunk of one choice whose delta has text or a piece of a tool call and that says nothing else: no error, no finish, no
/// usage. Says which choice it is, and how many bytes of text it has. Remembers what is around a text.
pub(super) fn scan(data: &[u8], around: &mut Around) -> Option<(u64, usize)> {
    if let Some(known) = around.recognise(data) {
        return Some(known);
    }
    if data.first() != Some(&b'{') || data.last() != Some(&b'}') {
        return None;
    }
    let delta = DELTA.find(data)?;
    let mut cursor = Cursor::new(data, delta + DELTA.needle().len());
    cursor.eat(b":")?;
    cursor.eat(b"{")?;
    let (output_from, output_to, told) = loop {
        let key = cursor.key()?;
        let mut ahead = cursor;
        let told = match key {
            b"tool_calls" => tool_call(&mut ahead)?,
            b"content" | b"reasoning_content" | b"reasoning" | b"refusal" => Told::text(&mut ahead)?,
            b"role" => {
                Told::text(&mut ahead)?;
                Told::default()
            }
            _ => return None,
        };
        if told.length > 0 {
            break (cursor.at(), ahead.at(), told);
        }
        cursor = ahead;
        cursor.eat(b",")?;
    };
    // Outside of the output: anything but nulls sends the frame to the parser, and so does any escape, which could hide a key.
    let outside = [&data[..output_from], &data[output_to..]];
    let plain = outside.into_iter().all(|part| {
        memchr(b'\\', part).is_none()
            && ERROR.find(part).is_none()
            && GROQ.find(part).is_none()
            && every_value_is(&FINISH, part, b"null")
            && every_value_is(&USAGE, part, b"null")
    });
    // One delta, so that the index is its own.
    let alone = DELTA.find(outside[1]).is_none();
    if !plain || !alone {
        return None;
    }
    let choice = only_index(outside)?;
    if let Some(text) = told.text {
        around.remember(data, choice, text);
    }
    Some((choice, told.length))
}

/// What a member of a delta tells.
#[derive(Default)]
struct Told {
    /// How many bytes of text.
    length: usize,
    /// Where it stands, without its quotes, if it is one text.
    text: Option<(usize, usize)>,
}

impl Told {
    /// Moves over a string or a null.
    fn text(cursor: &mut Cursor<'_>) -> Option<Self> {
        if cursor.eat(b"null").is_some() {
            return Some(Self::default());
        }
        let length = cursor.string()?.0.len();
        let end = cursor.at() - 1;
        Some(Self { length, text: (length > 0).then_some((end - length, end)) })
    }
}

/// Moves over a list of one plain tool call: what it tells of a name or of its arguments.
fn tool_call(cursor: &mut Cursor<'_>) -> Option<Told> {
    cursor.eat(b"[")?;
    cursor.eat(b"{")?;
    let mut told = Told::default();
    loop {
        match cursor.key()? {
            b"index" => {
                cursor.number()?;
            }
            b"id" | b"type" => {
                Told::text(cursor)?;
            }
            b"function" => {
                cursor.eat(b"{")?;
                loop {
                    match cursor.key()? {
                        b"name" | b"arguments" => {
                            let more = Told::text(cursor)?;
                            told.text =
                                if told.length == 0 { more.text } else { told.text.filter(|_| more.length == 0) };
                            told.length += more.length;
                        }
                        _ => return None,
                    }
                    if cursor.eat(b",").is_none() {
                        break;
                    }
                }
                cursor.eat(b"}")?;
            }
            _ => return None,
        }
        if cursor.eat(b",").is_none() {
            break;
        }
    }
    cursor.eat(b"}")?;
    cursor.eat(b"]")?;
    Some(told)
}

/// The index of the one choice; 0 if none is given. With more than one index a parser has to tell whose they are.
fn only_index(parts: [&[u8]; 2]) -> Option<u64> {
    let mut found = parts.into_iter().flat_map(|part| INDEX.find_iter(part).map(move |at| (part, at)));
    let Some((part, at)) = found.next() else { return Some(0) };
    let mut cursor = Cursor::new(part, at + INDEX.needle().len());
    cursor.eat(b":")?;
    let index = cursor.number()?;
    let ends = matches!(part.get(cursor.at()), Some(b',' | b'}' | b' '));
    // Another number than 0 has to be the choice's own, which stands at its very front.
    let before = part[..at].trim_ascii_end().strip_suffix(b"{").unwrap_or_default();
    let own = index == 0 || before.trim_ascii_end().ends_with(b"[");
    (found.next().is_none() && ends && own).then_some(index)
}

/// Whether each occurrence of a key has exactly this plain value.
fn every_value_is(key: &Finder<'_>, text: &[u8], value: &[u8]) -> bool {
    key.find_iter(text).all(|found| {
        let mut cursor = Cursor::new(text, found + key.needle().len());
        cursor.eat(b":").is_some()
            && cursor.eat(value).is_some()
            && matches!(text.get(cursor.at()), Some(b',' | b'}' | b' '))
    })
}

pub(super) fn parse(state: &mut State, chunk: &Value<'_>) -> Reading {
    let mut reading = Reading::of(FrameClass::Meta);
    if let Some(counts) = chunk.get("usage").and_then(usage::openai) {
        reading.usage = Some(counts);
    }
    if let Some(groq) = chunk.get("x_groq") {
        if let Some(told) = groq.get("error").filter(|error| is_filled(error)) {
            let text = told.as_str().unwrap_or("stream stopped early");
            let failure = stanchion_core::Failure::new(stanchion_core::FailureKind::ServerError)
                .with_phase(stanchion_core::Phase::BeforeOutput)
                .with_message(text);
            return Reading::fault(failure, false);
        }
        if reading.usage.is_none() {
            reading.usage = groq.get("usage").and_then(usage::openai);
        }
    }
    let Some(choices) = chunk.get("choices").and_then(Value::as_array) else {
        // No chunk that we know. Bare ids and usage are harmless; anything else might be an answer.
        if reading.usage.is_some() {
            reading.raise(FrameClass::Usage);
            reading.only_usage = !adds_more(chunk);
            return reading;
        }
        return Reading { usage: reading.usage, ..Reading::of(FrameClass::Unknown) };
    };
    for choice in choices {
        let index = choice.get("index").and_then(Value::as_u64).unwrap_or(0);
        if choice.get("delta").or(choice.get("message")).is_some_and(has_output)
            || choice.get("text").is_some_and(is_filled)
        {
            reading.raise(FrameClass::Output);
        }
        if reading.usage.is_none() {
            reading.usage = choice.get("usage").and_then(usage::openai);
        }
        let annotates = choice.get("delta").is_none() && choice.get("content_filter_results").is_some();
        if !annotates {
            state.open(index);
        }
        // DashScope writes the string "null" while a choice is open.
        let Some(reason) = choice
            .get("finish_reason")
            .and_then(Value::as_str)
            .filter(|reason| !reason.is_empty() && *reason != "null")
        else {
            continue;
        };
        // OpenRouter hides a fault of the provider behind a benign reason.
        let native = choice.get("native_finish_reason").and_then(Value::as_str).unwrap_or("");
        if let Some(failure) =
            finish_fault(Dialect::OpenAiChat, reason).or_else(|| finish_fault(Dialect::OpenAiChat, native))
        {
            let mut fault = Reading::fault(failure, false);
            fault.output = reading.output;
            fault.usage = reading.usage;
            return fault;
        }
        reading.raise(FrameClass::Finish);
        if let Some(reason) = state.finish(index, finish_reason(reason)) {
            reading.finish = Some(reason);
        }
    }
    if reading.usage.is_some() {
        reading.raise(FrameClass::Usage);
        reading.only_usage = choices.is_empty() && !adds_more(chunk);
    }
    reading
}

/// Whether a chunk without choices holds anything besides its usage and what every chunk has: citations, a verdict of a
/// filter, or whatever else a provider thinks of.
fn adds_more(chunk: &Value<'_>) -> bool {
    const OF_EVERY_CHUNK: [&str; 11] = [
        "id",
        "object",
        "created",
        "model",
        "system_fingerprint",
        "service_tier",
        "choices",
        "usage",
        "obfuscation",
        "provider",
        "x_groq",
    ];
    let Some(members) = chunk.as_object() else { return true };
    members.iter().any(|(key, value)| !OF_EVERY_CHUNK.contains(&key) && is_filled(value))
}

/// Whether a delta or message holds anything that a client could show or act on.
pub(super) fn has_output(delta: &Value<'_>) -> bool {
    let Some(members) = delta.as_object() else { return false };
    members.iter().any(|(key, value)| match key {
        "role" | "obfuscation" | "name" | "id" => false,
        "tool_calls" => value.as_array().is_some_and(|calls| calls.iter().any(is_tool_output)),
        "function_call" => is_tool_output(value),
        // A part of a list has a type even when it has no text.
        "content" | "reasoning_details" => {
            value.as_array().map_or_else(|| is_filled(value), |parts| parts.iter().any(has_text))
        }
        _ => is_filled(value),
    })
}

/// A tool call's name or any piece of its arguments; an index and an id alone are structure.
fn is_tool_output(call: &Value<'_>) -> bool {
    let Some(members) = call.as_object() else { return false };
    let told =
        |value: &Value<'_>| ["name", "arguments", "input"].iter().any(|key| value.get(key).is_some_and(is_filled));
    told(call) || members.values().any(told)
}

fn has_text(part: &Value<'_>) -> bool {
    match part {
        Value::String(text) => !text.is_empty(),
        Value::Object(members) => members.iter().any(|(key, value)| {
            !matches!(key, "type" | "index" | "id" | "format")
                && (value.as_str().is_some_and(|text| !text.is_empty()) || has_text(value))
        }),
        Value::Array(parts) => parts.iter().any(has_text),
        _ => false,
    }
}

pub(super) fn finish_reason(reason: &str) -> FinishReason {
    match reason {
        "stop" | "eos" | "end_turn" | "stop_sequence" => FinishReason::Stop,
        "length" | "max_tokens" | "model_length" | "model_context_window_exceeded" => FinishReason::Length,
        "tool_calls" | "function_call" | "tool_use" => FinishReason::ToolCalls,
        "content_filter" | "sensitive" | "safety" | "refusal" => FinishReason::ContentFilter,
        _ => FinishReason::Other,
    }
}
