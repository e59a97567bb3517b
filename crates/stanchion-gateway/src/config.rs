//! The configuration: read from TOML, checked as a whole, every complaint with line, key and reason.
//!
//! ```toml
//! [server]
//! listen = "127.0.0.1:8080"
//! max_request_bytes = "32MiB"
//!
//! [providers.primary]
//! dialect = "openai"
//! base_url = "https://api.openai.com/v1"
//! api_key_env = "OPENAI_API_KEY"
//!
//! [models.main]
//! candidates = [{ provider = "primary", model = "gpt-x" }]
//!
//! [defaults.retry]
//! max_retries = 2
//! ```

mod admin;
mod candidates;
mod check;
mod clients;
mod file;
mod locate;
mod names;
mod nearest;
mod overrides;
mod page;
mod resilience;
mod schema;
mod server;
mod shape;
mod shared;
mod sources;
mod telemetry;
mod tls;
mod value;

use std::{
    collections::BTreeMap,
    fmt,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use stanchion::{
    admission::{AdmissionPolicy, AdmissionScheduler},
    cache_break::CacheBreakPolicy,
    circuit::CircuitPolicy,
    core::{Candidates, DispositionRules, RequestClass},
    credentials::CredentialPools,
    deadline::{AttemptLimits, RecoveryLimits},
    fallback::OnOverflow,
    retry::{RetryBudget, RetryPolicy},
    stream::{CommitLayer, Malformed},
    upstream::ClientTls,
    usage::Catalogue,
    wire::frame::FrameDecoder,
};

use crate::{
    admin::AdminSettings,
    server::{ListenerLimits, ServerTls},
};

pub use self::{
    overrides::{Overrides, PREFIX},
    page::page,
    schema::json_schema,
    telemetry::{OtlpSettings, TelemetrySettings},
};

/// A configuration that has been read and found whole.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where and how clients connect.
    pub server: ServerSettings,
    /// Where operators look and act, if anywhere.
    pub admin: Option<AdminSettings>,
    /// The first 12 hexadecimal digits of the SHA-256 of all that it was read from.
    pub hash: String,
    /// The files that it was read from: the configuration itself, keys, prices.
    pub files: Vec<PathBuf>,
    /// What is allowed, and should not be.
    pub warnings: Vec<Complaint>,
    /// The largest request body, in bytes.
    pub max_request_bytes: usize,
    /// Whether callers are believed what they say of themselves where none has a key.
    pub identity_headers: bool,
    /// The clients that may connect; anyone may if there is none.
    pub clients: Vec<Client>,
    /// Where the requests of all models queue.
    pub scheduler: AdmissionScheduler,
    /// The keys of providers that have several.
    pub credentials: CredentialPools,
    /// How providers are spoken to that have a `tls` table, by their names.
    pub provider_tls: BTreeMap<String, ClientTls>,
    /// What models cost.
    pub catalogue: Arc<Catalogue>,
    /// How prompt caches are watched.
    pub cache: CacheBreakPolicy,
    /// What is kept of requests beyond the process.
    pub telemetry: TelemetrySettings,
    /// What clients can ask for, by the name they ask for.
    pub models: BTreeMap<String, Model>,
    /// Providers whose models can be asked for as `provider/model`, each as a model of its own with the defaults.
    pub passthrough: BTreeMap<String, Model>,
}

/// Where and how clients connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSettings {
    /// Where.
    pub listen: SocketAddr,
    /// How long running replies may go on once the process is to end.
    pub drain: Duration,
    /// How often the files are looked at for changes; `None` if never.
    pub watch: Option<Duration>,
    /// What is borne of clients.
    pub limits: ListenerLimits,
    /// How TLS is spoken, if it is.
    pub tls: Option<ServerTls>,
}

impl ServerSettings {
    /// What URLs of the listener begin with.
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// Whether only clients with a certificate come in.
    pub fn knows_clients(&self) -> bool {
        self.tls.as_ref().is_some_and(ServerTls::asks_for_certificate)
    }
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            listen: LISTEN,
            drain: Duration::from_secs(30),
            watch: Some(Duration::from_secs(2)),
            limits: ListenerLimits::default(),
            tls: None,
        }
    }
}

/// A client that may connect.
#[derive(Clone)]
pub struct Client {
    /// Its name in the configuration.
    pub name: String,
    /// The SHA-256 of what it presents.
    pub key: [u8; 32],
    /// Whose capacity its requests use, whatever it says.
    pub owner: Option<String>,
    /// Who waits for its requests, whatever it says.
    pub class: Option<RequestClass>,
    /// Whether it is believed what it says of itself.
    pub identity_headers: bool,
    /// What it may ask for, as names and patterns; `None` for everything.
    pub models: Option<Vec<String>>,
    /// How much it may ask for.
    pub limits: ClientLimits,
}

impl fmt::Debug for Client {
    /// Without what its key comes to.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("name", &self.name).field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// How much a client may ask for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientLimits {
    /// How many requests in a minute.
    pub requests_per_minute: Option<u32>,
    /// How many at one time.
    pub concurrency: Option<u32>,
}

/// One model: what serves it, and how.
#[derive(Debug, Clone)]
pub struct Model {
    /// Other names that clients can ask for.
    pub aliases: Vec<String>,
    /// Patterns of further names, in which `*` stands for any characters.
    pub patterns: Vec<String>,
    /// In order of preference.
    pub candidates: Candidates,
    /// How long a foreground request may go on recovering.
    pub recovery: RecoveryLimits,
    /// How zero-output failures are replayed.
    pub retry: RetryPolicy,
    /// What protects the providers from all those replays together.
    pub retry_budget: Option<RetryBudget>,
    /// How often a client that waits is sent a sign of life.
    pub heartbeat: Option<Duration>,
    /// When a candidate is left alone.
    pub circuit: CircuitPolicy,
    /// What its requests queue for, by the provider that they go to.
    pub admission: BTreeMap<String, AdmissionPolicy>,
    /// Whether providers are asked for usage where clients do not ask for it.
    pub request_usage: bool,
    /// The clocks of one attempt.
    pub limits: AttemptLimits,
    /// The longest time to make a connection.
    pub connect: Duration,
    /// Which failures go to the next candidate, where deployments disagree.
    pub rules: DispositionRules,
    /// How candidates follow each other.
    pub fallback: FallbackSettings,
    /// When replies leave.
    pub commit: CommitLayer,
    /// How replies are read.
    pub stream: StreamSettings,
}

/// The default of `server.listen`: 127.0.0.1:8080.
pub const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);
/// The default of `server.max_request_bytes`: 32 MiB.
pub const MAX_REQUEST_BYTES: usize = 32 * 1024 * 1024;
/// The default of `timeouts.connect`: 10 s.
pub const CONNECT: Duration = Duration::from_secs(10);

impl Model {
    /// These candidates, with the default of everything else.
    pub fn of(candidates: Candidates) -> Self {
        Self {
            aliases: Vec::new(),
            patterns: Vec::new(),
            candidates,
            recovery: RecoveryLimits::builder().budget(Duration::ZERO).build().expect("no budget is in order"),
            retry: RetryPolicy::default(),
            retry_budget: Some(RetryBudget::default()),
            heartbeat: None,
            circuit: CircuitPolicy::default(),
            admission: BTreeMap::new(),
            request_usage: false,
            limits: AttemptLimits::default(),
            connect: CONNECT,
            rules: DispositionRules::default(),
            fallback: FallbackSettings::default(),
            commit: CommitLayer::new(),
            stream: StreamSettings::default(),
        }
    }
}

/// How candidates follow each other.
#[derive(Debug, Clone, Copy)]
pub struct FallbackSettings {
    /// Where a request goes whose prompt is too long for a candidate.
    pub on_overflow: OnOverflow,
    /// Whether candidates are passed over that a request cannot fit.
    pub fit_guard: bool,
}

impl Default for FallbackSettings {
    fn default() -> Self {
        Self { on_overflow: OnOverflow::Stop, fit_guard: true }
    }
}

/// How replies are read.
#[derive(Debug, Clone, Copy)]
pub struct StreamSettings {
    /// What becomes of frames that are cut short.
    pub malformed: Malformed,
    /// The largest single event, in bytes.
    pub max_event: usize,
}

impl Default for StreamSettings {
    fn default() -> Self {
        Self { malformed: Malformed::Drop, max_event: FrameDecoder::DEFAULT_MAX_EVENT }
    }
}

/// Everything that is wrong with a configuration.
#[derive(Debug)]
pub struct ConfigError {
    file: String,
    complaints: Vec<Complaint>,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// The line, from 1; `None` if it is about the whole file.
    pub line: Option<usize>,
    /// The variable of the environment that it is about, instead of the file.
    pub variable: Option<String>,
    /// The key, with its tables: `models.main.retry.max_retries`.
    pub key: String,
    /// What is wrong, and what would be right.
    pub reason: String,
}

impl ConfigError {
    /// What is wrong with a file.
    pub(crate) fn new(file: &Path, complaints: Vec<Complaint>) -> Self {
        Self { file: file.display().to_string(), complaints }
    }

    /// What is wrong, in the order of the file.
    pub fn complaints(&self) -> &[Complaint] {
        &self.complaints
    }
}

impl Complaint {
    /// The line in which it is told, with the file that it is about.
    pub fn told_of(&self, file: &str) -> String {
        ConfigError { file: file.to_owned(), complaints: vec![self.clone()] }.to_string()
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, complaint) in self.complaints.iter().enumerate() {
            if number > 0 {
                f.write_str("\n")?;
            }
            f.write_str(complaint.variable.as_ref().unwrap_or(&self.file))?;
            if let Some(line) = complaint.line {
                write!(f, ":{line}")?;
            }
            if !complaint.key.is_empty() {
                write!(f, ": {}", complaint.key)?;
            }
            write!(f, ": {}", complaint.reason)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// Reads and checks a file, with the variables of the process's environment that go over it.
    ///
    /// # Errors
    ///
    /// With every complaint about it, or the reason why it cannot be read.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| ConfigError {
            file: file.clone(),
            complaints: vec![Complaint {
                line: None,
                variable: None,
                key: String::new(),
                reason: format!("cannot be read: {error}"),
            }],
        })?;
        let mut config = Self::parse_under(&file, &text, &Overrides::of_process(), &|name| std::env::var(name).ok())?;
        config.files.insert(0, path.to_owned());
        Ok(config)
    }

    /// The configuration that the variables of the process's environment make without a file.
    ///
    /// # Errors
    ///
    /// With every complaint about them.
    pub fn from_environment() -> Result<Self, ConfigError> {
        Self::parse_under("the environment", "", &Overrides::of_process(), &|name| std::env::var(name).ok())
    }

    /// Reads and checks a text. `environment` looks variables up. A relative path in it begins in the folder of `file`.
    pub fn parse(file: &str, text: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        Self::parse_under(file, text, &Overrides::default(), environment)
    }

    /// Reads and checks a text with variables that go over it.
    pub fn parse_under(
        file: &str,
        text: &str,
        overrides: &Overrides,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let folder = Path::new(file).parent().unwrap_or(Path::new(""));
        check::check(text, folder, overrides, environment)
            .map_err(|complaints| ConfigError { file: file.to_owned(), complaints })
    }
}

#[cfg(test)]
mod tests;
