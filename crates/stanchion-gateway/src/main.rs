//! The binary `stanchion`.

use std::{io::Write, process::ExitCode, time::Duration};

use clap::Parser;
use stanchion_gateway::{
    cli::{self, Cli, Command},
    config::{self, Config},
    demo, fail, keys, probe, serve,
    tail::{self, Tail},
};
use tracing_subscriber::{EnvFilter, fmt::format::FmtSpan};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return misunderstood(&error),
    };
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("no runtime: {error}")),
    };
    match cli.command {
        Command::Serve(serve) => {
            log_to_stderr();
            let code = runtime.block_on(serve::run(&serve));
            // Nothing that is left is waited for.
            runtime.shutdown_background();
            code
        }
        Command::Check { config } => match Config::load(&config) {
            Ok(checked) => {
                for warning in &checked.warnings {
                    eprintln!("stanchion: warning: {}", warning.told_of(&config.display().to_string()));
                }
                println!("{}: in order; {} models", config.display(), checked.models.len());
                ExitCode::SUCCESS
            }
            Err(error) => fail(&error.to_string()),
        },
        Command::Probe { config, model, limit, json } => match Config::load(&config) {
            Ok(config) => runtime.block_on(probe::run(&config, model.as_deref(), Duration::from_secs(limit), json)),
            Err(error) => fail(&error.to_string()),
        },
        Command::Tail(options) => runtime.block_on(watch(options)),
        Command::HashKey { generate } => hash_key(generate),
        Command::Completions { shell } => print(&String::from_utf8_lossy(&cli::completions(shell))),
        Command::Schema { markdown: true } => print(&config::page()),
        Command::Schema { markdown: false } => print(&format!("{:#}\n", config::json_schema())),
        Command::Demo { only } => runtime.block_on(demo::run(only.as_deref())),
    }
}

async fn watch(options: cli::Tail) -> ExitCode {
    let cli::Tail { url, key_env, ca, cert, cert_key, model, json, color } = options;
    let key = match key_env.map(|name| (std::env::var(&name), name)) {
        None => None,
        Some((Ok(key), _)) if !key.trim().is_empty() => match tail::bearer(key.trim()) {
            Some(key) => Some(key),
            None => return fail("the admin key has characters that no HTTP header can carry"),
        },
        Some((_, name)) => return fail(&format!("the environment variable {name} is not set")),
    };
    let identity = cert.zip(cert_key);
    let tls = match tail::trust(ca.as_deref(), identity.as_ref().map(|(cert, key)| (&**cert, &**key))) {
        Ok(tls) => tls,
        Err(complaint) => return fail(&complaint),
    };
    let tail = Tail { url, key, tls, model, json, colors: tail::colors(color) };
    let (mut out, mut aside) = (std::io::stdout(), std::io::stderr());
    tokio::select! {
        // First, so that an interrupt is waited for before anything is said.
        biased;
        _ = tokio::signal::ctrl_c() => ExitCode::SUCCESS,
        ended = tail.run(&mut out, &mut aside) => match ended {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error.to_string()),
        },
    }
}

fn log_to_stderr() {
    let filter = EnvFilter::try_from_env("STANCHION_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    // A log that nobody reads any more must not end a request: writing to it may fail in silence.
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // The spans of requests and attempts, where the configuration wants them: a line when they are over.
        .with_span_events(FmtSpan::CLOSE)
        .log_internal_errors(false)
        .init();
}

/// The hash of a key, and the key itself if it is new.
fn hash_key(generate: bool) -> ExitCode {
    if generate {
        return match keys::make() {
            Ok(key) => print(&format!("key: {key}\nkey_sha256 = \"{}\"\n", keys::hash_of(&key))),
            Err(error) => fail(&format!("no key can be made: {error}")),
        };
    }
    let mut key = String::new();
    match std::io::stdin().read_line(&mut key) {
        Ok(_) if key.trim().is_empty() => fail("there is no key: write it to standard input, or give --generate"),
        Ok(_) => print(&format!("{}\n", keys::hash_of(key.trim()))),
        Err(error) => fail(&format!("the key cannot be read: {error}")),
    }
}

/// Help to standard output; what is wrong in one line to standard error, with the exit code for it: 2.
fn misunderstood(error: &clap::Error) -> ExitCode {
    match cli::complaint(error) {
        None => {
            let _ = error.print();
            ExitCode::SUCCESS
        }
        Some(complaint) => {
            fail(&complaint);
            ExitCode::from(2)
        }
    }
}

/// To standard output, whose reader may leave early.
fn print(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
