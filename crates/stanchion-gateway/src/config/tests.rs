use std::time::Duration;

use stanchion::{
    core::{CommitPolicy, FallbackOn, Family, RequestClass},
    stream::CommitWindow,
};

use super::*;

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse("stanchion.toml", text, &|name| match name {
        "PRIMARY_KEY" => Some("sk-primary\n".into()),
        "EMPTY_KEY" => Some(" ".into()),
        _ => None,
    })
}

/// A whole file with one line or table replaced.
const WHOLE: &str = r#"[server]
listen = "127.0.0.1:9000"
max_request_bytes = "1MiB"

[providers.primary]
dialect = "openai"
base_url = "https://api.openai.com/v1"
api_key_env = "PRIMARY_KEY"
headers = { openai-organization = "org" }

[providers.second]
dialect = "anthropic"
base_url = "https://api.anthropic.com"
api_key = "sk-second"

[models.main]
candidates = [
  { provider = "primary", model = "gpt-x" },
  { provider = "second", model = "claude" },
]
[models.main.retry]
max_retries = 5
[models.main.timeouts]
total = "60s"

[models.plain]
candidates = [{ provider = "primary" }]

[defaults.retry]
max_retries = 1
base = "10ms"
[defaults.timeouts]
connect = "2s"
first_output = "30s"
[defaults.fallback]
on = ["quota", "auth"]
"#;

#[test]
fn a_whole_file_is_read() {
    let config = parse(WHOLE).unwrap();
    assert_eq!((config.listen.to_string().as_str(), config.max_request_bytes), ("127.0.0.1:9000", 1 << 20));
    let main = &config.models["main"];
    let names: Vec<&str> = main.candidates.iter().map(|candidate| &**candidate.name()).collect();
    assert_eq!(names, ["primary/gpt-x", "second/claude"]);
    let primary = main.candidates.select(0).unwrap().candidate;
    assert_eq!(primary.credential().unwrap().expose(), "sk-primary", "white space around a key is no part of it");
    assert_eq!(primary.headers()["openai-organization"], "org");
    assert_eq!(main.candidates.select(1).unwrap().candidate.family(), Family::Anthropic);
    assert_eq!(config.models["plain"].candidates.select(0).unwrap().candidate.model(), None);
}

#[test]
fn a_models_tables_override_the_defaults_key_by_key() {
    let config = parse(WHOLE).unwrap();
    let (main, plain) = (&config.models["main"], &config.models["plain"]);
    assert_eq!((main.retry.max_retries(), plain.retry.max_retries()), (5, 1));
    assert_eq!((main.connect, plain.connect), (Duration::from_secs(2), Duration::from_secs(2)));
    let limits = |model: &Model| (model.limits.first_output(), model.limits.idle(), model.limits.total());
    let s = |seconds| Some(Duration::from_secs(seconds));
    assert_eq!(limits(main), (s(30), s(60), s(60)), "what is not set is the smaller of its default and the total");
    assert_eq!(limits(plain), (s(30), s(300), s(600)));
    assert_eq!(main.rules.fallback_on().collect::<Vec<_>>(), [FallbackOn::Quota, FallbackOn::Auth]);
}

#[test]
fn when_replies_leave_is_set_for_a_model_and_its_classes() {
    let text = format!(
        "{WHOLE}[defaults.commit]\nbackground = \"complete\"\n[models.plain.commit]\npolicy = \"window\"\nevents = 5\nhold_max = \"1KiB\"\n"
    );
    let config = parse(&text).unwrap();
    let expected = CommitLayer::new().policy_for(RequestClass::Background, CommitPolicy::Complete);
    assert_eq!(config.models["main"].commit, expected);
    let window = CommitWindow { events: Some(5), bytes: None, time: None };
    assert_eq!(config.models["plain"].commit, expected.policy(CommitPolicy::Window).window(window).max_hold(1024));
    let error = parse(&format!("{WHOLE}[defaults.commit]\npolicy = \"later\"\n")).map(drop).unwrap_err().to_string();
    assert!(error.contains("defaults.commit.policy: unknown variant `later`"), "{error}");
}

#[test]
fn the_least_file_has_the_defaults() {
    let config = parse("[providers.p]\ndialect = \"ollama\"\nbase_url = \"http://localhost:11434\"\n[models.m]\ncandidates = [{ provider = \"p\" }]\n").unwrap();
    assert_eq!((config.listen.to_string().as_str(), config.max_request_bytes), ("127.0.0.1:8080", MAX_REQUEST_BYTES));
    let model = &config.models["m"];
    assert_eq!((model.retry.max_retries(), model.connect), (2, CONNECT));
    assert_eq!(model.limits, AttemptLimits::default());
    assert!(config.client_keys.is_empty());
}

#[test]
fn what_is_wrong_is_told_with_line_and_key() {
    for (from, to, complaint) in [
        (
            "max_request_bytes = \"1MiB\"",
            "max_request_bytes = \"1 pound\"",
            "stanchion.toml:3: server.max_request_bytes: \"1 pound\" is no size",
        ),
        (
            "listen = \"127.0.0.1:9000\"",
            "listen = \"localhost\"",
            "stanchion.toml:2: server.listen: \"localhost\" is no address",
        ),
        (
            "max_request_bytes = \"1MiB\"",
            "max_request_bytes = 0",
            "stanchion.toml:3: server.max_request_bytes: nothing fits into no bytes",
        ),
        (
            "connect = \"2s\"",
            "connect = \"0s\"",
            "stanchion.toml:33: defaults.timeouts.connect: no connection is made in no time",
        ),
        ("listen =", "listn =", "stanchion.toml:2: server.listn: unknown field"),
        (
            "dialect = \"openai\"",
            "dialect = \"openay\"",
            "stanchion.toml:6: providers.primary.dialect: unknown variant `openay`",
        ),
        (
            "base_url = \"https://api.openai.com/v1\"",
            "base_url = \"api.openai.com\"",
            "stanchion.toml:7: providers.primary.base_url: not an http or https URL",
        ),
        (
            "base_url = \"https://api.openai.com/v1\"",
            "base_url = \"https://u:p@x.example\"",
            "stanchion.toml:7: providers.primary.base_url: a base URL holds no credentials",
        ),
        (
            "\"PRIMARY_KEY\"",
            "\"NO_SUCH_KEY\"",
            "stanchion.toml:8: providers.primary.api_key_env: the environment variable NO_SUCH_KEY is not set",
        ),
        (
            "\"PRIMARY_KEY\"",
            "\"EMPTY_KEY\"",
            "stanchion.toml:8: providers.primary.api_key_env: the environment variable EMPTY_KEY is not set",
        ),
        ("api_key = \"sk-second\"", "api_key = \"sk-second\"\napi_key_file = \"/x\"", "the key is given twice"),
        (
            "api_key = \"sk-second\"",
            "api_key_file = \"/no/such/file\"",
            "stanchion.toml:14: providers.second.api_key_file: the file cannot be read",
        ),
        (
            "{ provider = \"second\", model = \"claude\" }",
            "{ provider = \"third\" }",
            "stanchion.toml:19: models.main.candidates: there is no provider \"third\"; configured are: primary, second",
        ),
        ("max_retries = 5", "max_retries = -5", "stanchion.toml:22: models.main.retry.max_retries"),
        ("max_retries = 5", "retries = 5", "stanchion.toml:22: models.main.retry.retries: unknown field `retries`"),
        ("total = \"60s\"", "total = \"60\"", "stanchion.toml:24: models.main.timeouts.total: \"60\" is no duration"),
        (
            "total = \"60s\"",
            "total = \"10s\"",
            "stanchion.toml:34: defaults.timeouts.first_output: timeouts.first_output is 30s, longer than timeouts.total of 10s",
        ),
        (
            "base = \"10ms\"",
            "base = \"2h\"",
            "stanchion.toml:31: defaults.retry.base: the retry setting `base` must be at most `cap`",
        ),
        (
            "on = [\"quota\", \"auth\"]",
            "on = [\"everything\"]",
            "stanchion.toml:36: defaults.fallback.on: unknown variant `everything`",
        ),
        ("candidates = [{ provider = \"primary\" }]", "candidates = []", "a model needs at least one candidate"),
        (
            "headers = { openai-organization = \"org\" }",
            "headers = { \"not a name\" = \"org\" }",
            "\"not a name\" is no header name",
        ),
    ] {
        assert!(WHOLE.contains(from), "{from}");
        let error = parse(&WHOLE.replacen(from, to, 1)).map(drop).unwrap_err().to_string();
        assert!(error.contains(complaint), "{to}\n  told:   {error}\n  wanted: {complaint}");
    }
}

#[test]
fn all_complaints_are_told_at_once_and_none_shows_a_secret() {
    let text = WHOLE
        .replace("listen = \"127.0.0.1:9000\"", "listen = \"nowhere\"")
        .replace("\"sk-second\"", "\"sk-\\u0007secret\"")
        .replace("https://api.anthropic.com", "ftp://hidden.example");
    let error = parse(&text).map(drop).unwrap_err();
    let lines: Vec<Option<usize>> = error.complaints().iter().map(|complaint| complaint.line).collect();
    assert_eq!(lines, [Some(2), Some(13), Some(14)], "{error}");
    assert!(!error.to_string().contains("secret"), "{error}");
    // A syntax error inside of a secret must not show it either.
    let error = parse("[providers.p]\napi_key = \"sk-open-ended\n").map(drop).unwrap_err().to_string();
    assert!(error.starts_with("stanchion.toml:2: providers.p.api_key: ") && !error.contains("sk-open"), "{error}");
}

#[test]
fn a_file_without_models_and_a_client_without_a_key_are_no_use() {
    let error = parse("[server]\n").map(drop).unwrap_err().to_string();
    assert_eq!(
        error,
        "stanchion.toml: models: no model is configured: add a table such as [models.main] with its candidates"
    );
    let error = parse(&format!("{WHOLE}\n[clients.me]\n")).map(drop).unwrap_err().to_string();
    assert!(error.contains("clients.me: a client needs a key"), "{error}");
    for (line, reason) in [
        ("key = \"\"", "the key is empty"),
        ("key = \"  \"", "the key is empty"),
        ("key = 123456", "must be a string in quotes"),
    ] {
        let error = parse(&format!("{WHOLE}\n[clients.me]\n{line}\n")).map(drop).unwrap_err().to_string();
        assert!(error.contains(reason) && !error.contains("123456"), "an empty key lets everybody in: {error}");
    }
    let keys = parse(&format!("{WHOLE}\n[clients.me]\nkey = \"k\"\n")).unwrap().client_keys;
    assert_eq!(keys.len(), 1);
}

#[test]
fn a_file_that_is_not_there_is_told() {
    let error = Config::load(Path::new("no-such-file.toml")).map(drop).unwrap_err().to_string();
    assert!(error.starts_with("no-such-file.toml: cannot be read"), "{error}");
}
