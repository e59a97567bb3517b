//! The admin listener over real sockets: who is refused, what is answered, and what a hand does.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use serde_json::Value;
use sha2::{Digest, Sha256};
use stanchion::telemetry::{Live, Metrics, MetricsFormat, Sink};
use stanchion_gateway::{
    admin::{Admin, AdminHandle, AdminSettings, Board, Drains},
    config::Config,
    current::Current,
    gateway::Gateway,
    server::Server,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::oneshot,
    task::JoinHandle,
    time::timeout,
};

const LIMIT: Duration = Duration::from_secs(20);
const KEY: &str = "an admin's key";

const CONFIG: &str = r#"
[providers.a]
dialect = "openai"
base_url = "http://127.0.0.1:1/v1"

[models.main]
candidates = [{ provider = "a", model = "x" }, { provider = "a", model = "y" }]

[defaults.retry]
max_retries = 0
"#;

/// A gateway and its admin listener.
struct Running {
    admin: SocketAddr,
    clients: SocketAddr,
    metrics: Metrics,
    handle: AdminHandle,
    ends: Vec<oneshot::Sender<()>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Running {
    async fn start(key: Option<&str>) -> Self {
        let mut config = Config::parse("test", CONFIG, &|_| None).unwrap();
        Drains::default().put_into(&mut config);
        let live = Live::default();
        let metrics = Metrics::new();
        let sinks: [Arc<dyn Sink>; 2] = [Arc::new(live.clone()), Arc::new(metrics.clone())];
        let gateway = Gateway::new(&config, None).with_sinks(sinks);
        gateway.measure(&metrics);
        let settings = AdminSettings {
            listen: ([127, 0, 0, 1], 0).into(),
            key: key.map(|key| Sha256::digest(key.as_bytes()).into()),
            tls: None,
        };
        let admin = Admin::bind(settings, Board::new(&config, &gateway), live, metrics.clone()).await.unwrap();
        let current = Current::from(gateway);
        admin.handle().shows(current.clone());
        let server = Server::bind(([127, 0, 0, 1], 0).into(), current, false).await.unwrap();
        let (handle, address, clients) = (admin.handle(), admin.address().unwrap(), server.address().unwrap());
        let (end_admin, admin_ended) = oneshot::channel::<()>();
        let (end_server, server_ended) = oneshot::channel::<()>();
        let tasks = vec![
            tokio::spawn(admin.serve(async { drop(admin_ended.await) })),
            tokio::spawn(async {
                server.serve(async { drop(server_ended.await) }).await;
            }),
        ];
        Self { admin: address, clients, metrics, handle, ends: vec![end_admin, end_server], tasks }
    }

    async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let own = self.admin.to_string();
        let host = Some(("host", own.as_str())).filter(|_| headers.iter().all(|(name, _)| *name != "host"));
        let headers: String =
            headers.iter().copied().chain(host).map(|(name, value)| [name, ": ", value, "\r\n"].concat()).collect();
        send(self.admin, &format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n{headers}\r\n")).await
    }

    /// How many were turned away for this reason.
    fn refused(&self, reason: &str) -> f64 {
        let text = self.metrics.encode(MetricsFormat::Prometheus);
        let sample = format!("stanchion_refusals_total{{reason=\"{reason}\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&sample)).expect("it is there").parse().unwrap()
    }

    async fn status(&self) -> Value {
        serde_json::from_str(&self.ask("GET", "/status", &[]).await.body).unwrap()
    }

    /// Asks as a client, and gets a status and the code of the failure.
    async fn call(&self) -> (u16, String) {
        let body = r#"{"model":"main","messages":[{"role":"user","content":"?"}]}"#;
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = send(self.clients, &head).await;
        let told: Value = serde_json::from_str(&answer.body).unwrap();
        (answer.status, told["error"]["code"].as_str().unwrap_or_default().to_owned())
    }

    async fn end(self) {
        drop(self.ends);
        for task in self.tasks {
            timeout(LIMIT, task).await.expect("an end").unwrap();
        }
    }
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn code(&self) -> String {
        let told: Value = serde_json::from_str(&self.body).unwrap_or_default();
        told["error"]["code"].as_str().unwrap_or_default().to_owned()
    }

    fn has(&self, header: &str) -> bool {
        self.head.lines().any(|line| line.eq_ignore_ascii_case(header))
    }
}

async fn send(address: SocketAddr, request: &str) -> Answer {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut all = Vec::new();
    timeout(LIMIT, stream.read_to_end(&mut all)).await.expect("an end").unwrap();
    let text = String::from_utf8(all).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    Answer { status: head[9..12].parse().unwrap(), head: head.to_owned(), body: body.to_owned() }
}

/// A subscriber that reads what it is sent.
struct Subscriber {
    stream: TcpStream,
    text: String,
}

impl Subscriber {
    async fn new(address: SocketAddr, path: &str) -> Self {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        Self { stream, text: String::new() }
    }

    /// Reads on until there is this text.
    async fn until(&mut self, wanted: &str) {
        let mut buffer = vec![0; 64 * 1024];
        timeout(LIMIT, async {
            while !self.text.contains(wanted) {
                let count = self.stream.read(&mut buffer).await.unwrap();
                assert!(count > 0, "it ended before {wanted:?} came");
                self.text.push_str(&String::from_utf8_lossy(&buffer[..count]));
            }
        })
        .await
        .unwrap_or_else(|_| panic!("{wanted:?} did not come"));
    }
}

#[tokio::test]
async fn without_the_key_there_is_the_page_and_its_pulse_and_nothing_else() {
    let running = Running::start(Some(KEY)).await;
    let action = ("x-stanchion-admin", "1");
    let presented = format!("Bearer {KEY}");
    for (method, path) in [
        ("GET", "/status"),
        ("GET", "/metrics"),
        ("GET", "/events"),
        ("GET", "/nothing"),
        ("POST", "/circuits/a%2Fx/open"),
        ("POST", "/candidates/a%2Fx/drain"),
    ] {
        for headers in [vec![action], vec![action, ("authorization", "Bearer wrong")]] {
            let answer = running.ask(method, path, &headers).await;
            assert_eq!((answer.status, answer.code().as_str()), (401, "invalid_admin_key"), "{path}");
            assert!(answer.has("www-authenticate: Bearer"));
            assert!(!answer.body.contains("a/x"));
        }
    }
    assert_eq!((running.refused("admin_key"), running.refused("admin_foreign")), (12.0, 0.0));
    for (path, begins) in [("/", "<!doctype html>"), ("/healthz", "ok\n"), ("/readyz", "ready\n")] {
        let answer = running.ask("GET", path, &[]).await;
        assert!(answer.status == 200 && answer.body.starts_with(begins), "{path}");
        assert!(!answer.body.contains("a/x"), "{path}");
    }
    for path in ["/status", "/metrics"] {
        assert_eq!(running.ask("GET", path, &[("authorization", &presented)]).await.status, 200, "{path}");
    }
    let headers = [action, ("authorization", presented.as_str())];
    assert_eq!(running.ask("POST", "/candidates/a%2Fx/drain", &headers).await.status, 200);
    running.end().await;
}

#[tokio::test]
async fn pages_of_other_sites_and_names_that_were_made_to_lead_here_get_nothing() {
    let running = Running::start(None).await;
    let action = ("x-stanchion-admin", "1");
    let open = "/circuits/a%2Fx/open";
    for (headers, status, code) in [
        (vec![("host", "evil.example"), action], 421, "unknown_host"),
        (vec![("origin", "http://evil.example"), action], 403, "foreign_page"),
        (vec![("origin", "null"), action], 403, "foreign_page"),
        (vec![("sec-fetch-site", "cross-site"), action], 403, "foreign_page"),
        (vec![], 403, "header_missing"),
    ] {
        let answer = running.ask("POST", open, &headers).await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{headers:?}");
        assert!(!answer.head.to_lowercase().contains("access-control"), "no leave is given to other sites");
    }
    // What a browser asks before it sends a header of that kind from elsewhere.
    let preflight = [("origin", "http://evil.example"), ("access-control-request-method", "POST")];
    assert_eq!(running.ask("OPTIONS", open, &preflight).await.status, 403);
    assert_eq!((running.refused("admin_key"), running.refused("admin_foreign")), (0.0, 6.0));
    let state = |status: &Value| status["models"][0]["candidates"][0]["circuit"]["by_hand"].clone();
    assert_eq!(state(&running.status().await), false);
    assert_eq!(running.ask("GET", open, &[action]).await.status, 405);
    assert_eq!(running.ask("DELETE", "/status", &[action]).await.status, 405);
    assert_eq!(running.ask("POST", open, &[action]).await.status, 200);
    assert_eq!(state(&running.status().await), true);
    running.end().await;
}

#[tokio::test]
async fn the_page_may_run_nothing_but_itself() {
    let running = Running::start(None).await;
    let page = running.ask("GET", "/", &[]).await;
    let policy = page.head.lines().find(|line| line.starts_with("content-security-policy: ")).unwrap();
    for part in ["default-src 'none'", "script-src 'sha256-", "connect-src 'self'", "frame-ancestors 'none'"] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"));
    for header in ["cache-control: no-store", "x-content-type-options: nosniff", "referrer-policy: no-referrer"] {
        assert!(page.has(header), "{header}");
    }
    assert!(running.ask("HEAD", "/", &[]).await.body.is_empty());
    running.end().await;
}

#[tokio::test]
async fn metrics_come_in_the_format_that_is_asked_for() {
    let running = Running::start(None).await;
    running.call().await;
    for (accept, content_type, end) in [
        ("*/*", "content-type: text/plain; version=0.0.4", ""),
        ("application/openmetrics-text;version=1.0.0", "content-type: application/openmetrics-text", "# EOF\n"),
    ] {
        let metrics = running.ask("GET", "/metrics", &[("accept", accept)]).await;
        assert!(metrics.head.contains(content_type), "{}", metrics.head);
        assert!(metrics.body.contains("stanchion_requests_total{model=\"main\"") && metrics.body.ends_with(end));
    }
    running.end().await;
}

#[tokio::test]
async fn a_drained_candidate_is_not_asked_and_subscribers_are_told_who_did_it() {
    let running = Running::start(None).await;
    let action = [("x-stanchion-admin", "1")];
    let mut subscriber = Subscriber::new(running.admin, "/events").await;
    subscriber.until("event: snapshot").await;
    assert_eq!(running.call().await, (502, "connect_failed".into()));
    subscriber.until(r#""type":"model_fallback","from":"a/x","to":"a/y""#).await;
    assert_eq!(running.ask("POST", "/candidates/a%2Fx/drain", &action).await.status, 200);
    subscriber.until(r#""action":"drain","candidate":"a/x""#).await;
    subscriber.until(r#""name":"a/x","drained":true"#).await;
    subscriber.text.clear();
    running.call().await;
    subscriber.until(r#""candidate":"a/y","attempt":1,"failure":"connect_failed""#).await;
    assert!(!subscriber.text.contains(r#""candidate":"a/x","attempt""#), "{}", subscriber.text);
    assert_eq!(running.ask("POST", "/candidates/a/y/drain", &action).await.status, 200);
    assert_eq!(running.call().await, (503, "candidate_drained".into()));
    assert_eq!(running.ask("POST", "/candidates/a/x/undrain", &action).await.status, 200);
    assert_eq!(running.call().await, (502, "connect_failed".into()));
    let unknown = running.ask("POST", "/candidates/nobody/drain", &action).await;
    assert_eq!((unknown.status, unknown.code().as_str()), (404, "unknown_candidate"));
    running.end().await;
}

#[tokio::test]
async fn as_many_may_listen_as_there_are_places_and_a_place_is_free_again() {
    let running = Running::start(None).await;
    let mut subscribers = Vec::new();
    for _ in 0..32 {
        let mut subscriber = Subscriber::new(running.admin, "/events").await;
        subscriber.until("event: snapshot").await;
        subscribers.push(subscriber);
    }
    let refused = running.ask("GET", "/events", &[]).await;
    assert_eq!((refused.status, refused.code().as_str()), (503, "too_many_subscribers"));
    // All else goes on.
    assert_eq!(running.ask("GET", "/status", &[]).await.status, 200);
    drop(subscribers.pop());
    let mut next = Subscriber::new(running.admin, "/events").await;
    timeout(LIMIT, async {
        while !next.text.contains("event: snapshot") {
            next = Subscriber::new(running.admin, "/events").await;
            next.until("\r\n\r\n").await;
            let _ = timeout(Duration::from_millis(200), next.until("event: snapshot")).await;
        }
    })
    .await
    .expect("the place is free once the server has noticed");
    running.end().await;
}

#[tokio::test]
async fn one_who_reads_nothing_holds_up_nobody_and_the_end_comes_all_the_same() {
    let running = Running::start(None).await;
    let mut stuck = Subscriber::new(running.admin, "/events?view=requests").await;
    stuck.until("event: hello").await;
    let mut reading = Subscriber::new(running.admin, "/events").await;
    for _ in 0..300 {
        running.call().await;
    }
    reading.until(r#""failure":"connect_failed""#).await;
    assert_eq!(running.ask("GET", "/status", &[]).await.status, 200);
    running.handle.draining();
    let ready = running.ask("GET", "/readyz", &[]).await;
    assert_eq!((ready.status, ready.body.as_str()), (503, "draining\n"));
    assert_eq!(running.ask("GET", "/healthz", &[]).await.status, 200);
    assert_eq!(running.status().await["gateway"]["state"], "draining");
    let end = tokio::spawn(running.end());
    reading.until("event: end").await;
    end.await.unwrap();
}
