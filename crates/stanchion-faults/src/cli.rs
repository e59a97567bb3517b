//! The command line.

use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use stanchion_faults::runner::{Addresses, Report, gateway_config_for, run_all, run_direct};
use stanchion_faults::scenario::{Scenario, load_matching};
use stanchion_faults::steady::Steady;
use stanchion_faults::upstream::Upstream;

/// Plays a model provider that fails as providers really do, from scenario files, and judges what a client saw.
///
/// To try a gateway: `config` prints what it must know; start it with that; then `run` plays the provider behind it
/// and the client before it, and tells scenario by scenario what holds.
#[derive(Debug, Parser)]
#[command(name = "stanchion-faults", version, after_help = EXAMPLE)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLE: &str = "\
Example:
  stanchion-faults config --dir tests/scenarios --gateway 127.0.0.1:4100 > gateway.toml
  stanchion serve --config gateway.toml &
  stanchion-faults run --dir tests/scenarios --gateway 127.0.0.1:4100";

/// Where `config` says that the provider is, and where `run` and `serve` put it.
const LISTEN: &str = "127.0.0.1:4101";

#[derive(Debug, Subcommand)]
enum Command {
    /// Play provider and client against a gateway that is already configured; exit status 1 when a scenario fails
    Run {
        #[command(flatten)]
        files: Files,
        /// Where the gateway listens
        #[arg(long, value_name = "ADDR")]
        gateway: SocketAddr,
        /// Where the scripted provider listens
        #[arg(long, value_name = "ADDR", default_value = LISTEN)]
        listen: SocketAddr,
        /// How many scenarios are played at once
        #[arg(long, value_name = "N", default_value_t = 6)]
        jobs: usize,
    },
    /// Print the configuration with which a Stanchion gateway can be run against
    Config {
        #[command(flatten)]
        files: Files,
        /// Where the gateway will listen
        #[arg(long, value_name = "ADDR")]
        gateway: SocketAddr,
        /// Where the scripted provider will listen
        #[arg(long, value_name = "ADDR", default_value = LISTEN)]
        listen: SocketAddr,
    },
    /// Play only the provider, until interrupted
    Serve {
        #[command(flatten)]
        files: Files,
        /// Where the scripted provider listens
        #[arg(long, value_name = "ADDR", default_value = LISTEN)]
        listen: SocketAddr,
    },
    /// Play a provider that never fails and is as fast as it can be, until interrupted: for measuring speed
    ///
    /// The path says what comes: /whole is a document, /events/N a stream of N events, /events/N/MS the same with a pause before each.
    Steady {
        /// Where it listens
        #[arg(long, value_name = "ADDR", default_value = LISTEN)]
        listen: SocketAddr,
    },
    /// Let a bare client ask the provider without a gateway, to see what a gateway is measured against
    ///
    /// Scenarios that need something of a gateway are passed over. The exit status is 0 whatever is seen.
    Direct {
        #[command(flatten)]
        files: Files,
        /// How many scenarios are played at once
        #[arg(long, value_name = "N", default_value_t = 6)]
        jobs: usize,
    },
}

#[derive(Debug, Args)]
struct Files {
    /// The folder with the scenario files
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Only those whose file names contain this
    #[arg(long, value_name = "SUBSTRING", default_value = "", hide_default_value = true)]
    only: String,
}

impl Files {
    fn load(&self) -> Result<Vec<Scenario>, Box<dyn Error>> {
        let scenarios = load_matching(&self.dir, &self.only)?;
        if scenarios.is_empty() {
            return Err(format!("{} has no scenario named like {:?}", self.dir.display(), self.only).into());
        }
        Ok(scenarios)
    }
}

impl Cli {
    /// Does what was asked.
    pub(crate) async fn run(self) -> Result<ExitCode, Box<dyn Error>> {
        match self.command {
            Command::Run { files, gateway, listen, jobs } => {
                let scenarios = files.load()?;
                let upstream = start(listen, &scenarios).await?;
                let verdicts = run_all(&scenarios, &upstream, gateway, jobs).await;
                let report = Report(&verdicts);
                println!("{report}");
                Ok(ExitCode::from(u8::from(report.failed() > 0)))
            }
            Command::Config { files, gateway, listen } => {
                print!("{}", gateway_config_for(&files.load()?, Addresses::new(listen, gateway)));
                Ok(ExitCode::SUCCESS)
            }
            Command::Serve { files, listen } => {
                let scenarios = files.load()?;
                let upstream = start(listen, &scenarios).await?;
                for scenario in &scenarios {
                    for candidate in scenario.candidates() {
                        println!("{} {}", upstream.base_url(&scenario.id, candidate), scenario.name);
                    }
                }
                tokio::signal::ctrl_c().await?;
                Ok(ExitCode::SUCCESS)
            }
            Command::Steady { listen } => {
                let steady = Steady::start(listen).await;
                let steady = steady.map_err(|error| format!("the provider cannot listen at {listen}: {error}"))?;
                println!("listening on http://{}", steady.address());
                tokio::signal::ctrl_c().await?;
                Ok(ExitCode::SUCCESS)
            }
            Command::Direct { files, jobs } => {
                let scenarios = files.load()?;
                let upstream = Upstream::start(&scenarios).await?;
                println!("{}", Report(&run_direct(&scenarios, &upstream, jobs).await));
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

async fn start(listen: SocketAddr, scenarios: &[Scenario]) -> Result<Upstream, Box<dyn Error>> {
    let upstream = Upstream::start_on(listen, scenarios).await;
    upstream.map_err(|error| format!("the provider cannot listen at {listen}: {error}").into())
}
