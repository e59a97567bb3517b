//! The binary as a person meets it.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, ChildStderr, Command, Output, Stdio},
};

use stanchion::{
    core::Secret,
    credentials::{CredentialPool, Restored},
};

fn stanchion() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stanchion"));
    command.env_clear();
    command
}

fn run(arguments: &[&str]) -> Output {
    stanchion().args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn file(name: &str, content: &str) -> String {
    let path = std::env::temp_dir().join(format!("stanchion-{}-{name}.toml", std::process::id()));
    std::fs::write(&path, content).unwrap();
    path.display().to_string()
}

const MODEL: &str = "[providers.p]\ndialect = \"openai\"\nbase_url = \"http://127.0.0.1:9/v1\"\n[models.m]\ncandidates = [{ provider = \"p\" }]\n";

/// A gateway that serves, ended with the test.
struct Serving {
    child: Child,
    address: String,
    log: BufReader<ChildStderr>,
}

impl Serving {
    fn start(config: &str) -> Self {
        let mut child = stanchion().args(["serve", "--config", config]).stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let address = told_address(&mut log);
        Self { child, address, log }
    }

    /// Where its admin listener is, which it tells next.
    fn admin(&mut self) -> String {
        told_address(&mut self.log)
    }

    fn ask(&self, request: &str) -> String {
        ask(&self.address, request)
    }

    fn post(&self, path: &str, headers: &str, body: &str) -> String {
        self.ask(&format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n{body}",
            body.len()
        ))
    }
}

fn told_address(log: &mut BufReader<ChildStderr>) -> String {
    let mut line = String::new();
    log.read_line(&mut line).unwrap();
    let address = line.trim().rsplit("http://").next().unwrap().to_owned();
    assert!(address.starts_with("127.0.0.1:"), "{line}");
    address
}

fn ask(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn help_can_be_read() {
    let help = text(&run(&["--help"]).stdout);
    for word in ["serve", "check", "demo", "Point any OpenAI"] {
        assert!(help.contains(word), "{help}");
    }
    assert!(text(&run(&["serve", "--help"]).stdout).contains("OPENROUTER_API_KEY"));
}

#[test]
fn check_tells_what_is_wrong_and_fails() {
    let good = run(&["check", "--config", &file("good", MODEL)]);
    assert!(good.status.success());
    assert!(text(&good.stdout).contains("in order"));

    let bad = run(&["check", "--config", &file("bad", &MODEL.replace("provider = \"p\"", "provider = \"q\""))]);
    assert_eq!(bad.status.code(), Some(1));
    assert!(
        text(&bad.stderr).contains(":5: models.m.candidates[0].provider: there is no provider \"q\"; there are: \"p\""),
        "{}",
        text(&bad.stderr)
    );
}

#[test]
fn variables_go_over_the_file_and_the_schema_is_printed() {
    let config = file("over", MODEL);
    let check = |variable: &str, value: &str| {
        let output = stanchion().args(["check", "--config", &config]).env(variable, value).output().unwrap();
        (output.status.code(), text(&output.stderr))
    };
    assert_eq!(check("STANCHION__MODELS__M__RETRY__MAX_RETRIES", "3"), (Some(0), String::new()));
    let (code, told) = check("STANCHION__MODELS__M__RETRY__MAX_RETRYS", "3");
    assert_eq!(code, Some(1));
    assert!(
        told.starts_with("stanchion: STANCHION__MODELS__M__RETRY__MAX_RETRYS: ")
            && told.contains("did you mean `max_retries`?"),
        "{told}"
    );

    // Without a file, they are the configuration.
    let alone = stanchion().arg("serve").env("STANCHION__SERVER__LISTEN", "nowhere").output().unwrap();
    let told = text(&alone.stderr);
    assert!(
        told.contains("STANCHION__SERVER__LISTEN: server.listen: ") && told.contains("no model is configured"),
        "{told}"
    );

    let schema: serde_json::Value = serde_json::from_slice(&run(&["schema"]).stdout).unwrap();
    assert_eq!(schema["properties"]["server"]["allOf"][0]["$ref"], "#/definitions/Server");
    assert!(text(&run(&["schema", "--markdown"]).stdout).starts_with("# Configuration\n"));
}

#[test]
fn serve_refuses_strangers_and_nothing_to_serve() {
    let open = run(&["serve", "--config", &file("open", MODEL), "--listen", "0.0.0.0:0"]);
    assert_eq!(open.status.code(), Some(1));
    assert!(text(&open.stderr).contains("no client key is configured"), "{}", text(&open.stderr));

    let nothing = run(&["serve"]);
    assert_eq!(nothing.status.code(), Some(1));
    assert!(
        text(&nothing.stderr).contains("set one of ANTHROPIC_API_KEY, OPENAI_API_KEY"),
        "{}",
        text(&nothing.stderr)
    );
}

#[test]
fn routes_answer_in_the_dialect_of_the_path() {
    let config = format!("[server]\nlisten = \"127.0.0.1:0\"\ninline_keys = true\n[clients.me]\nkey = \"k1\"\n{MODEL}");
    let gateway = Serving::start(&file("routes", &config));
    let get = |path: &str, headers: &str| {
        gateway.ask(&format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n"))
    };
    let key = "authorization: Bearer k1\r\n";

    assert!(get("/healthz", "").starts_with("HTTP/1.1 200"), "health needs no key");
    assert!(get("/v1/models", "").starts_with("HTTP/1.1 401"));
    assert!(get("/v1/models", key).contains(r#""id":"m""#));

    let stranger = gateway.post("/v1/messages", "x-api-key: k2\r\n", r#"{"model":"m"}"#);
    assert!(stranger.starts_with("HTTP/1.1 401") && stranger.contains("authentication_error"), "{stranger}");

    let open = Serving::start(&file("origins", &format!("[server]\nlisten = \"127.0.0.1:0\"\n{MODEL}")));
    for (origin, refused) in [("https://evil.example", true), ("null", true), ("http://localhost:3000", false)] {
        let reply = open.post("/v1/chat/completions", &format!("origin: {origin}\r\n"), r#"{"model":"nobody"}"#);
        assert_eq!(reply.starts_with("HTTP/1.1 403"), refused, "{origin}: {reply}");
    }

    let unknown = gateway.post("/v1/chat/completions", key, r#"{"model":"nobody"}"#);
    assert!(
        unknown.starts_with("HTTP/1.1 404") && unknown.contains("model_not_found") && unknown.contains("there are: m"),
        "{unknown}"
    );

    let mismatch = gateway.post("/v1/messages", "x-api-key: k1\r\n", r#"{"model":"m","max_tokens":1}"#);
    assert!(
        mismatch.starts_with("HTTP/1.1 400")
            && mismatch.contains("speak openai")
            && mismatch.contains("anthropic-messages"),
        "{mismatch}"
    );

    let lost = gateway.post("/v2/anything", key, "{}");
    assert!(lost.starts_with("HTTP/1.1 404") && lost.contains("/v2/anything"), "{lost}");

    let dead = gateway.post("/v1/chat/completions", key, r#"{"model":"m"}"#);
    assert!(
        dead.starts_with("HTTP/1.1 502")
            && dead.contains("x-stanchion-candidate: p")
            && dead.contains("x-stanchion-attempts: 3"),
        "{dead}"
    );
}

#[test]
fn the_demo_comes_out_right() {
    let demo = run(&["demo"]);
    let shown = text(&demo.stdout);
    assert!(demo.status.success(), "{shown}");
    assert!(shown.contains("10 of 10 came out right."), "{shown}");

    let none = run(&["demo", "--only", "no such fault"]);
    assert_eq!(none.status.code(), Some(1));
    assert!(text(&none.stderr).contains("cut-after-output"));
}

#[test]
fn the_admin_listener_shows_circuits_by_the_names_of_their_candidates() {
    // Nobody listens at the provider's port, so that each call is a failure sample.
    let retries = "[defaults.retry]\nmax_retries = 0\n[defaults.circuit]\nmin_samples = 2\nopen = \"60s\"\n";
    let listen = "listen = \"127.0.0.1:0\"";
    let config = format!(
        "[server]\ninline_keys = true\n{listen}\n[admin]\n{listen}\n[clients.me]\nkey = \"k1\"\n{MODEL}{retries}"
    );
    let mut gateway = Serving::start(&file("status", &config));
    let admin = gateway.admin();
    let status = || ask(&admin, &format!("GET /status HTTP/1.1\r\nhost: {admin}\r\nconnection: close\r\n\r\n"));
    let key = "authorization: Bearer k1\r\n";
    assert!(status().contains(r#""state":"closed""#), "{}", status());
    for _ in 0..2 {
        let failed = gateway.post("/v1/chat/completions", key, r#"{"model":"m"}"#);
        assert!(failed.starts_with("HTTP/1.1 5"), "{failed}");
    }
    let open = status();
    assert!(open.contains(r#""state":"open""#) && open.contains(r#""failure_count":2"#), "{open}");
    assert!(open.contains(r#""name":"p"#) && open.contains("next_probe_ms"), "{open}");
    let turned_away = gateway.post("/v1/chat/completions", key, r#"{"model":"m"}"#);
    assert!(turned_away.starts_with("HTTP/1.1 503") && turned_away.contains("circuit_open"), "{turned_away}");
    assert!(turned_away.contains("retry-after: "), "{turned_away}");
    // Clients have no business there.
    let elsewhere =
        gateway.ask("GET /status HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer k1\r\n\r\n");
    assert!(elsewhere.starts_with("HTTP/1.1 404"), "{elsewhere}");
}

#[test]
fn the_admin_listener_is_not_opened_to_strangers() {
    let config = format!("[server]\nlisten = \"127.0.0.1:0\"\n{MODEL}");
    let refused = run(&["serve", "--config", &file("strangers", &config), "--admin", "0.0.0.0:0"]);
    let told = text(&refused.stderr);
    assert!(!refused.status.success() && told.contains("admin.key_env"), "{told}");
}

/// A provider that takes one key only, and quotes what it was asked.
fn provider(good: &'static str) -> std::net::SocketAddr {
    let provider = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = provider.local_addr().unwrap();
    std::thread::spawn(move || {
        for connection in provider.incoming() {
            let mut connection = connection.unwrap();
            let mut asked = [0; 4096];
            let length = connection.read(&mut asked).unwrap_or_default();
            let refusal = r#"{"error":{"message":"Incorrect API key sk-quoted: Say ok.","code":"invalid_api_key"}}"#;
            let answer =
                r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}]}"#;
            let (status, body) =
                if text(&asked[..length]).contains(good) { ("200 OK", answer) } else { ("401 Unauthorized", refusal) };
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            let _ = connection.write_all(format!("{head}{body}").as_bytes());
        }
    });
    address
}

#[test]
fn probe_tells_codes_and_no_word_of_a_provider() {
    let config = MODEL.replace("127.0.0.1:9", &provider("sk-good").to_string());
    let config = file(
        "probe",
        &format!(
            "{config}[models.dead]\ncandidates = [{{ provider = \"q\", model = \"x\" }}]\n[providers.q]\ndialect = \"anthropic\"\nbase_url = \"http://127.0.0.1:9\"\n"
        ),
    );
    let all = run(&["probe", "--config", &config]);
    assert_eq!(all.status.code(), Some(1));
    let told = text(&all.stdout);
    assert!(told.contains("dead: q/x: network: the provider cannot be reached ("), "{told}");
    assert!(told.contains("m: p/m: authentication: the provider refuses the credential ("), "{told}");
    assert!(!told.contains("sk-quoted") && !told.contains("127.0.0.1"), "{told}");

    let one = run(&["probe", "--config", &config, "--model", "m", "--json"]);
    let health: serde_json::Value = serde_json::from_str(&text(&one.stdout)).unwrap();
    assert_eq!((&health["model"], &health["health"]["code"]), (&"m".into(), &"authentication".into()));
    assert_eq!((&health["health"]["ok"], &health["health"]["dialect"]), (&false.into(), &"openai-chat".into()));

    let none = run(&["probe", "--config", &config, "--model", "nobody"]);
    assert!(text(&none.stderr).contains("there is no model \"nobody\""), "{}", text(&none.stderr));
}

#[test]
fn a_key_is_hashed_from_standard_input_or_made() {
    let mut child = stanchion().arg("hash-key").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"secret\n").unwrap();
    let hash = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
    assert_eq!(text(&child.wait_with_output().unwrap().stdout).trim(), hash);

    let made = text(&run(&["hash-key", "--generate"]).stdout);
    let (key, hash) = made.trim().split_once('\n').unwrap();
    let (key, hash) = (key.strip_prefix("key: ").unwrap(), hash.strip_prefix("key_sha256 = ").unwrap());
    let config = format!("[server]\nlisten = \"127.0.0.1:0\"\n[clients.me]\nkey_sha256 = {hash}\n{MODEL}");
    let gateway = Serving::start(&file("hashed", &config));
    let list = |key: &str| {
        gateway.ask(&format!("GET /v1/models HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-api-key: {key}\r\n\r\n"))
    };
    assert!(list(key).starts_with("HTTP/1.1 200"));
    assert!(list(hash.trim_matches('"')).starts_with("HTTP/1.1 401"), "the hash is no key");
}

#[test]
fn a_client_that_asks_for_more_than_it_may_is_told_in_its_dialect() {
    let config = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\ninline_keys = true\n[clients.small]\nkey = \"k1\"\nmodels = [\"m\"]\nrequests_per_minute = 3\n{MODEL}[models.other]\ncandidates = [{{ provider = \"p\" }}]\n[defaults.retry]\nmax_retries = 0\n"
    );
    let gateway = Serving::start(&file("limits", &config));
    let key = "authorization: Bearer k1\r\n";
    let ask = |path: &str, model: &str| gateway.post(path, key, &format!("{{\"model\":\"{model}\"}}"));
    let list = gateway.ask(&format!("GET /v1/models HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{key}\r\n"));
    assert!(list.contains("\"id\":\"m\"") && !list.contains("other"), "{list}");

    let refused = ask("/v1/messages", "other");
    assert!(refused.starts_with("HTTP/1.1 403") && refused.contains("\"type\":\"permission_error\""), "{refused}");
    assert!(refused.contains("it may ask for: m") && !refused.contains("other"), "{refused}");
    let refused = ask("/v1/chat/completions", "other");
    assert!(refused.starts_with("HTTP/1.1 403") && refused.contains("model_not_allowed"), "{refused}");
    // Nothing listens there.
    assert!(ask("/v1/chat/completions", "m").starts_with("HTTP/1.1 502"));

    let limited = ask("/v1/messages", "m");
    assert!(limited.starts_with("HTTP/1.1 429") && limited.contains("rate_limit_error"), "{limited}");
    let wait = limited.lines().find_map(|line| line.strip_prefix("retry-after: ")).unwrap();
    assert!((15..=20).contains(&wait.trim().parse::<u64>().unwrap()), "{wait}");
    assert!(!limited.contains("x-should-retry"), "{limited}");
}

#[test]
fn probe_asks_with_each_key_and_keeps_nothing_of_it() {
    let keys = "api_keys = [\"sk-bad\", \"sk-good\", \"sk-worse\"]\npassthrough = true\ncredentials.state_file = \"probed.json\"\n[models.m]";
    let config = MODEL.replace("127.0.0.1:9", &provider("sk-good").to_string()).replace("[models.m]", keys);
    let config = format!("[server]\ninline_keys = true\n{config}");
    let path = file("probe-keys", &config);
    let state = std::path::Path::new(&path).with_file_name("probed.json");
    let until = 4_000_000_000_000_u64;
    let row = format!(
        r#"{{"id":"2","mark":"47ad","usage_count":7,"rate_limit_count":1,"out":{{"reason":"rate_limited","until":{until}}}}}"#
    );
    let kept = format!(r#"{{"version":1,"provider":"p","salt":"salt","credentials":[{row}]}}"#);
    std::fs::write(&state, &kept).unwrap();
    let pool = ["sk-bad", "sk-good", "sk-worse"]
        .into_iter()
        .zip(["1", "2", "3"])
        .fold(CredentialPool::builder("p").state_file(&state), |pool, (key, id)| pool.credential(id, Secret::new(key)));
    let pool = pool.build().unwrap();
    assert!(
        matches!(pool.restored(), Restored::Credentials(1)),
        "the gateway's own reader takes it: {:?}",
        pool.restored()
    );
    pool.retire();
    drop(pool);
    let all = run(&["probe", "--config", &path]);
    let told = text(&all.stdout);
    let codes: Vec<&str> = told.lines().map(|line| line.rsplit_once(": ").unwrap().0).collect();
    assert_eq!(
        codes,
        ["m: p/m with 1: authentication", "m: p/m with 2: ok", "m: p/m with 3: authentication"],
        "{told}"
    );
    assert_eq!(all.status.code(), Some(1));
    assert_eq!(std::fs::read_to_string(&state).unwrap(), kept, "it is that of the gateway which serves");
    std::fs::remove_file(&state).unwrap();

    let any = run(&["probe", "--config", &path, "--model", "p/whatever", "--json"]);
    let lines: Vec<serde_json::Value> =
        text(&any.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!((&lines[1]["model"], &lines[1]["credential_id"]), (&"p/whatever".into(), &"2".into()));
    assert_eq!((&lines[1]["health"]["candidate"], &lines[1]["health"]["ok"]), (&"p/whatever".into(), &true.into()));
    assert!(!state.exists());

    // Without models there is nothing to ask for by itself.
    let passthrough = config.split("[models.m]").next().unwrap();
    let none = run(&["probe", "--config", &file("probe-any", passthrough)]);
    assert!(text(&none.stderr).contains("say which with --model PROVIDER/MODEL"), "{}", text(&none.stderr));
}

#[test]
fn a_file_that_is_no_state_file_is_told_and_left_alone() {
    let state = file("a-key", "sk-mistaken");
    let keys = format!("api_keys = [\"sk-1\", \"sk-2\"]\ncredentials.state_file = {state:?}\n[models.m]");
    let server = "[server]\nlisten = \"127.0.0.1:0\"\ninline_keys = true\n";
    let config = format!("{server}{}", MODEL.replace("[models.m]", &keys));
    let path = file("state", &config);
    let expected = format!("the state file {state} is no state file of this version");
    let checked = run(&["check", "--config", &path]);
    assert!(checked.status.success() && text(&checked.stderr).contains(&expected), "{}", text(&checked.stderr));

    let mut child = stanchion().args(["serve", "--config", &path]).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    log.read_line(&mut line).unwrap();
    assert!(line.contains("WARN") && line.contains(&expected) && !line.contains("sk-"), "{line}");
    let mut serving = Serving { address: told_address(&mut log), child, log };
    serving.post("/v1/chat/completions", "", r#"{"model":"m","messages":[]}"#);
    assert!(Command::new("kill").arg(serving.child.id().to_string()).status().unwrap().success());
    let mut rest = String::new();
    serving.log.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("ended"), "{rest}");
    assert_eq!(std::fs::read_to_string(&state).unwrap(), "sk-mistaken");
}
