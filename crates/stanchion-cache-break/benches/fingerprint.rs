//! What it costs to read a request of 1 MB with 200 tools, to judge its reply, and to pass a request that has no
//! session.
//!
//! `cargo bench -p stanchion-cache-break`. Each line is the best of several runs.

use std::{
    fmt::Write,
    hint::black_box,
    pin::pin,
    task::{Context as Wakes, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use stanchion_cache_break::{
    CacheBreakLayer, CacheBreakPolicy, Fingerprint, FingerprintBounds, Monitor, Observation, SessionKey,
};
use stanchion_core::{CacheRetention, Call, Context, Dialect, Failure, Usage};
use stanchion_wire::request::with_cache_retention;
use tokio::time::Instant;
use tower::{Layer, Service, service_fn};

const SIZE: usize = 1024 * 1024;
const TOOLS: usize = 200;

fn main() {
    // What `cargo test` passes to a target without a harness; a smoke test is enough then.
    let runs = if std::env::args().any(|argument| argument == "--bench") { 200 } else { 2 };
    let dialects =
        [Dialect::OpenAiChat, Dialect::OpenAiResponses, Dialect::AnthropicMessages, Dialect::GeminiGenerateContent];
    for dialect in dialects {
        let body = body(dialect);
        let cost = best(runs, || read(dialect, &body));
        println!("{dialect}: {} bytes, {TOOLS} tools: {:.2} ms", body.len(), milliseconds(cost));
    }
    let schemas = tools(Dialect::AnthropicMessages, TOOLS * 18);
    let cost = best(runs, || read(Dialect::AnthropicMessages, &schemas));
    println!("nothing but schemas: {} bytes: {:.2} ms", schemas.len(), milliseconds(cost));

    let body = body(Dialect::AnthropicMessages);
    let cost = best(runs, || with_cache_retention(Dialect::AnthropicMessages, &body, CacheRetention::Long));
    println!("retention written into the same: {:.2} ms", milliseconds(cost));

    let fingerprint = read(Dialect::AnthropicMessages, &body).expect("it is read");
    let mut monitor = Monitor::new(CacheBreakPolicy::default());
    let mut reads = 0;
    let cost = best(runs, || {
        reads = 6_000 - reads;
        let usage = Usage { input: Some(200_000), cache_read: Some(reads), ..Usage::default() };
        monitor.observe(SessionKey::new(None, "s"), Observation::new(fingerprint.clone(), usage), Instant::now())
    });
    println!("judged: {:.2} ms", milliseconds(cost));

    let bare = best(runs, || served(|service| service));
    let layer = CacheBreakLayer::default();
    let layered = best(runs, || served(|service| layer.layer(service)));
    println!("{REQUESTS} requests without a session: {bare:?} bare, {layered:?} with the layer");
}

fn best<T>(runs: usize, mut run: impl FnMut() -> T) -> Duration {
    let timed = |_| {
        let began = Instant::now();
        black_box(run());
        began.elapsed()
    };
    (0..runs).map(timed).min().unwrap_or_default()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn read(dialect: Dialect, body: &[u8]) -> Option<Fingerprint> {
    Fingerprint::read(dialect, black_box(body), FingerprintBounds::default())
}

/// As an agent's body is: tools with schemas, a system prompt, and turns with escapes in them.
fn body(dialect: Dialect) -> Bytes {
    let mut body = String::from_utf8(tools(dialect, TOOLS).to_vec()).expect("text");
    body.pop();
    let (system, messages, content) = match dialect {
        Dialect::OpenAiResponses => ("instructions", "input", "content"),
        Dialect::GeminiGenerateContent => ("systemInstruction", "contents", "parts"),
        _ => ("system", "messages", "content"),
    };
    let line = r#"    let \"quoted\" = read(&path)?;\n\tif it.is_empty() { return Ok(None); }\n"#;
    write!(body, r#","{system}":[{{"type":"text","text":"{}"}}],"{messages}":["#, line.repeat(200)).expect("memory");
    let mut role = "user";
    while body.len() < SIZE {
        write!(body, r#"{{"role":"{role}","{content}":[{{"type":"text","text":"{}"}}]}},"#, line.repeat(20))
            .expect("memory");
        role = if role == "user" { "assistant" } else { "user" };
    }
    body.pop();
    body.push_str("]}");
    body.into()
}

fn tools(dialect: Dialect, count: usize) -> Bytes {
    let tool = |number: usize| {
        let schema = r#"{"type":"object","properties":{"path":{"type":"string","description":"An absolute path."},"limit":{"type":"integer","minimum":1,"maximum":2000},"mode":{"enum":["read","write"]}},"required":["path"]}"#;
        let contract = format!(r#""name":"tool_{number}","description":"Reads a file and shows a part of it.""#);
        match dialect {
            Dialect::OpenAiChat => {
                format!(r#"{{"type":"function","function":{{{contract},"parameters":{schema}}}}}"#)
            }
            Dialect::AnthropicMessages => format!(r#"{{{contract},"input_schema":{schema}}}"#),
            _ => format!(r#"{{"type":"function",{contract},"parameters":{schema}}}"#),
        }
    };
    let tools = (0..count).map(tool).collect::<Vec<_>>().join(",");
    let tools = match dialect {
        Dialect::GeminiGenerateContent => format!(r#"{{"functionDeclarations":[{tools}]}}"#),
        _ => tools,
    };
    format!(r#"{{"model":"m","max_tokens":4096,"tools":[{tools}]}}"#).into()
}

const REQUESTS: usize = 10_000;

type Answer = std::future::Ready<Result<Response<Full<Bytes>>, Failure>>;
type Inner = tower::util::ServiceFn<fn(Request<Full<Bytes>>) -> Answer>;

fn answer(_: Request<Full<Bytes>>) -> Answer {
    std::future::ready(Ok(Response::new(Full::default())))
}

fn served<S, R>(layered: impl Fn(Inner) -> S)
where
    S: Service<Request<Full<Bytes>>, Response = Response<R>, Error = Failure>,
{
    let mut service = layered(service_fn(answer as fn(Request<Full<Bytes>>) -> Answer));
    let mut cx = Wakes::from_waker(Waker::noop());
    let context = Context::default();
    for _ in 0..REQUESTS {
        let mut request = Request::new(Full::new(Bytes::from_static(b"{}")));
        request.extensions_mut().insert(context.clone());
        request.extensions_mut().insert(Call::new(Dialect::AnthropicMessages, true));
        match pin!(service.call(request)).poll(&mut cx) {
            Poll::Ready(response) => drop(black_box(response)),
            Poll::Pending => unreachable!("it answers at once"),
        }
    }
}
