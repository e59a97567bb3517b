//! The scripts that most tests are made of.

use std::time::Duration;

use serde_json::{Value, json};
use stanchion_faults::scenario::{End, Script, Step};

/// Status 200 and these steps, with a proper end.
pub fn stream(steps: impl IntoIterator<Item = Step>) -> Script {
    Script { body: steps.into_iter().collect(), ..Script::default() }
}

/// The same with another end.
pub fn ending(end: End, steps: impl IntoIterator<Item = Step>) -> Script {
    Script { end, ..stream(steps) }
}

/// A status with a JSON body.
pub fn json(status: u16, body: &str) -> Script {
    Script { status, ..stream([Step::text(body)]) }.with("content-type", "application/json")
}

/// A status with a JSON body and one more header field.
pub fn refusal(status: u16, name: &str, value: &str) -> Script {
    json(status, r#"{"error":{"message":"not now"}}"#).with(name, value)
}

/// Header fields of a script.
pub trait WithHeader {
    /// Adds one.
    #[must_use]
    fn with(self, name: &str, value: &str) -> Self;
}

impl WithHeader for Script {
    fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(name.to_owned(), value.to_owned());
        self
    }
}

/// So many seconds.
pub const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// So many milliseconds.
pub const fn millis(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn chunk(delta: &Value, finish: Option<&str>) -> Step {
    Step::sse(json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] }).to_string())
}

/// Chat: the delta that names the role, and shows nothing.
pub fn role() -> Step {
    chunk(&json!({ "role": "assistant", "content": "" }), None)
}

/// Chat: a delta with text.
pub fn text(content: &str) -> Step {
    chunk(&json!({ "content": content }), None)
}

/// Chat: a delta with a piece of a tool call.
pub fn tool(arguments: &str) -> Step {
    let function = json!({ "name": "write_file", "arguments": arguments });
    chunk(&json!({ "tool_calls": [{ "index": 0, "id": "c1", "type": "function", "function": function }] }), None)
}

/// Chat: the finish.
pub fn finish(reason: &str) -> Step {
    chunk(&json!({}), Some(reason))
}

/// Chat: the end marker.
pub fn done() -> Step {
    Step::sse("[DONE]")
}

/// Chat: a whole answer, which says "ok".
pub fn ok() -> Script {
    stream([role(), text("ok"), finish("stop"), done()])
}

/// A named event whose data repeats its name as its type, with further members.
pub fn event(kind: &str, more: &Value) -> Step {
    let mut data = json!({ "type": kind });
    if let (Value::Object(data), Value::Object(more)) = (&mut data, more) {
        data.extend(more.clone());
    }
    Step::event(kind, data.to_string())
}

/// Anthropic: the events of a message.
pub mod anthropic {
    use serde_json::{Value, json};
    use stanchion_faults::scenario::{Script, Step};

    use super::event;

    /// The message begins.
    pub fn start() -> Step {
        let usage = json!({ "input_tokens": 10, "output_tokens": 1 });
        let message = json!({ "id": "msg_1", "role": "assistant", "content": [], "usage": usage });
        event("message_start", &json!({ "message": message }))
    }

    /// A block begins.
    pub fn block(index: u64, block: &Value) -> Step {
        event("content_block_start", &json!({ "index": index, "content_block": block }))
    }

    /// A piece of a block.
    pub fn delta(index: u64, delta: &Value) -> Step {
        event("content_block_delta", &json!({ "index": index, "delta": delta }))
    }

    /// A piece of text.
    pub fn text(index: u64, text: &str) -> Step {
        delta(index, &json!({ "type": "text_delta", "text": text }))
    }

    /// A block ends.
    pub fn stop(index: u64) -> Step {
        event("content_block_stop", &json!({ "index": index }))
    }

    /// A sign of life, and no more.
    pub fn ping() -> Step {
        event("ping", &json!({}))
    }

    /// The finish and the end marker.
    pub fn end() -> [Step; 2] {
        let finish = json!({ "delta": { "stop_reason": "end_turn" }, "usage": { "output_tokens": 2 } });
        [event("message_delta", &finish), event("message_stop", &json!({}))]
    }

    /// A whole answer, which says "ok".
    pub fn ok() -> Script {
        let block = block(0, &json!({ "type": "text", "text": "" }));
        super::stream([start(), block, text(0, "ok"), stop(0)].into_iter().chain(end()))
    }
}

/// Responses: the events of a response.
pub mod responses {
    use serde_json::{Value, json};
    use stanchion_faults::scenario::Step;

    use super::event;

    /// The two lifecycle events that come first. Their `error` is null, and none.
    pub fn start() -> [Step; 2] {
        let response = json!({ "response": { "id": "resp_1", "status": "in_progress", "error": null, "output": [] } });
        [event("response.created", &response), event("response.in_progress", &response)]
    }

    /// A piece of text.
    pub fn text(delta: &str) -> Step {
        event("response.output_text.delta", &json!({ "delta": delta }))
    }

    /// The end, with usage.
    pub fn completed() -> Step {
        end("completed", &json!({ "input_tokens": 1, "output_tokens": 1 }))
    }

    /// An end of this status, with this usage.
    pub fn end(status: &str, usage: &Value) -> Step {
        let response = json!({ "status": status, "error": null, "usage": usage });
        event(&format!("response.{status}"), &json!({ "response": response }))
    }
}
