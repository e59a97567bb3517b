//! What is kept of requests beyond the process, through the whole gateway and over real sockets.

mod binary;
#[cfg(feature = "otlp")]
mod otlp;
mod provider;
mod records;
mod traces;

use std::{
    fs,
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use stanchion_gateway::{
    config::Config,
    gateway::{Gateway, ModelBody, Parts},
};
use tower::ServiceExt;

use self::provider::Provider;

/// What stands in the requests and must not stand anywhere else.
const PLANTED: [&str; 8] = [
    "canary-key",
    "canary-prompt",
    "canary_tool",
    "canary-session",
    "canary-owner",
    "canary-user",
    provider::OUTPUT,
    provider::WORDS,
];

/// A folder that goes with its owner.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("stanchion-observed-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn records(&self, name: &str) -> Vec<Value> {
        self.text(name).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A model with two candidates at the provider, each of which is asked twice.
fn config(provider: &Provider, more: &str) -> String {
    format!(
        "[server]\ninline_keys = true\n[providers.openai]\ndialect = \"openai\"\nbase_url = \"http://{}/v1\"\napi_key = \"canary-key\"\n\
         [models.main]\ncandidates = [{{ provider = \"openai\", model = \"gpt-4o\" }}, {{ provider = \"openai\", model = \"gpt-4o-mini\" }}]\n\
         [defaults.retry]\nmax_retries = 1\nbase = \"50ms\"\n[defaults.circuit]\nopen = \"0s\"\n{more}\n",
        provider.address
    )
}

fn parse(text: &str) -> Config {
    Config::parse("test", text, &|_| None).unwrap_or_else(|error| panic!("{error}"))
}

/// The gateway of a configuration, as `serve` makes it.
fn serve(parts: &mut Parts, text: &str) -> Gateway {
    let config = parse(text);
    parts.open(&config).unwrap();
    parts.serve(config).0
}

/// A request's body, with something of everything that must not be kept.
fn body(model: &str) -> String {
    let body = serde_json::json!({
        "model": model,
        "stream": true,
        "stream_options": { "include_usage": true },
        "messages": [{ "role": "user", "content": "canary-prompt" }],
        "tools": [{ "type": "function", "function": { "name": "canary_tool", "parameters": {} } }],
        "user": "canary-user",
    });
    body.to_string()
}

fn request(model: &str, traceparent: Option<&str>) -> Request<Full<Bytes>> {
    let mut request = Request::post("/v1/chat/completions")
        .header("authorization", "Bearer canary-key")
        .header("x-stanchion-session", "canary-session")
        .header("x-stanchion-owner", "canary-owner");
    if let Some(traceparent) = traceparent {
        request = request.header("traceparent", traceparent);
    }
    request.body(Full::from(body(model))).unwrap()
}

async fn begin(gateway: &Gateway, model: &str, traceparent: Option<&str>) -> Response<ModelBody> {
    let Ok(reply) = gateway.edge.clone().oneshot(request(model, traceparent)).await;
    reply
}

/// Asks, and reads the reply to its end, however that is.
async fn ask(gateway: &Gateway, model: &str, traceparent: Option<&str>) -> String {
    let mut body = begin(gateway, model, traceparent).await.into_body();
    let mut text = String::new();
    while let Some(Ok(frame)) = body.frame().await {
        text.push_str(&String::from_utf8_lossy(frame.data_ref().map_or(b"", |data| data)));
    }
    text
}
