//! The command line.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, CommandFactory, Parser, Subcommand, error::ErrorKind};
use clap_complete::Shell;

/// A gateway that keeps streamed model replies whole, bounded and explainable.
///
/// Point any OpenAI, Anthropic, Gemini or Ollama client at it. It retries what was never shown, falls over to the next candidate, notices what has
/// stalled, and never passes a broken answer off as a whole one.
#[derive(Debug, Parser)]
#[command(name = "stanchion", version, max_term_width = 110, after_help = examples::ALL)]
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
    #[command(after_help = examples::SERVE)]
    Serve(Serve),
    /// Say what is wrong with a configuration, with line and key, or that nothing is.
    #[command(after_help = examples::CHECK)]
    Check {
        /// The configuration file (TOML).
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Ask each candidate of a configuration one small question, and say whether it works.
    ///
    /// Each is asked with each of its provider's keys. Prints codes and times, never a word of a provider's. Fails if any candidate does.
    #[command(after_help = examples::PROBE)]
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
    #[command(after_help = examples::SCHEMA)]
    Schema {
        /// Print the page of all settings instead, as docs/configuration.md has it.
        #[arg(long)]
        markdown: bool,
    },
    /// Watch what happens in a running gateway: retries, fallbacks, circuits, queues, and how each request ended.
    ///
    /// It asks the admin listener, so the configuration needs a table `[admin]`. Times are in UTC. It connects again when the gateway was away,
    /// and ends with Ctrl-C.
    #[command(after_help = examples::TAIL)]
    Tail(Tail),
    /// Make the key_sha256 of a client's key, so that the key itself stands in no file.
    ///
    /// Reads the key from standard input, where no list of processes and no history of a shell shows it.
    #[command(after_help = examples::HASH_KEY)]
    HashKey {
        /// Make a new key, and print it with its hash.
        #[arg(long)]
        generate: bool,
    },
    /// Watch the gateway master ten faults of a scripted provider. Needs no keys and no network.
    #[command(after_help = examples::DEMO)]
    Demo {
        /// Play only the faults whose name contains this.
        #[arg(long, value_name = "TEXT")]
        only: Option<String>,
    },
    /// Print what a shell needs to complete commands and options.
    #[command(after_help = examples::COMPLETIONS)]
    Completions {
        /// The shell.
        shell: Shell,
    },
}

/// What stands below the help of each command.
mod examples {
    pub(super) const ALL: &str = "Examples:
  OPENAI_API_KEY=... stanchion serve            # any client at http://127.0.0.1:8080/v1
  stanchion check --config stanchion.toml
  stanchion demo                                # no keys, no network";
    pub(super) const SERVE: &str = "Examples:
  OPENAI_API_KEY=... stanchion serve
  stanchion serve --config stanchion.toml
  stanchion serve --config stanchion.toml --admin   # the status page at http://127.0.0.1:9090";
    pub(super) const CHECK: &str = "Examples:
  stanchion check --config stanchion.toml";
    pub(super) const PROBE: &str = "Examples:
  stanchion probe --config stanchion.toml
  stanchion probe --config stanchion.toml --model main --json | jq .health";
    pub(super) const SCHEMA: &str = "Examples:
  stanchion schema > stanchion.schema.json";
    pub(super) const TAIL: &str = "Examples:
  stanchion tail
  stanchion tail --url http://10.0.0.5:9090 --key-env ADMIN_KEY --model main
  stanchion tail --url https://10.0.0.5:9090 --ca admin-ca.pem --key-env ADMIN_KEY
  stanchion tail --json | jq 'select(.kind == \"ended\")'";
    pub(super) const HASH_KEY: &str = "Examples:
  stanchion hash-key < key.txt
  stanchion hash-key --generate";
    pub(super) const DEMO: &str = "Examples:
  stanchion demo
  stanchion demo --only rate";
    pub(super) const COMPLETIONS: &str = "Examples:
  stanchion completions bash > ~/.local/share/bash-completion/completions/stanchion
  stanchion completions zsh > ~/.zfunc/_stanchion
  stanchion completions fish > ~/.config/fish/completions/stanchion.fish";
}

/// What a shell needs to complete commands and options.
pub fn completions(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "stanchion", &mut script);
    script
}

/// What is wrong with the arguments, and where help is, in one line; `None` if help or the version was asked for.
pub fn complaint(error: &clap::Error) -> Option<String> {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return None;
    }
    let text = error.render().to_string();
    let usage = text.lines().find_map(|line| line.trim().strip_prefix("Usage: stanchion "));
    // Only commands are words: options and values follow them.
    let command =
        usage.and_then(|usage| usage.split_whitespace().next()).filter(|word| !word.starts_with(['-', '<', '[']));
    let asked = command.map_or("stanchion --help".to_owned(), |command| format!("stanchion {command} --help"));
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return Some(format!("there is no command: `{asked}` shows them"));
    }
    let told = text.lines().take_while(|line| !line.trim_start().starts_with("Usage:"));
    let told = told.map(|line| line.trim().trim_start_matches("error: ").trim_start_matches("tip: "));
    let told: Vec<&str> = told.filter(|line| !line.is_empty() && !line.starts_with("For more information")).collect();
    Some(format!("{}; `{asked}` says more", told.join("; ").replace(":;", ":")))
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
    /// The file of the certificates (PEM) to trust besides the platform's, where the address is https.
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// The file of the certificate (PEM) to present, where the listener asks for one.
    #[arg(long, value_name = "FILE", requires = "cert_key")]
    pub cert: Option<PathBuf>,
    /// The file of its private key (PEM).
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub cert_key: Option<PathBuf>,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Each command with its examples, and the whole with its own.
    fn all() -> Vec<(String, String)> {
        let cli = Cli::command();
        let examples = |command: &clap::Command| command.get_after_help().map_or(String::new(), ToString::to_string);
        let own = [("stanchion".to_owned(), examples(&cli))];
        own.into_iter()
            .chain(cli.get_subcommands().map(|command| (command.get_name().to_owned(), examples(command))))
            .collect()
    }

    #[test]
    fn every_command_has_examples_and_each_of_them_can_be_typed() {
        for (name, examples) in all() {
            let lines: Vec<&str> = examples.lines().filter_map(|line| line.strip_prefix("  ")).collect();
            assert!(!lines.is_empty(), "{name}");
            for line in lines {
                let words = line.split(['|', '>', '<', '#']).next().unwrap().split_whitespace();
                // Variables go before the command.
                let words: Vec<&str> = words.skip_while(|word| *word != "stanchion").collect();
                assert!(name == "stanchion" || words.get(1) == Some(&&*name), "{line}");
                Cli::try_parse_from(&words).unwrap_or_else(|error| panic!("{line}: {error}"));
            }
        }
    }

    #[test]
    fn what_is_wrong_is_told_in_one_line_with_where_help_is() {
        for (arguments, told) in [
            (
                "check --confg x",
                "unexpected argument '--confg' found; a similar argument exists: '--config'; `stanchion check --help` says more",
            ),
            (
                "check",
                "the following required arguments were not provided: --config <FILE>; `stanchion check --help` says more",
            ),
            (
                "serv",
                "unrecognized subcommand 'serv'; a similar subcommand exists: 'serve'; `stanchion --help` says more",
            ),
            ("", "there is no command: `stanchion --help` shows them"),
        ] {
            let words = ["stanchion"].into_iter().chain(arguments.split_whitespace());
            let error = Cli::try_parse_from(words).unwrap_err();
            assert_eq!(complaint(&error).as_deref(), Some(told));
        }
        for arguments in ["--help", "--version", "help serve", "serve -h"] {
            let words = ["stanchion"].into_iter().chain(arguments.split_whitespace());
            assert_eq!(complaint(&Cli::try_parse_from(words).unwrap_err()), None, "{arguments}");
        }
    }
}
