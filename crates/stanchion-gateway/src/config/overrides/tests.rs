use std::time::Duration;

use stanchion::retry::RetryPolicy;

use super::super::{Config, ConfigError};
use super::*;

const FILE: &str = r#"[server]
max_request_bytes = "1MiB"

[providers.primary]
dialect = "openai"
base_url = "https://api.openai.com/v1"
headers = { x-tenant = "a" }

[models.main]
candidates = [{ provider = "primary", model = "gpt-x" }]

[models."gpt-5.1"]
candidates = [{ provider = "primary" }]
[models."gpt-5.1".retry]
max_retries = 7
"#;

fn under(variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let overrides = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Config::parse_under("stanchion.toml", FILE, &overrides, &|_| None)
}

fn refused(variables: &[(&str, &str)]) -> String {
    under(variables).map(drop).unwrap_err().to_string()
}

#[test]
fn a_variable_goes_over_the_file_key_by_key() {
    let config = under(&[
        ("STANCHION__MODELS__MAIN__RETRY__MAX_RETRIES", "3"),
        ("STANCHION__MODELS__GPT_5_1__RETRY__BASE", "20ms"),
        ("stanchion__server__listen", "127.0.0.1:1"),
        ("STANCHION_LOG", "debug"),
        ("STANCHION__server__Max_Request_Bytes", "2MiB"),
        ("STANCHION__MODELS__MAIN__FALLBACK__ON", "[\"quota\"]"),
        ("STANCHION__PROVIDERS__PRIMARY__HEADERS__X_TENANT", "123"),
    ])
    .unwrap();
    assert_eq!((config.models["main"].retry.max_retries(), config.max_request_bytes), (3, 2 << 20));
    let other = RetryPolicy::builder().max_retries(7).base(Duration::from_millis(20)).build().unwrap();
    assert_eq!(config.models["gpt-5.1"].retry, other, "its other keys are those of the file");
    assert_eq!(config.server.listen.port(), 8080, "the prefix is in capitals");
    assert_eq!(config.models["main"].rules.fallback_on().count(), 1);
    let candidate = config.models["main"].candidates.select(0).unwrap().candidate;
    assert_eq!(candidate.headers()["x-tenant"], "123", "text where only text can stand");
}

#[test]
fn lists_and_whole_entries_can_be_set() {
    let config = under(&[
        ("STANCHION__MODELS__MAIN__CANDIDATES__0__MODEL", "gpt-y"),
        ("STANCHION__MODELS__MAIN__CANDIDATES__1__PROVIDER", "second"),
        ("STANCHION__PROVIDERS__SECOND__DIALECT", "openai"),
        ("STANCHION__PROVIDERS__SECOND__BASE_URL", "http://127.0.0.1:9"),
        ("STANCHION__MODELS__NEW__CANDIDATES", "[{ provider = \"second\", model = \"z\" }]"),
    ])
    .unwrap();
    let names = |model: &str| -> Vec<String> {
        config.models[model].candidates.iter().map(|candidate| candidate.name().to_string()).collect()
    };
    assert_eq!(names("main"), ["primary/gpt-y", "second"]);
    assert_eq!(names("new"), ["second/z"]);
}

#[test]
fn a_variable_that_fits_nothing_is_told_by_its_name() {
    for (name, value, complaint) in [
        (
            "STANCHION__MODELS__MAIN__RETRY__MAX_RETRYS",
            "3",
            "STANCHION__MODELS__MAIN__RETRY__MAX_RETRYS: fits nothing: there is no `max_retrys` in `models.main.retry`; did you mean `max_retries`?",
        ),
        ("STANCHION__SERVR__LISTEN", "x", "there is no `servr` in the configuration; did you mean `server`?"),
        (
            "STANCHION__MODELS__MAIN__RETRY__MAX_RETRIES",
            "many",
            "STANCHION__MODELS__MAIN__RETRY__MAX_RETRIES: models.main.retry.max_retries: must be a whole number, not text",
        ),
        ("STANCHION__MODELS__MAIN__RETRY", "3", "models.main.retry: must be a table, not a whole number"),
        ("STANCHION__MODELS__MIAN__REQUEST_USAGE", "true", "models.mian: `candidates` is missing"),
        (
            "STANCHION__MODELS__MAIN__CANDIDATES__7__MODEL",
            "x",
            "models.main.candidates is a list of 1, and \"7\" no place in it",
        ),
        ("STANCHION__SERVER__LISTEN__PORT", "1", "fits nothing: server.listen is no table"),
        (
            "STANCHION__SERVER",
            "{ listen = \"127.0.0.1:1\", lisn = 1 }",
            "STANCHION__SERVER: server.lisn: unknown key `lisn`",
        ),
        ("STANCHION__", "1", "fits nothing: there is no `` in the configuration"),
        (
            "STANCHION__MODELS__MAIN__CANDIDATES",
            "[{ provider = \"primry\" }]",
            "models.main.candidates[0].provider: there is no provider \"primry\"; did you mean \"primary\"?",
        ),
    ] {
        let told = refused(&[(name, value)]);
        assert!(
            told.starts_with(&format!("{name}: ")) && told.contains(complaint),
            "{name}\n  told:   {told}\n  wanted: {complaint}"
        );
    }
    let told = refused(&[("STANCHION__SERVER__LISTEN", "127.0.0.1:1"), ("STANCHION__server__LISTEN", "127.0.0.1:2")]);
    assert!(told.contains("STANCHION__server__LISTEN: sets what STANCHION__SERVER__LISTEN sets too"), "{told}");
    let told = refused(&[("STANCHION__CLIENTS__ME__KEY_ENV", "NONE"), ("STANCHION__SERVER__LISTEN", "nowhere")]);
    assert_eq!(told.lines().count(), 2, "all are told: {told}");
}

#[test]
fn a_name_that_may_mean_two_is_refused_and_a_value_is_never_shown() {
    let file = format!("{FILE}[models.gpt-5-1]\ncandidates = [{{ provider = \"primary\" }}]\n");
    let overrides: Overrides = [("STANCHION__MODELS__GPT_5_1__COST".to_owned(), "2".to_owned())].into_iter().collect();
    let told = Config::parse_under("f", &file, &overrides, &|_| None).map(drop).unwrap_err().to_string();
    assert!(told.contains("may mean \"gpt-5-1\" as well as \"gpt-5.1\""), "{told}");

    let secret: Overrides =
        [("STANCHION__PROVIDERS__PRIMARY__API_KEY".to_owned(), "sk-hidden\n\u{7}".to_owned())].into_iter().collect();
    let told = Config::parse_under("f", FILE, &secret, &|_| None).map(drop).unwrap_err().to_string();
    assert!(!told.contains("hidden") && !format!("{secret:?}").contains("hidden"), "{told}");
}
