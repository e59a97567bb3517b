use stanchion::{
    circuit::CircuitState,
    core::{Failure, FailureKind, Selected},
};
use tokio::time::Instant;
use tower::{Layer, ServiceExt, service_fn};

use super::*;

const PROVIDERS: &str = "[providers.a]\ndialect = \"openai\"\nbase_url = \"http://127.0.0.1:9/v1\"\napi_keys_env = [\"ONE\", \"TWO\"]\n[providers.b]\ndialect = \"openai\"\nbase_url = \"http://127.0.0.1:10/v1\"\n";
const MODELS: &str = "[models.m]\ncandidates = [{ provider = \"a\" }, { provider = \"b\" }]\n[models.n]\ncandidates = [{ provider = \"b\" }]\n";

fn config(text: &str) -> Config {
    let keys = |name: &str| Some(format!("sk-{name}"));
    Config::parse("f", text, &keys).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn whole() -> String {
    format!("{PROVIDERS}{MODELS}")
}

/// Uses the circuits of every candidate, and fails those of `b`.
fn use_circuits(parts: &Parts, config: &Config) {
    for model in config.models.values() {
        let candidates = parts.credentials.expand(&model.candidates);
        let layer =
            CircuitLayer::new(parts.circuits.clone(), model.circuit.clone()).with_candidates(candidates.clone());
        for candidate in candidates.iter() {
            let _ = layer.circuit(candidate).check(Instant::now());
        }
    }
    parts.circuits.force_open("b");
}

fn circuits(parts: &Parts) -> Vec<(String, CircuitState)> {
    parts.circuits.status().iter().map(|circuit| (circuit.candidate.to_string(), circuit.state)).collect()
}

#[tokio::test(start_paused = true)]
async fn every_candidate_has_a_circuit_however_many_there_are() {
    let models = (0..200).map(|n| {
        format!("[models.m{n}]\ncandidates = [{{ provider = \"a\", model = \"x{n}\" }}, {{ provider = \"b\", model = \"x{n}\" }}]\n")
    });
    let config = config(&format!("{PROVIDERS}{}", models.collect::<String>()));
    let mut parts = Parts::new();
    parts.take(&config);
    use_circuits(&parts, &config);
    // `a` has two keys.
    assert_eq!(circuits(&parts).len(), 600);
}

#[tokio::test(start_paused = true)]
async fn circuits_of_what_is_unchanged_keep_their_state_and_others_are_forgotten() {
    use CircuitState::{Closed, Open};
    let before = config(&whole());
    let known = |list: &[(&str, CircuitState)]| -> Vec<(String, CircuitState)> {
        list.iter().map(|(name, state)| ((*name).to_owned(), *state)).collect()
    };
    for (text, expected) in [
        // What has nothing to do with them; `a` has two keys.
        (
            format!("{}[defaults.retry]\nmax_retries = 7\n", whole()),
            known(&[("a", Closed), ("a", Closed), ("b", Open)]),
        ),
        // One key less; one model less, whose candidate the other has too.
        (whole().replace(", \"TWO\"", ""), known(&[("a", Closed), ("b", Open)])),
        (whole().replace("[models.n]", "[models.o]"), known(&[("a", Closed), ("a", Closed), ("b", Open)])),
        // Another address; a candidate less; other circuits.
        (whole().replace(":10/", ":11/"), known(&[("a", Closed), ("a", Closed)])),
        (whole().replace("{ provider = \"a\" }, ", ""), known(&[("b", Open)])),
        (format!("{}[defaults.circuit]\nopen = \"20s\"\n", whole()), known(&[])),
    ] {
        let mut parts = Parts::new();
        parts.gateway(&before);
        use_circuits(&parts, &before);
        assert_eq!(circuits(&parts).len(), 3);
        parts.gateway(&config(&text));
        assert_eq!(circuits(&parts), expected, "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_queue_is_the_same_one_and_its_limits_change_in_place() {
    let mut parts = Parts::new();
    let first = parts.gateway(&config(&format!("{}[admission]\nglobal_concurrency = 1\n", whole())));
    let second = parts.gateway(&config(&format!("{}[admission]\nglobal_concurrency = 2\nmax_pending = 9\n", whole())));
    for gateway in [&first, &second] {
        let status = gateway.scheduler.status();
        assert_eq!((status.limit, status.max_pending), (Some(2), 9));
    }
    second.scheduler.close();
    assert!(first.scheduler.status().closed);
}

#[tokio::test(start_paused = true)]
async fn another_adaptive_table_of_one_provider_leaves_the_limits_of_others_as_they_are() {
    let with = |a: u32, b: u32, more: &str| {
        let adaptive = |ceiling: u32| format!("admission.adaptive = {{ ceiling = {ceiling} }}\n");
        let text = whole().replace("[providers.b]\n", &format!("{}[providers.b]\n{}", adaptive(a), adaptive(b)));
        config(&format!("{text}{more}"))
    };
    let limits = |parts: &Parts| -> Vec<_> {
        let domains = parts.scheduler.status().domains.into_iter();
        let mut limits: Vec<_> = domains.map(|domain| (domain.candidate.to_string(), domain.adaptive_limit)).collect();
        limits.sort();
        limits
    };
    let another_model = "[models.o]\ncandidates = [{ provider = \"b\" }]\n";
    for (next, expected) in [
        (with(10, 20, "[defaults.retry]\nmax_retries = 7\n"), [("a", Some(5)), ("b", Some(10))]),
        (with(10, 20, another_model), [("a", Some(5)), ("b", Some(10))]),
        (with(9, 20, ""), [("a", None), ("b", Some(10))]),
        (with(10, 21, ""), [("a", Some(5)), ("b", None)]),
        (config(&whole()), [("a", None), ("b", None)]),
    ] {
        let first = with(10, 20, "");
        let mut parts = Parts::new();
        parts.gateway(&first);
        let refused: Vec<_> = first.models["m"]
            .candidates
            .iter()
            .map(|candidate| {
                let policy = first.models["m"].admission[candidate.provider()].clone();
                (AdmissionLayer::new(parts.scheduler.clone(), policy), candidate.clone())
            })
            .collect();
        for (layer, candidate) in &refused {
            let mut request = http::Request::new(http_body_util::Full::<bytes::Bytes>::default());
            request.extensions_mut().insert(Selected { candidate: candidate.clone(), index: 0, last: true });
            let refuses = service_fn(|_: http::Request<_>| async {
                Err::<http::Response<http_body_util::Full<bytes::Bytes>>, _>(Failure::new(FailureKind::RateLimited))
            });
            assert!(layer.layer(refuses).oneshot(request).await.is_err());
        }
        let named = |(name, limit): (&str, Option<u32>)| (name.to_owned(), limit);
        assert_eq!(limits(&parts), [("a", Some(5)), ("b", Some(10))].map(named));
        parts.gateway(&next);
        assert_eq!(limits(&parts), expected.map(named));
    }
}

#[tokio::test(start_paused = true)]
async fn a_budget_of_the_same_settings_is_as_empty_as_it_was() {
    let with = |capacity: u32, more: &str| {
        config(&format!("{}[defaults.retry_budget]\ncapacity = {capacity}\nper_second = 0.0\n{more}", whole()))
    };
    let mut parts = Parts::new();
    let spent = |parts: &Parts, config: &Config| {
        let budget = parts.budget(config.models["m"].retry_budget.as_ref().unwrap());
        !budget.withdraw(config.models["m"].candidates.iter().next(), Instant::now())
    };
    let first = with(1, "");
    parts.gateway(&first);
    assert!(!spent(&parts, &first) && spent(&parts, &first));
    let second = with(1, "[cache]\nmax_sessions = 9\n");
    parts.gateway(&second);
    assert!(spent(&parts, &second));
    let third = with(2, "");
    parts.gateway(&third);
    assert!(!spent(&parts, &third));
}

#[tokio::test(start_paused = true)]
async fn keys_that_are_set_up_as_before_keep_what_is_known_of_them() {
    let mut parts = Parts::new();
    parts.gateway(&config(&whole()));
    assert!(parts.credentials.get("a").unwrap().park("ONE"));
    let ready = |parts: &Parts| parts.credentials.get("a").unwrap().status().ready_count;
    parts.gateway(&config(&format!("{}[defaults.retry]\nmax_retries = 7\n", whole())));
    assert_eq!(ready(&parts), 1);
    let gateway =
        parts.gateway(&config(&whole().replace("[providers.b]", "credentials = { cooldown = \"9s\" }\n[providers.b]")));
    assert_eq!((ready(&parts), gateway.credentials.status()[0].ready_count), (2, 2));
    parts.gateway(&config(&whole().replace("api_keys_env = [\"ONE\", \"TWO\"]", "")));
    assert!(parts.credentials.get("a").is_none());
}

#[tokio::test(start_paused = true)]
async fn connections_and_watched_sessions_are_kept_as_long_as_their_settings_are() {
    let mut parts = Parts::new();
    parts.gateway(&config(&format!("{}[models.n.timeouts]\nconnect = \"3s\"\n", whole())));
    let limits = |parts: &Parts| {
        let mut limits: Vec<u64> = parts.transports.keys().map(|(limit, _)| limit.as_secs()).collect();
        limits.sort_unstable();
        limits
    };
    assert_eq!(limits(&parts), [3, 10]);
    parts.gateway(&config(&whole()));
    assert_eq!(limits(&parts), [10]);
    let policy = *parts.caches.policy();
    parts.gateway(&config(&format!("{}[cache]\nmax_sessions = 9\n", whole())));
    assert_eq!((policy.max_sessions(), parts.caches.policy().max_sessions()), (32, 9));
}
