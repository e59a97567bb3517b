//! The command line.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/scenarios")
}

fn run(command: &str, more: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_stanchion-faults"))
        .arg(command)
        .arg("--dir")
        .arg(scenarios())
        .args(more)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn direct_tells_what_a_bare_client_sees() {
    let (status, told, _) = run("direct", &["--only", "retry-after", "--jobs", "2"]);
    let lines: Vec<_> = told.lines().collect();
    assert_eq!((status, lines.len()), (Some(0), 4));
    assert!(
        lines[0].starts_with("FAIL s03-429-retry-after.toml ") && lines[0].contains("outcome error, wanted complete")
    );
    assert!(lines[1].starts_with("n/a  s38-retry-after-huge.toml ") && lines[1].ends_with("not offered: fallback"));
    assert!(lines[3].starts_with("0 of 2 hold (1 not offered);"));
}

#[test]
fn a_failed_run_has_exit_status_one() {
    // Nothing listens at the lowest port.
    let (status, told, _) = run("run", &["--only", "s01", "--gateway", "127.0.0.1:1", "--listen", "127.0.0.1:0"]);
    assert_eq!(status, Some(1));
    assert!(told.starts_with("FAIL s01-plain.toml ") && told.contains("outcome refused, wanted complete"), "{told}");
}

#[test]
fn the_configuration_names_every_scenario() {
    let (status, told, _) = run("config", &["--gateway", "127.0.0.1:4100", "--listen", "127.0.0.1:4102"]);
    let config: toml::Table = told.parse().unwrap();
    assert_eq!((status, config["server"]["listen"].as_str()), (Some(0), Some("127.0.0.1:4100")));
    assert!(config["models"].as_table().unwrap().len() >= 40);
    assert_eq!(config["providers"]["s32-a"]["base_url"].as_str(), Some("http://127.0.0.1:4102/s32/a"));
}

#[test]
fn what_cannot_be_done_is_told() {
    let (status, told, error) = run("direct", &["--only", "no such thing"]);
    assert_eq!((status, told.as_str()), (Some(2), ""));
    assert!(error.ends_with("has no scenario named like \"no such thing\"\n"), "{error}");
    let (status, _, error) = run("serve", &["--listen", "nowhere"]);
    assert_eq!(status, Some(2));
    assert!(error.contains("--listen <ADDR>"), "{error}");
}
