mod candidates;
mod keys;
mod names;
mod operators;
mod queues;

use std::time::Duration;

use stanchion::{
    core::{CommitPolicy, FallbackOn, Family, HintSource, RequestClass, Secret},
    credentials::CredentialPool,
    retry::{CapStage, Combine, OverCap, Preset, Scope},
    stream::CommitWindow,
};

use super::*;

fn parse(text: &str) -> Result<Config, ConfigError> {
    // Keys stand in these files, whose lines are counted.
    let inline = Overrides::from_iter([("STANCHION__SERVER__INLINE_KEYS".to_owned(), "true".to_owned())]);
    Config::parse_under("stanchion.toml", text, &inline, &|name| match name {
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
    assert_eq!((config.server.listen.to_string().as_str(), config.max_request_bytes), ("127.0.0.1:9000", 1 << 20));
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
    assert!(
        error.contains(
            "defaults.commit.policy: there is no \"later\" here; there are: \"first_output\", \"window\", \"complete\""
        ),
        "{error}"
    );
}

#[test]
fn the_least_file_has_the_defaults() {
    let config = parse("[providers.p]\ndialect = \"ollama\"\nbase_url = \"http://localhost:11434\"\n[models.m]\ncandidates = [{ provider = \"p\" }]\n").unwrap();
    assert_eq!(
        (config.server.listen.to_string().as_str(), config.max_request_bytes),
        ("127.0.0.1:8080", MAX_REQUEST_BYTES)
    );
    let model = &config.models["m"];
    assert_eq!((model.retry.max_retries(), model.connect), (2, CONNECT));
    assert_eq!(model.limits, AttemptLimits::default());
    assert!(config.clients.is_empty());
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
        ("listen =", "listn =", "stanchion.toml:2: server.listn: unknown key `listn`; did you mean `listen`?"),
        (
            "dialect = \"openai\"",
            "dialect = \"openay\"",
            "stanchion.toml:6: providers.primary.dialect: there is no \"openay\" here; did you mean \"openai\"?",
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
            "stanchion.toml:19: models.main.candidates[1].provider: there is no provider \"third\"; there are: \"primary\", \"second\"",
        ),
        (
            "max_retries = 5",
            "max_retries = -5",
            "stanchion.toml:22: models.main.retry.max_retries: must be at least 0; it is -5",
        ),
        (
            "max_retries = 5",
            "retries = 5",
            "stanchion.toml:22: models.main.retry.retries: unknown key `retries`; did you mean `max_retries`?",
        ),
        (
            "max_retries = 5",
            "colour = 5",
            "stanchion.toml:22: models.main.retry.colour: unknown key `colour`; there are: `preset`, `max_retries`, `scope`",
        ),
        (
            "candidates = [{ provider = \"primary\" }]",
            "max_retries = 3",
            "stanchion.toml:27: models.plain.max_retries: unknown key `max_retries`; did you mean `retry.max_retries`?",
        ),
        (
            "candidates = [{ provider = \"primary\" }]",
            "request_usage = true",
            "stanchion.toml:26: models.plain: `candidates` is missing",
        ),
        (
            "provider = \"second\", model = \"claude\"",
            "model = \"claude\"",
            "stanchion.toml:19: models.main.candidates[1]: `provider` is missing",
        ),
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
            "stanchion.toml:36: defaults.fallback.on[0]: there is no \"everything\" here; there are: \"quota\"",
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
fn what_is_wrong_in_different_ways_is_told_at_once_and_what_only_follows_is_not() {
    let text = WHOLE
        .replace("listen =", "listn =")
        .replace("dialect = \"openai\"", "dialect = \"openay\"")
        .replace("max_retries = 5", "max_retries = \"5\"")
        .replace("[models.plain]\n", "[models.plain]\nheartbeat = \"999ms\"\n")
        .replace("https://api.anthropic.com", "ftp://x");
    let error = parse(&text).map(drop).unwrap_err();
    let told: Vec<&str> = error.complaints().iter().map(|complaint| &*complaint.key).collect();
    let expected = [
        "server.listn",
        "providers.primary.dialect",
        "providers.second.base_url",
        "models.main.retry.max_retries",
        "models.plain.heartbeat",
    ];
    assert_eq!(told, expected, "{error}");
    // Two places that are no TOML are told as well.
    let error = parse("[server\nlisten = \"x\"\n\n[models.m]\ncandidates = = 3\n").map(drop).unwrap_err();
    assert!(error.complaints().len() >= 2, "{error}");
}

#[test]
fn a_file_without_models_and_a_client_without_a_key_are_no_use() {
    let error = parse("[server]\n").map(drop).unwrap_err().to_string();
    assert_eq!(
        error,
        "stanchion.toml: models: no model is configured: add a table such as [models.main] with its candidates"
    );
    let error = parse(&format!("{WHOLE}\n[clients.me]\n")).map(drop).unwrap_err().to_string();
    assert!(error.contains("clients.me: a client needs a key: set key_sha256, key_env or key_file"), "{error}");
    for (line, reason) in [
        ("key = \"\"", "the key is empty"),
        ("key = \"  \"", "the key is empty"),
        ("key = 123456", "must be text in quotes, not a whole number"),
    ] {
        let error = parse(&format!("{WHOLE}\n[clients.me]\n{line}\n")).map(drop).unwrap_err().to_string();
        assert!(error.contains(reason) && !error.contains("123456"), "an empty key lets everybody in: {error}");
    }
    let keys = parse(&format!("{WHOLE}\n[clients.me]\nkey = \"k\"\n")).unwrap().clients;
    assert_eq!(keys.len(), 1);
}

#[test]
fn a_file_that_is_not_there_is_told() {
    let error = Config::load(Path::new("no-such-file.toml")).map(drop).unwrap_err().to_string();
    assert!(error.starts_with("no-such-file.toml: cannot be read"), "{error}");
}

/// A file of one model with these tables.
fn with(tables: &str) -> String {
    format!(
        "[providers.p]\ndialect = \"ollama\"\nbase_url = \"http://localhost:11434\"\n[models.m]\ncandidates = [{{ provider = \"p\" }}]\n{tables}\n"
    )
}

fn model(tables: &str) -> Model {
    parse(&with(tables)).unwrap_or_else(|error| panic!("{tables}: {error}")).models.remove("m").unwrap()
}

#[test]
fn bounded_recovery_is_off_until_its_table_is_there() {
    let minutes = |minutes: u64| Some(Duration::from_secs(60 * minutes));
    for (tables, budget, attempts) in [
        ("", None, 12),
        ("[models.m.recovery]", minutes(10), 12),
        ("[defaults.recovery]", minutes(10), 12),
        ("[defaults.recovery]\nbudget = \"5m\"\nmax_attempts = 4", minutes(5), 4),
        ("[defaults.recovery]\nbudget = \"5m\"\n[models.m.recovery]\nbudget = \"0s\"", None, 12),
        ("[defaults.recovery]\nbudget = \"5m\"\n[models.m.recovery]\nmax_attempts = 2", minutes(5), 2),
    ] {
        let recovery = model(tables).recovery;
        assert_eq!((recovery.budget(), recovery.attempts()), (budget, attempts), "{tables}");
    }
}

#[test]
fn retries_are_set_by_a_preset_and_over_it_key_by_key() {
    for (tables, builder) in [
        ("", RetryPolicy::builder()),
        ("[models.m.retry]\npreset = \"ladder\"", RetryPolicy::preset(Preset::Ladder)),
        (
            "[defaults.retry]\npreset = \"gateway\"\n[models.m.retry]\npreset = \"transport\"",
            RetryPolicy::preset(Preset::Transport),
        ),
        (
            "[models.m.retry]\npreset = \"dual_budget\"\nmax_retries = 4\ncap = \"9s\"\nover_cap = \"give_up\"\ncombine = \"max\"",
            RetryPolicy::preset(Preset::DualBudget)
                .max_retries(4)
                .cap(Duration::from_secs(9))
                .over_cap(OverCap::GiveUp)
                .combine(Combine::Max),
        ),
        (
            "[models.m.retry]\nfactor = 3.0\njitter = [0.5, 1.5]\ncap_stage = \"before_jitter\"\nhints = [\"retry_after\", \"text\"]\nhint_pad = \"1s\"\nscope = \"request\"\non_silence = true\nheed_client_retries = true",
            RetryPolicy::builder()
                .factor(3.0)
                .jitter(0.5..=1.5)
                .cap_stage(CapStage::BeforeJitter)
                .hints([HintSource::RetryAfter, HintSource::Text])
                .hint_pad(Duration::from_secs(1))
                .scope(Scope::Request)
                .retry_on_silence(true)
                .heed_client_retries(true),
        ),
    ] {
        assert_eq!(model(tables).retry, builder.build().unwrap(), "{tables}");
    }
}

#[test]
fn models_with_equal_settings_share_a_retry_budget() {
    let candidate = stanchion::core::Candidate::new("p", Family::Ollama, "http://x").into();
    let text = with(
        "[defaults.retry_budget]\ncapacity = 1\nper_second = 0.0\n[models.n]\ncandidates = [{ provider = \"p\" }]\n[models.o]\ncandidates = [{ provider = \"p\" }]\n[models.o.retry_budget]\ncapacity = 2\n[models.off]\ncandidates = [{ provider = \"p\" }]\n[models.off.retry_budget]\nenabled = false",
    );
    let config = parse(&text).unwrap();
    let budget = |name: &str| config.models[name].retry_budget.clone();
    let now = tokio::time::Instant::now();
    assert!(budget("m").unwrap().withdraw(Some(&candidate), now));
    assert!(!budget("n").unwrap().withdraw(Some(&candidate), now), "the same one");
    assert!(budget("o").unwrap().withdraw(Some(&candidate), now), "another");
    assert!(budget("off").is_none());
}

#[test]
fn clocks_have_presets_and_grow_with_the_prompt() {
    let s = |seconds| Some(Duration::from_secs(seconds));
    let thinking = AttemptLimits::thinking;
    assert_eq!(model("[models.m.timeouts]\npreset = \"thinking\"").limits, thinking());
    let scaled = model("[models.m.timeouts]\nfirst_output = \"30s\"\nfirst_output_per_1k = \"500ms\"\nfirst_output_cap = \"3m\"\nliveness = \"60s\"").limits;
    let rule = scaled.first_output_rule().unwrap();
    assert_eq!((rule.of(0), rule.of(10_000), rule.of(1_000_000)), (s(30).unwrap(), s(35).unwrap(), s(180).unwrap()));
    assert_eq!(scaled.liveness(), s(60));
    let own = model("[defaults.timeouts]\npreset = \"thinking\"\n[models.m.timeouts]\ntotal = \"60s\"").limits;
    assert_eq!((own.first_output(), own.total()), (s(60), s(60)));
}

#[test]
fn circuits_are_set_by_their_table() {
    use stanchion::{
        circuit::{CircuitPolicy, LateFailure, Recovery, SuccessOn},
        core::ForceOpenOn,
    };
    let default = CircuitPolicy::builder().probe_lease(AttemptLimits::IDLE);
    assert_eq!(model("").circuit, default.clone().build().unwrap());
    assert!(model("[models.m.circuit]\nopen = \"0s\"").circuit.is_off());
    let table = "[defaults.circuit]\nopen = \"20s\"\nwindow = \"30s\"\nmin_samples = 10\nfailure_rate = 0.5\n[models.m.circuit]\nconsecutive = 5\nconcurrency = 8\nslow_call = \"20s\"\nsuccess_on = \"end\"\nlate_failure = \"count\"\nforce_open_on = [\"auth\", \"quota\"]\nrecovery = \"none\"\nmax_open_share = 0.5";
    let expected = default
        .open(Duration::from_secs(20))
        .window(Duration::from_secs(30))
        .min_samples(10)
        .failure_rate(0.5)
        .consecutive(5)
        .concurrency(8)
        .slow_call(Duration::from_secs(20))
        .success_on(SuccessOn::End)
        .late_failure(LateFailure::Count)
        .force_open_on(ForceOpenOn::Auth)
        .force_open_on(ForceOpenOn::Quota)
        .recovery(Recovery::None)
        .max_open_share(0.5);
    assert_eq!(model(table).circuit, expected.build().unwrap());
}

#[test]
fn a_heartbeat_and_a_repair_are_switched_on() {
    assert_eq!(model("").heartbeat, None);
    assert_eq!(
        parse(&with("").replace("[models.m]\n", "[models.m]\nheartbeat = \"15s\"\n")).unwrap().models["m"].heartbeat,
        Some(Duration::from_secs(15))
    );
    assert_eq!(
        parse(&with("[defaults]\nheartbeat = \"5s\"")).unwrap().models["m"].heartbeat,
        Some(Duration::from_secs(5))
    );
    let off = with("[defaults]\nheartbeat = \"5s\"").replace("[models.m]\n", "[models.m]\nheartbeat = \"0s\"\n");
    assert_eq!(parse(&off).unwrap().models["m"].heartbeat, None);
    let repairs = |text: &str| {
        parse(text).unwrap().models["m"].candidates.select(0).unwrap().candidate.repairs_opaque_rejections()
    };
    assert!(!repairs(&with("")));
    assert!(repairs(&with("").replace("dialect = \"ollama\"", "dialect = \"openai\"\nrepair_opaque_400 = true")));
}

#[test]
fn a_setting_outside_of_its_range_is_told_with_key_value_and_range() {
    for (tables, complaint) in [
        (
            "[models.m.recovery]\nbudget = \"29999ms\"",
            ":7: models.m.recovery.budget: recovery.budget is 29.999s: set 30s to 3600s",
        ),
        (
            "[models.m.recovery]\nbudget = \"1h 1ms\"",
            ":7: models.m.recovery.budget: recovery.budget is 3600.001s: set 30s to 3600s",
        ),
        ("[defaults]\nheartbeat = \"999ms\"", ":7: defaults.heartbeat: heartbeat is 999ms: set 1s to 600s"),
        ("[defaults]\nheartbeat = \"11m\"", ":7: defaults.heartbeat: heartbeat is 660s: set 1s to 600s"),
        (
            "[models.m.retry]\npreset = \"lader\"",
            ":7: models.m.retry.preset: there is no \"lader\" here; did you mean \"ladder\"?",
        ),
        ("[models.m.retry]\nfactor = 0.5", ":7: models.m.retry.factor: must be 1 to 10; it is 0.5"),
        (
            "[models.m.retry]\njitter = [0.5, 2.5]",
            ":7: models.m.retry.jitter: the retry setting `jitter` must be a range between 0 and 2; it is (0.5, 2.5)",
        ),
        (
            "[models.m.retry]\nhint_cap = \"25h\"",
            ":7: models.m.retry.hint_cap: the retry setting `hint_cap` must be at most 24 h; it is 90000s",
        ),
        (
            "[models.m.retry]\nover_cap = \"wait\"",
            ":7: models.m.retry.over_cap: there is no \"wait\" here; there are: \"give_up\", \"clamp\", \"honour\"",
        ),
        ("[models.m.retry]\nhints = [\"circuit\"]", ":7: models.m.retry.hints[0]: there is no \"circuit\" here"),
        ("[models.m.retry_budget]\nrefund = 1.5", ":7: models.m.retry_budget.refund: must be 0 to 1; it is 1.5"),
        (
            "[models.m.circuit]\nopen = \"999ms\"",
            ":7: models.m.circuit.open: the circuit setting `open` must be 0, or between 1 s and 5 min; it is 999ms",
        ),
        (
            "[models.m.circuit]\nopen = \"301s\"",
            ":7: models.m.circuit.open: the circuit setting `open` must be 0, or between 1 s and 5 min; it is 301s",
        ),
        (
            "[models.m.circuit]\nfailure_rate = 0.0",
            ":7: models.m.circuit.failure_rate: must be above 0, at most 1; it is 0",
        ),
        (
            "[models.m.circuit]\nforce_open_on = [\"rain\"]",
            ":7: models.m.circuit.force_open_on[0]: there is no \"rain\" here; there are: \"auth\", \"quota\"",
        ),
        (
            "[models.m.timeouts]\nliveness = \"6m\"",
            ":7: models.m.timeouts.liveness: timeouts.liveness is 360s, longer than timeouts.idle of 300s",
        ),
        (
            "[models.m.timeouts]\nfirst_output_cap = \"11m\"",
            ":7: models.m.timeouts.first_output_cap: timeouts.first_output is 660s, longer than timeouts.total of 600s",
        ),
    ] {
        let error = parse(&with(tables)).map(drop).unwrap_err().to_string();
        assert!(error.contains(complaint), "{tables}\n  told:   {error}\n  wanted: {complaint}");
    }
}

#[test]
fn what_the_readme_shows_is_in_order() {
    let readme = include_str!("../../../../README.md");
    let shown = readme.split("```toml").nth(1).unwrap().split("```").next().unwrap();
    let config = Config::parse("README.md", shown, &|_| Some("a-key".into())).unwrap();
    let main = &config.models["main"];
    assert_eq!(
        (main.heartbeat, main.recovery.budget()),
        (Some(Duration::from_secs(15)), Some(Duration::from_secs(600)))
    );
    // What else is shown is as by default.
    let limits = |limits: AttemptLimits| (limits.first_output(), limits.idle(), limits.total(), limits.stall_warning());
    assert_eq!(limits(main.limits), limits(AttemptLimits::default()));
    assert_eq!(main.circuit, CircuitPolicy::builder().probe_lease(AttemptLimits::IDLE).build().unwrap());
}

#[test]
fn a_candidate_may_have_settings_of_its_own() {
    let text = with("[models.m.fallback]\non_overflow = \"larger_window\"\nfit_guard = false").replace(
        "candidates = [{ provider = \"p\" }]",
        "candidates = [{ provider = \"p\", model = \"x\", context_window = 8000, max_output_tokens = 100, temperature = 0.5, tier = \"flex\", headers = { x-tenant = \"b\" } }]",
    );
    let text = text.replace("[providers.p]\n", "[providers.p]\nheaders = { x-tenant = \"a\", x-other = \"c\" }\n");
    let text = text.replace("\"ollama\"", "\"openai\"");
    let model = parse(&text).unwrap().models.remove("m").unwrap();
    let candidate = model.candidates.select(0).unwrap().candidate;
    assert_eq!((candidate.context_window(), candidate.max_output_tokens()), (Some(8000), Some(100)));
    assert_eq!((candidate.temperature(), candidate.tier()), (Some(0.5), Some("flex")));
    assert_eq!(
        (&candidate.headers()["x-tenant"], &candidate.headers()["x-other"]),
        (&"b".parse().unwrap(), &"c".parse().unwrap())
    );
    assert_eq!((model.fallback.on_overflow, model.fallback.fit_guard), (OnOverflow::LargerWindow, false));
    for (from, to, complaint) in [
        ("context_window = 8000", "context_window = 0", "candidates[0].context_window: must be above 0; it is 0"),
        ("temperature = 0.5", "temperature = 2.5", "must be 0 to 2; it is 2.5"),
        ("x-tenant = \"b\"", "\"no name\" = \"b\"", "\"no name\" is no header name"),
    ] {
        let error = parse(&text.replace(from, to)).map(drop).unwrap_err().to_string();
        assert!(error.contains(complaint), "{error}");
    }
}

#[test]
fn a_chain_is_a_policy_of_circuits() {
    let chain = CircuitPolicy::chain().probe_lease(AttemptLimits::IDLE);
    assert_eq!(model("[models.m.fallback]\nmode = \"chain\"").circuit, chain.clone().build().unwrap());
    let own = model("[models.m.fallback]\nmode = \"chain\"\n[models.m.circuit]\nconsecutive = 5").circuit;
    assert_eq!(own, chain.consecutive(5).build().unwrap());
}

#[test]
fn a_models_own_preset_leaves_the_defaults_out() {
    let text =
        "[defaults.retry]\nmax_retries = 1\nbase = \"10ms\"\n[models.m.retry]\npreset = \"ladder\"\nhint_pad = \"2s\"";
    let expected = RetryPolicy::preset(Preset::Ladder).hint_pad(Duration::from_secs(2)).build().unwrap();
    assert_eq!(model(text).retry, expected);
}

#[test]
fn what_cannot_be_repaired_is_told() {
    for dialect in ["anthropic", "gemini", "ollama"] {
        let own = format!("dialect = \"{dialect}\"\nrepair_opaque_400 = true");
        let error = parse(&with("").replace("dialect = \"ollama\"", &own)).map(drop).unwrap_err().to_string();
        assert!(error.contains("providers.p.repair_opaque_400: only requests in the dialect openai"), "{error}");
    }
}

#[test]
fn prices_and_caches_are_set() {
    let config =
        parse(&with("[cache]\nmax_sessions = 5\nderive_sessions = true\n[defaults]\nrequest_usage = true")).unwrap();
    assert_eq!((config.cache.max_sessions(), config.cache.derives_sessions()), (5, true));
    assert!(config.models["m"].request_usage);
    let error = parse(&with("[usage]\nprices = \"no-such-file.toml\"")).map(drop).unwrap_err().to_string();
    assert!(error.contains(":7: usage.prices: the file cannot be read"), "{error}");
}
