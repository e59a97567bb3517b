use super::super::{Config, page};
use super::*;

/// Every table's type, with its name.
fn tables() -> impl Iterator<Item = (&'static str, Part)> {
    annotated()["$defs"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| (&**name, Part(value)))
        .filter(|(_, part)| part.properties().is_some())
}

/// All keys that hold values, as (name of the type, key).
fn keys() -> impl Iterator<Item = (&'static str, &'static str, Property)> {
    tables().flat_map(|(name, part)| {
        part.properties().unwrap().keys().map(move |key| (name, &**key, part.property(key).unwrap()))
    })
}

#[test]
fn every_key_is_described_and_declared_in_order() {
    assert!(keys().count() > 90);
    for (table, key, property) in keys() {
        assert!(property.own.text("description").is_some_and(|text| text.len() > 3), "{table}.{key}");
    }
    for (name, part) in tables() {
        let mut declared = part.order();
        declared.sort_unstable();
        assert_eq!(declared, part.properties().unwrap().keys().collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn the_schema_is_plain_and_without_null() {
    let text = json_schema().to_string();
    assert!(text.starts_with("{\"$schema\":\"http://json-schema.org/draft-07/schema#\""), "{}", &text[..80]);
    for word in ["x-", "null", "$defs"] {
        assert!(!text.contains(&format!("\"{word}")), "{word}");
    }
    let schema = json_schema();
    let listen = &schema["definitions"]["Server"]["properties"]["listen"];
    assert_eq!(listen["default"], "127.0.0.1:8080");
    assert_eq!(listen["description"], "Beyond loopback only with client keys, or with `--open`. Range: IP:PORT.");
    let retry = &schema["definitions"]["Retry"];
    assert_eq!(retry["additionalProperties"], false);
    assert_eq!(retry["properties"]["over_cap"]["enum"], serde_json::json!(["give_up", "clamp", "honour"]));
    assert_eq!(schema["definitions"]["Circuit"]["properties"]["min_samples"]["maximum"], 256);
    assert_eq!(schema["definitions"]["Client"]["properties"]["key"]["writeOnly"], true);
}

/// The tables of `[defaults]` and the value in each of their keys that `choose` has one for.
fn defaults(choose: impl Fn(&str, &str, Property) -> Option<Value>) -> String {
    let mut text = String::new();
    let settings = Part::definition("Defaults").unwrap();
    for table in settings.order() {
        let part = settings.property(table).unwrap().part;
        let Some(properties) = part.properties() else { continue };
        text.extend([format!("[defaults.{table}]\n")]);
        for key in properties.keys() {
            if let Some(value) = choose(table, key, part.property(key).unwrap()) {
                text.extend([format!("{key} = {value}\n")]);
            }
        }
    }
    text
}

fn with(tables: &str) -> String {
    format!(
        "[providers.p]\ndialect = \"ollama\"\nbase_url = \"http://localhost:11434\"\n[models.m]\ncandidates = [{{ provider = \"p\" }}]\n{tables}\n"
    )
}

fn parse(text: &str) -> Config {
    Config::parse("defaults", text, &|_| None).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn every_default_that_is_written_is_what_counts_without_it() {
    // What has a default in words depends on other keys; the mere table of a recovery switches it on.
    let written = defaults(|table, _, property| {
        let depends = property.own.get("x-default").is_some() || table == "recovery";
        property.own.get("default").filter(|_| !depends).cloned()
    });
    let written = written.replace("[defaults.recovery]\n", "");
    assert!(written.lines().count() > 50, "{written}");
    let (written, none) = (parse(&with(&written)), parse(&with("")));
    let (written, none) = (&written.models["m"], &none.models["m"]);
    assert_eq!(written.retry, none.retry);
    assert_eq!(written.circuit, none.circuit);
    assert_eq!(written.admission, none.admission);
    assert_eq!(written.limits, none.limits);
    assert_eq!(written.commit, none.commit);
    assert_eq!(
        (written.connect, written.heartbeat, written.request_usage),
        (none.connect, none.heartbeat, none.request_usage)
    );
    assert_eq!(
        (written.stream.max_event, written.fallback.fit_guard),
        (none.stream.max_event, none.fallback.fit_guard)
    );
    assert_eq!(written.rules, none.rules);
    assert_eq!(
        parse(&with("[defaults.recovery]\nbudget = \"10m\"\nmax_attempts = 12")).models["m"].recovery,
        parse(&with("[defaults.recovery]")).models["m"].recovery
    );
    let shared = |name: &str| {
        let part = Part::definition(name).unwrap();
        let value = |key: &&String| part.property(key).unwrap().own.get("default").cloned();
        let lines = part.properties().unwrap().keys().filter_map(|key| Some(format!("{key} = {}\n", value(&key)?)));
        lines.collect::<String>()
    };
    let text = format!(
        "[server]\n{}[server.limits]\n{}[admission]\n{}[cache]\n{}",
        shared("Server"),
        shared("ListenerLimits"),
        shared("Admission"),
        shared("Cache")
    );
    let (written, none) = (parse(&with(&text)), parse(&with("")));
    assert_eq!((written.server, written.max_request_bytes), (none.server, none.max_request_bytes));
    assert_eq!(written.identity_headers, none.identity_headers);
    assert_eq!(written.cache, none.cache);
    // The mere table switches it on.
    let adaptive = |keys: &str| {
        let config = parse(&with(&format!("[defaults.admission.adaptive]\n{keys}")));
        config.models["m"].admission["p"].adaptive().copied()
    };
    assert!(adaptive("").is_some());
    assert_eq!(adaptive(&shared("Adaptive")), adaptive(""));
}

#[test]
fn the_ranges_of_numbers_are_those_of_the_settings_themselves() {
    let mut tried = 0;
    for (table, key, property) in keys()
        .filter(|(table, ..)| !["Model", "Owner", "Candidate", "Client", "Records", "ListenerLimits"].contains(table))
    {
        let bound = |keyword: &str| property.own.get(keyword).and_then(Value::as_f64);
        let (Some(most), Some(least)) = (bound("maximum"), bound("minimum").or(bound("exclusiveMinimum"))) else {
            continue;
        };
        let path = match table {
            "Admission" | "Cache" => table.to_lowercase(),
            "CandidateAdmission" => "defaults.admission".to_owned(),
            "Adaptive" => "defaults.admission.adaptive".to_owned(),
            "RetryBudget" => "defaults.retry_budget".to_owned(),
            _ => format!("defaults.{}", table.to_lowercase()),
        };
        let whole = property.own.types().contains(&"integer");
        let number = |number: f64| if whole { format!("{number}") } else { format!("{number:?}") };
        let text = |value: f64| with(&format!("[{path}]\n{key} = {}", number(value)));
        let step = if whole { 1.0 } else { 0.001 };
        parse(&text(most));
        parse(&text(if bound("minimum").is_some() { least } else { least + step }));
        // What the settings themselves refuse, the schema does too: asked without it.
        for beyond in [most + step, if bound("minimum").is_some() { least - step } else { least }] {
            if beyond < 0.0 && whole {
                continue;
            }
            let refused = super::super::check::meaning(&text(beyond));
            assert!(!refused.is_empty(), "{path}.{key} = {beyond} passes");
        }
        tried += 1;
    }
    assert!(tried >= 12, "{tried}");
}

#[test]
fn the_page_of_settings_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let (committed, page) = (std::fs::read_to_string(path).unwrap(), page());
    assert!(!page.contains("{{"), "a table that the schema does not have");
    for (name, key, property) in keys() {
        assert!(page.contains(&format!("| `{key}` |")) || property.part.properties().is_some(), "{name}.{key}");
    }
    assert!(
        committed == page,
        "docs/configuration.md is not what the types say: run `cargo run -- schema --markdown > docs/configuration.md`"
    );
}
