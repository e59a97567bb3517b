//! Error objects in all the shapes that providers give them. Source: wire §1.4 (E1 to E8, E11, E14, E15), §3 to §19.

use http::StatusCode;
use serde_json::value::RawValue;

use super::{
    object::{Object, scalar},
    status,
};

/// How deep errors are unwrapped that stand inside of errors.
const DEPTH: usize = 4;
/// How much of the provider's words is kept.
const MESSAGE: usize = 16 * 1024;

/// What an error says, whatever its shape.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// Codes, types, statuses and reasons; the most specific first.
    pub(super) codes: Vec<String>,
    /// The status that a numeric code stands for.
    pub(super) status: Option<StatusCode>,
    /// The status of a failure further behind (Bedrock's `originalStatusCode`).
    pub(super) original: Option<StatusCode>,
    /// The provider's words.
    pub(super) message: Option<String>,
    /// More words, for classification alone: what the provider's own upstream said.
    pub(super) more: String,
    pub(super) request_id: Option<String>,
}

impl Report {
    /// An error that is plain text.
    pub(super) fn of_text(text: &str) -> Self {
        let mut report = Self::default();
        report.say(text);
        report
    }

    fn say(&mut self, text: &str) {
        let text = text.trim();
        if self.message.is_some() {
            self.add(text);
        } else if !text.is_empty() {
            self.message = Some(cut(text).to_owned());
        }
    }

    fn add(&mut self, text: &str) {
        self.more.push('\n');
        self.more.push_str(cut(text));
    }

    fn code(&mut self, code: String) {
        if self.status.is_none() {
            self.status = status::from_code(&code);
        }
        self.codes.push(code);
    }

    /// Reads an error object, and the errors inside it.
    fn collect(&mut self, error: &Object<'_>, depth: usize) {
        for key in ["code", "error_code", "status", "type", "reason", "error_type", "__type"] {
            if let Some(code) = error.scalar(key).filter(|code| !says_nothing(key, code)) {
                self.code(code);
            }
        }
        for key in ["message", "Message", "msg", "detail", "error_description", "errorMessage", "originalMessage"] {
            if let Some(raw) = error.get(key) {
                self.words(raw, depth);
            }
        }
        if let Some(original) = error.scalar("originalStatusCode") {
            self.original = status::from_code(&original);
        }
        if self.codes.iter().any(|code| code == "string_above_max_length") && error.text("param").is_some_and(is_prompt)
        {
            self.codes.push("prompt_too_long".into());
        }
        if self.request_id.is_none() {
            self.request_id = error.text("request_id").or_else(|| error.text("requestId"));
        }
        if depth == 0 {
            return;
        }
        for key in ["innererror", "inner_error", "error", "details", "metadata"] {
            if let Some(inner) = error.object(key) {
                self.collect(&inner, depth - 1);
            }
        }
        if let Some(metadata) = error.object("metadata") {
            self.openrouter(&metadata, depth);
        }
        for detail in error.array("details").into_iter().flatten().filter_map(Object::from_raw) {
            self.google(&detail);
        }
    }

    /// OpenRouter tells of the provider behind it.
    fn openrouter(&mut self, metadata: &Object<'_>, depth: usize) {
        self.codes.extend(metadata.text("limit_source"));
        if metadata.get("flagged_input").is_some() {
            self.codes.push("content_filter".into());
        }
        if let Some(raw) = metadata.text("raw") {
            self.inside(&raw, depth);
            self.add(&raw);
        }
    }

    /// Google's `ErrorInfo` has a reason, its `QuotaFailure` the ids of quotas. `RetryInfo` is a hint, read elsewhere.
    fn google(&mut self, detail: &Object<'_>) {
        self.codes.extend(detail.text("reason"));
        for violation in detail.array("violations").into_iter().flatten().filter_map(Object::from_raw) {
            self.codes.extend(violation.text("quotaId"));
        }
    }

    /// Words are a string, and sometimes an object or a list (FastAPI, Mistral).
    fn words(&mut self, raw: &RawValue, depth: usize) {
        if let Ok(text) = serde_json::from_str::<String>(raw.get()) {
            self.inside(&text, depth);
            self.say(&text);
        } else if let Some(object) = Object::from_raw(raw) {
            if depth > 0 {
                self.collect(&object, depth - 1);
            }
            self.say(raw.get());
        } else if let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(raw.get()) {
            let all: Vec<_> = items.iter().map(|item| item_text(item)).collect();
            self.say(&all.join("; "));
        }
    }

    /// A relay may put the whole error of its provider into the text of its own.
    fn inside(&mut self, text: &str, depth: usize) {
        let text = text.trim();
        if depth == 0 || !text.starts_with('{') {
            return;
        }
        if let Some(inner) = Object::parse(text) {
            let message = self.message.take();
            self.collect(&inner, depth - 1);
            let behind = std::mem::replace(&mut self.message, message);
            self.add(&behind.unwrap_or_default());
        }
    }
}

/// "error" and the names of events name no error, nor does an address (RFC 9457).
fn says_nothing(key: &str, code: &str) -> bool {
    matches!(code, "" | "error" | "failed" | "response.failed") || key == "type" && code.contains(':')
}

fn is_prompt(param: String) -> bool {
    ["messages", "input", "prompt", "contents"].iter().any(|name| param.starts_with(name))
}

/// `{"loc":["body","messages"],"msg":"field required"}` as "body.messages: field required". What was sent (`input`) is
/// left out.
fn item_text(item: &RawValue) -> String {
    let Some(object) = Object::from_raw(item) else {
        return scalar(item).unwrap_or_default();
    };
    let place: Vec<_> = object.array("loc").into_iter().flatten().filter_map(scalar).collect();
    let text = object.text("msg").or_else(|| object.text("message")).unwrap_or_default();
    if place.is_empty() { text } else { format!("{}: {text}", place.join(".")) }
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(MESSAGE);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Reads an error out of a JSON document. `certain` says that it is one, by its status or its event; else only what can
/// be nothing but an error counts.
pub(super) fn read(text: &str, certain: bool) -> Option<Report> {
    if text.starts_with('[') {
        let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
        return items.into_iter().find_map(|item| read_object(&Object::from_raw(item)?, certain));
    }
    read_object(&Object::parse(text)?, certain)
}

fn read_object(top: &Object<'_>, certain: bool) -> Option<Report> {
    let mut report = Report::default();
    let response = top.object("response");
    if let Some(error) = top.get("error").filter(|raw| is_truthy(raw)) {
        nested(&mut report, error, top);
    } else if let Some(error) =
        response.as_ref().and_then(|response| response.get("error")).filter(|raw| is_truthy(raw))
    {
        nested(&mut report, error, top);
    } else if certain || is_error(top) {
        flat(&mut report, top);
    } else {
        return None;
    }
    if report.request_id.is_none() {
        report.request_id = top.text("request_id").or_else(|| top.text("requestId"));
    }
    Some(report)
}

/// `{"error":{…}}`, `{"error":"text"}`, `{"code":"…","error":"text"}`.
fn nested(report: &mut Report, error: &RawValue, top: &Object<'_>) {
    if let Some(object) = Object::from_raw(error) {
        report.collect(&object, DEPTH);
    } else {
        report.words(error, DEPTH);
    }
    for key in ["code", "error_code", "status"] {
        match top.scalar(key) {
            // xAI's code is a sentence.
            Some(prose) if prose.contains(' ') => report.add(&prose),
            Some(code) if !code.is_empty() => report.code(code),
            _ => {}
        }
    }
    if let Some(words) = top.get("message").filter(|_| report.message.is_none()) {
        report.words(words, DEPTH);
    }
}

/// `{"type":"error","code","message"}`, `{"object":"error",…}`, `{"code","message"}`, `{"detail":…}`, `{"errors":[…]}`.
fn flat(report: &mut Report, top: &Object<'_>) {
    report.collect(top, DEPTH);
    for error in top.array("errors").into_iter().flatten() {
        match Object::from_raw(error) {
            Some(object) => report.collect(&object, DEPTH),
            None => report.words(error, DEPTH),
        }
    }
    // The numbers of Mistral and Cloudflare are not those of Z.AI.
    report.codes.retain(|code| status::from_code(code).is_some() || !code.bytes().all(|byte| byte.is_ascii_digit()));
}

/// Whether an object without `error` can be nothing but an error.
fn is_error(top: &Object<'_>) -> bool {
    if matches!(top.text("type").as_deref(), Some("error" | "response.failed"))
        || top.text("object").as_deref() == Some("error")
    {
        return true;
    }
    let success = |code: String| matches!(code.to_ascii_lowercase().as_str(), "" | "0" | "200" | "ok" | "success");
    let coded = top.scalar("code").is_some_and(|code| !success(code)) || top.text("__type").is_some();
    let answers = ["choices", "candidates", "content", "output", "delta", "done"];
    coded && (top.text("message").or(top.text("Message")).is_some()) && answers.iter().all(|key| top.get(key).is_none())
}

/// Whether a value of `error` is one, as the client libraries see it: not null, false, or empty.
fn is_truthy(raw: &RawValue) -> bool {
    let empty = |text: &str| matches!(text, "null" | "false" | "0" | "\"\"" | "{}" | "[]");
    raw.get().len() > 16 || !empty(&raw.get().split_whitespace().collect::<String>())
}
