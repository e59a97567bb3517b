mod candidates;
mod names;

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
    assert_eq!((keys.len(), keys[0].identity_headers), (1, true));
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
    assert!(!parse(&with("[server]\nidentity_headers = false")).unwrap().identity_headers);
}

#[test]
fn queues_are_off_until_a_limit_is_set() {
    let config = parse(&with("")).unwrap();
    let layer = |config: &Config| {
        stanchion::admission::AdmissionLayer::new(config.scheduler.clone(), config.models["m"].admission["p"].clone())
    };
    assert!(layer(&config).is_off());
    for tables in [
        "[admission]\nglobal_concurrency = 4",
        "[admission]\nowner_concurrency = 4\naging = \"10s\"\nclass_limits = true\n[owners.root]\nweight = 3",
        "[models.m.admission]\nconcurrency = 2\nmax_wait = \"0s\"",
        "[providers.p.admission]\nconcurrency = 2",
        "[defaults.admission]\nconcurrency = 2\nmax_pending = 9\nmax_pending_bytes = \"1MiB\"",
        "[models.m.admission]\nadaptive = {}",
    ] {
        assert!(!layer(&parse(&with(tables)).unwrap_or_else(|error| panic!("{error}"))).is_off(), "{tables}");
    }
    for (tables, complaint) in [
        ("[admission]\nglobal_concurrency = 0", ":7: admission.global_concurrency: "),
        ("[admission]\nowner_max_pending = 0", ":7: admission.owner_max_pending: "),
        ("[admission]\nowner_max_pending_bytes = \"1KiB\"", ":7: admission.owner_max_pending_bytes: "),
        ("[models.m.admission]\nmax_wait = \"11m\"", ":7: models.m.admission.max_wait: "),
        ("[models.m.admission]\nmax_pending_bytes = \"1KiB\"", ":7: models.m.admission.max_pending_bytes: "),
        ("[providers.p.admission]\nconcurrency = 0", ":7: providers.p.admission.concurrency: "),
        (
            "[providers.p.admission]\nglobal_concurrency = 1",
            ":7: providers.p.admission.global_concurrency: unknown key",
        ),
        ("[owners.a]\nweight = 2\n[owners.root]\nweight = 0", ":9: owners.root.weight: "),
    ] {
        let error = parse(&with(tables)).map(drop).unwrap_err().to_string();
        assert!(error.contains(complaint), "{tables}\n  told:   {error}\n  wanted: {complaint}");
        assert_eq!(error.lines().count(), 1, "told once: {error}");
    }
    // Of a provider that no model uses, too.
    let unused =
        with("[providers.q]\ndialect = \"ollama\"\nbase_url = \"http://x\"\nadmission = { max_wait = \"11m\" }");
    let error = parse(&unused).map(drop).unwrap_err().to_string();
    assert!(error.contains(":9: providers.q.admission") && error.contains("`max_wait` must be"), "{error}");
}

#[test]
fn a_models_queue_goes_over_its_providers_and_that_over_the_defaults_key_by_key() {
    let tables = |defaults: &str, provider: &str, own: &str| {
        let policy = with(&format!(
            "[defaults.admission]\n{defaults}\n[providers.p.admission]\n{provider}\n[models.m.admission]\n{own}"
        ));
        parse(&policy)
            .unwrap_or_else(|error| panic!("{error}"))
            .models
            .remove("m")
            .unwrap()
            .admission
            .remove("p")
            .unwrap()
    };
    let built = |policy: stanchion::admission::AdmissionPolicyBuilder| policy.build().unwrap();
    let policy = AdmissionPolicy::builder;
    let (low, middle, high) =
        ("concurrency = 2\nmax_pending = 3", "concurrency = 4\nmax_wait = \"5s\"", "concurrency = 6");
    for (defaults, provider, own, expected) in [
        ("", "", "", policy()),
        (low, "", "", policy().concurrency(2).max_pending(3)),
        (low, middle, "", policy().concurrency(4).max_pending(3).max_wait(Duration::from_secs(5))),
        (low, middle, high, policy().concurrency(6).max_pending(3).max_wait(Duration::from_secs(5))),
        ("", "max_pending_bytes = \"1MiB\"", high, policy().concurrency(6).max_pending_bytes(1 << 20)),
        (high, "", low, policy().concurrency(2).max_pending(3)),
    ] {
        assert_eq!(tables(defaults, provider, own), built(expected), "{defaults:?} {provider:?} {own:?}");
    }
    // Each candidate's requests have the limits of its own provider.
    let text =
        with("[providers.p.admission]\nconcurrency = 1\n[providers.q]\ndialect = \"ollama\"\nbase_url = \"http://x\"")
            .replace("[{ provider = \"p\" }]", "[{ provider = \"p\" }, { provider = \"q\" }]");
    let admission = parse(&text).unwrap().models.remove("m").unwrap().admission;
    assert_eq!((admission["p"].concurrency(), admission["q"].concurrency()), (Some(1), None));
}

#[test]
fn limits_that_adapt_are_asked_for_by_their_table() {
    use stanchion::admission::{Adaptive, AdaptiveBuilder};
    let adaptive = |tables: &str| model(tables).admission["p"].adaptive().copied();
    let built = |adaptive: AdaptiveBuilder| Some(adaptive.build().unwrap());
    let some = Adaptive::builder;
    for (tables, expected) in [
        ("", None),
        ("[models.m.admission]\nadaptive = {}", built(some())),
        ("[defaults.admission.adaptive]\nceiling = 9", built(some().ceiling(9))),
        (
            "[defaults.admission.adaptive]\nceiling = 9\n[providers.p.admission.adaptive]\nfloor = 2\n[models.m.admission.adaptive]\nceiling = 20\ndecrease = 0.5\ntolerance = 3.0",
            built(some().ceiling(20).floor(2).decrease(0.5).tolerance(3.0)),
        ),
        ("[models.m.admission.adaptive]\ntolerance = 0.0", built(some().tolerance(None))),
        ("[defaults.admission.adaptive]\nceiling = 9\n[models.m.admission.adaptive]\nenabled = false", None),
        (
            "[defaults.admission.adaptive]\nenabled = false\nceiling = 9\n[models.m.admission.adaptive]\nenabled = true",
            built(some().ceiling(9)),
        ),
    ] {
        assert_eq!(adaptive(tables), expected, "{tables}");
    }
    for (tables, complaint) in [
        ("ceiling = 0", "adaptive.ceiling: must be 1 to 1,000,000; it is 0"),
        ("ceiling = 3\nfloor = 4", "adaptive.floor: `floor` must be between 1 and `ceiling`"),
        ("decrease = 1.0", "adaptive.decrease: must be 0.1 to 0.99; it is 1"),
        ("tolerance = 1.0", "adaptive.tolerance: `tolerance` must be between 1.1 and 100"),
        ("roof = 3", "adaptive.roof: unknown key `roof`"),
    ] {
        let error =
            parse(&with(&format!("[models.m.admission.adaptive]\n{tables}"))).map(drop).unwrap_err().to_string();
        assert!(error.contains(complaint), "{tables}\n  told:   {error}\n  wanted: {complaint}");
    }
}

#[test]
fn a_provider_may_have_several_keys() {
    let provider = |lines: &str| with("").replace("[providers.p]\n", &format!("[providers.p]\n{lines}\n"));
    let config = parse(&provider(
        "api_keys_env = [\"PRIMARY_KEY\"]\ncredentials = { strategy = \"fill_first\", cooldown = \"30s\" }",
    ))
    .unwrap();
    let pool = config.credentials.get("p").unwrap();
    assert_eq!((pool.ids().len(), &*pool.ids()[0], pool.strategy().as_str()), (1, "PRIMARY_KEY", "fill_first"));
    let plain = parse(&provider("api_keys = [\"sk-1\", \" sk-2 \"]")).unwrap();
    let ids = plain.credentials.get("p").unwrap().ids();
    assert!(ids.iter().map(|id| &**id).eq(["1", "2"]));
    for (lines, complaint) in [
        ("api_keys = [\"sk-1\", \"\"]", "api_keys: the key 2 is empty"),
        ("api_keys = [\"sk-1\"]\napi_keys_env = [\"PRIMARY_KEY\"]", "the keys are given twice"),
        ("api_keys = [\"sk-1\"]\napi_key = \"sk\"", "the key is given twice"),
        ("api_keys_env = [\"NO_SUCH_KEY\"]", "the environment variable NO_SUCH_KEY is not set"),
        ("api_keys_env = [\"PRIMARY_KEY\"]\napi_key = \"sk\"", "the key is given twice"),
        ("credentials = { cooldown = \"30s\" }", "there is nothing to choose from: set api_keys_env"),
        ("api_keys_env = []", "providers.p.api_keys_env: `credential` must be given between 1 and 256 times"),
    ] {
        let error = parse(&provider(lines)).map(drop).expect_err(lines).to_string();
        assert!(error.contains(complaint), "{lines}\n  told:   {error}\n  wanted: {complaint}");
    }
}

#[test]
fn keys_of_two_providers_are_not_kept_in_one_file() {
    let text = |one: &str, other: &str| {
        let provider = |name: &str, file: &str| {
            format!(
                "[providers.{name}]\ndialect = \"openai\"\nbase_url = \"http://h/v1\"\napi_keys = [\"sk-{name}\"]\n\
                 credentials.state_file = \"{file}\"\n"
            )
        };
        format!("{}{}[models.m]\ncandidates = [{{ provider = \"b\" }}]\n", provider("a", one), provider("b", other))
    };
    let config = parse(&text("a.json", "b.json")).unwrap();
    assert_eq!(config.credentials.iter().count(), 2);
    for other in ["state.json", "./state.json", "nowhere/../state.json"] {
        let error = parse(&text("state.json", other)).map(drop).unwrap_err().to_string();
        assert_eq!(
            error,
            "stanchion.toml:10: providers.b.credentials.state_file: is that of the provider \"a\" too: each needs its own"
        );
    }
}

#[test]
fn a_relative_path_begins_where_the_file_is() {
    let folder = std::env::temp_dir().join(format!("stanchion-config-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("keys")).unwrap();
    std::fs::write(folder.join("keys").join("p"), "sk-file").unwrap();
    let file = folder.join("stanchion.toml");
    let parse = |text: &str| {
        Config::parse(&file.display().to_string(), &format!("server.inline_keys = true\n{text}"), &|_| None)
    };
    let text = with("").replace("[providers.p]", "[providers.p]\napi_key_file = \"keys/p\"");
    let config = parse(&text).unwrap();
    let key = config.models["m"].candidates.select(0).unwrap().candidate.credential().unwrap().expose().to_owned();
    assert_eq!((key.as_str(), &config.files[..]), ("sk-file", &[folder.join("keys/p")][..]));
    // Another path to the same file, from there and from where the tests run.
    let state = "\ncredentials.state_file = \"keys/../s.json\"\napi_keys = [\"sk\"]";
    let pools = parse(&with("").replace("[providers.p]", &format!("[providers.p]{state}"))).unwrap().credentials;
    let at = |path: PathBuf| {
        CredentialPool::builder("q").credential("a", Secret::new("k")).state_file(path).build().unwrap()
    };
    assert!(pools.get("p").unwrap().shares_state_file(&at(folder.join("s.json"))));
    assert!(!pools.get("p").unwrap().shares_state_file(&at("s.json".into())));
    let records = parse(&with("[telemetry.records]\npath = \"calls.jsonl\"")).unwrap().telemetry.records.unwrap();
    assert_eq!(records.path, folder.join("calls.jsonl"));
    std::fs::remove_dir_all(folder).unwrap();
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

#[test]
fn a_client_may_be_told_who_it_is() {
    let text = "[clients.bot]\nkey = \"k\"\nowner = \"team\"\nclass = \"background\"\nidentity_headers = false";
    let client = &parse(&with(text)).unwrap().clients[0];
    assert_eq!(
        (client.owner.as_deref(), client.class, client.identity_headers),
        (Some("team"), Some(RequestClass::Background), false)
    );
    let long = "x".repeat(257);
    for owner in [" ", " team", "a\\tb", &long] {
        let text = format!("[clients.bot]\nkey = \"k\"\nowner = \"{owner}\"");
        let error = parse(&with(&text)).map(drop).unwrap_err().to_string();
        assert!(error.contains(":8: clients.bot.owner: an owner is a name"), "{error}");
        let error = parse(&with(&format!("[owners.\"{owner}\"]\nweight = 2"))).map(drop).unwrap_err().to_string();
        assert!(error.contains("an owner is a name"), "{error}");
    }
    // Who may not say whose requests they are has a share of its own.
    for (line, owner) in [("", None), ("identity_headers = false", Some("bot")), ("owner = \"Büro\"", Some("Büro"))] {
        let client = &parse(&with(&format!("[clients.bot]\nkey = \"k\"\n{line}"))).unwrap().clients[0];
        assert_eq!(client.owner.as_deref(), owner);
    }
}

#[test]
fn operators_have_a_listener_of_their_own_where_there_is_a_table_for_it() {
    let admin = |table: &str| parse(&format!("{WHOLE}\n{table}")).map(|config| config.admin);
    assert!(admin("").unwrap().is_none());
    let settings = admin("[admin]").unwrap().unwrap();
    assert_eq!((settings.listen, settings.key), (([127, 0, 0, 1], 9090).into(), None));
    let digest = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
    let settings = admin(&format!("[admin]\nlisten = \"0.0.0.0:9\"\nkey_sha256 = \"{digest}\"")).unwrap().unwrap();
    assert_eq!((settings.listen, settings.key.unwrap()[0]), (([0, 0, 0, 0], 9).into(), 0x2b));
    let settings = admin("[admin]\nkey_env = \"PRIMARY_KEY\"").unwrap().unwrap();
    assert!(settings.key.is_some() && !format!("{settings:?}").contains("sk-primary"));
    for (table, key, reason) in [
        ("listen = \"0.0.0.0:9\"", "admin.listen", "no key is set"),
        ("listen = \"[::]:9\"", "admin.listen", "no key is set"),
        ("listen = \"9090\"", "admin.listen", "no address"),
        ("key_env = \"EMPTY_KEY\"", "admin.key_env", "is not set"),
        ("key_sha256 = \"secret\"", "admin.key_sha256", "no SHA-256"),
        (
            "key_sha256 = \"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"",
            "admin.key_sha256",
            "of nothing",
        ),
        ("key_env = \"PRIMARY_KEY\"\nkey_file = \"x\"", "admin.key_file", "twice"),
        ("key_env = \"PRIMARY_KEY\"\nkey_sha256 = \"x\"", "admin.key_sha256", "twice"),
    ] {
        let error = admin(&format!("[admin]\n{table}")).unwrap_err();
        let told = error.complaints();
        assert_eq!((told.len(), told[0].key.as_str()), (1, key), "{table}: {told:?}");
        assert!(told[0].reason.contains(reason) && !told[0].reason.contains("secret"), "{told:?}");
    }
}

#[test]
fn keys_stand_in_no_file_unless_they_may() {
    let plain = |text: &str| Config::parse("f", text, &|_| None).map(drop).map_err(|error| error.to_string());
    let provider = |lines: &str| with("").replace("[providers.p]\n", &format!("[providers.p]\n{lines}\n"));
    for text in [
        provider("api_key = \"sk-hidden\""),
        provider("api_keys = [\"sk-hidden\", \"sk-hidden-too\"]"),
        with("[clients.me]\nkey = \"sk-hidden\""),
    ] {
        let told = plain(&text).unwrap_err();
        assert!(told.contains("a key does not stand in this file") && !told.contains("hidden"), "{told}");
        assert_eq!(plain(&format!("[server]\ninline_keys = true\n{text}")), Ok(()));
    }
    // A variable over the file is no part of it.
    let over = Overrides::from_iter([("STANCHION__PROVIDERS__P__API_KEY".to_owned(), "sk-hidden".to_owned())]);
    assert!(Config::parse_under("f", &with(""), &over, &|_| None).is_ok());
}

#[test]
fn a_clients_key_may_be_known_by_its_hash_alone() {
    let hash = crate::keys::hash_of("k1");
    let text = with(&format!(
        "[clients.one]\nkey_sha256 = \"{hash}\"\nmodels = [\"m\"]\nrequests_per_minute = 60\nconcurrency = 2"
    ));
    let client = parse(&text).unwrap().clients.remove(0);
    assert_eq!((client.name.as_str(), crate::keys::hash_of("k1")), ("one", hash.clone()));
    assert_eq!((client.models.as_deref(), client.limits.requests_per_minute), (Some(&["m".to_owned()][..]), Some(60)));
    assert_eq!(client.limits.concurrency, Some(2));
    assert!(!format!("{client:?}").contains(&hash[..8]));
    for (tables, complaint) in [
        ("[clients.a]\nkey_sha256 = \"abc\"".to_owned(), "clients.a.key_sha256: no SHA-256"),
        (format!("[clients.a]\nkey_sha256 = \"{hash}\"\nkey = \"k\""), "the key is given twice"),
        (format!("[clients.a]\nkey_sha256 = \"{hash}\"\n[clients.b]\nkey = \"k1\""), "clients.b: has the key of \"a\""),
        (format!("[clients.a]\nkey_sha256 = \"{hash}\"\nmodels = []"), "clients.a.models: names at least one model"),
        (
            format!("[clients.a]\nkey_sha256 = \"{hash}\"\nconcurrency = 0"),
            "clients.a.concurrency: must be 1 to 1,000,000",
        ),
    ] {
        let told = parse(&with(&tables)).map(drop).unwrap_err().to_string();
        assert!(told.contains(complaint), "{told}");
    }
}

#[cfg(unix)]
#[test]
fn a_key_file_that_everybody_can_read_is_warned_of() {
    use std::os::unix::fs::PermissionsExt;
    let path = std::env::temp_dir().join(format!("stanchion-key-{}", std::process::id()));
    std::fs::write(&path, "sk-in-a-file").unwrap();
    let text = with("")
        .replace("[providers.p]\n", &format!("[providers.p]\napi_key_file = {:?}\n", path.display().to_string()));
    for (mode, warnings) in [(0o644, 1), (0o640, 0), (0o600, 0)] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let config = parse(&text).unwrap();
        assert_eq!((config.warnings.len(), config.files.len()), (warnings, 1), "{mode:o}");
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn records_and_traces_are_kept_where_they_are_configured() {
    let telemetry = |table: &str| parse(&format!("{WHOLE}\n{table}")).map(|config| config.telemetry);
    let nothing = telemetry("").unwrap();
    assert_eq!((nothing.records, nothing.start_traces, nothing.log_spans), (None, false, false));
    let all = "[telemetry.records]\npath = \"calls.jsonl\"\nmax_bytes = \"1MiB\"\nfiles = 3\n[telemetry.traces]\nstart = true\nlog = true";
    let all = telemetry(all).unwrap();
    let records = all.records.unwrap();
    assert_eq!((records.path.to_str(), records.max_bytes, records.files), (Some("calls.jsonl"), 1024 * 1024, 3));
    assert!(all.start_traces && all.log_spans);
    for (table, key, reason) in [
        ("records.path = \"/\"", "telemetry.records.path", "is no file"),
        (
            "records.path = \"no-such-folder/calls.jsonl\"",
            "telemetry.records.path",
            "there is no directory no-such-folder",
        ),
        ("records = { path = \"c\", max_bytes = \"1KiB\" }", "telemetry.records.max_bytes", "at least \"64KiB\""),
        ("records = { path = \"c\", files = 0 }", "telemetry.records.files", "1 to 1,000"),
        ("records = { pth = \"c\" }", "telemetry.records.pth", "did you mean `path`?"),
        ("records = {}", "telemetry.records", "`path` is missing"),
        ("traces.started = true", "telemetry.traces.started", "did you mean `start`?"),
    ] {
        let error = telemetry(&format!("[telemetry]\n{table}")).unwrap_err();
        let told = error.complaints().iter().find(|complaint| complaint.key == key);
        assert!(told.is_some_and(|told| told.reason.contains(reason)), "{table}: {:?}", error.complaints());
    }
}

#[cfg(feature = "otlp")]
#[test]
fn telemetry_is_sent_to_a_collector_where_there_is_a_table_for_it() {
    let variable = |name: &str| match name {
        "HEADERS" => Some("authorization=Bearer%20sk-hidden, x-tenant=me".to_owned()),
        "BROKEN" => Some("sk-hidden".to_owned()),
        _ => None,
    };
    let telemetry = |table: &str| {
        Config::parse("f", &with(&format!("[telemetry.otlp]\n{table}")), &variable).map(|config| config.telemetry)
    };
    let settings = telemetry("").unwrap();
    assert!(settings.start_traces, "what is sent has to begin somewhere");
    let otlp = settings.otlp.unwrap();
    assert_eq!((&*otlp.endpoint, otlp.traces, otlp.metrics), ("http://127.0.0.1:4318", true, true));
    assert_eq!((otlp.metrics_every, otlp.headers.len()), (Duration::from_secs(60), 0));
    let otlp = telemetry("headers_env = \"HEADERS\"\ntraces = false").unwrap().otlp.unwrap();
    assert_eq!(
        (&otlp.headers["authorization"], &otlp.headers["x-tenant"]),
        (&"Bearer sk-hidden".parse().unwrap(), &"me".parse().unwrap())
    );
    assert!(!format!("{otlp:?}").contains("hidden"));
    for (table, key, reason) in [
        ("endpoint = \"localhost:4318\"", "telemetry.otlp.endpoint", "is no URL"),
        ("endpoint = \"http://me:it@there\"", "telemetry.otlp.endpoint", "set headers_env instead"),
        ("headers_env = \"NONE\"", "telemetry.otlp.headers_env", "NONE is not set"),
        ("headers_env = \"BROKEN\"", "telemetry.otlp.headers_env", "write name=value"),
        ("metrics_every = \"0s\"", "telemetry.otlp.metrics_every", "set 1s to 1h"),
        ("endpont = \"\"", "telemetry.otlp.endpont", "did you mean `endpoint`?"),
    ] {
        let error = telemetry(table).unwrap_err();
        let told = error.complaints();
        assert_eq!((told.len(), told[0].key.as_str()), (1, key), "{table}: {told:?}");
        assert!(told[0].reason.contains(reason) && !told[0].reason.contains("hidden"), "{told:?}");
    }
}
