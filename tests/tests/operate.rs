//! Operating the real binary while clients stream: other configurations, and its end.

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use stanchion_faults::{
    Outcome,
    client::{Call, Reply},
    scenario::{Dialect, Scenario, Script, Step},
    upstream::Upstream,
};
use stanchion_tests::{
    gateway::Gateway,
    replies::{done, finish, millis, role, secs, stream, text},
};
use tokio::{
    net::TcpStream,
    task::JoinSet,
    time::{Instant, sleep},
};

fn scenario(name: &str, script: Script) -> Scenario {
    let mut scenario = Scenario::parse(name, "name = 'an answer'").expect("a scenario");
    scenario.upstream.insert("a".to_owned(), vec![Script { repeat: true, ..script }]);
    scenario
}

/// So many words, one in each interval, and a proper end.
fn words(count: usize, interval: Duration) -> Script {
    let word = Step { wait: Some(interval), ..text("a ") };
    stream([role()].into_iter().chain(vec![word; count]).chain([finish("stop"), done()]))
}

/// The tables of providers and models, each model by the name of its scenario.
fn tables(upstream: &Upstream, names: &[&str]) -> String {
    let table = |name: &&str| {
        let base = upstream.base_url(name, "a");
        format!(
            "[providers.{name}]\ndialect = \"openai\"\nbase_url = \"{base}/v1\"\n[models.{name}]\ncandidates = [{{ provider = \"{name}\" }}]\n"
        )
    };
    names.iter().map(table).collect::<Vec<_>>().concat()
}

async fn ask(gateway: &Gateway, model: &str) -> Reply {
    call(gateway, model).send().await
}

fn call(gateway: &Gateway, model: &str) -> Call {
    let plain = Scenario::parse("any", "name = 'a client'\nupstream.a = [{}]").expect("a scenario");
    let mut call = Call::new(&plain, gateway.address(), model, "");
    call.give_up = secs(60);
    call
}

/// How many requests have reached the provider.
fn asked(upstream: &Upstream, name: &str) -> usize {
    upstream.requests(name, "a").len()
}

#[tokio::test]
async fn reloading_under_load_loses_no_stream_and_no_request() {
    let upstream = Upstream::start(&[scenario("m", words(10, millis(60)))]).await.expect("a provider");
    let tables = tables(&upstream, &["m"]);
    let config = |number: usize| {
        format!(
            "[server]\nlisten = \"127.0.0.1:0\"\nwatch = \"100ms\"\n{tables}[defaults.retry]\nmax_retries = {number}\n"
        )
    };
    let gateway = Arc::new(Gateway::start(|_| config(0)).await.expect("a gateway"));
    let (over, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut clients = JoinSet::new();
    for _ in 0..20 {
        let (gateway, over, count) = (gateway.clone(), over.clone(), count.clone());
        clients.spawn(async move {
            while !over.load(Ordering::Relaxed) {
                let reply = ask(&gateway, "m").await;
                assert_eq!((reply.outcome(), reply.text.len()), (Outcome::Complete, 20), "{:?}", reply.error);
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    for number in 1..=8 {
        sleep(millis(250)).await;
        // As an editor does it, and then a signal as well: whichever comes first.
        let beside = gateway.config().with_extension("new");
        fs::write(&beside, config(number)).expect("written");
        fs::rename(&beside, gateway.config()).expect("renamed");
        if number % 2 == 0 {
            gateway.signal("HUP").await.expect("a signal");
        }
        gateway.prints(&format!("a new configuration is served generation={}", number + 1)).await.expect("a reload");
    }
    over.store(true, Ordering::Relaxed);
    clients.join_all().await;
    let count = count.load(Ordering::Relaxed);
    assert!(count >= 40, "{count}");
    assert_eq!(asked(&upstream, "m"), count, "each was asked for once");
}

#[tokio::test]
async fn a_configuration_that_is_wrong_is_refused_with_all_that_is_wrong_and_streams_go_on() {
    let upstream = Upstream::start(&[scenario("m", words(10, millis(100)))]).await.expect("a provider");
    let config = format!("[server]\nlisten = \"127.0.0.1:0\"\n{}", tables(&upstream, &["m"]));
    let gateway = Gateway::start(|_| config.clone()).await.expect("a gateway");
    let streaming = tokio::spawn({
        let call = call(&gateway, "m");
        async move { call.send().await }
    });
    sleep(millis(200)).await;
    let wrong = format!("{}[models.n]\ncandidates = [{{ provider = \"mm\" }}]\n", config.replace("listen", "lisen"));
    fs::write(gateway.config(), wrong).expect("written");
    gateway.signal("HUP").await.expect("a signal");
    for told in [
        "the new configuration is not taken",
        ":2: server.lisen: unknown key `lisen`; did you mean `listen`?",
        ":9: models.n.candidates[0].provider: there is no provider \"mm\"",
    ] {
        gateway.prints(told).await.expect("a complaint");
    }
    assert_eq!(streaming.await.expect("a reply").outcome(), Outcome::Complete);
    assert_eq!(ask(&gateway, "m").await.outcome(), Outcome::Complete, "what was served still is");
    assert_eq!(ask(&gateway, "n").await.status, Some(404));
}

#[tokio::test]
async fn told_to_end_it_lets_every_stream_end_within_the_drain_time() {
    let upstream = Upstream::start(&[scenario("m", words(15, millis(100)))]).await.expect("a provider");
    let config = format!("[server]\nlisten = \"127.0.0.1:0\"\ndrain = \"20s\"\n{}", tables(&upstream, &["m"]));
    let mut gateway = Gateway::start(|_| config).await.expect("a gateway");
    let mut clients = JoinSet::new();
    for number in 0..30 {
        let call = call(&gateway, "m");
        clients.spawn(async move {
            sleep(millis(10 * number)).await;
            call.send().await
        });
    }
    // A connection on which nothing is asked holds nobody up.
    let _idle = TcpStream::connect(gateway.address()).await.expect("a connection");
    sleep(millis(800)).await;
    assert_eq!(asked(&upstream, "m"), 30);
    gateway.signal("TERM").await.expect("a signal");
    gateway.prints("told to end").await.expect("a drain");
    let told = Instant::now();
    sleep(millis(50)).await;
    assert!(TcpStream::connect(gateway.address()).await.is_err(), "nobody new is let in");
    for reply in clients.join_all().await {
        assert_eq!((reply.outcome(), reply.text.len()), (Outcome::Complete, 30), "{:?}", reply.error);
    }
    assert_eq!(gateway.exits().await.expect("an end"), Some(0));
    assert!(told.elapsed() < secs(10), "{:?}: it does not wait for the whole drain time", told.elapsed());
    assert!(gateway.printed().contains("every reply was whole"), "{}", gateway.tail(5));
}

#[tokio::test]
async fn what_outlives_the_drain_time_is_ended_in_band_in_its_dialect() {
    let silent = stream([Step { wait: Some(secs(60)), ..role() }]);
    let upstream = Upstream::start(&[
        scenario("chat", words(600, millis(100))),
        scenario("claude", anthropic_words()),
        scenario("silent", silent),
    ])
    .await
    .expect("a provider");
    let tables = tables(&upstream, &["chat", "silent"]);
    let claude = upstream.base_url("claude", "a");
    let config = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\ndrain = \"700ms\"\n{tables}[providers.claude]\ndialect = \"anthropic\"\nbase_url = \"{claude}\"\n[models.claude]\ncandidates = [{{ provider = \"claude\" }}]\n"
    );
    let mut gateway = Gateway::start(|_| config).await.expect("a gateway");
    let mut asks = Vec::new();
    for model in ["chat", "claude", "silent"] {
        let mut call = call(&gateway, model);
        if model == "claude" {
            let plain = Scenario::parse("any", "name = 'c'\ndialect = 'anthropic'\nupstream.a = [{}]").expect("one");
            call = Call { give_up: secs(60), ..Call::new(&plain, gateway.address(), model, "") };
            assert_eq!(call.dialect, Dialect::Anthropic);
        }
        asks.push(tokio::spawn(async move { call.send().await }));
    }
    sleep(millis(600)).await;
    gateway.signal("TERM").await.expect("a signal");
    let mut replies = Vec::new();
    for ask in asks {
        replies.push(ask.await.expect("a reply"));
    }
    let [chat, claude, silent] = &replies[..] else { panic!("three") };
    for reply in [chat, claude] {
        assert_eq!((reply.status, reply.outcome()), (Some(200), Outcome::Error), "an error in the stream, and no cut");
        assert!(reply.text.starts_with("a a "), "{:?}", reply.text);
        let told = String::from_utf8_lossy(&reply.raw);
        assert!(told.contains("the gateway is shutting down"), "{told}");
        assert!(!told.contains("[DONE]") && !told.contains("message_stop"), "no end is made up");
    }
    assert_eq!(chat.error.as_ref().map(|error| &error["code"]), Some(&"shutting_down".into()), "{:?}", chat.error);
    assert!(
        String::from_utf8_lossy(&claude.raw)
            .contains("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"")
    );
    assert_eq!((silent.status, silent.outcome()), (Some(503), Outcome::Error));
    assert_eq!(gateway.exits().await.expect("an end"), Some(0));
    assert!(gateway.printed().contains("some replies were ended in band requests=3"), "{}", gateway.tail(5));
}

/// A message whose words never end.
fn anthropic_words() -> Script {
    let event = |name: &str, data: &str| Step::text(format!("event: {name}\ndata: {data}\n\n"));
    let start = event(
        "message_start",
        r#"{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","content":[],"model":"m","usage":{"input_tokens":1,"output_tokens":1}}}"#,
    );
    let block = event(
        "content_block_start",
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
    );
    let word = event(
        "content_block_delta",
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a "}}"#,
    );
    let word = Step { wait: Some(millis(100)), ..word };
    let mut script = stream([start, block].into_iter().chain(vec![word; 600]));
    script.headers.insert("content-type".to_owned(), "text/event-stream".to_owned());
    script
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once_and_every_request_has_its_record() {
    const STREAMS: usize = 50;
    let upstream = Upstream::start(&[scenario("m", words(600, millis(100)))]).await.expect("a provider");
    let records = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("records-{}.jsonl", std::process::id()));
    let config = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\ndrain = \"1h\"\n{}[telemetry.records]\npath = {:?}\n",
        tables(&upstream, &["m"]),
        records.display().to_string()
    );
    let mut gateway = Gateway::start(|_| config).await.expect("a gateway");
    let mut streaming = JoinSet::new();
    for _ in 0..STREAMS {
        let call = call(&gateway, "m");
        streaming.spawn(async move { call.send().await });
    }
    while asked(&upstream, "m") < STREAMS {
        sleep(millis(20)).await;
    }
    sleep(millis(200)).await;
    gateway.signal("TERM").await.expect("a signal");
    gateway.prints("told to end").await.expect("a drain");
    gateway.signal("TERM").await.expect("a signal");
    assert_eq!(gateway.exits().await.expect("an end"), Some(143));
    for reply in streaming.join_all().await {
        assert_ne!(reply.outcome(), Outcome::Complete);
    }
    let written = fs::read_to_string(&records).expect("records");
    fs::remove_file(&records).expect("a file of ours");
    assert_eq!(written.lines().count(), STREAMS);
}

#[tokio::test]
async fn a_thousand_slow_streams_hold_in_bounded_memory() {
    const STREAMS: usize = 1000;
    let upstream = Upstream::start(&[scenario("m", words(8, secs(1)))]).await.expect("a provider");
    let config = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n{}[defaults.timeouts]\nidle = \"60s\"\n",
        tables(&upstream, &["m"])
    );
    let gateway = Gateway::start(|_| config).await.expect("a gateway");
    assert_eq!(ask(&gateway, "m").await.outcome(), Outcome::Complete);
    let before = resident(gateway.id());
    let mut clients = JoinSet::new();
    for _ in 0..STREAMS {
        let call = call(&gateway, "m");
        clients.spawn(async move { call.send().await });
    }
    let mut most = 0;
    let mut whole = 0;
    while whole < STREAMS {
        tokio::select! {
            Some(reply) = clients.join_next() => {
                let reply = reply.expect("a reply");
                assert_eq!((reply.outcome(), reply.text.len()), (Outcome::Complete, 16), "{:?}", reply.error);
                whole += 1;
            }
            () = sleep(millis(200)) => most = most.max(resident(gateway.id())),
        }
    }
    let each = most.saturating_sub(before) / STREAMS as u64;
    println!("{before} KiB before, {most} KiB at most: {each} KiB a stream");
    assert!(each < 160, "{each} KiB a stream");
}

/// What a process has in memory, in KiB.
fn resident(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap_or_default()
}
