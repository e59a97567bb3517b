//! What subscribers are told, and what is kept for those who are slow, on a paused clock.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use serde_json::Value;
use stanchion::{
    core::{Context, Event, Failure, FallbackEvent, RequestClass},
    telemetry::{Live, Metrics, MetricsFormat, TelemetryLayer},
};
use tokio::time::timeout;
use tower::{Layer, ServiceExt, service_fn};

use super::{
    Admin, AdminSettings, Board, Drains, Shared,
    board::{Acted, Action},
    events::{Feed, View, publish},
};
use crate::{
    config::{Complaint, Config},
    current::Current,
    gateway::Gateway,
};

const CONFIG: &str = r#"
[providers.a]
dialect = "openai"
base_url = "http://127.0.0.1:1/v1"

[models.main]
candidates = [{ provider = "a", model = "x" }, { provider = "a", model = "y" }]

[models.other]
candidates = [{ provider = "a", model = "x" }]

[models.bare]
candidates = [{ provider = "a", model = "z" }]
circuit = { open = "0s" }
"#;

fn board() -> (Board, Gateway) {
    let mut config = Config::parse("test", CONFIG, &|_| None).unwrap();
    Drains::default().put_into(&mut config);
    let gateway = Gateway::new(&config, None);
    (Board::new(&config, &gateway), gateway)
}

fn shared(live: &Live) -> Arc<Shared> {
    Arc::new(Shared::new(None, None, board().0, live.clone(), Metrics::new()))
}

fn feed(shared: &Arc<Shared>, view: View, model: Option<&str>) -> Feed {
    let place = shared.subscribers.clone().try_acquire_owned().unwrap();
    Feed::new(shared.clone(), view, model.map(str::to_owned), place)
}

/// The next message that is no sign of life: its name and its data.
async fn next(feed: &mut Feed) -> (String, Value) {
    loop {
        let message = timeout(Duration::from_secs(5), feed.next()).await.expect("soon").expect("not the end");
        if let Some(message) = parse(&message).into_iter().next() {
            return message;
        }
    }
}

fn parse(messages: &Bytes) -> Vec<(String, Value)> {
    let text = std::str::from_utf8(messages).unwrap();
    assert!(text.ends_with("\n\n"));
    let messages = text.split_terminator("\n\n").filter(|message| *message != ":");
    let parsed = messages.map(|message| {
        let (name, data) = message.split_once('\n').unwrap();
        let data = data.strip_prefix("data: ").unwrap();
        (name.strip_prefix("event: ").unwrap().to_owned(), serde_json::from_str(data).unwrap())
    });
    parsed.collect()
}

fn fallback() -> Event {
    Event::ModelFallback(FallbackEvent { from: "a/x".into(), to: "a/y".into() })
}

/// Makes one request that tells so many events.
async fn tell(live: &Live, events: usize) {
    let service = service_fn(move |request: Request<Full<Bytes>>| async move {
        for _ in 0..events {
            Context::emit(Context::of(&request), fallback);
        }
        Ok::<_, Failure>(Response::new(Full::<Bytes>::default()))
    });
    let service = TelemetryLayer::new().sink(Arc::new(live.clone())).layer(service);
    let mut request = Request::new(Full::default());
    request.extensions_mut().insert(Context::builder().class(RequestClass::Background).build());
    drop(service.oneshot(request).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_gets_everything_first_and_then_what_changes_every_second() {
    let live = Live::default();
    let shared = shared(&live);
    let publishing = tokio::spawn(publish(shared.clone()));
    tell(&live, 1).await;
    let mut feed = feed(&shared, View::Status, None);
    let (name, snapshot) = next(&mut feed).await;
    assert_eq!((name.as_str(), &snapshot["models"][1]["name"]), ("snapshot", &"main".into()));
    let steps = |status: &Value| status["charts"]["scopes"]["model:other"]["steps"].as_array().unwrap().len();
    assert_eq!(steps(&snapshot), 1);
    // One at once, since this is the first to listen; then one a second.
    assert_eq!(next(&mut feed).await.0, "update");
    for _ in 0..20 {
        let before = tokio::time::Instant::now();
        assert_eq!(next(&mut feed).await.0, "update");
        assert_eq!(before.elapsed(), Duration::from_secs(1));
    }
    // What lies further back than the newest steps is in the page already.
    assert_eq!(steps(&next(&mut feed).await.1), 0);
    drop(feed);
    let updates = shared.updates.borrow().number;
    tokio::time::sleep(Duration::from_secs(60)).await;
    // Whoever left last is noticed with the next update; for nobody nothing is made.
    assert!(shared.updates.borrow().number <= updates + 1);
    publishing.abort();
}

#[tokio::test(start_paused = true)]
async fn news_are_told_at_once_and_their_status_within_a_fifth_of_a_second() {
    let live = Live::default();
    let shared = shared(&live);
    tokio::spawn(publish(shared.clone()));
    let mut feed = feed(&shared, View::Status, None);
    for expected in ["snapshot", "update", "update"] {
        assert_eq!(next(&mut feed).await.0, expected);
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let now = tokio::time::Instant::now();
    tell(&live, 1).await;
    let (name, event) = next(&mut feed).await;
    assert_eq!((name.as_str(), &event["event"]["type"]), ("event", &"model_fallback".into()));
    assert_eq!((&event["class"], now.elapsed()), (&"background".into(), Duration::ZERO));
    let (name, _) = next(&mut feed).await;
    assert_eq!(name, "update");
    assert!(now.elapsed() <= Duration::from_millis(200), "{:?}", now.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_slow_subscriber_is_told_what_it_lost_and_gets_the_status_anew() {
    let live = Live::default();
    let shared = shared(&live);
    tokio::spawn(publish(shared.clone()));
    let mut feed = feed(&shared, View::Status, None);
    assert_eq!(next(&mut feed).await.0, "snapshot");
    // It reads nothing for a minute, and much happens.
    tell(&live, 5_000).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let (mut lost, mut events, mut others) = (0, 0, Vec::new());
    while lost + events < 5_000 {
        for (name, data) in parse(&feed.next().await.unwrap()) {
            match name.as_str() {
                "lost" => lost += data["count"].as_u64().unwrap(),
                "event" => events += 1,
                _ => others.push(name),
            }
        }
    }
    // Some of the lost ones began and ended the request.
    assert!((3_900..5_000).contains(&lost), "{lost}");
    assert!(events <= 1_024, "{events}");
    // Of all those updates there is one left, and it stands for all.
    while others.is_empty() {
        others.push(next(&mut feed).await.0);
    }
    assert_eq!(others[0], "snapshot");
}

#[tokio::test(start_paused = true)]
async fn who_wants_requests_is_told_all_of_them_or_those_of_one_model() {
    let live = Live::default();
    let shared = shared(&live);
    tokio::spawn(publish(shared.clone()));
    let mut all = feed(&shared, View::Requests, None);
    let mut none = feed(&shared, View::Requests, Some("main"));
    assert_eq!((next(&mut all).await.0, next(&mut none).await.0), ("hello".into(), "hello".into()));
    tell(&live, 1).await;
    let mut kinds = Vec::new();
    while kinds.len() < 3 {
        let told = parse(&all.next().await.unwrap());
        kinds.extend(told.into_iter().map(|(_, data)| data["kind"].as_str().unwrap().to_owned()));
    }
    assert_eq!(kinds, ["began", "event", "ended"]);
    // Signs of life only.
    for _ in 0..3 {
        assert_eq!(none.next().await.unwrap(), ":\n\n");
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_is_told_and_is_the_end() {
    let live = Live::default();
    let shared = shared(&live);
    let mut feed = feed(&shared, View::Status, None);
    assert_eq!(next(&mut feed).await.0, "snapshot");
    assert_eq!(shared.subscribers.available_permits(), super::SUBSCRIBERS - 1);
    shared.ended.send_replace(true);
    assert_eq!(next(&mut feed).await.0, "end");
    assert_eq!(feed.next().await, None);
    drop(feed);
    assert_eq!(shared.subscribers.available_permits(), super::SUBSCRIBERS);
}

#[tokio::test(start_paused = true)]
async fn a_hand_acts_on_a_candidate_wherever_it_stands() {
    let (board, gateway) = board();
    let shown = |model: &str, candidate: &str| -> Value {
        let models = serde_json::to_value(board.models(&HashMap::new())).unwrap();
        let models = models.as_array().unwrap();
        let model = models.iter().find(|shown| shown["name"] == model).unwrap();
        model["candidates"].as_array().unwrap().iter().find(|shown| shown["name"] == candidate).unwrap().clone()
    };
    // Before anybody has asked for it, too.
    assert_eq!(board.act("a/x", Action::Open), Acted::Done);
    for model in ["main", "other"] {
        let circuit = &shown(model, "a/x")["circuit"];
        assert_eq!((&circuit["state"], &circuit["by_hand"]), (&"open".into(), &true.into()), "{model}");
    }
    assert_eq!(shown("main", "a/y")["circuit"]["state"], "closed");
    // It is the circuit that requests meet.
    let statuses = gateway.circuits.status();
    assert!(statuses.iter().any(|status| &*status.candidate == "a/x" && status.by_hand));
    assert_eq!(board.act("a/x", Action::Close), Acted::Done);
    assert_eq!(shown("other", "a/x")["circuit"]["state"], "closed");
    assert_eq!(
        (board.act("a/z", Action::Open), board.act("nobody", Action::Drain)),
        (Acted::NoCircuit, Acted::Unknown)
    );
    assert!(shown("bare", "a/z").get("circuit").is_none());
    assert_eq!(board.act("a/z", Action::Drain), Acted::Done);
    assert_eq!(shown("bare", "a/z")["drained"], true);
    assert_eq!(board.act("a/z", Action::Undrain), Acted::Done);
    assert_eq!(shown("bare", "a/z")["drained"], false);
}

#[test]
fn a_reload_puts_nobody_back_into_service() {
    let drains = Drains::default();
    let configured = || {
        let mut config = Config::parse("test", CONFIG, &|_| None).unwrap();
        drains.put_into(&mut config);
        config
    };
    let before = configured();
    before.models["main"].candidates.select(0).unwrap().candidate.drain().set(true);
    let after = configured();
    let drained = |model: &str| -> Vec<bool> {
        after.models[model].candidates.iter().map(|candidate| candidate.drain().is_drained()).collect()
    };
    assert_eq!((drained("main"), drained("other"), drained("bare")), (vec![true, false], vec![true], vec![false]));
}

#[tokio::test]
async fn beyond_loopback_it_wants_a_key() {
    let bind = |key| async move {
        let settings = AdminSettings { listen: ([0, 0, 0, 0], 0).into(), key, tls: None };
        Admin::bind(settings, board().0, Live::default(), Metrics::new()).await
    };
    let refused = bind(None).await.unwrap_err().to_string();
    assert!(refused.contains("has no key") && refused.contains("admin.key_env"), "{refused}");
    assert!(bind(Some([0; 32])).await.is_ok());
}

#[test]
fn a_provider_whose_models_pass_through_is_shown_as_one_model_and_can_be_drained() {
    let text = CONFIG.replace("[providers.a]", "[providers.a]\npassthrough = true");
    let mut config = Config::parse("test", &text, &|_| None).unwrap();
    Drains::default().put_into(&mut config);
    let gateway = Gateway::new(&config, None);
    let board = Board::new(&config, &gateway);
    let shown = serde_json::to_value(board.models(&HashMap::new())).unwrap();
    assert_eq!((&shown[3]["name"], &shown[3]["candidates"][0]["name"]), (&"a/*".into(), &"a".into()));
    assert_eq!(gateway.names.configured("a/whatever").as_deref(), Some("a/*"), "requests are told of by the same name");
    assert_eq!(board.act("a", Action::Drain), Acted::Done);
    assert!(config.passthrough["a"].candidates.iter().all(|candidate| candidate.drain().is_drained()));
}

#[tokio::test]
async fn which_configuration_is_served_is_shown_and_why_the_last_one_is_not() {
    let config = || Config::parse("test", CONFIG, &|_| None).unwrap();
    let gateway = Gateway::new(&config(), None);
    let current = Current::new(gateway.clone(), Some(Arc::new(config())), Some("stanchion.toml".into()));
    let shared = shared(&Live::default());
    let shown = || -> Value {
        let status: Value = serde_json::from_str(&shared.status(0)).unwrap();
        status["gateway"]["config"].clone()
    };
    assert_eq!(shown(), Value::Null, "where nobody knows");
    shared.current.set(current.clone()).unwrap();
    current.measure(&shared.metrics);
    let successful = |shown: bool| {
        let text = shared.metrics.encode(MetricsFormat::Prometheus);
        let line = format!("stanchion_config_last_reload_successful {:.1}\n", f64::from(u8::from(shown)));
        assert!(text.contains(&line), "{text}");
        assert!(text.contains(&format!("stanchion_build_info{{version=\"{}\"}} 1.0", env!("CARGO_PKG_VERSION"))));
    };
    successful(true);
    let first = shown();
    assert_eq!((&first["generation"], &first["refused"]), (&1.into(), &Value::Null));
    assert_eq!(first["hash"].as_str().unwrap().len(), 12);

    let complaint =
        |key: &str| Complaint { line: Some(7), variable: None, key: key.to_owned(), reason: "no".to_owned() };
    current.refuse((0..20).map(|number| complaint(&format!("k{number}"))).collect());
    let refused = shown()["refused"].clone();
    let told = refused["complaints"].as_array().unwrap();
    assert_eq!((&refused["total"], told.len(), &told[0]), (&20.into(), 8, &"stanchion.toml:7: k0: no".into()));
    assert!(refused["at_ms"].as_u64() >= first["since_ms"].as_u64());
    successful(false);

    current.replace(gateway, Arc::new(config()));
    assert_eq!((&shown()["generation"], &shown()["refused"]), (&2.into(), &Value::Null));
    successful(true);
}
