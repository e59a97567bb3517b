//! What `stanchion probe` does.

use std::{process::ExitCode, sync::Arc, time::Duration};

use stanchion::probe::Probe;
use tokio::sync::Semaphore;

use crate::{config::Config, fail, gateway};

/// How many are asked at one time: what internal requests may have in flight where their class has a limit.
const AT_ONCE: usize = 2;

/// Asks all candidates, each with each of its provider's keys, and tells of them in the order of the file.
pub async fn run(config: &Config, model: Option<&str>, limit: Duration, json: bool) -> ExitCode {
    let probed = gateway::candidates(config, model);
    if probed.is_empty() {
        return fail(&match model {
            Some(model) => format!("there is no model {model:?} in the configuration"),
            None => "the configuration names no model: say which with --model PROVIDER/MODEL".to_owned(),
        });
    }
    let probe = Probe::new().limit(limit);
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    let asked: Vec<_> = probed
        .into_iter()
        .map(|gateway::Probed { name, credential, candidate, service }| {
            let (probe, turns) = (probe.clone(), turns.clone());
            let asking = async move {
                let _turn = turns.acquire().await;
                probe.ask(service, candidate).await
            };
            (name, credential, tokio::spawn(asking))
        })
        .collect();
    let mut all_work = true;
    for (name, credential, asked) in asked {
        let Ok(health) = asked.await else { return fail("a probe panicked") };
        all_work &= health.ok;
        if json {
            let health = serde_json::to_value(&health).unwrap_or_default();
            let mut line = serde_json::json!({ "model": name, "health": health });
            if let Some(id) = credential {
                line["credential_id"] = serde_json::Value::from(&*id);
            }
            println!("{line}");
        } else {
            let key = credential.map(|id| format!(" with {id}")).unwrap_or_default();
            let (code, took) = (health.code.as_str(), health.latency.as_millis());
            println!("{name}: {}{key}: {code}: {} ({took} ms)", health.candidate, health.message);
        }
    }
    if all_work { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
