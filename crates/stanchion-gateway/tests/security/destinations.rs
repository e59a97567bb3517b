//! Nothing in a request changes where the gateway connects to.

use crate::peers::{Listening, Provider, chat, config, statuses};

/// A provider, a gateway before it, and somebody whom the gateway has no business with.
struct World {
    provider: Provider,
    gateway: Listening,
    trap: Provider,
}

impl World {
    async fn with(provider: Provider) -> Self {
        let trap = Provider::start().await;
        let more = format!(
            "[providers.open]\ndialect = \"openai\"\nbase_url = \"http://{0}/v1\"\npassthrough = true\n\
            [providers.gem]\ndialect = \"gemini\"\nbase_url = \"http://{0}/base\"\npassthrough = true\n",
            provider.address
        );
        let gateway = Listening::configured(&(config("", &provider) + &more)).await;
        Self { provider, gateway, trap }
    }

    /// The replies to these bytes, and what the provider was asked for, each as line and host.
    async fn send(&self, bytes: &str) -> (String, Vec<(String, String)>) {
        let mut client = self.gateway.connect().await;
        client.send(bytes).await;
        let replies = client.rest().await;
        let asked = self.provider.asked().into_iter().map(|asked| {
            let line = asked.lines().next().unwrap_or_default().to_owned();
            let host = asked.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default().to_owned();
            (line, host)
        });
        (replies, asked.collect())
    }

    /// Nobody else was even connected to.
    fn nobody_else(&self, name: &str) {
        assert_eq!(self.trap.connections(), 0, "{name}");
    }
}

fn post(target: &str, host: &str, body: &str) -> String {
    let length = body.len();
    format!("POST {target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}")
}

#[tokio::test]
async fn neither_head_nor_body_says_where_to() {
    let world = World::with(Provider::start().await).await;
    let trap = world.trap.address;
    let path = "/v1/chat/completions";
    let body = r#"{"model":"m","messages":[]}"#;
    let close = "connection: close\r\n";
    let urls = format!(
        r#"{{"model":"m","base_url":"http://{trap}/v1","api_base":"http://{trap}","url":"http://{trap}","provider":"http://{trap}",
        "proxy":"http://{trap}","messages":[{{"role":"user","content":[{{"type":"image_url","image_url":{{"url":"http://{trap}/i"}}}}]}}]}}"#
    );
    for (name, bytes) in [
        ("host", post(path, &trap.to_string(), body)),
        ("absolute form", post(&format!("http://{trap}{path}"), "x", body)),
        ("absolute form with a user", post(&format!("http://x@{trap}{path}"), "x", body)),
        ("query", post(&format!("{path}?base_url=http://{trap}/v1&api_base=http://{trap}"), "x", body)),
        ("body", post(path, "x", &urls)),
        (
            "headers",
            chat(&format!(
                "{close}x-forwarded-host: {trap}\r\nx-forwarded-server: {trap}\r\nx-original-url: http://{trap}/\r\nx-rewrite-url: /y\r\n\
            x-base-url: http://{trap}\r\nhelicone-target-url: http://{trap}\r\nx-portkey-custom-host: http://{trap}\r\nproxy: http://{trap}\r\n"
            )),
        ),
    ] {
        let (replies, asked) = world.send(&bytes).await;
        assert_eq!(statuses(&replies), ["200"], "{name}: {replies}");
        let [(line, host)] = &asked[..] else { panic!("{name}: {asked:?}") };
        assert!(line.split([' ', '?']).take(2).eq(["POST", "/v1/chat/completions"]), "{name}: {line}");
        assert_eq!(*host, world.provider.address.to_string(), "{name}");
        world.nobody_else(name);
    }
    // No path leads past the routes.
    for target in [
        format!("//{trap}{path}"),
        format!("/http://{trap}{path}"),
        format!("@{trap}{path}"),
        format!("{path}/../../../admin"),
        format!("{path}/%2e%2e/files"),
        "/v1/../admin".to_owned(),
        "*".to_owned(),
    ] {
        let (replies, asked) = world.send(&post(&target, "x", body)).await;
        assert!(matches!(&statuses(&replies)[..], ["400" | "404"]), "{target}: {replies}");
        assert!(asked.is_empty(), "{target}: {asked:?}");
        world.nobody_else(&target);
    }
    let (replies, asked) =
        world.send(&format!("CONNECT {trap} HTTP/1.1\r\nhost: {trap}\r\nconnection: close\r\n\r\n")).await;
    assert!(matches!(&statuses(&replies)[..], ["400" | "404" | "405"]) && asked.is_empty(), "{replies}");
    world.nobody_else("CONNECT");
}

#[tokio::test]
async fn a_models_name_is_no_address() {
    let world = World::with(Provider::start().await).await;
    let trap = world.trap.address;
    for name in [
        format!("http://{trap}/v1"),
        format!("open/http://{trap}/v1"),
        format!("open/../../../{trap}"),
        format!("open/x@{trap}"),
        format!("open/x?host={trap}#"),
        format!("{trap}/m"),
        format!("open/\\r\\nhost: {trap}"),
        "open/\\u0000".to_owned(),
    ] {
        let body = format!(r#"{{"model":"{name}","messages":[]}}"#);
        let (_, asked) = world.send(&post("/v1/chat/completions", "x", &body)).await;
        for (line, host) in asked {
            assert_eq!(
                (&*line, host),
                ("POST /v1/chat/completions HTTP/1.1", world.provider.address.to_string()),
                "{name}"
            );
        }
        world.nobody_else(&name);
    }
    // Gemini's model is in the path.
    let encoded = trap.to_string().replace(':', "%3A");
    for name in [
        "gem%2F..%2F..%2F..%2Fadmin".to_owned(),
        "gem/../../../admin".to_owned(),
        "gem/..%2f..%2fadmin".to_owned(),
        "gem/%2e%2e/%2e%2e/admin".to_owned(),
        format!("gem%2Fhttp%3A%2F%2F{encoded}"),
        format!("gem/x@{trap}"),
        "gem/x%3Fkey=y".to_owned(),
        "gem/x%23y".to_owned(),
        "gem/x%0d%0ahost:%20y".to_owned(),
        "gem/x%00".to_owned(),
    ] {
        let target = format!("/v1beta/models/{name}:generateContent");
        let (_, asked) = world.send(&post(&target, "x", r#"{"contents":[]}"#)).await;
        for (line, host) in asked {
            assert_eq!(host, world.provider.address.to_string(), "{name}");
            let path = line.strip_prefix("POST ").unwrap().strip_suffix(" HTTP/1.1").unwrap();
            let model =
                path.strip_prefix("/base/v1beta/models/").and_then(|rest| rest.strip_suffix(":generateContent"));
            let model = model.unwrap_or_else(|| panic!("{name}: {line}"));
            let decoded = model.replace("%2e", ".").replace("%2E", ".").replace("%2f", "/").replace("%2F", "/");
            assert!(!decoded.split('/').any(|part| part == "..") && !model.contains(['?', '#']), "{name}: {line}");
        }
        world.nobody_else(&name);
    }
}

#[tokio::test]
async fn a_provider_does_not_send_the_gateway_elsewhere() {
    for status in
        ["301 Moved Permanently", "302 Found", "303 See Other", "307 Temporary Redirect", "308 Permanent Redirect"]
    {
        let trap = Provider::start().await;
        let reply = format!(
            "HTTP/1.1 {status}\r\nlocation: http://{0}/v1/chat/completions\r\nrefresh: 0; url=http://{0}/\r\nalt-svc: h2=\"{0}\"\r\ncontent-length: 0\r\n\r\n",
            trap.address
        );
        let provider = Provider::answering(reply).await;
        let gateway = Listening::start("", &provider).await;
        let mut client = gateway.connect().await;
        client.send(chat("connection: close\r\n")).await;
        let replies = client.rest().await;
        assert!(matches!(&statuses(&replies)[..], [status] if status.starts_with(['4', '5'])), "{status}: {replies}");
        assert!(!replies.contains("alt-svc"), "{replies}");
        assert_eq!((provider.asked().len(), trap.connections()), (1, 0), "{status}");
    }
}

#[tokio::test]
async fn a_key_in_the_query_stays_here() {
    let provider = Provider::start().await;
    let more = format!(
        "[clients.me]\nkey = \"k1\"\n[providers.gem]\ndialect = \"gemini\"\nbase_url = \"http://{}\"\napi_key = \"sk-g\"\npassthrough = true\n",
        provider.address
    );
    let gateway = Listening::configured(&(config("", &provider) + &more)).await;
    let mut client = gateway.connect().await;
    client.send(post("/v1beta/models/gem%2Fx:streamGenerateContent?alt=sse&key=k1", "x", r#"{"contents":[]}"#)).await;
    client.rest().await;
    let [asked] = &provider.asked()[..] else { panic!("it was asked once") };
    assert!(asked.starts_with("POST /v1beta/models/x:streamGenerateContent?alt=sse HTTP/1.1\r\n"), "{asked}");
    assert!(!asked.contains("k1"), "{asked}");
}
