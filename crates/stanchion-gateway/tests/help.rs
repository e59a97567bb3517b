//! Help, completions and refusals of every command of the binary: the same for all.

use std::process::{Command, Output, Stdio};

use clap::CommandFactory;
use stanchion_gateway::cli::Cli;

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stanchion"));
    command.env_clear().stdin(Stdio::null()).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn commands() -> Vec<String> {
    let names: Vec<_> = Cli::command().get_subcommands().map(|command| command.get_name().to_owned()).collect();
    assert!(names.len() >= 7, "{names:?}");
    names
}

#[test]
fn every_command_explains_itself_on_standard_output() {
    for command in commands() {
        for arguments in [vec![&*command, "--help"], vec![&*command, "-h"], vec!["help", &*command]] {
            let output = run(&arguments);
            let help = text(&output.stdout);
            assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}");
            assert!(help.contains(&format!("Usage: stanchion {command}")), "{help}");
            assert!(help.contains("Examples:\n  ") && help.contains(&format!("stanchion {command}")), "{help}");
        }
    }
    let help = text(&run(&["--help"]).stdout);
    assert!(commands().iter().all(|command| help.contains(&format!("\n  {command} "))), "{help}");
    assert_eq!(text(&run(&["--version"]).stdout), format!("stanchion {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn every_command_refuses_what_it_does_not_know_in_one_line() {
    for command in commands() {
        let output = run(&[&command, "--no-such-option"]);
        let told = text(&output.stderr);
        assert_eq!((output.status.code(), told.lines().count()), (Some(2), 1), "{told}");
        assert!(told.starts_with("stanchion: ") && output.stdout.is_empty(), "{told}");
        assert!(told.contains(&format!("`stanchion {command} --help` says more")), "{told}");
    }
    let nothing = run(&[]);
    assert_eq!(nothing.status.code(), Some(2));
    assert_eq!(text(&nothing.stderr), "stanchion: there is no command: `stanchion --help` shows them\n");
}

#[test]
fn every_command_that_reads_a_file_says_in_one_line_that_it_is_not_there() {
    for (command, code) in [("serve", 78), ("check", 1), ("probe", 1)] {
        let output = run(&[command, "--config", "no-such-file.toml"]);
        let told = text(&output.stderr);
        assert_eq!((output.status.code(), told.lines().count()), (Some(code), 1), "{told}");
        assert!(told.starts_with("stanchion: no-such-file.toml: cannot be read: "), "{told}");
    }
}

#[test]
fn shells_are_told_of_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = run(&["completions", shell]);
        let script = text(&output.stdout);
        assert!(output.status.success() && output.stderr.is_empty());
        for word in commands().iter().map(String::as_str).chain(["key-env", "markdown"]) {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    // Bash can read its own, and completes with it.
    let script = text(&run(&["completions", "bash"]).stdout);
    let ask = format!(
        "{script}\nCOMP_WORDS=(stanchion ta); COMP_CWORD=1; _stanchion stanchion ta stanchion; echo \"${{COMPREPLY[@]}}\""
    );
    let output = Command::new("bash").args(["-c", &ask]).output().unwrap();
    assert_eq!((text(&output.stdout).trim(), &*text(&output.stderr)), ("tail", ""));
}
