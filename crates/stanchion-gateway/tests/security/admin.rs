//! TLS of the admin listener, as the binary speaks it, and `stanchion tail` over it.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    process::{Child, ChildStderr, Command, Stdio},
};

use tokio::time::timeout;

use crate::{
    peers::{Client, SOON, statuses},
    tls::{Authority, Folder, Signed, connect},
};

fn stanchion() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stanchion"));
    command.env_clear().env("ADMIN_KEY", "secret").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// A process, and what it says on standard error.
struct Process {
    child: Child,
    log: BufReader<ChildStderr>,
}

impl Process {
    fn start(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        Self { child, log }
    }

    /// The next line that has this.
    fn told(&mut self, text: &str) -> String {
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            assert!(self.log.read_line(&mut line).unwrap() > 0, "it ended before it told: {text}");
        }
        line
    }

    fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A gateway whose admin listener presents what `signed` is, with `more` in its table.
fn serve(folder: &Folder, signed: &Signed, more: &str) -> (Process, SocketAddr) {
    let (cert, key) = (folder.write("cert.pem", &signed.cert), folder.write("key.pem", &signed.key));
    let config = folder.write(
        "config.toml",
        &format!(
            "[server]\nlisten = \"127.0.0.1:0\"\nwatch = \"0s\"\n\
             [admin]\nlisten = \"127.0.0.1:0\"\nkey_env = \"ADMIN_KEY\"\ntls = {{ cert = {cert:?}, key = {key:?}{more} }}\n\
             [providers.p]\ndialect = \"openai\"\nbase_url = \"http://127.0.0.1:9/v1\"\n\
             [models.m]\ncandidates = [{{ provider = \"p\" }}]\n"
        ),
    );
    let mut gateway = Process::start(stanchion().args(["serve", "--config", &config]));
    let line = gateway.told("admin listener on https://");
    let (_, address) = line.trim_end().rsplit_once("https://").unwrap();
    let address = address.parse().unwrap();
    (gateway, address)
}

async fn ask(
    stream: std::io::Result<impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin>,
    path: &str,
    key: &str,
) -> String {
    let Ok(stream) = stream else { return String::new() };
    let mut client = Client::of(stream);
    let head = "HTTP/1.1\r\nhost: x\r\nconnection: close\r\n";
    client.send(format!("GET {path} {head}authorization: Bearer {key}\r\n\r\n")).await;
    client.rest().await
}

fn tail(address: SocketAddr, arguments: &[&str]) -> Command {
    let mut tail = stanchion();
    tail.args(["tail", "--url", &format!("https://{address}"), "--key-env", "ADMIN_KEY"]).args(arguments);
    tail
}

/// What a command says that fails at once.
fn complaint(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    said
}

#[tokio::test]
async fn the_admin_listener_speaks_tls_and_a_renewed_certificate_counts_at_once() {
    let folder = Folder::new("admin");
    let (old, new) = (Authority::new(), Authority::new());
    let (mut gateway, address) = serve(&folder, &old.sign(), "");

    // Browsers offer both, and the listener speaks one.
    let stream = connect(address, &old, None, &["h2", "http/1.1"]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    assert_eq!(statuses(&ask(Ok(stream), "/status", "secret").await), ["200"]);
    for (path, key, status) in [("/healthz", "", "200"), ("/status", "wrong", "401")] {
        let stream = connect(address, &old, None, &[]).await;
        assert_eq!(statuses(&ask(stream, path, key).await), [status], "{path}");
    }
    let plain = tokio::net::TcpStream::connect(address).await;
    assert!(!ask(plain, "/healthz", "").await.contains("HTTP/"), "it is no HTTP");

    let ca = folder.write("old.pem", &old.pem);
    let said = complaint(&mut tail(address, &[]));
    assert!(said.contains("is not trusted") && said.contains("--ca"), "{said}");
    let mut watching = Process::start(&mut tail(address, &["--ca", &ca]));
    watching.told(&format!("watching https://{address}"));

    let second = new.sign();
    folder.write("cert.pem", &second.cert);
    gateway.signal("-HUP");
    gateway.told("admin.tls.key: ");
    assert!(connect(address, &old, None, &[]).await.is_ok(), "a key that is not the certificate's changes nothing");
    folder.write("key.pem", &second.key);
    gateway.signal("-HUP");
    gateway.told("a new configuration is served");
    let renewed = async { while connect(address, &new, None, &[]).await.is_err() {} };
    timeout(SOON, renewed).await.expect("the new one is presented");
    assert!(connect(address, &old, None, &[]).await.is_err(), "the old one is not presented any more");
    let said = complaint(&mut tail(address, &["--ca", &ca]));
    assert!(said.contains("is not trusted"), "{said}");
}

#[tokio::test]
async fn an_operator_without_a_certificate_gets_nothing_where_one_is_asked_for() {
    let folder = Folder::new("admin-clients");
    let (ours, theirs) = (Authority::new(), Authority::new());
    let ca = folder.write("ca.pem", &ours.pem);
    let (_gateway, address) = serve(&folder, &ours.sign(), &format!(", client_ca = {ca:?}"));
    let own = ours.sign();
    for (own, expected) in [(None, &[][..]), (Some(&theirs.sign()), &[]), (Some(&own), &["200"])] {
        let replies = ask(connect(address, &ours, own, &[]).await, "/status", "secret").await;
        assert_eq!(statuses(&replies), expected, "{replies}");
    }
    let metrics = ask(connect(address, &ours, Some(&own), &[]).await, "/metrics", "secret").await;
    assert!(metrics.contains("\nstanchion_refusals_total{reason=\"admin_tls\"} 2.0\n"), "{metrics}");
    // A certificate stands for no key.
    assert_eq!(statuses(&ask(connect(address, &ours, Some(&own), &[]).await, "/status", "").await), ["401"]);

    let (cert, key) = (folder.write("own.pem", &own.cert), folder.write("own.key", &own.key));
    let said = complaint(&mut tail(address, &["--ca", &ca]));
    assert!(said.contains("--cert"), "{said}");
    let said = complaint(&mut tail(address, &["--ca", &key]));
    assert!(said.contains("own.key: the file holds no certificates") && !said.contains("PRIVATE KEY-----M"), "{said}");
    let mut watching = Process::start(&mut tail(address, &["--ca", &ca, "--cert", &cert, "--cert-key", &key]));
    watching.told(&format!("watching https://{address}"));
}
