//! A collector over a real socket, and what the binary sends to it until its end.

use std::{
    fs,
    net::SocketAddr,
    process::Stdio,
    sync::{Arc, Mutex},
};

use opentelemetry_proto::tonic::{
    collector::{metrics::v1::ExportMetricsServiceRequest, trace::v1::ExportTraceServiceRequest},
    common::v1::{KeyValue, any_value::Value},
};
use prost::Message;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines},
    net::{TcpListener, TcpStream},
    process::{Child, ChildStderr, Command},
};

use crate::{
    Folder, PLANTED, body, config,
    provider::{Play, Provider},
};

/// Head and body.
type Sent = (String, Vec<u8>);

/// Takes what it is sent.
#[derive(Clone)]
struct Collector {
    address: SocketAddr,
    got: Arc<Mutex<Vec<Sent>>>,
}

impl Collector {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let collector = Self { address: listener.local_addr().unwrap(), got: Arc::default() };
        let taking = collector.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(taking.clone().take(stream));
            }
        });
        collector
    }

    async fn take(self, stream: TcpStream) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        loop {
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                if stream.read_line(&mut head).await? == 0 {
                    return Ok(());
                }
            }
            let head = head.to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap();
            let mut body = vec![0; length];
            stream.read_exact(&mut body).await?;
            self.got.lock().unwrap().push((head, body));
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await?;
        }
    }
}

fn text<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a str> {
    match attributes.iter().find(|pair| pair.key == key)?.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text),
        _ => None,
    }
}

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

fn hexadecimal(id: &[u8]) -> String {
    let digits = id.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(u32::from);
    digits.filter_map(|digit| char::from_digit(digit, 16)).collect()
}

/// A gateway whose log can be read, and where its clients connect.
async fn serve(config: &std::path::Path) -> (Child, Lines<BufReader<ChildStderr>>, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_stanchion"))
        .args(["serve", "--listen", "127.0.0.1:0", "--config"])
        .arg(config)
        .env_clear()
        .env("NO_COLOR", "1")
        .env("COLLECTOR", "x-tenant=canary-tenant,authorization=Bearer%20canary-token")
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
    loop {
        let line = log.next_line().await.unwrap().expect("it ended");
        if let Some((_, address)) = line.split_once("listening on http://") {
            return (child, log, address.to_owned());
        }
    }
}

fn terminate(child: &Child) {
    let status = std::process::Command::new("kill").args(["-TERM", &child.id().unwrap().to_string()]).status();
    assert!(status.unwrap().success());
}

/// What is left of a log.
async fn rest(mut log: Lines<BufReader<ChildStderr>>) -> String {
    let mut told = String::new();
    while let Some(line) = log.next_line().await.unwrap() {
        told.push_str(&line);
        told.push('\n');
    }
    told
}

#[tokio::test]
async fn who_asks_for_the_end_twice_does_not_wait_for_a_collector() {
    let (provider, folder) = (Provider::start().await, Folder::new());
    let collector = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let otlp = format!("[telemetry.otlp]\nendpoint = \"http://{}\"\n", collector.local_addr().unwrap());
    let path = folder.path("stanchion.toml");
    fs::write(&path, config(&provider, &otlp)).unwrap();
    let (mut child, log, _) = serve(&path).await;
    terminate(&child);
    // Its last words have begun, and nobody takes them.
    let (mut stream, _) = collector.accept().await.unwrap();
    stream.read_exact(&mut [0; 1]).await.unwrap();
    terminate(&child);
    let told = rest(log).await;
    assert_eq!(child.wait().await.unwrap().code(), Some(143), "{told}");
    assert!(told.contains("ended at once") && !told.contains("the collector is too slow"), "{told}");
}

#[tokio::test]
async fn what_becomes_of_requests_reaches_a_collector_before_the_process_ends_and_no_word_of_them() {
    let (provider, collector, folder) = (Provider::start().await, Collector::start().await, Folder::new());
    let otlp = format!(
        "[telemetry.otlp]\nendpoint = \"http://{}\"\nheaders_env = \"COLLECTOR\"\nresource = {{ \"deployment.environment.name\" = \"test\" }}\n",
        collector.address
    );
    let path = folder.path("stanchion.toml");
    fs::write(&path, config(&provider, &otlp)).unwrap();
    let (mut child, log, address) = serve(&path).await;
    provider.play([Play::Overloaded, Play::Whole, Play::Cut]);
    for parent in [format!("traceparent: 00-{TRACE}-00f067aa0ba902b7-01\r\n"), String::new()] {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        let body = body("main");
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-stanchion-session: canary-session\r\n\
             x-stanchion-owner: canary-owner\r\n{parent}content-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        stream.read_to_end(&mut Vec::new()).await.unwrap();
    }
    terminate(&child);
    let told = rest(log).await;
    assert!(child.wait().await.unwrap().success(), "{told}");

    let got = collector.got.lock().unwrap();
    let of = |path: &str| -> Vec<&Vec<u8>> {
        got.iter().filter(|(head, _)| head.starts_with(&format!("post {path} "))).map(|(_, body)| body).collect()
    };
    assert!(
        got.iter().all(|(head, _)| head.contains("x-tenant: canary-tenant") && head.contains("bearer canary-token"))
    );
    let traces = of("/v1/traces").into_iter().map(|body| ExportTraceServiceRequest::decode(&**body).unwrap());
    let resources: Vec<_> = traces.flat_map(|message| message.resource_spans).collect();
    for resource in &resources {
        let attributes = &resource.resource.as_ref().unwrap().attributes;
        assert_eq!(text(attributes, "service.name"), Some("stanchion"));
        assert_eq!(text(attributes, "deployment.environment.name"), Some("test"));
        assert!(text(attributes, "service.instance.id").is_some());
    }
    let spans: Vec<_> =
        resources.iter().flat_map(|resource| &resource.scope_spans).flat_map(|scope| &scope.spans).collect();
    let requests: Vec<_> = spans.iter().filter(|span| span.kind == 2).collect();
    assert_eq!((requests.len(), spans.len()), (2, 5), "two requests, the first with two attempts: {spans:?}");
    let retried = requests.iter().find(|span| hexadecimal(&span.trace_id) == TRACE).unwrap();
    assert_eq!((&*retried.name, text(&retried.attributes, "stanchion.ending")), ("chat main", Some("complete")));
    assert!(retried.events.iter().any(|event| event.name == "provider_retry"), "{retried:?}");
    assert_eq!(text(&retried.attributes, "stanchion.provider.model"), Some("gpt-4o"));
    assert_eq!(text(&retried.attributes, "gen_ai.response.model"), None, "what was asked for is not what has answered");
    let attempts: Vec<_> = spans.iter().filter(|span| span.parent_span_id == retried.span_id).collect();
    let outcomes: Vec<_> = attempts.iter().map(|span| text(&span.attributes, "stanchion.outcome")).collect();
    assert_eq!(outcomes, [Some("failed"), Some("answered")]);
    // The provider was told these very spans.
    for (head, attempt) in provider.heads().iter().zip(&attempts) {
        assert!(head.contains(&format!("traceparent: 00-{TRACE}-{}-01", hexadecimal(&attempt.span_id))), "{head}");
    }
    // Without a trace of the client's, one begins.
    let cut = requests.iter().find(|span| hexadecimal(&span.trace_id) != TRACE).unwrap();
    assert!(cut.parent_span_id.is_empty());
    assert_eq!(text(&cut.attributes, "stanchion.ending"), Some("truncated"));

    let last = ExportMetricsServiceRequest::decode(&***of("/v1/metrics").last().unwrap()).unwrap();
    let metrics = &last.resource_metrics[0].scope_metrics[0].metrics;
    for name in [
        "gen_ai.client.operation.duration",
        "gen_ai.client.token.usage",
        "stanchion_requests_total",
        "stanchion_retries_total",
    ] {
        assert!(metrics.iter().any(|metric| metric.name == name), "{name}");
    }
    for (head, body) in &*got {
        let body = String::from_utf8_lossy(body);
        let leaks: Vec<_> = PLANTED.iter().filter(|canary| body.contains(**canary)).collect();
        assert!(leaks.is_empty(), "{leaks:?} in {head}");
    }
    assert!(!told.contains("canary"), "{told}");
}
