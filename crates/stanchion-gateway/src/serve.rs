//! What `stanchion serve` does, from the first configuration to the exit code.

use std::{
    future::pending,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use stanchion::{
    core::Candidate,
    telemetry::{Live, Metrics, Sink},
};
use tokio::sync::mpsc;

use crate::{
    admin::{Admin, AdminHandle, AdminSettings, Board},
    cli::Serve,
    config::{self, Config, ConfigError, Overrides},
    current::Current,
    environment,
    export::Export,
    fail,
    gateway::Parts,
    reload::{self, Reloader},
    server::{Ended, Lifecycle, Phase, Server},
    system,
};

/// How long the last call records may take to be written.
const LAST_RECORDS: Duration = Duration::from_secs(2);

/// Serves until a signal ends it.
pub async fn run(serve: &Serve) -> ExitCode {
    let ends = system::ends();
    let (ask, asked) = mpsc::channel(1);
    system::ask_on_hang_up(ask);
    let first = match First::read(serve) {
        Ok(first) => first,
        Err(code) => return code,
    };
    first.warn();
    let watched = first.admin(serve.admin).map(|settings| (settings, Live::default()));
    let export = first.config().map_or_else(Export::default, |config| Export::new(&config.telemetry));
    let metrics = (watched.is_some() || export.wants_metrics()).then(Metrics::new);
    let live = watched.as_ref().map(|(_, live)| Arc::new(live.clone()) as Arc<dyn Sink>);
    let counted = metrics.clone().map(|metrics| Arc::new(metrics) as Arc<dyn Sink>);
    let parts = Parts::new().sinks([live, counted, export.sink()].into_iter().flatten());
    if let Err(error) = first.open(&parts) {
        return misconfigured(&error);
    }
    let Begun { listen, current, board, reloader } = first.begin(serve, parts);
    let records = current.get().gateway.records.clone();
    if let Some(metrics) = &metrics {
        current.get().gateway.measure(metrics);
        current.measure(metrics);
    }
    let exporting = export.begin(metrics.as_ref());
    let admin = match watched {
        None => None,
        Some((settings, live)) => {
            let scheme = settings.scheme();
            let metrics = metrics.expect("there are some where there is an admin listener");
            match Admin::bind(settings, board, live, metrics).await {
                Ok(admin) => {
                    admin.handle().shows(current.clone());
                    Some((admin, scheme))
                }
                Err(error) => return fail(&error.to_string()),
            }
        }
    };
    let server = match Server::bind(listen, current.clone(), serve.open).await {
        Ok(server) => server,
        Err(error) => return fail(&error.to_string()),
    };
    match server.address() {
        Ok(address) => tracing::info!("listening on {}://{address}", current.get().gateway.server.scheme()),
        Err(error) => return fail(&format!("the address cannot be told: {error}")),
    }
    if let Some((admin, scheme)) = &admin {
        match admin.address() {
            Ok(address) => tracing::info!("admin listener on {scheme}://{address}"),
            Err(error) => return fail(&format!("the address of the admin listener cannot be told: {error}")),
        }
    }
    let lifecycle = server.lifecycle().clone();
    let administering = admin.map(|(admin, _)| {
        // From now on, and not from the task's first turn on: none is missed.
        let generations = current.generations();
        let told = tokio::spawn(tell_operators(admin.handle(), current, generations, lifecycle.clone()));
        let lifecycle = lifecycle.clone();
        // Operators can watch to the end.
        (told, tokio::spawn(admin.serve(async move { lifecycle.reached(Phase::Over).await })))
    });
    let besides = async {
        let reloading = async {
            match reloader {
                Some(reloader) => reloader.run(asked).await,
                None => nothing_to_reload(asked).await,
            }
        };
        tokio::join!(reloading, tell_the_system(&lifecycle), system::keep_alive());
        pending::<()>().await;
    };
    let (mut code, mut second) = (0, ends.second);
    let first = async {
        let _ = ends.first.await;
    };
    let at_once = async { code = (&mut second).await.unwrap_or(1) };
    let mut ended = tokio::select! {
        ended = server.serve_until(first, at_once) => ended,
        () = besides => unreachable!("it waits for ever"),
    };
    if let Some((told, served)) = administering {
        told.abort();
        let _ = served.await;
    }
    settle(&lifecycle).await;
    let written = tokio::task::spawn_blocking(move || records.close(LAST_RECORDS)).await;
    if !written.unwrap_or(false) {
        tracing::warn!("the last call records are not written: the disk is too slow");
    }
    // A collector may be far away, and slow: who asks a second time does not wait for it.
    if ended != Ended::AtOnce {
        tokio::select! {
            () = exporting.end() => {}
            asked = &mut second => (code, ended) = (asked.unwrap_or(1), Ended::AtOnce),
        }
    }
    match ended {
        Ended::Whole => tracing::info!("ended; every reply was whole"),
        Ended::Cut(requests) => tracing::warn!(requests, "ended; some replies were ended in band"),
        Ended::AtOnce => {
            tracing::warn!("ended at once");
            return ExitCode::from(code);
        }
    }
    ExitCode::SUCCESS
}

/// What was cut short tells of its end in tasks of its own: a moment for that, so that its record is written, too.
async fn settle(lifecycle: &Lifecycle) {
    let told = async {
        while lifecycle.running() > 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        // One is counted no more just before its record is made.
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let _ = tokio::time::timeout(LAST_RECORDS, told).await;
}

/// What there is to serve at first.
enum First {
    File(PathBuf, Config),
    /// Variables make the whole configuration.
    Variables(Config),
    /// Providers whose keys are in the environment.
    Keys(Vec<Candidate>),
}

/// What is served at first.
struct Begun {
    listen: SocketAddr,
    current: Current,
    board: Board,
    reloader: Option<Reloader>,
}

impl First {
    fn read(serve: &Serve) -> Result<Self, ExitCode> {
        if let Some(path) = &serve.config {
            let config = Config::load(path).map_err(|error| misconfigured(&error))?;
            return Ok(Self::File(path.clone(), config));
        }
        if !Overrides::of_process().is_empty() {
            return Config::from_environment().map(Self::Variables).map_err(|error| misconfigured(&error));
        }
        let providers = environment::candidates(&|name| std::env::var(name).ok());
        if providers.is_empty() {
            let variables = environment::variables();
            return Err(fail(&format!("there is nothing to serve: give --config FILE, or set one of {variables}")));
        }
        Ok(Self::Keys(providers))
    }

    /// Tells of what is allowed and should not be.
    fn warn(&self) {
        match self {
            Self::File(path, config) => reload::warn(path, config),
            Self::Variables(config) => reload::warn(Path::new("the environment"), config),
            Self::Keys(_) => {}
        }
    }

    fn config(&self) -> Option<&Config> {
        match self {
            Self::File(_, config) | Self::Variables(config) => Some(config),
            Self::Keys(_) => None,
        }
    }

    /// Where operators look and act; what the command line says goes over the configuration.
    fn admin(&self, listen: Option<SocketAddr>) -> Option<AdminSettings> {
        let configured = self.config().and_then(|config| config.admin.clone());
        match listen {
            Some(listen) => Some(match configured {
                Some(configured) => AdminSettings { listen, ..configured },
                None => AdminSettings { listen, key: None, tls: None },
            }),
            None => configured,
        }
    }

    /// Opens what is written to.
    fn open(&self, parts: &Parts) -> Result<(), ConfigError> {
        let (path, config) = match self {
            Self::File(path, config) => (&**path, config),
            Self::Variables(config) => (Path::new("the environment"), config),
            Self::Keys(_) => return Ok(()),
        };
        parts.open(config).map_err(|complaint| ConfigError::new(path, vec![complaint]))
    }

    fn begin(self, serve: &Serve, mut parts: Parts) -> Begun {
        match self {
            Self::File(path, config) => {
                let reloader = Reloader::begin(&path, config, parts, serve.listen, serve.open);
                let (listen, current) = (reloader.listen(), reloader.current().clone());
                let board = board_of(&current).expect("it was made of a configuration");
                Begun { listen, current, board, reloader: Some(reloader) }
            }
            Self::Variables(config) => {
                let listen = serve.listen.unwrap_or(config.server.listen);
                let (gateway, config) = parts.serve(config);
                let board = Board::new(&config, &gateway);
                Begun { listen, current: Current::new(gateway, Some(config), None), board, reloader: None }
            }
            Self::Keys(providers) => {
                let (gateway, providers) = parts.serve_open_ended(&providers);
                let board = Board::open_ended(&providers, &gateway);
                let listen = serve.listen.unwrap_or(config::LISTEN);
                Begun { listen, current: gateway.into(), board, reloader: None }
            }
        }
    }
}

fn board_of(current: &Current) -> Option<Board> {
    let served = current.get();
    Some(Board::new(served.config.as_deref()?, &served.gateway))
}

/// Shows operators what is configured at the moment, and that the process ends once it does.
async fn tell_operators(
    admin: AdminHandle,
    current: Current,
    mut generations: tokio::sync::watch::Receiver<u64>,
    lifecycle: Lifecycle,
) {
    loop {
        tokio::select! {
            changed = generations.changed() => {
                if changed.is_err() {
                    return;
                }
                let served = current.get();
                let Some(config) = served.config.as_deref() else { continue };
                admin.reloaded(Board::new(config, &served.gateway));
                if let Some(settings) = &config.admin {
                    admin.speaks(settings.tls.clone());
                }
            }
            () = lifecycle.reached(Phase::Draining) => return admin.draining(),
        }
    }
}

async fn tell_the_system(lifecycle: &Lifecycle) {
    lifecycle.reached(Phase::Ready).await;
    system::ready();
    lifecycle.reached(Phase::Draining).await;
    system::stopping();
}

async fn nothing_to_reload(mut asked: mpsc::Receiver<()>) {
    while asked.recv().await.is_some() {
        tracing::warn!("there is no file to read anew: the configuration is that of the environment");
    }
}

/// `EX_CONFIG`: to start it again would not help.
fn misconfigured(error: &ConfigError) -> ExitCode {
    fail(&error.to_string());
    ExitCode::from(78)
}
