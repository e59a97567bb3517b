//! The same as the binary does it: from its start to its end.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Command, Stdio},
};

use crate::Folder;

fn stanchion() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stanchion"));
    command.env_clear().env("NO_COLOR", "1").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

const MODEL: &str = "[server]\nlisten = \"127.0.0.1:0\"\n[providers.p]\ndialect = \"openai\"\nbase_url = \"http://127.0.0.1:9/v1\"\n\
                     [models.m]\ncandidates = [{ provider = \"p\", model = \"x\" }]\n[defaults.retry]\nmax_retries = 0\n";

#[test]
fn a_record_is_written_and_a_span_is_logged_before_the_process_ends() {
    let folder = Folder::new();
    let config = folder.path("stanchion.toml");
    let telemetry = format!(
        "[telemetry]\nrecords.path = '{}'\ntraces = {{ start = true, log = true }}\n",
        folder.path("calls.jsonl").display()
    );
    fs::write(&config, format!("{MODEL}{telemetry}")).unwrap();
    let mut child = stanchion().args(["serve", "--config"]).arg(&config).spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("listening on http://") {
        line.clear();
        assert!(log.read_line(&mut line).unwrap() > 0, "it ended");
    }
    let mut stream = TcpStream::connect(line.trim().rsplit("http://").next().unwrap()).unwrap();
    let body = r#"{"model":"m","messages":[]}"#;
    let length = body.len();
    write!(
        stream,
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    stream.read_to_end(&mut Vec::new()).unwrap();
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    let mut told = String::new();
    log.read_to_string(&mut told).unwrap();
    assert!(child.wait().unwrap().success(), "{told}");

    let records = folder.records("calls.jsonl");
    assert_eq!((records.len(), &records[0]["failure"]), (1, &"connect_failed".into()));
    let closed: Vec<&str> = told.lines().filter(|line| line.contains("close")).collect();
    assert_eq!(closed.len(), 2, "{told}");
    assert!(closed[0].contains("attempt{number=1") && closed[0].contains("failure=\"connect_failed\""), "{told}");
    let trace = records[0]["trace_id"].as_str().unwrap();
    assert!(
        closed[1].contains(trace) && closed[1].contains("ending=\"failed\"") && !closed[1].contains("attempt{"),
        "{told}"
    );
}

#[test]
fn a_file_that_cannot_be_written_is_told_before_anybody_is_served() {
    let folder = Folder::new();
    let config = folder.path("stanchion.toml");
    fs::write(
        &config,
        format!("{MODEL}[telemetry.records]\npath = '{}'\n", folder.path(&"long".repeat(100)).display()),
    )
    .unwrap();
    let output = stanchion().args(["serve", "--config"]).arg(&config).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), told.lines().count()), (Some(78), 1), "{told}");
    assert!(told.contains("telemetry.records.path: ") && told.contains("cannot be written"), "{told}");
}
