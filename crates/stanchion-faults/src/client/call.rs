//! One request, and its sending.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, timeout};

use super::receive::receive;
use super::{Reply, Transport};
use crate::headers::Headers;
use crate::http1::Incoming;
use crate::scenario::{Dialect, Later, Scenario};

/// What a client that pauses has room for, in bytes.
const SMALL_BUFFER: u32 = 16 << 10;

/// One request of a scenario's client.
#[derive(Debug, Clone)]
pub struct Call {
    /// Whom it asks.
    pub address: SocketAddr,
    /// The path with its query.
    pub path: String,
    /// Header fields beside the usual ones.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: Map<String, Value>,
    /// The wire.
    pub dialect: Dialect,
    /// Whether a stream is asked for.
    pub stream: bool,
    /// The client's own limit.
    pub give_up: Duration,
    /// The client leaves after so long.
    pub leave_after: Option<Duration>,
    /// The client leaves once so many events have come.
    pub leave_after_events: Option<usize>,
    /// Once so many events have come, the client reads nothing for so long.
    pub pause: Option<(usize, Duration)>,
}

impl Call {
    /// The scenario's first request, for `model`, with `prefix` before the wire's usual path.
    pub fn new(scenario: &Scenario, address: SocketAddr, model: &str, prefix: &str) -> Self {
        let request = &scenario.request;
        let mut body = default_body(scenario.dialect, model, scenario.stream);
        body.extend(request.body.clone());
        Self {
            address,
            path: format!("{prefix}{}", scenario.dialect.path(model, scenario.stream)),
            headers: request.headers.clone(),
            body,
            dialect: scenario.dialect,
            stream: scenario.stream,
            give_up: request.give_up,
            leave_after: request.leave_after.filter(|wait| !wait.is_zero()),
            leave_after_events: request.leave_after_events.filter(|&count| count > 0),
            pause: request.pause.map(|pause| (request.pause_after_events, pause)),
        }
    }

    /// A later request of the same scenario: the first one's body, but none of its additional header fields.
    #[must_use]
    pub fn later(mut self, later: &Later) -> Self {
        self.headers.clone_from(&later.headers);
        self.body.extend(later.body.clone());
        if let Some(leave_after) = later.leave_after {
            self.leave_after = Some(leave_after).filter(|wait| !wait.is_zero());
        }
        self
    }

    /// Adds a header field, unless the scenario has one of that name.
    #[must_use]
    pub fn default_header(mut self, name: &str, value: &str) -> Self {
        if !self.headers.keys().any(|known| known.eq_ignore_ascii_case(name)) {
            self.headers.insert(name.to_owned(), value.to_owned());
        }
        self
    }

    /// Asks, and waits until all has arrived, or the client has had enough.
    pub async fn send(&self) -> Reply {
        let mut reply = Reply::default();
        let limit = self.leave_after.unwrap_or(self.give_up);
        match timeout(limit, self.exchange(&mut reply)).await {
            Ok(Ok(())) => {}
            Ok(Err(transport)) => reply.transport = transport,
            Err(_) if self.leave_after.is_some() => reply.transport = Transport::GaveUp,
            Err(_) => reply.transport = Transport::Timeout,
        }
        reply.ended_at = Some(Instant::now());
        reply
    }

    async fn exchange(&self, reply: &mut Reply) -> Result<(), Transport> {
        let mut socket = self.connect().await.map_err(|_| Transport::Refused)?;
        // A request is one packet where it fits one.
        let _ = socket.set_nodelay(true);
        let exchange = async {
            socket.write_all(&self.wire()).await?;
            receive(&mut Incoming::new(&mut socket), self, reply).await
        };
        exchange.await.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => Transport::Truncated,
            _ => Transport::Reset,
        })
    }

    async fn connect(&self) -> io::Result<TcpStream> {
        let socket = if self.address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        if self.pause.is_some() {
            // What the system takes in for a client that does not read, no pause would hold up.
            socket.set_recv_buffer_size(SMALL_BUFFER)?;
        }
        socket.connect(self.address).await
    }

    /// The request, as it goes over the wire.
    fn wire(&self) -> Vec<u8> {
        let body = Value::Object(self.body.clone()).to_string();
        let mut headers = Headers::default();
        headers.set("host", &self.address.to_string());
        headers.set("content-type", "application/json");
        headers.set("content-length", &body.len().to_string());
        headers.set("accept", if self.stream { "text/event-stream" } else { "application/json" });
        for (name, value) in &self.headers {
            headers.set(name, value);
        }
        let mut wire = format!("POST {} HTTP/1.1\r\n", self.path);
        for (name, value) in headers.iter() {
            wire.extend([name, ": ", value, "\r\n"]);
        }
        wire.push_str("\r\n");
        wire.push_str(&body);
        wire.into_bytes()
    }
}

/// What a client says that has nothing particular to say.
fn default_body(dialect: Dialect, model: &str, stream: bool) -> Map<String, Value> {
    let messages = json!([{ "role": "user", "content": "hello" }]);
    let body = match dialect {
        Dialect::Anthropic => json!({ "model": model, "max_tokens": 256, "stream": stream, "messages": messages }),
        Dialect::OpenAiResponses => json!({ "model": model, "stream": stream, "input": "hello" }),
        Dialect::Gemini => json!({ "contents": [{ "role": "user", "parts": [{ "text": "hello" }] }] }),
        Dialect::OpenAiChat | Dialect::Ollama => json!({ "model": model, "stream": stream, "messages": messages }),
    };
    match body {
        Value::Object(body) => body,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::Call;
    use crate::scenario::{Later, Scenario};

    fn call(rest: &str) -> Call {
        let scenario = Scenario::parse("s", &format!("name = 's'\n{rest}")).unwrap();
        Call::new(&scenario, ([127, 0, 0, 1], 80).into(), "m", "/s/a")
    }

    #[test]
    fn each_wire_has_its_path_and_its_body() {
        for (rest, path, body) in [
            (
                "",
                "/s/a/v1/chat/completions",
                r#"{"messages":[{"content":"hello","role":"user"}],"model":"m","stream":true}"#,
            ),
            ("dialect = 'openai-responses'", "/s/a/v1/responses", r#"{"input":"hello","model":"m","stream":true}"#),
            (
                "dialect = 'anthropic'\nstream = false",
                "/s/a/v1/messages",
                r#"{"max_tokens":256,"messages":[{"content":"hello","role":"user"}],"model":"m","stream":false}"#,
            ),
            (
                "dialect = 'gemini'",
                "/s/a/v1beta/models/m:streamGenerateContent?alt=sse",
                r#"{"contents":[{"parts":[{"text":"hello"}],"role":"user"}]}"#,
            ),
            (
                "dialect = 'gemini'\nstream = false\nrequest.body.contents = []",
                "/s/a/v1beta/models/m:generateContent",
                r#"{"contents":[]}"#,
            ),
            (
                "dialect = 'ollama'\nrequest.body.messages = 1",
                "/s/a/api/chat",
                r#"{"messages":1,"model":"m","stream":true}"#,
            ),
        ] {
            let call = call(rest);
            assert_eq!(call.path, path);
            assert_eq!(serde_json::to_string(&call.body).unwrap(), body);
        }
    }

    #[test]
    fn the_scenarios_own_headers_win() {
        let call = call("request.headers = { Authorization = 'mine', Content-Type = 'x/y' }");
        let wire = String::from_utf8(call.default_header("authorization", "Bearer sk-x").wire()).unwrap();
        let head = "POST /s/a/v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:80\r\ncontent-length: 74\r\n\
            accept: text/event-stream\r\nauthorization: mine\r\ncontent-type: x/y\r\n\r\n{";
        assert!(wire.starts_with(head), "{wire}");
    }

    #[test]
    fn a_later_request_keeps_the_body_and_not_the_headers() {
        let mut later = Later::default();
        later.headers.insert("x-two".to_owned(), "2".to_owned());
        later.body.insert("stream".to_owned(), false.into());
        let call = call("request.headers = { x-one = '1' }\nrequest.body = { n = 2 }").later(&later);
        assert_eq!(call.headers.keys().collect::<Vec<_>>(), ["x-two"]);
        assert_eq!((call.body["n"].as_u64(), call.body["stream"].as_bool()), (Some(2), Some(false)));
    }
}
