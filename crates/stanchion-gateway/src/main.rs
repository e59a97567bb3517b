//! The binary `stanchion`.

use std::{io::Write, process::ExitCode, sync::Arc, time::Duration};

use clap::Parser;
use stanchion::{
    core::Candidates,
    probe::Probe,
    telemetry::{Live, Metrics, Sink},
};
use stanchion_gateway::{
    admin::{Admin, AdminSettings, Board, Drains},
    cli::{Cli, Command, Serve},
    config::{self, Config, Overrides},
    demo, environment,
    gateway::{self, Gateway},
    server::Server,
};
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("no runtime: {error}")),
    };
    match cli.command {
        Command::Serve(serve) => {
            log_to_stderr();
            runtime.block_on(run(serve))
        }
        Command::Check { config } => match Config::load(&config) {
            Ok(checked) => {
                println!("{}: in order; {} models", config.display(), checked.models.len());
                ExitCode::SUCCESS
            }
            Err(error) => fail(&error.to_string()),
        },
        Command::Probe { config, model, limit, json } => match Config::load(&config) {
            Ok(config) => runtime.block_on(probe(&config, model.as_deref(), Duration::from_secs(limit), json)),
            Err(error) => fail(&error.to_string()),
        },
        Command::Schema { markdown: true } => print(&config::page()),
        Command::Schema { markdown: false } => print(&format!("{:#}\n", config::json_schema())),
        Command::Demo { only } => runtime.block_on(demo::run(only.as_deref())),
    }
}

async fn run(serve: Serve) -> ExitCode {
    let drains = Drains::default();
    let configured = |mut config: Config| {
        drains.put_into(&mut config);
        let gateway = Gateway::new(&config, None);
        (config.listen, config.admin.clone(), Board::new(&config, &gateway), gateway)
    };
    let (listen, admin, board, gateway) = match &serve.config {
        Some(path) => match Config::load(path) {
            Ok(config) => configured(config),
            Err(error) => return fail(&error.to_string()),
        },
        None if !Overrides::of_process().is_empty() => match Config::from_environment() {
            Ok(config) => configured(config),
            Err(error) => return fail(&error.to_string()),
        },
        None => {
            let providers = environment::candidates(&|name| std::env::var(name).ok());
            if providers.is_empty() {
                return fail(&format!(
                    "there is nothing to serve: give --config FILE, or set one of {}",
                    environment::variables()
                ));
            }
            let providers: Vec<_> =
                drains.give(&Candidates::new(providers)).iter().map(|own| (**own).clone()).collect();
            let gateway = Gateway::open_ended(providers.clone(), None);
            (([127, 0, 0, 1], 8080).into(), None, Board::open_ended(&providers, &gateway), gateway)
        }
    };
    let admin = match (serve.admin, admin) {
        (Some(listen), admin) => Some(AdminSettings { listen, key: admin.and_then(|admin| admin.key) }),
        (None, admin) => admin,
    };
    let (gateway, admin) = match admin {
        None => (gateway, None),
        Some(settings) => {
            let (live, metrics) = (Live::default(), Metrics::new());
            let sinks: [Arc<dyn Sink>; 2] = [Arc::new(live.clone()), Arc::new(metrics.clone())];
            let gateway = gateway.with_sinks(sinks);
            gateway.measure(&metrics);
            match Admin::bind(settings, board, live, metrics).await {
                Ok(admin) => (gateway, Some(admin)),
                Err(error) => return fail(&error.to_string()),
            }
        }
    };
    let server = match Server::bind(serve.listen.unwrap_or(listen), gateway, serve.open).await {
        Ok(server) => server,
        Err(error) => return fail(&error.to_string()),
    };
    match server.address() {
        Ok(address) => tracing::info!("listening on http://{address}"),
        Err(error) => return fail(&format!("the address cannot be told: {error}")),
    }
    let Some(admin) = admin else {
        server.serve(told_to_end()).await;
        return ExitCode::SUCCESS;
    };
    match admin.address() {
        Ok(address) => tracing::info!("admin listener on http://{address}"),
        Err(error) => return fail(&format!("the address of the admin listener cannot be told: {error}")),
    }
    let handle = admin.handle();
    let (over, is_over) = tokio::sync::oneshot::channel::<()>();
    // Operators can watch to the end.
    let admin = tokio::spawn(admin.serve(async { drop(is_over.await) }));
    server
        .serve(async {
            told_to_end().await;
            handle.draining();
        })
        .await;
    drop(over);
    let _ = admin.await;
    ExitCode::SUCCESS
}

/// Asks all candidates at once, and tells of them in the order of the file.
async fn probe(config: &Config, model: Option<&str>, limit: Duration, json: bool) -> ExitCode {
    let candidates = gateway::candidates(config, |name| model.is_none_or(|model| model == name));
    if candidates.is_empty() {
        return fail(&format!("there is no model {:?} in the configuration", model.unwrap_or_default()));
    }
    let probe = Probe::new().limit(limit);
    let asked: Vec<_> = candidates
        .into_iter()
        .map(|(name, candidate, service)| {
            let probe = probe.clone();
            (name, tokio::spawn(async move { probe.ask(service, candidate).await }))
        })
        .collect();
    let mut all_work = true;
    for (name, asked) in asked {
        let Ok(health) = asked.await else { return fail("a probe panicked") };
        all_work &= health.ok;
        if json {
            let health = serde_json::to_value(&health).unwrap_or_default();
            println!("{}", serde_json::json!({ "model": name, "health": health }));
        } else {
            let (code, took) = (health.code.as_str(), health.latency.as_millis());
            println!("{name}: {}: {code}: {} ({took} ms)", health.candidate, health.message);
        }
    }
    if all_work { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Ends with the first interrupt or termination signal.
async fn told_to_end() {
    let interrupt = tokio::signal::ctrl_c();
    #[cfg(unix)]
    {
        let Ok(mut terminate) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) else {
            let _ = interrupt.await;
            return;
        };
        tokio::select! {
            _ = interrupt => {}
            _ = terminate.recv() => {}
        }
    }
    #[cfg(not(unix))]
    let _ = interrupt.await;
}

fn log_to_stderr() {
    let filter = EnvFilter::try_from_env("STANCHION_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    // A log that nobody reads any more must not end a request: writing to it may fail in silence.
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).log_internal_errors(false).init();
}

/// To standard output, whose reader may leave early.
fn print(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// One line on standard error for each complaint.
fn fail(reason: &str) -> ExitCode {
    for line in reason.lines() {
        eprintln!("stanchion: {line}");
    }
    ExitCode::FAILURE
}
