//! `stanchion-faults`: plays scenario files against a gateway.

mod cli;

use std::process::ExitCode;

use clap::Parser;

#[tokio::main]
async fn main() -> ExitCode {
    match cli::Cli::parse().run().await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("stanchion-faults: {error}");
            ExitCode::from(2)
        }
    }
}
