//! Sends load to a gateway on this machine, and prints one JSON object that says what came of it.

use std::{
    io::Read,
    net::SocketAddr,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use clap::{Args, Parser, Subcommand};
use stanchion_bench::load::{Target, closed_loop, hold_open, open_loop};

#[derive(Debug, Parser)]
#[command(name = "load")]
struct Arguments {
    #[command(subcommand)]
    how: How,
}

#[derive(Debug, Subcommand)]
enum How {
    /// So many at once
    Closed {
        #[command(flatten)]
        target: TargetArguments,
        #[arg(long, default_value_t = 16)]
        concurrency: usize,
        #[command(flatten)]
        time: Time,
    },
    /// So many a second
    Open {
        #[command(flatten)]
        target: TargetArguments,
        #[arg(long)]
        rate: f64,
        #[arg(long, default_value_t = 64)]
        connections: usize,
        #[command(flatten)]
        time: Time,
    },
    /// So many streams, held open until standard input ends
    Hold {
        #[command(flatten)]
        target: TargetArguments,
        #[arg(long, default_value_t = 1000)]
        streams: usize,
    },
}

#[derive(Debug, Args)]
struct TargetArguments {
    /// Loopback only
    #[arg(long)]
    address: SocketAddr,
    #[arg(long, default_value = "/v1/chat/completions")]
    path: String,
    #[arg(long, default_value = "m")]
    model: String,
    #[arg(long)]
    stream: bool,
    #[arg(long, default_value_t = 400)]
    prompt: usize,
    /// Header fields besides the usual, as "name: value"
    #[arg(long)]
    header: Vec<String>,
}

#[derive(Debug, Args)]
struct Time {
    /// Seconds before anything counts
    #[arg(long, default_value_t = 1.0)]
    warm_up: f64,
    /// Seconds that count
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
}

impl From<TargetArguments> for Target {
    fn from(given: TargetArguments) -> Self {
        let TargetArguments { address, path, model, stream, prompt, header } = given;
        Self { address, path, model, stream, prompt, headers: header }
    }
}

fn main() -> ExitCode {
    let how = Arguments::parse().how;
    let (How::Closed { target, .. } | How::Open { target, .. } | How::Hold { target, .. }) = &how;
    if !target.address.ip().is_loopback() {
        eprintln!("load: {} is not on this machine: load goes to loopback only", target.address);
        return ExitCode::FAILURE;
    }
    let seconds = Duration::from_secs_f64;
    let report = match how {
        How::Closed { target, concurrency, time } => {
            closed_loop(&target.into(), concurrency, seconds(time.warm_up), seconds(time.seconds))
        }
        How::Open { target, rate, connections, time } => {
            open_loop(&target.into(), rate, connections, seconds(time.warm_up), seconds(time.seconds))
        }
        How::Hold { target, streams } => return hold(&target.into(), streams),
    };
    match serde_json::to_string(&report) {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => fail(&error.to_string()),
    }
}

fn hold(target: &Target, streams: usize) -> ExitCode {
    let told = Arc::new(AtomicBool::new(false));
    let tell = told.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        tell.store(true, Ordering::Relaxed);
    });
    match hold_open(target, streams, &told) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error.to_string()),
    }
}

fn fail(reason: &str) -> ExitCode {
    eprintln!("load: {reason}");
    ExitCode::FAILURE
}
