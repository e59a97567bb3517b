//! What a Stanchion gateway must know to be tested.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};

use toml::Value;

use crate::scenario::{Dialect, Scenario};
use crate::upstream::{Upstream, base_url};

/// Where the parts of a test listen, for a configuration that is written before they do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// The scripted provider.
    pub upstream: SocketAddr,
    /// Where nothing listens.
    pub refusing: SocketAddr,
    /// The gateway.
    pub gateway: SocketAddr,
}

impl Addresses {
    /// Takes the lowest port of this machine, which is hardly ever in use, for the one where nothing listens.
    pub fn new(upstream: SocketAddr, gateway: SocketAddr) -> Self {
        Self { upstream, refusing: (Ipv4Addr::LOCALHOST, 1).into(), gateway }
    }
}

/// The configuration of a gateway that listens at `listen`, in front of a provider that is running.
pub fn gateway_config(scenarios: &[Scenario], upstream: &Upstream, listen: SocketAddr) -> String {
    write_all(scenarios, listen, |scenario, candidate| upstream.base_url(&scenario.id, candidate))
}

/// The same for a provider that is yet to be started.
pub fn gateway_config_for(scenarios: &[Scenario], addresses: Addresses) -> String {
    write_all(scenarios, addresses.gateway, |scenario, candidate| {
        let address = if scenario.refuses(candidate) { addresses.refusing } else { addresses.upstream };
        base_url(address, &scenario.id, candidate)
    })
}

fn write_all(scenarios: &[Scenario], listen: SocketAddr, base: impl Fn(&Scenario, &str) -> String) -> String {
    let mut config = format!("[server]\nlisten = \"{listen}\"\ninline_keys = true\n\n");
    for scenario in scenarios {
        // Writing to a string cannot fail.
        let _ = write_scenario(&mut config, scenario, &base);
    }
    config.push_str("[defaults.timeouts]\nfirst_output = \"3s\"\nidle = \"3s\"\ntotal = \"6s\"\n");
    config
}

fn write_scenario(config: &mut String, scenario: &Scenario, base: impl Fn(&Scenario, &str) -> String) -> fmt::Result {
    let id = &scenario.id;
    let family = scenario.dialect.family();
    // An OpenAI client's base ends in the version; the other wires have it in their paths.
    let version = match scenario.dialect {
        Dialect::OpenAiChat | Dialect::OpenAiResponses => "/v1",
        Dialect::Anthropic | Dialect::Gemini | Dialect::Ollama => "",
    };
    let mut candidates = Vec::new();
    for candidate in scenario.candidates() {
        let provider = format!("{id}-{candidate}");
        let base = base(scenario, candidate);
        writeln!(config, "[providers.{}]\ndialect = \"{family}\"", key(&provider))?;
        writeln!(config, "base_url = \"{base}{version}\"")?;
        write_settings(config, &provider_settings(scenario, candidate))?;
        config.push('\n');
        candidates.push(candidate_entry(scenario, candidate, &provider));
    }
    writeln!(config, "[models.{}]\ncandidates = [{}]", key(id), candidates.join(", "))?;
    // What stands behind a table would be a part of it.
    write_settings(config, scenario.config.iter().filter(|(_, value)| !value.is_table()))?;
    config.push('\n');
    for (table, settings) in scenario.config.iter().filter_map(|(name, value)| Some((name, value.as_table()?))) {
        writeln!(config, "[models.{}.{}]", key(id), key(table))?;
        write_settings(config, settings)?;
        config.push('\n');
    }
    Ok(())
}

/// What a candidate's provider is told: its own settings over those of all, and a key if neither has one.
fn provider_settings(scenario: &Scenario, candidate: &str) -> BTreeMap<String, Value> {
    let mut settings = scenario.provider.clone();
    settings.extend(scenario.candidate.get(candidate).into_iter().flat_map(|own| own.provider.clone()));
    if !settings.keys().any(|name| name.starts_with("api_key")) {
        settings.insert("api_key".to_owned(), "sk-x".into());
    }
    settings
}

/// A candidate as it stands in a model's list.
fn candidate_entry(scenario: &Scenario, candidate: &str, provider: &str) -> String {
    let mut entry = vec![format!("provider = \"{provider}\"")];
    let own = scenario.candidate.get(candidate).map(|own| own.settings.clone()).unwrap_or_default();
    if !own.contains_key("model") {
        entry.push("model = \"m\"".to_owned());
    }
    entry.extend(own.iter().map(|(name, value)| format!("{} = {value}", key(name))));
    format!("{{ {} }}", entry.join(", "))
}

fn write_settings<'a>(config: &mut String, settings: impl IntoIterator<Item = (&'a String, &'a Value)>) -> fmt::Result {
    settings.into_iter().try_for_each(|(name, value)| writeln!(config, "{} = {value}", key(name)))
}

/// A key as TOML wants it.
fn key(name: &str) -> String {
    let bare = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if bare { name.to_owned() } else { Value::from(name).to_string() }
}

#[cfg(test)]
mod tests {
    use super::{Addresses, gateway_config_for};
    use crate::scenario::Scenario;

    fn config(scenarios: &[Scenario]) -> String {
        let address = |port: u16| ([127, 0, 0, 1], port).into();
        gateway_config_for(scenarios, Addresses::new(address(4101), address(4100)))
    }

    #[test]
    fn each_scenario_is_a_model_with_its_candidates() {
        let text = "name = 's'\nrefuse = { a = true }\nupstream.b = [{}]\n\
            config.retry = { max_retries = 0, statuses = [503] }\nconfig.hold = { for = '1s', deep = { x = 1 } }\n\
            config.heartbeat = '1s'\nprovider.repair = true\n\
            candidate.b = { temperature = 0.5, provider = { api_keys = ['k-1', 'k-2'] } }";
        let wanted = r#"[server]
listen = "127.0.0.1:4100"
inline_keys = true

[providers.s15-a]
dialect = "openai"
base_url = "http://127.0.0.1:1/s15/a/v1"
api_key = "sk-x"
repair = true

[providers.s15-b]
dialect = "openai"
base_url = "http://127.0.0.1:4101/s15/b/v1"
api_keys = ["k-1", "k-2"]
repair = true

[models.s15]
candidates = [{ provider = "s15-a", model = "m" }, { provider = "s15-b", model = "m", temperature = 0.5 }]
heartbeat = "1s"

[models.s15.hold]
deep = { x = 1 }
for = "1s"

[models.s15.retry]
max_retries = 0
statuses = [503]

[defaults.timeouts]
first_output = "3s"
idle = "3s"
total = "6s"
"#;
        assert_eq!(config(&[Scenario::parse("s15", text).unwrap()]), wanted);
    }

    #[test]
    fn every_wire_has_its_family_and_only_openai_a_version() {
        for (dialect, family, base) in [
            ("openai-responses", "openai", "http://127.0.0.1:4101/x.y/a/v1"),
            ("anthropic", "anthropic", "http://127.0.0.1:4101/x.y/a"),
            ("gemini", "gemini", "http://127.0.0.1:4101/x.y/a"),
            ("ollama", "ollama", "http://127.0.0.1:4101/x.y/a"),
        ] {
            let text = format!("name = 's'\ndialect = '{dialect}'\nupstream.a = [{{}}]");
            let config: toml::Table = config(&[Scenario::parse("x.y", &text).unwrap()]).parse().unwrap();
            let provider = &config["providers"]["x.y-a"];
            assert_eq!((provider["dialect"].as_str(), provider["base_url"].as_str()), (Some(family), Some(base)));
            assert!(config["models"]["x.y"]["candidates"].is_array());
        }
    }
}
