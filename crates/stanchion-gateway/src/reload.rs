//! Another configuration in place of the one that is served, without a restart.
//!
//! A file that is wrong changes nothing, and is told with all that is wrong with it. Requests that run go on under the configuration that they
//! began with. What both configurations have in common keeps its state: see [`Parts`].

use std::{
    fs::Metadata,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use tokio::{sync::mpsc, time::MissedTickBehavior};

use crate::{
    admin::AdminSettings,
    config::{Complaint, Config, ConfigError, OtlpSettings},
    current::Current,
    gateway::Parts,
    server::is_open_to_strangers,
    system,
};

/// Takes new configurations from a file.
#[derive(Debug)]
pub struct Reloader {
    path: PathBuf,
    parts: Parts,
    current: Current,
    /// What the process began with and cannot change.
    fixed: Fixed,
    /// What the last configuration that was tried was read from, and as what it was found.
    seen: Vec<Stamp>,
    /// How often to look.
    watch: Option<Duration>,
}

#[derive(Debug, Clone)]
struct Fixed {
    /// What the file said, whatever the command line does.
    configured: SocketAddr,
    listen: SocketAddr,
    open: bool,
    admin: Option<AdminSettings>,
    otlp: Option<OtlpSettings>,
}

/// What came of a new configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reloaded {
    /// It is served.
    Taken,
    /// It is the one that is served already.
    Unchanged,
    /// It is wrong; what was served still is.
    Refused,
}

impl Reloader {
    /// Begins with a configuration that was read from `path`, in a process that listens at `listen`, or where the configuration says.
    pub fn begin(path: &Path, config: Config, mut parts: Parts, listen: Option<SocketAddr>, open: bool) -> Self {
        let fixed = Fixed {
            configured: config.server.listen,
            listen: listen.unwrap_or(config.server.listen),
            open,
            admin: config.admin.clone(),
            otlp: config.telemetry.otlp.clone(),
        };
        let (seen, watch) = (stamps(&config.files), config.server.watch);
        let (gateway, config) = parts.serve(config);
        let current = Current::new(gateway, Some(config), Some(path.to_owned()));
        Self { path: path.to_owned(), parts, current, fixed, seen, watch }
    }

    /// What is served.
    pub fn current(&self) -> &Current {
        &self.current
    }

    /// Where to listen.
    pub fn listen(&self) -> SocketAddr {
        self.fixed.listen
    }

    /// Takes the file's configuration, if it is another one and in order.
    pub async fn reload(&mut self) -> Reloaded {
        // Keys that are in both configurations begin with what is known of them now.
        self.save().await;
        let path = self.path.clone();
        let loaded = tokio::task::spawn_blocking(move || Config::load(&path)).await;
        let outcome = match loaded {
            Ok(Ok(config)) => self.take(config),
            Ok(Err(error)) => {
                // Whatever of its files can be mended is worth a look.
                let files: Vec<PathBuf> = self.seen.iter().map(|stamp| stamp.path.clone()).collect();
                self.seen = stamps(&files);
                Err(error)
            }
            // What a panic says may quote what was read.
            Err(_) => {
                let reason = "it could not be read, which is an error of stanchion's own".to_owned();
                let complaint = Complaint { line: None, variable: None, key: String::new(), reason };
                Err(ConfigError::new(&self.path, vec![complaint]))
            }
        };
        match outcome {
            Ok(reloaded) => reloaded,
            Err(error) => {
                tracing::error!("the new configuration is not taken; what was served still is. What is wrong with it:");
                for line in error.to_string().lines() {
                    tracing::error!("{line}");
                }
                self.current.refuse(error.complaints().to_vec());
                Reloaded::Refused
            }
        }
    }

    fn take(&mut self, config: Config) -> Result<Reloaded, ConfigError> {
        self.seen = stamps(&config.files);
        if is_open_to_strangers(
            self.fixed.listen,
            config.clients.is_empty() && !config.server.knows_clients(),
            self.fixed.open,
        ) {
            let reason = format!(
                "without any client, whoever reaches {} can spend your providers' money: keep one, or restart with --open",
                self.fixed.listen
            );
            let complaint = Complaint { line: None, variable: None, key: "clients".to_owned(), reason };
            return Err(ConfigError::new(&self.path, vec![complaint]));
        }
        if config.server.listen != self.fixed.configured {
            let (now, listen) = (self.fixed.listen, config.server.listen);
            tracing::warn!("server.listen is now {listen}: that takes a restart; {now} is listened at until then");
        }
        let is_same_place = match (&config.admin, &self.fixed.admin) {
            (Some(new), Some(fixed)) => new.is_same_place(fixed),
            (new, fixed) => new.is_some() == fixed.is_some(),
        };
        if !is_same_place {
            tracing::warn!("[admin] has changed: all but its tls takes a restart");
        }
        if config.telemetry.otlp != self.fixed.otlp {
            tracing::warn!("[telemetry.otlp] has changed: that takes a restart");
        }
        self.watch = config.server.watch;
        if config.hash == self.current.get().origin.hash {
            tracing::info!(hash = config.hash, "the configuration is unchanged");
            self.current.keep();
            return Ok(Reloaded::Unchanged);
        }
        self.parts.open(&config).map_err(|complaint| ConfigError::new(&self.path, vec![complaint]))?;
        warn(&self.path, &config);
        let (gateway, config) = self.parts.serve(config);
        let origin = self.current.replace(gateway, config);
        tracing::info!(generation = origin.generation, hash = origin.hash, "a new configuration is served");
        Ok(Reloaded::Taken)
    }

    async fn save(&self) {
        let keys = self.current.get().gateway.credentials.clone();
        let failed = tokio::task::spawn_blocking(move || keys.save()).await.unwrap_or_default();
        for (provider, error) in failed {
            tracing::warn!(%provider, %error, "the state of its keys cannot be saved");
        }
    }

    /// Reloads whenever it is asked to, and when the file or what it names has changed. Ends when nobody can ask any more.
    pub async fn run(mut self, mut asked: mpsc::Receiver<()>) {
        let mut changed: Option<Vec<Stamp>> = None;
        let mut look = ticker(self.watch);
        loop {
            let by_hand = tokio::select! {
                ask = asked.recv() => match ask {
                    Some(()) => true,
                    None => return,
                },
                () = tick(look.as_mut()) => false,
            };
            if !by_hand {
                let now = self.look().await;
                if now == self.seen {
                    changed = None;
                    continue;
                }
                // Whoever writes is done once two looks see the same.
                if changed.as_ref() != Some(&now) {
                    changed = Some(now);
                    continue;
                }
                tracing::info!(file = %self.path.display(), "the configuration has changed");
            }
            changed = None;
            let before = self.watch;
            system::reloading();
            self.reload().await;
            system::ready();
            if self.watch != before {
                look = ticker(self.watch);
            }
        }
    }

    async fn look(&self) -> Vec<Stamp> {
        let files: Vec<PathBuf> = self.seen.iter().map(|stamp| stamp.path.clone()).collect();
        tokio::task::spawn_blocking(move || stamps(&files)).await.unwrap_or_default()
    }
}

/// Tells in the log of what a configuration allows and should not.
pub(crate) fn warn(file: &Path, config: &Config) {
    for warning in &config.warnings {
        tracing::warn!("{}", warning.told_of(&file.display().to_string()));
    }
}

/// What tells one version of a file from another without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    path: PathBuf,
    /// `None` if it is not there, or cannot be looked at.
    version: Option<(Option<SystemTime>, u64, u64)>,
}

/// Files that are replaced are others of the same name, and so are those behind a link that is turned to another place.
fn stamps(files: &[PathBuf]) -> Vec<Stamp> {
    let version = |path: &PathBuf| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.modified().ok(), metadata.len(), number(&metadata)))
    };
    files.iter().map(|path| Stamp { path: path.clone(), version: version(path) }).collect()
}

#[cfg(unix)]
fn number(metadata: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

#[cfg(not(unix))]
fn number(_: &Metadata) -> u64 {
    0
}

fn ticker(every: Option<Duration>) -> Option<tokio::time::Interval> {
    let mut interval = tokio::time::interval(every?);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    Some(interval)
}

async fn tick(interval: Option<&mut tokio::time::Interval>) {
    match interval {
        Some(interval) => {
            interval.tick().await;
        }
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
