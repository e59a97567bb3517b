//! The command line.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, Parser, Subcommand};

/// A gateway that keeps streamed model replies whole, bounded and explainable.
///
/// Point any OpenAI, Anthropic, Gemini or Ollama client at it. It retries what was never shown, falls over to the next candidate, notices what has
/// stalled, and never passes a broken answer off as a whole one.
#[derive(Debug, Parser)]
#[command(name = "stanchion", version, max_term_width = 110)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve clients.
    ///
    /// Without --config, the providers are those whose keys are in the environment: OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY,
    /// OPENROUTER_API_KEY, DEEPSEEK_API_KEY, GROQ_API_KEY and others. The model's name says which of them is asked: claude-... is Anthropic's,
    /// gpt-... OpenAI's, and provider/model that provider's.
    Serve(Serve),
    /// Say what is wrong with a configuration, with line and key, or that nothing is.
    Check {
        /// The configuration file (TOML).
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Ask each candidate of a configuration one small question, and say whether it works.
    ///
    /// Each is asked with each of its provider's keys. Prints codes and times, never a word of a provider's. Fails if any candidate does.
    Probe {
        /// The configuration file (TOML).
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        /// Ask only the candidates of this model, by whatever name a client may ask for it.
        #[arg(long, value_name = "NAME")]
        model: Option<String>,
        /// How many seconds each may take.
        #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=600))]
        limit: u64,
        /// Print one JSON object for each candidate.
        #[arg(long)]
        json: bool,
    },
    /// Print the JSON Schema of the configuration file, for editors that complete and check.
    Schema {
        /// Print the page of all settings instead, as docs/configuration.md has it.
        #[arg(long)]
        markdown: bool,
    },
    /// Watch what happens in a running gateway: retries, fallbacks, circuits, queues, and how each request ended.
    ///
    /// It asks the admin listener, so the configuration needs a table [admin]. Times are in UTC. It connects again when the gateway was away,
    /// and ends with Ctrl-C.
    Tail(Tail),
    /// Make the key_sha256 of a client's key, so that the key itself stands in no file.
    ///
    /// Reads the key from standard input, where no list of processes and no history of a shell shows it.
    HashKey {
        /// Make a new key, and print it with its hash.
        #[arg(long)]
        generate: bool,
    },
    /// Watch the gateway master ten faults of a scripted provider. Needs no keys and no network.
    Demo {
        /// Play only the faults whose name contains this.
        #[arg(long, value_name = "TEXT")]
        only: Option<String>,
    },
}

/// The options of `tail`.
#[derive(Debug, Args)]
pub struct Tail {
    /// The address of the admin listener.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9090")]
    pub url: String,
    /// The variable that has the admin key.
    #[arg(long, value_name = "NAME")]
    pub key_env: Option<String>,
    /// Only the requests of this model.
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Print every event as one JSON object a line, those that go as they should too.
    #[arg(long)]
    pub json: bool,
    /// Whether lines have colours; `auto` is where a terminal shows them and NO_COLOR is not set.
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub color: clap::ColorChoice,
}

/// The options of `serve`.
#[derive(Debug, Args)]
pub struct Serve {
    /// The configuration file (TOML).
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where clients connect, over the configuration's own [default: 127.0.0.1:8080]
    #[arg(long, value_name = "IP:PORT")]
    pub listen: Option<SocketAddr>,
    /// Serve the status page and an operator's actions there, over the configuration's own `[admin]`. Beyond loopback only with a key
    /// from the configuration.
    #[arg(long, value_name = "IP:PORT", num_args = 0..=1, default_missing_value = "127.0.0.1:9090")]
    pub admin: Option<SocketAddr>,
    /// Serve beyond loopback although no client key is configured: whoever reaches the address can spend your providers' money.
    #[arg(long)]
    pub open: bool,
}
