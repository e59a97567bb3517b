//! `stanchion tail` against a gateway, both as the binary.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio},
};

fn stanchion() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stanchion"));
    command.env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A gateway whose providers nobody answers for, at addresses that stay the same when it is started again.
struct Gateway {
    child: Child,
    // Kept open: it goes on writing.
    _log: BufReader<ChildStderr>,
    clients: SocketAddr,
    admin: SocketAddr,
    config: String,
}

impl Gateway {
    fn start(name: &str, admin: &str) -> Self {
        let free = || TcpListener::bind("127.0.0.1:0").unwrap();
        let (first, second) = (free(), free());
        let (clients, listens) = (first.local_addr().unwrap(), second.local_addr().unwrap());
        drop((first, second));
        let config = std::env::temp_dir().join(format!("stanchion-tail-{}-{name}.toml", std::process::id()));
        let text = format!(
            "[server]\nlisten = \"{clients}\"\n[admin]\nlisten = \"{listens}\"\n{admin}\n[providers.p]\ndialect = \"openai\"\n\
             base_url = \"http://127.0.0.1:9/v1\"\n[models.m]\ncandidates = [{{ provider = \"p\", model = \"x\" }}, {{ provider = \"p\", model = \"y\" }}]\n\
             [models.n]\ncandidates = [{{ provider = \"p\", model = \"z\" }}]\n[defaults.retry]\nmax_retries = 0\n"
        );
        std::fs::write(&config, text).unwrap();
        let config = config.display().to_string();
        Self::run(clients, listens, config)
    }

    /// It listens when this returns.
    fn run(clients: SocketAddr, admin: SocketAddr, config: String) -> Self {
        let mut child = stanchion().args(["serve", "--config", &config]).stdout(Stdio::null()).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        told(&mut log, "admin listener on");
        Self { child, _log: log, clients, admin, config }
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn again(mut self) -> Self {
        let config = std::mem::take(&mut self.config);
        Self::run(self.clients, self.admin, config)
    }

    fn call(&self, model: &str) {
        let body = format!(r#"{{"model":"{model}","messages":[]}}"#);
        let mut stream = TcpStream::connect(self.clients).unwrap();
        let length = body.len();
        write!(stream, "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}")
            .unwrap();
        stream.read_to_end(&mut Vec::new()).unwrap();
    }

    fn watch(&self, arguments: &[&str]) -> Watching {
        self.watch_with(stanchion().args(["tail", "--url", &format!("http://{}", self.admin)]).args(arguments))
    }

    /// The listener knows of it when this returns.
    fn watch_with(&self, command: &mut Command) -> Watching {
        let mut child = command.spawn().unwrap();
        let out = child.stdout.take().map(BufReader::new);
        let mut aside = BufReader::new(child.stderr.take().unwrap());
        told(&mut aside, &format!("watching http://{}", self.admin));
        Watching { child, out, aside }
    }
}

/// Reads on until this is told.
fn told(log: &mut impl BufRead, text: &str) {
    let mut line = String::new();
    while !line.contains(text) {
        line.clear();
        assert!(log.read_line(&mut line).unwrap() > 0, "it ended before it told: {text}");
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.kill();
    }
}

struct Watching {
    child: Child,
    out: Option<BufReader<ChildStdout>>,
    aside: BufReader<ChildStderr>,
}

impl Watching {
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.as_mut().unwrap().read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// How it ended, and what else it said.
    fn end(mut self) -> (ExitStatus, String) {
        let mut said = String::new();
        self.aside.read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap(), said)
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn what_happens_is_told_line_by_line() {
    let gateway = Gateway::start("lines", "");
    let mut watching = gateway.watch(&[]);
    gateway.call("m");
    let lines = [watching.line(), watching.line(), watching.line(), watching.line()];
    for (line, rest) in lines.iter().zip([
        "attempt   m         p/x               attempt 1 failed after",
        "fallback  m         p/x               to p/y",
        "attempt   m         p/y               attempt 2 failed after",
        "failed    m         p/y               connect failed, ",
    ]) {
        assert!(line.get(14..).is_some_and(|line| line.starts_with(rest)), "{line:?} is not {rest:?}");
        assert!(!line.contains('\x1b'), "no terminal, no colours");
    }
}

#[test]
fn json_and_colours_and_one_model_are_for_the_asking() {
    let gateway = Gateway::start("json", "");
    let mut all = gateway.watch(&["--json"]);
    let mut one = gateway.watch(&["--model", "n", "--color", "always"]);
    gateway.call("m");
    gateway.call("n");
    let first: serde_json::Value = serde_json::from_str(&all.line()).unwrap();
    assert_eq!((&first["kind"], &first["model"]), (&"began".into(), &"m".into()));
    let line = one.line();
    assert!(line.contains("p/z") && line.contains("\x1b[31m"), "{line:?}");
}

#[test]
fn it_connects_again_when_the_gateway_was_away() {
    let gateway = Gateway::start("again", "");
    let mut watching = gateway.watch(&[]);
    gateway.call("n");
    assert!(watching.line().contains("p/z"));
    assert!(watching.line().contains("failed"));
    let mut gateway = gateway;
    gateway.kill();
    told(&mut watching.aside, "is lost; trying again");
    let gateway = gateway.again();
    told(&mut watching.aside, "connected again");
    gateway.call("n");
    assert!(watching.line().contains("p/z"));
}

#[test]
fn it_ends_in_order_with_its_reader_and_with_an_interrupt() {
    let gateway = Gateway::start("end", "");
    let watching = gateway.watch(&[]);
    let interrupted = Command::new("kill").args(["-INT", &watching.child.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    let (status, said) = watching.end();
    assert!(status.success() && said.is_empty(), "{status}: {said}");

    let mut watching = gateway.watch(&[]);
    watching.out = None;
    gateway.call("n");
    let (status, said) = watching.end();
    assert!(status.success() && said.is_empty(), "{status}: {said}");
}

#[test]
fn what_cannot_work_is_told_in_one_line() {
    let gateway =
        Gateway::start("keyed", "key_sha256 = \"2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b\"");
    let url = format!("http://{}", gateway.admin);
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (arguments, key, told) in [
        (vec!["--url", &url], "", "--key-env"),
        (vec!["--url", &url, "--key-env", "ADMIN_KEY"], "wrong", "did not take this one"),
        (vec!["--url", &url, "--key-env", "ADMIN_KEY"], "", "ADMIN_KEY is not set"),
        (vec!["--url", "somewhere"], "", "is no address"),
        (vec!["--url", &format!("http://{nobody}")], "", "does its configuration have [admin]?"),
        (vec!["--url", &format!("http://{}", gateway.clients)], "", "that is no admin listener"),
    ] {
        let output = stanchion().arg("tail").args(&arguments).env("ADMIN_KEY", key).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
        assert!(said.contains(told) && !said.contains("wrong"), "{said}");
    }
    let mut command = stanchion();
    command.args(["tail", "--url", &url, "--key-env", "ADMIN_KEY"]).env("ADMIN_KEY", "secret");
    let mut watching = gateway.watch_with(&mut command);
    gateway.call("n");
    assert!(watching.line().contains("p/z"));
}
