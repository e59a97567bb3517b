use stanchion::core::RequestClass;

use super::*;
use crate::config::ClientLimits;

fn keys(clients: &[Client], anybody_is_believed: bool) -> ClientKeys {
    ClientKeys::new(clients, anybody_is_believed, &mut Limiters::default())
}

fn client(key: &str) -> Client {
    Client {
        name: key.to_owned(),
        key: Sha256::digest(key).into(),
        owner: None,
        class: None,
        identity_headers: true,
        models: None,
        limits: ClientLimits::default(),
    }
}

fn admits(keys: &ClientKeys, name: &'static str, value: &str, uri: &str) -> bool {
    let mut headers = HeaderMap::new();
    if !name.is_empty() {
        headers.insert(name, value.parse().unwrap());
    }
    keys.identify(&headers, &uri.parse().unwrap()).is_some()
}

#[test]
fn a_key_is_taken_as_every_client_library_sends_it_and_no_other_is() {
    let keys = keys(&[client("k1"), client("k2")], true);
    for (name, value, uri, expected) in [
        ("authorization", "Bearer k1", "/v1/messages", true),
        ("authorization", "bearer k2", "/v1/messages", true),
        ("x-api-key", "k2", "/v1/messages", true),
        ("x-goog-api-key", "k1", "/v1beta/models/m:generateContent", true),
        ("", "", "/v1beta/models/m:generateContent?alt=sse&key=k1", true),
        ("authorization", "k1", "/v1/messages", false),
        ("authorization", "Bearer k3", "/v1/messages", false),
        ("authorization", "Bearer ", "/v1/messages", false),
        ("", "", "/v1/messages", false),
    ] {
        assert_eq!(admits(&keys, name, value, uri), expected, "{name} {value} {uri}");
    }
    assert!(admits(&ClientKeys::default(), "", "", "/v1/messages"));
    assert!(!format!("{keys:?}").contains("k1"));
}

#[test]
fn a_key_may_say_whose_requests_they_are_over_what_the_client_says() {
    let pinned = Client {
        owner: Some("team".into()),
        class: Some(RequestClass::Background),
        identity_headers: false,
        ..client("k1")
    };
    let keys = keys(&[pinned, Client { owner: Some("root".into()), ..client("k2") }], true);
    let said = || {
        let mut headers = HeaderMap::new();
        for name in ["x-stanchion-owner", "x-stanchion-class", "x-stanchion-session", "x-stanchion-events", "accept"] {
            headers.insert(name, HeaderValue::from_static("mine"));
        }
        headers
    };
    let told = |key: &str| {
        let mut headers = said();
        headers.insert("x-api-key", key.parse().unwrap());
        keys.identify(&headers.clone(), &"/".parse().unwrap()).unwrap().apply(&mut headers);
        let mut told: Vec<String> = headers
            .iter()
            .filter(|(name, _)| name.as_str() != "x-api-key")
            .map(|(name, value)| format!("{name}={}", value.to_str().unwrap()))
            .collect();
        told.sort();
        told
    };
    assert_eq!(told("k1"), ["accept=mine", "x-stanchion-class=background", "x-stanchion-owner=team"]);
    assert_eq!(
        told("k2"),
        [
            "accept=mine",
            "x-stanchion-class=mine",
            "x-stanchion-events=mine",
            "x-stanchion-owner=root",
            "x-stanchion-session=mine"
        ]
    );
    let mut headers = said();
    self::keys(&[], false).identify(&said(), &"/".parse().unwrap()).unwrap().apply(&mut headers);
    assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["accept"]);
}

#[test]
fn a_client_may_ask_for_what_its_patterns_say() {
    let limited = Client { models: Some(vec!["gpt-*".into(), "main".into()]), ..client("k1") };
    let keys = keys(&[limited, client("k2")], true);
    let models = |key: &str| {
        let mut headers = HeaderMap::new();
        headers.insert("x-api-key", key.parse().unwrap());
        keys.identify(&headers, &"/".parse().unwrap()).unwrap().models().cloned()
    };
    let allowed = models("k1").unwrap();
    for (name, expected) in [("gpt-5", true), ("main", true), ("gpt", false), ("mainly", false), ("", false)] {
        assert_eq!(allowed.allow(name), expected, "{name}");
    }
    assert!(models("k2").is_none());
}

#[test]
fn ten_thousand_keys_are_told_apart_by_one_look() {
    let clients: Vec<Client> = (0..10_000).map(|number| client(&format!("key-{number}"))).collect();
    let keys = keys(&clients, true);
    for number in [0, 1, 4_999, 9_999] {
        assert!(admits(&keys, "x-api-key", &format!("key-{number}"), "/"));
    }
    assert!(!admits(&keys, "x-api-key", "key-10000", "/"));
}
