//! What a model's name leads to, seen from the provider.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use stanchion_gateway::{config::Config, environment, gateway::Gateway};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tower::ServiceExt;

/// A provider that answers everything, and remembers what it was asked: path, and body.
#[derive(Clone)]
struct Provider {
    address: String,
    asked: Arc<Mutex<Vec<(String, String)>>>,
}

impl Provider {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let provider = Self { address: listener.local_addr().unwrap().to_string(), asked: Arc::default() };
        let asked = provider.asked.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut text = String::new();
                let mut buffer = [0; 4096];
                let whole = |text: &str| {
                    let (head, body) = text.split_once("\r\n\r\n")?;
                    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
                    (body.len() >= length.parse().unwrap())
                        .then(|| (head.split(' ').nth(1).unwrap_or_default().to_owned(), body.to_owned()))
                };
                let request = loop {
                    if let Some(request) = whole(&text) {
                        break request;
                    }
                    let count = stream.read(&mut buffer).await.unwrap();
                    text.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
                };
                let body = if request.0.contains("/messages") {
                    r#"{"type":"message","role":"assistant","content":[{"type":"text","text":"Hi."}],"stop_reason":"end_turn"}"#
                } else if request.0.contains("generateContent") {
                    r#"{"candidates":[{"content":{"parts":[{"text":"Hi."}]},"finishReason":"STOP"}]}"#
                } else {
                    r#"{"choices":[{"message":{"role":"assistant","content":"Hi."},"finish_reason":"stop"}]}"#
                };
                asked.lock().unwrap().push(request);
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
                let reply = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
                stream.write_all(reply.as_bytes()).await.unwrap();
            }
        });
        provider
    }

    /// What it was asked since it was asked last.
    fn asked(&self) -> Vec<(String, String)> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

async fn ask(gateway: &Gateway, path: &str, body: &str) -> (u16, String) {
    let request = Request::post(path).header("content-type", "application/json");
    let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
    let reply = gateway.edge.clone().oneshot(request).await.unwrap_or_else(|never| match never {});
    let status = reply.status().as_u16();
    let body = reply.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8_lossy(&body).into_owned())
}

async fn chat(gateway: &Gateway, model: &str) -> (u16, String) {
    ask(gateway, "/v1/chat/completions", &format!(r#"{{"n": 1, "model": "{model}", "messages": []}}"#)).await
}

fn configured(provider: &Provider) -> Gateway {
    let address = &provider.address;
    let text = format!(
        "[providers.open]\ndialect = \"openai\"\nbase_url = \"http://{address}/v1\"\npassthrough = true\n\
        [providers.closed]\ndialect = \"openai\"\nbase_url = \"http://{address}/v1\"\n\
        [providers.gem]\ndialect = \"gemini\"\nbase_url = \"http://{address}\"\npassthrough = true\n\
        [models.plain]\naliases = [\"latest\"]\nmatch = [\"plain-*\"]\ncandidates = [{{ provider = \"closed\" }}]\n\
        [models.fixed]\naliases = [\"last\"]\nmatch = [\"fixed-*\"]\n\
        candidates = [{{ provider = \"closed\", model = \"theirs\" }}]\n"
    );
    Gateway::new(&Config::parse("f", &text, &|_| None).unwrap(), None)
}

#[tokio::test]
async fn a_provider_is_asked_for_its_own_name_of_the_model() {
    let provider = Provider::start().await;
    let gateway = configured(&provider);
    for (asked, sent) in [
        ("plain", "plain"),
        ("latest", "plain"),
        ("plain-7", "plain-7"),
        ("fixed", "theirs"),
        ("last", "theirs"),
        ("fixed-x", "theirs"),
        ("open/any/thing", "any/thing"),
    ] {
        assert_eq!(chat(&gateway, asked).await.0, 200, "{asked}");
        // Every other byte stays.
        let body = format!(r#"{{"n": 1, "model": "{sent}", "messages": []}}"#);
        assert_eq!(provider.asked(), [("/v1/chat/completions".to_owned(), body)], "{asked}");
    }
    let path = "/v1beta/models/gem%2Fgemini-x:generateContent";
    assert_eq!(ask(&gateway, path, r#"{"contents":[]}"#).await.0, 200);
    let path = "/v1beta/models/gemini-x:generateContent".to_owned();
    assert_eq!(provider.asked(), [(path, r#"{"contents":[]}"#.to_owned())]);
}

#[tokio::test]
async fn what_leads_nowhere_is_told_with_all_there_is() {
    let provider = Provider::start().await;
    let gateway = configured(&provider);
    for asked in ["nobody", "closed/theirs", "Plain", "open/"] {
        let (status, told) = chat(&gateway, asked).await;
        assert_eq!(status, 404, "{asked}");
        let known = "there are: fixed, last, latest, plain, fixed-*, plain-*, gem/*, open/*";
        assert!(told.contains("model_not_found") && told.contains(known), "{told}");
    }
    let (status, told) = chat(&gateway, "gem/gemini-x").await;
    assert!(status == 400 && told.contains("dialect_mismatch") && told.contains("speak gemini"), "{told}");
    assert_eq!(provider.asked(), []);
}

#[tokio::test]
async fn without_a_configuration_the_table_chooses() {
    let provider = Provider::start().await;
    let at_hand = environment::candidates(&|name| {
        ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GROQ_API_KEY"].contains(&name).then(|| "sk-x".to_owned())
    });
    // The same providers, all of them here: the path says which one was asked.
    let at_hand = at_hand.into_iter().map(|known| {
        let base = format!("http://{}/{}", provider.address, known.provider());
        stanchion::core::Candidate::new(known.provider(), known.family(), base)
    });
    let gateway = Gateway::open_ended(at_hand.collect(), None);
    for (asked, path, sent) in [
        ("gpt-4o", "/openai/chat/completions", "gpt-4o"),
        ("llama-3", "/groq/chat/completions", "llama-3"),
        ("groq/openai/gpt-oss", "/groq/chat/completions", "openai/gpt-oss"),
    ] {
        assert_eq!(chat(&gateway, asked).await.0, 200, "{asked}");
        let body = format!(r#"{{"n": 1, "model": "{sent}", "messages": []}}"#);
        assert_eq!(provider.asked(), [(path.to_owned(), body)], "{asked}");
    }
    let claude = r#"{"model":"claude-x","max_tokens":1,"messages":[]}"#;
    assert_eq!(ask(&gateway, "/v1/messages", claude).await.0, 200);
    assert_eq!(provider.asked(), [("/anthropic/v1/messages".to_owned(), claude.to_owned())]);
    for (asked, status, told) in [
        ("claude-x", 400, "this is a model of anthropic, which speaks anthropic"),
        ("qwen-max", 404, "this is a model of dashscope, whose key is not set (DASHSCOPE_API_KEY)"),
        ("anything", 404, "say which provider is meant, as provider/model"),
        ("anything", 404, "keys are set for: anthropic (anthropic), openai (openai), groq (openai)"),
    ] {
        let (got, text) = chat(&gateway, asked).await;
        assert!(got == status && text.contains(told), "{asked}: {got} {text}");
    }
    let (status, told) = ask(&gateway, "/v1beta/models/gemini-x:generateContent", "{}").await;
    assert!(status == 400 && told.contains("no provider at hand speaks the dialect gemini-generate-content"), "{told}");
    assert_eq!(provider.asked(), []);
    assert_eq!(gateway.names.list(None)["patterns"], serde_json::json!(["anthropic/*", "groq/*", "openai/*"]));
}
