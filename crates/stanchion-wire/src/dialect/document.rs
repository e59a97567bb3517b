//! A reply that comes as one JSON document.

use std::time::SystemTime;

use stanchion_core::{Dialect, Failure, FailureKind, FinishReason, Phase};

use super::{
    FrameClass, Reading, anthropic, finish_fault, gemini, has_error, is_filled, ollama, openai_chat, openai_responses,
    readable, skim::skim, text, usage,
};
use crate::{error, json::Value};

/// Reads a whole reply. What cannot be read, holds an error or holds nothing is a fault; what is read is output and terminal.
///
/// A document of a shape that the dialect does not know is let through: only what is certainly broken is refused.
pub fn read_document(dialect: Dialect, document: &[u8]) -> Reading {
    let text = document.trim_ascii();
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text).trim_ascii();
    let fault = |kind| Reading::fault(Failure::new(kind).with_phase(Phase::BeforeOutput), false);
    match text.first() {
        None => return fault(FailureKind::EmptyReply),
        Some(b'<') => return fault(FailureKind::NotModelReply),
        Some(_) => {}
    }
    skim(dialect, text).unwrap_or_else(|| parse(dialect, text))
}

/// The full reading, which defines what a document means.
pub(super) fn parse(dialect: Dialect, text: &[u8]) -> Reading {
    let fault = |kind| Reading::fault(Failure::new(kind).with_phase(Phase::BeforeOutput), false);
    let readable = readable(text);
    let Some(value) = Value::parse(&readable) else { return fault(FailureKind::MalformedReply) };
    if (has_error(None, &value) || value.get("object").is_none() && value.get("code").is_some())
        && let Some(failure) = error::in_band(dialect, None, text, None, SystemTime::now())
    {
        return Reading::fault(failure, false);
    }
    // A reply is an object; only Gemini's may be a list of them.
    let is_list = value.as_array().is_some() && dialect == Dialect::GeminiGenerateContent;
    if !(value.as_object().is_some() || is_list) {
        return fault(FailureKind::MalformedReply);
    }
    let mut reading = Reading::of(FrameClass::Terminal);
    let reply = match dialect {
        Dialect::OpenAiChat => chat(&mut reading, &value),
        Dialect::OpenAiResponses => responses(&mut reading, &value),
        Dialect::AnthropicMessages => messages(&mut reading, &value),
        Dialect::GeminiGenerateContent => generated(&mut reading, &value),
        Dialect::Ollama => {
            reading.usage = usage::ollama(&value);
            reading.finish = Some(ollama::done_reason(&value));
            Reply::Some
        }
        _ => {
            reading.usage = value.get("usage").and_then(usage::openai);
            Reply::Some
        }
    };
    if reading.usage.is_none_or(|usage| usage.output.is_none()) {
        reading.text_bytes = text::bytes(&value);
    }
    match reply {
        Reply::Some => reading.raise(FrameClass::Output),
        Reply::Empty => return Reading { usage: reading.usage, ..fault(FailureKind::EmptyReply) },
        Reply::Fault(failure) => return Reading { usage: reading.usage, ..Reading::fault(failure, false) },
    }
    reading
}

enum Reply {
    Some,
    Empty,
    Fault(Failure),
}

fn chat(reading: &mut Reading, value: &Value<'_>) -> Reply {
    reading.usage = value.get("usage").and_then(usage::openai);
    let Some(choices) = value.get("choices") else { return Reply::Some };
    let Some(choices) = choices.as_array().filter(|choices| !choices.is_empty()) else { return Reply::Empty };
    for choice in choices {
        let reason = choice.get("finish_reason").and_then(Value::as_str).unwrap_or("");
        if let Some(failure) = finish_fault(Dialect::OpenAiChat, reason) {
            return Reply::Fault(failure);
        }
        reading.finish = Some(openai_chat::finish_reason(reason));
        // An answer without content is a legal one only if the model says that it has finished.
        let filled =
            choice.get("message").is_some_and(openai_chat::has_output) || choice.get("text").is_some_and(is_filled);
        if !filled && reason.is_empty() {
            return Reply::Empty;
        }
    }
    Reply::Some
}

fn responses(reading: &mut Reading, value: &Value<'_>) -> Reply {
    reading.usage = value.get("usage").and_then(usage::openai);
    let status = value.get("status").and_then(Value::as_str).unwrap_or("completed");
    reading.finish = Some(openai_responses::finish_reason(status, value));
    let empty = value.get("output").and_then(Value::as_array).is_some_and(Vec::is_empty);
    if status == "completed" && empty { Reply::Empty } else { Reply::Some }
}

fn messages(reading: &mut Reading, value: &Value<'_>) -> Reply {
    reading.usage = value.get("usage").and_then(usage::anthropic);
    let reason = value.get("stop_reason").and_then(Value::as_str);
    reading.finish = reason.map(anthropic::stop_reason);
    let empty = value.get("content").and_then(Value::as_array).is_some_and(Vec::is_empty);
    if empty && reason.is_none() { Reply::Empty } else { Reply::Some }
}

fn generated(reading: &mut Reading, value: &Value<'_>) -> Reply {
    reading.usage = value.get("usageMetadata").and_then(usage::gemini);
    if value.get("promptFeedback").and_then(|feedback| feedback.get("blockReason")).is_some_and(is_filled) {
        reading.finish = Some(FinishReason::ContentFilter);
        return Reply::Some;
    }
    let Some(candidates) = value.get("candidates") else { return Reply::Some };
    let Some(candidates) = candidates.as_array().filter(|candidates| !candidates.is_empty()) else {
        return Reply::Empty;
    };
    for candidate in candidates {
        let reason = candidate.get("finishReason").and_then(Value::as_str).unwrap_or("");
        if let Some(failure) = finish_fault(Dialect::GeminiGenerateContent, reason) {
            return Reply::Fault(failure);
        }
        reading.finish = Some(gemini::finish_reason(reason));
        let parts = candidate.get("content").and_then(|content| content.get("parts")).and_then(Value::as_array);
        if reason.is_empty() && !parts.into_iter().flatten().any(gemini::is_output) {
            return Reply::Empty;
        }
    }
    Reply::Some
}
