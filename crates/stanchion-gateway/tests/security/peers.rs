//! A gateway, a provider behind it, and a client that sends whatever bytes it likes.

use std::{
    future::pending,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use stanchion::telemetry::Metrics;
use stanchion_gateway::{config::Config, gateway::Gateway, server::Server};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

/// Longer than anything here takes on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// The answer to a chat.
const ANSWER: &str = r#"{"choices":[{"message":{"role":"assistant","content":"Hi."},"finish_reason":"stop"}]}"#;

/// A provider that remembers every byte that it was sent.
pub(crate) struct Provider {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
    /// Whether it answers; else it waits until it may.
    open: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Provider {
    /// One that answers whatever it is asked.
    pub(crate) async fn start() -> Self {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
        Self::answering(format!("{head}content-length: {}\r\n\r\n{ANSWER}", ANSWER.len())).await
    }

    pub(crate) async fn answering(reply: String) -> Self {
        Self::listening(reply, None).await
    }

    /// One that speaks TLS, to whomever its acceptor lets in.
    pub(crate) async fn over_tls(tls: TlsAcceptor) -> Self {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
        Self::listening(format!("{head}content-length: {}\r\n\r\n{ANSWER}", ANSWER.len()), Some(tls)).await
    }

    async fn listening(reply: String, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let (open, seen) = (watch::Sender::new(true), asked.clone());
        let (opened, connections) = (open.subscribe(), Arc::<AtomicUsize>::default());
        let count = connections.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                let (reply, seen, opened) = (reply.clone(), seen.clone(), opened.clone());
                match tls.clone() {
                    None => drop(tokio::spawn(answer(stream, reply, seen, opened))),
                    Some(tls) => drop(tokio::spawn(async move {
                        if let Ok(stream) = tls.accept(stream).await {
                            answer(stream, reply, seen, opened).await;
                        }
                    })),
                }
            }
        });
        Self { address, asked, connections, open, task }
    }

    /// How often somebody connected to it.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Has it answer, or wait.
    pub(crate) fn answers(&self, yes: bool) {
        self.open.send_replace(yes);
    }

    /// The requests that it was sent, heads and bodies, since it was asked last.
    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    reply: String,
    seen: Arc<Mutex<Vec<String>>>,
    mut open: watch::Receiver<bool>,
) {
    let mut bytes = Vec::new();
    loop {
        while let Some(end) = end_of_message(&bytes) {
            let request: Vec<u8> = bytes.drain(..end).collect();
            seen.lock().unwrap().push(String::from_utf8_lossy(&request).into_owned());
            let _ = open.wait_for(|open| *open).await;
            let _ = stream.write_all(reply.as_bytes()).await;
        }
        match stream.read_buf(&mut bytes).await {
            Ok(1..) => {}
            // What is no whole request is told all the same.
            _ if bytes.is_empty() => return,
            _ => return seen.lock().unwrap().push(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }
}

/// Where a message with a content length, or without a body, ends.
fn end_of_message(bytes: &[u8]) -> Option<usize> {
    let head = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&bytes[..head]).to_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok()).unwrap_or(0);
    (bytes.len() >= head + length).then_some(head + length)
}

/// A gateway that listens.
pub(crate) struct Listening {
    pub(crate) address: SocketAddr,
    task: JoinHandle<()>,
}

impl Listening {
    /// With `server` in its `[server]`, and one model `m` at a provider.
    pub(crate) async fn start(server: &str, provider: &Provider) -> Self {
        Self::configured(&config(server, provider)).await
    }

    pub(crate) async fn configured(config: &str) -> Self {
        Self::counting(config).await.0
    }

    /// The same, with its metrics.
    pub(crate) async fn counting(config: &str) -> (Self, Metrics) {
        let config = Config::parse("f", config, &|_| None).unwrap_or_else(|error| panic!("{error}"));
        let (gateway, metrics) = (Gateway::new(&config, None), Metrics::new());
        gateway.measure(&metrics);
        let server = Server::bind(config.server.listen, gateway, false).await.unwrap();
        let address = server.address().unwrap();
        let task = tokio::spawn(async move {
            server.serve(pending()).await;
        });
        (Self { address, task }, metrics)
    }

    pub(crate) async fn connect(&self) -> Client<TcpStream> {
        Client::of(TcpStream::connect(self.address).await.unwrap())
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) fn config(server: &str, provider: &Provider) -> String {
    format!(
        "[server]\nlisten = \"127.0.0.1:0\"\ninline_keys = true\n{server}\n\
        [providers.p]\ndialect = \"openai\"\nbase_url = \"http://{}/v1\"\napi_key = \"sk-provider\"\n\
        [models.m]\ncandidates = [{{ provider = \"p\" }}]\n[defaults.retry]\nmax_retries = 0\n",
        provider.address
    )
}

/// A client that sends whatever bytes it likes.
pub(crate) struct Client<S> {
    pub(crate) stream: S,
    bytes: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub(crate) fn of(stream: S) -> Self {
        Self { stream, bytes: Vec::new() }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        // The gateway may have closed already: what it said of it can still be read.
        let _ = self.stream.write_all(bytes.as_ref()).await;
    }

    /// The next reply with a content length.
    pub(crate) async fn reply(&mut self) -> String {
        let reading = async {
            loop {
                if let Some(end) = end_of_message(&self.bytes) {
                    let reply: Vec<u8> = self.bytes.drain(..end).collect();
                    return String::from_utf8_lossy(&reply).into_owned();
                }
                let read = self.stream.read_buf(&mut self.bytes).await.unwrap();
                assert!(read > 0, "closed after {:?}", String::from_utf8_lossy(&self.bytes));
            }
        };
        timeout(SOON, reading).await.expect("a reply")
    }

    /// All that comes until the connection is closed.
    pub(crate) async fn rest(&mut self) -> String {
        let reading = async {
            while let Ok(1..) = self.stream.read_buf(&mut self.bytes).await {}
            String::from_utf8_lossy(&std::mem::take(&mut self.bytes)).into_owned()
        };
        timeout(SOON, reading).await.expect("the connection is closed")
    }
}

/// A chat with the model `m`.
pub(crate) fn chat(headers: &str) -> String {
    chat_with("m", headers)
}

pub(crate) fn chat_with(model: &str, headers: &str) -> String {
    let body = format!(r#"{{"model":"{model}","messages":[]}}"#);
    format!("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

/// The statuses of replies that follow each other.
pub(crate) fn statuses(replies: &str) -> Vec<&str> {
    replies.match_indices("HTTP/1.1 ").map(|(at, head)| &replies[at + head.len()..][..3]).collect()
}
