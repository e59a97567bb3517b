//! What is served at a moment: the gateway that one configuration makes. Another takes its place in one step, and requests that
//! run go on with the one that they began with.

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use arc_swap::ArcSwap;
use stanchion::telemetry::Metrics;
use tokio::sync::watch;

use crate::{
    config::{Complaint, Config},
    gateway::Gateway,
};

/// A gateway, and the configuration that it was made of.
#[derive(Debug)]
pub struct Served {
    /// Who answers.
    pub gateway: Gateway,
    /// What is configured; `None` where providers are those of the environment.
    pub config: Option<Arc<Config>>,
    /// What it was made of.
    pub origin: Origin,
}

/// Which configuration is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// 1 for the one that the process began with, and one more for each that took another's place.
    pub generation: u64,
    /// The file; `None` where providers are those of the environment.
    pub file: Option<PathBuf>,
    /// The first 12 hexadecimal digits of the SHA-256 of all that it was read from.
    pub hash: String,
    /// Since when it is served.
    pub since: SystemTime,
}

/// A configuration that was not taken, and why.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// When.
    pub at: SystemTime,
    /// What is wrong with it.
    pub complaints: Vec<Complaint>,
}

/// What is served now. Clones see the same. A look at it costs one load of a pointer.
#[derive(Clone)]
pub struct Current(Arc<Inner>);

struct Inner {
    served: ArcSwap<Served>,
    generations: watch::Sender<u64>,
    refusal: Mutex<Option<Refusal>>,
}

impl Current {
    /// Serves this first, as it is configured in a file or otherwise.
    pub fn new(gateway: Gateway, config: Option<Arc<Config>>, file: Option<PathBuf>) -> Self {
        let hash = config.as_ref().map(|config| config.hash.clone()).unwrap_or_default();
        let origin = Origin { generation: 1, file, hash, since: SystemTime::now() };
        let served = ArcSwap::from_pointee(Served { gateway, config, origin });
        Self(Arc::new(Inner { served, generations: watch::Sender::new(1), refusal: Mutex::new(None) }))
    }

    /// What is served now. Whoever holds it goes on with it, whatever comes.
    pub fn get(&self) -> Arc<Served> {
        self.0.served.load_full()
    }

    /// Serves another from now on. To be called by one at a time.
    pub fn replace(&self, gateway: Gateway, config: Arc<Config>) -> Origin {
        let before = self.get().origin.clone();
        let generation = before.generation + 1;
        let origin = Origin { generation, hash: config.hash.clone(), since: SystemTime::now(), ..before };
        self.0.served.store(Arc::new(Served { gateway, config: Some(config), origin: origin.clone() }));
        *self.refused() = None;
        self.0.generations.send_replace(generation);
        origin
    }

    /// The number of the configuration that is served, for whoever waits for another.
    pub fn generations(&self) -> watch::Receiver<u64> {
        self.0.generations.subscribe()
    }

    /// Notes that the configuration that was read is the one that is served: whatever was wrong with one between is mended.
    pub fn keep(&self) {
        *self.refused() = None;
    }

    /// Notes that a configuration was not taken.
    pub fn refuse(&self, complaints: Vec<Complaint>) {
        *self.refused() = Some(Refusal { at: SystemTime::now(), complaints });
    }

    /// The configuration that was not taken, if that was the last that was tried.
    pub fn refusal(&self) -> Option<Refusal> {
        self.refused().clone()
    }

    /// Has shown among the metrics which configuration is served, by which version, and whether it is the one that was tried last.
    pub fn measure(&self, metrics: &Metrics) {
        let current = self.clone();
        metrics.pull(move |pulled| {
            let since = current.get().origin.since;
            pulled.configuration(since, current.refused().is_none(), env!("CARGO_PKG_VERSION"));
        });
    }

    fn refused(&self) -> std::sync::MutexGuard<'_, Option<Refusal>> {
        self.0.refusal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<Gateway> for Current {
    fn from(gateway: Gateway) -> Self {
        Self::new(gateway, None, None)
    }
}

impl fmt::Debug for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Current").field("origin", &self.get().origin).finish_non_exhaustive()
    }
}
