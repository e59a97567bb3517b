//! What the real binary knows of a provider's keys after it was started anew.

use std::{fs, path::Path};

use stanchion_faults::{
    Outcome,
    client::Call,
    runner::{gateway_config, run_all},
    scenario::{Scenario, Script, Step},
    upstream::Upstream,
};
use stanchion_tests::{
    gateway::Gateway,
    replies::{done, finish, role, stream, text},
};

const KEYS: [(&str, &str); 2] = [("FIRST_KEY", "sk-canary-first"), ("SECOND_KEY", "sk-canary-second")];

/// A key's limit for the next hour; whatever is asked then is answered.
fn scenario() -> Scenario {
    let refusal = r#"{"error":{"message":"Rate limit reached","type":"requests","code":"rate_limit_exceeded"}}"#;
    let mut limited = Script { status: 429, ..stream([Step::text(refusal.to_owned())]) };
    limited.headers.insert("content-type".to_owned(), "application/json".to_owned());
    limited.headers.insert("retry-after".to_owned(), "3600".to_owned());
    let answer = Script { repeat: true, ..stream([role(), text("ok"), finish("stop"), done()]) };
    let mut scenario = Scenario::parse("m", "name = 'a limited key'").expect("a scenario");
    scenario.upstream.insert("a".to_owned(), vec![limited, answer]);
    scenario
}

#[tokio::test]
async fn a_key_that_rests_still_rests_after_a_restart_and_no_key_is_in_the_file() {
    let upstream = Upstream::start(&[scenario()]).await.expect("a provider");
    let state = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("keys-{}.json", std::process::id()));
    let config = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n\
         [providers.p]\ndialect = \"openai\"\nbase_url = \"{}/v1\"\napi_keys_env = [\"FIRST_KEY\", \"SECOND_KEY\"]\n\
         [providers.p.credentials]\nstrategy = \"fill_first\"\nstate_file = {:?}\n\
         [models.m]\ncandidates = [{{ provider = \"p\" }}]\n",
        upstream.base_url("m", "a"),
        state.display().to_string()
    );
    let mut printed = String::new();
    for start in ["first", "second"] {
        let mut gateway = Gateway::start_under(&KEYS, |_| config.clone()).await.expect("a gateway");
        let plain = Scenario::parse("any", "name = 'a client'\nupstream.a = [{}]").expect("a scenario");
        let reply = Call::new(&plain, gateway.address(), "m", "").send().await;
        assert_eq!((reply.outcome(), reply.text.as_str()), (Outcome::Complete, "ok"), "at the {start} start");
        gateway.signal("TERM").await.expect("a signal");
        assert_eq!(gateway.exits().await.expect("an end"), Some(0));
        printed += &gateway.printed();
    }
    let used: Vec<String> = upstream
        .requests("m", "a")
        .iter()
        .map(|request| request.headers.get("authorization").unwrap_or_default().to_owned())
        .collect();
    let [first, second] = KEYS.map(|(_, key)| format!("Bearer {key}"));
    assert_eq!(used, [first, second.clone(), second], "the second start remembers whose limit is reached");
    let kept = fs::read_to_string(&state).expect("a state file");
    fs::remove_file(&state).expect("a file of ours");
    assert!(kept.contains("FIRST_KEY"), "{kept}");
    for (_, key) in KEYS {
        assert!(!kept.contains(key) && !printed.contains(key), "{kept}\n{printed}");
    }
}

/// Two clients who are believed, and both call their session `main`.
const TWO_CLIENTS: &str = r#"
name = "two clients that name their sessions alike"

[[upstream.a]]
body = [
  { sse = '{"choices":[{"index":0,"delta":{"content":"ok"},"finish_reason":"stop"}]}' },
  { sse = '{"choices":[],"usage":{"prompt_tokens":7000,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":6000}}}' },
  { sse = "[DONE]" },
]

[[upstream.a]]
repeat = true
body = [
  { sse = '{"choices":[{"index":0,"delta":{"content":"ok"},"finish_reason":"stop"}]}' },
  { sse = '{"choices":[],"usage":{"prompt_tokens":7000,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":0}}}' },
  { sse = "[DONE]" },
]

[request]
headers = { authorization = "Bearer key-one", x-stanchion-session = "main", x-stanchion-events = "sse" }

[[request.then]]
headers = { authorization = "Bearer key-two", x-stanchion-session = "main", x-stanchion-events = "sse" }
expect = { told = [{ usage = {} }], not_told = "prompt_cache_break" }

[[request.then]]
headers = { authorization = "Bearer key-one", x-stanchion-session = "main", x-stanchion-events = "sse" }
expect = { told = [{ prompt_cache_break = { call_number = 2, previous_cache_read_tokens = 6000 } }] }
"#;

const CLIENTS: &str = r#"
[clients.one]
key_sha256 = "9b346041bc9a49574eb2665b2ad2a0a3f9f9cce4e42f5d1f26deb8a256b5966a"
identity_headers = true
[clients.two]
key_sha256 = "c8df51469c308a59bfbd48a3e0bdd228ca922d6032035f5ef6e4ad45f473a9f3"
identity_headers = true
"#;

#[tokio::test]
async fn two_clients_that_name_their_sessions_alike_learn_nothing_of_each_other() {
    let scenarios = [Scenario::parse("two", TWO_CLIENTS).expect("a scenario")];
    let upstream = Upstream::start(&scenarios).await.expect("a provider");
    let gateway = Gateway::start(|listen| format!("{}{CLIENTS}", gateway_config(&scenarios, &upstream, listen)));
    let gateway = gateway.await.expect("a gateway");
    let verdicts = run_all(&scenarios, &upstream, gateway.address(), 1).await;
    assert_eq!(verdicts[0].complaints, [""; 0], "{}", gateway.tail(20));
}
