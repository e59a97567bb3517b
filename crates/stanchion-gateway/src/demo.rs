//! Ten faults of a scripted provider, played through the real gateway over real sockets, with what happened told as it happens.

mod timeline;

use std::{process::ExitCode, sync::Arc, time::Duration};

use stanchion::core::Event;
use stanchion_faults::{
    judge::judge,
    runner::{Target, gateway_config, play},
    scenario::Scenario,
    upstream::Upstream,
};

use self::timeline::Timeline;
use crate::{config::Config, gateway::Gateway, server::Server};

const FAULTS: [(&str, &str); 10] = [
    ("overloaded", include_str!("demo/faults/01-overloaded.toml")),
    ("error-in-200", include_str!("demo/faults/02-error-in-200.toml")),
    ("cut-before-output", include_str!("demo/faults/03-cut-before-output.toml")),
    ("empty-success", include_str!("demo/faults/04-empty-success.toml")),
    ("retry-after", include_str!("demo/faults/05-retry-after.toml")),
    ("primary-down", include_str!("demo/faults/06-primary-down.toml")),
    ("silent-primary", include_str!("demo/faults/07-silent-primary.toml")),
    ("quota", include_str!("demo/faults/08-quota.toml")),
    ("overflow-as-500", include_str!("demo/faults/09-overflow-as-500.toml")),
    ("cut-after-output", include_str!("demo/faults/10-cut-after-output.toml")),
];

/// Plays the faults whose name contains `only`. Succeeds if all came out right.
pub async fn run(only: Option<&str>) -> ExitCode {
    match play_all(only).await {
        Ok((right, all)) if right == all && all > 0 => {
            println!("\n{right} of {all} came out right.");
            ExitCode::SUCCESS
        }
        Ok((_, 0)) => {
            let names: Vec<&str> = FAULTS.iter().map(|(name, _)| *name).collect();
            eprintln!("stanchion: no fault has such a name; there are: {}", names.join(", "));
            ExitCode::FAILURE
        }
        Ok((right, all)) => {
            println!("\n{right} of {all} came out right.");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("stanchion: the demo cannot run: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn play_all(only: Option<&str>) -> Result<(usize, usize), Box<dyn std::error::Error>> {
    let faults: Vec<(&str, &str)> =
        FAULTS.into_iter().filter(|(name, _)| only.is_none_or(|part| name.contains(part))).collect();
    let scenarios =
        faults.into_iter().map(|(name, text)| Scenario::parse(name, text)).collect::<Result<Vec<_>, _>>()?;
    if scenarios.is_empty() {
        return Ok((0, 0));
    }
    let provider = Upstream::start(&scenarios).await?;
    let text = gateway_config(&scenarios, &provider, ([127, 0, 0, 1], 0).into());
    let config = Config::parse("the demo's configuration", &text, &|_| None)?;
    let timeline = Timeline::default();
    let seen = timeline.clone();
    let gateway = Gateway::new(&config, Some(Arc::new(move |event: &Event| seen.note(event))));
    let server = Server::bind(config.server.listen, gateway, false).await?;
    let address = server.address()?;
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(server.serve(async {
        let _ = ended.await;
    }));

    println!(
        "A scripted provider misbehaves in {} ways. The gateway before it listens on http://{address}.",
        scenarios.len()
    );
    println!("Any OpenAI client would see what is shown after each arrow.");
    let mut right = 0;
    for (number, scenario) in scenarios.iter().enumerate() {
        println!("\n{:>2}. {}\n    {}", number + 1, scenario.name, scenario.why);
        timeline.start();
        let replies = play(scenario, Target::Gateway(address)).await;
        let complaints = judge(scenario, &replies, &provider);
        for line in timeline.take() {
            println!("      {line}");
        }
        if let Some(reply) = replies.first() {
            println!("      {}", timeline::outcome(reply));
        }
        if complaints.is_empty() {
            right += 1;
            println!("    right");
        } else {
            println!("    WRONG: {}", complaints.join("; "));
        }
    }
    let _ = end.send(());
    let _ = tokio::time::timeout(Duration::from_secs(5), serving).await;
    Ok((right, scenarios.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_fault_comes_out_right() {
        // The quick ones; the rest play in the binary's own test.
        let (right, all) = play_all(Some("o")).await.unwrap();
        assert!(all >= 5, "{all}");
        assert_eq!(right, all);
    }

    #[tokio::test]
    async fn a_name_that_no_fault_has_plays_nothing() {
        assert_eq!(play_all(Some("no such fault")).await.unwrap(), (0, 0));
    }
}
