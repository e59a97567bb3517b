//! Whose limit holds where, through the real binary: several models, providers and owners at one queue.

use std::time::Duration;

use stanchion_faults::{
    Outcome,
    client::{Call, Reply},
    scenario::{Scenario, Step},
    upstream::Upstream,
};
use stanchion_tests::{
    gateway::Gateway,
    replies::{done, finish, millis, role, stream, text},
};
use tokio::task::JoinSet;

/// How long a provider takes for one answer.
const ANSWER: Duration = millis(800);

/// A provider by this name, each of whose answers takes its time.
fn provider(name: &str) -> Scenario {
    let last = Step { wait: Some(ANSWER), ..text("Hello") };
    let script = stanchion_faults::scenario::Script { repeat: true, ..stream([role(), last, finish("stop"), done()]) };
    let mut scenario = Scenario::parse(name, "name = 'an answer that takes its time'").expect("a scenario");
    scenario.upstream.insert("a".to_owned(), vec![script]);
    scenario
}

/// A gateway with these tables in front of providers by these names.
async fn gateway(names: &[&str], tables: &str) -> (Upstream, Gateway) {
    let scenarios: Vec<Scenario> = names.iter().map(|name| provider(name)).collect();
    let upstream = Upstream::start(&scenarios).await.expect("a provider");
    let provider = |name: &&str| {
        let base = upstream.base_url(name, "a");
        format!("[providers.{name}]\ndialect = \"openai\"\nbase_url = \"{base}/v1\"\napi_key = \"sk-x\"\n")
    };
    let providers = names.iter().map(provider).collect::<Vec<_>>().concat();
    let config = |listen| format!("[server]\nlisten = \"{listen}\"\ninline_keys = true\n{providers}{tables}");
    let gateway = Gateway::start(config).await.expect("a gateway");
    (upstream, gateway)
}

/// Asks for each of these models as one of these owners at once, and waits for all.
async fn ask(gateway: &Gateway, asks: impl IntoIterator<Item = (&str, &str)>) -> Vec<Reply> {
    let mut calls = JoinSet::new();
    for (model, owner) in asks {
        let mut call =
            Call::new(&provider("any"), gateway.address(), model, "").default_header("x-stanchion-owner", owner);
        call.body.insert("user".to_owned(), owner.into());
        calls.spawn(async move { call.send().await });
    }
    let replies = calls.join_all().await;
    for reply in &replies {
        assert_eq!((reply.outcome(), reply.text.as_str()), (Outcome::Complete, "Hello"), "{}", gateway.tail(20));
    }
    replies
}

#[tokio::test]
async fn a_providers_limit_holds_for_all_models_that_it_serves() {
    let model = |name: &str, provider: &str| {
        format!("[models.{name}]\ncandidates = [{{ provider = \"{provider}\", model = \"m\" }}]\n")
    };
    let tables = [
        &model("fast", "narrow"),
        &model("slow", "narrow"),
        &model("free", "wide"),
        &model("other", "wide"),
        &model("own", "narrower"),
        "[models.own.admission]\nconcurrency = 2\n",
        "[providers.narrow.admission]\nconcurrency = 1\n[providers.narrower.admission]\nconcurrency = 1\n",
        "[defaults.admission]\nconcurrency = 3\n",
    ];
    let (upstream, gateway) = gateway(&["narrow", "wide", "narrower"], &tables.concat()).await;
    let twice = ["fast", "slow", "free", "other", "own"].into_iter().flat_map(|model| [(model, "a"), (model, "b")]);
    ask(&gateway, twice).await;
    let peaks = ["narrow", "wide", "narrower"].map(|name| upstream.peak_in_flight(name));
    assert_eq!(peaks, [1, 3, 2], "the provider's own limit, the default, and the model's own");
    assert_eq!(upstream.requests("narrow", "a").len(), 4);
}

#[tokio::test]
async fn an_owner_cannot_exceed_its_share() {
    let tables = "[models.m]\ncandidates = [{ provider = \"p\" }]\n[admission]\nowner_concurrency = 2\n";
    let (upstream, gateway) = gateway(&["p"], tables).await;
    ask(&gateway, [("m", "greedy"); 6].into_iter().chain([("m", "modest")])).await;
    let requests = upstream.requests("p", "a");
    let of = |owner: &str| {
        let part = format!("\"user\":\"{owner}\"");
        requests.iter().filter(move |request| String::from_utf8_lossy(&request.body).contains(&part)).cloned()
    };
    let greedy: Vec<_> = of("greedy").collect();
    assert_eq!(greedy.len(), 6);
    for request in &greedy {
        let running = greedy.iter().filter(|other| other.at <= request.at && other.ended_at > Some(request.at));
        assert!(running.count() <= 2, "{greedy:?}");
    }
    let modest = of("modest").next().expect("it was served");
    assert!(modest.at - greedy[0].at < ANSWER, "it has not waited for the other");
}

#[tokio::test]
async fn a_key_that_pins_owner_and_class_lets_nobody_promote_himself() {
    let tables = "[models.m]\ncandidates = [{ provider = \"p\" }]\n[models.m.admission]\nconcurrency = 1\n\
        [clients.person]\nkey = \"of-a-person\"\nidentity_headers = true\n\
        [clients.robot]\nkey = \"of-a-robot\"\nidentity_headers = true\nowner = \"robots\"\nclass = \"background\"\n";
    let (upstream, gateway) = gateway(&["p"], tables).await;
    let call = |key: &str, user: &str| {
        let mut call = Call::new(&provider("any"), gateway.address(), "m", "")
            .default_header("authorization", &format!("Bearer {key}"))
            .default_header("x-stanchion-class", "foreground");
        call.body.insert("user".to_owned(), user.into());
        call
    };
    // The first runs; the robot asks before the person does.
    let mut calls = JoinSet::new();
    for (key, user) in [("of-a-person", "first"), ("of-a-robot", "second"), ("of-a-person", "third")] {
        let call = call(key, user);
        calls.spawn(async move { call.send().await });
        tokio::time::sleep(ANSWER / 6).await;
    }
    assert!(calls.join_all().await.iter().all(|reply| reply.outcome() == Outcome::Complete), "{}", gateway.tail(20));
    let order: Vec<String> = upstream
        .requests("p", "a")
        .iter()
        .map(|request| String::from_utf8_lossy(&request.body).split("\"user\":\"").nth(1).unwrap_or("").to_owned())
        .collect();
    let users: Vec<&str> = order.iter().map(|rest| rest.split('"').next().unwrap_or("")).collect();
    assert_eq!(users, ["first", "third", "second"]);
}
