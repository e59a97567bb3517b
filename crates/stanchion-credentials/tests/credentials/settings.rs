//! Ranges.

use std::time::Duration;

use stanchion_core::{Candidate, Candidates, DomainSecret, Family, Secret};
use stanchion_credentials::{CredentialPool, CredentialPools};

use super::{builder, seconds};

#[test]
fn what_is_out_of_its_range_is_named() {
    let month = seconds(30 * 24 * 3600);
    let key = |text: &str| Secret::new(text);
    let cases = [
        (CredentialPool::builder("").credential("a", key("k")), "provider"),
        (CredentialPool::builder("p"), "credential"),
        (
            (0..257)
                .fold(CredentialPool::builder("p"), |pool, n| pool.credential(n.to_string(), key(&format!("k{n}")))),
            "credential",
        ),
        (builder(["a", "a"]), "id"),
        (builder([""]), "id"),
        (builder(["a b"]), "id"),
        (builder(["a".repeat(65).as_str()]), "id"),
        (builder([]).credential("sk-1", key("sk-1")), "id"),
        (builder([]).credential("a", key("")), "credential"),
        (builder(["a"]).credential("b", key("key-a")), "credential"),
        (builder(["a"]).cooldown(Duration::ZERO), "cooldown"),
        (builder(["a"]).cooldown(seconds(100)).max_cooldown(seconds(99)), "cooldown"),
        (builder(["a"]).max_cooldown(month + seconds(1)), "max_cooldown"),
        (builder(["a"]).exhausted_for(Duration::ZERO), "exhausted_for"),
        (builder(["a"]).refused_for(Duration::ZERO), "refused_for"),
        (builder(["a"]).reservation(seconds(61)), "reservation"),
    ];
    for (builder, setting) in cases {
        let invalid = builder.build().unwrap_err();
        assert_eq!(invalid.setting(), setting);
        assert!(invalid.to_string().starts_with(&format!("`{setting}` must be ")), "{invalid}");
    }
    let widest = builder(["a"]).max_cooldown(month).cooldown(month).exhausted_for(month).refused_for(month);
    assert!(widest.reservation(Duration::ZERO).build().is_ok());
}

#[test]
fn a_provider_has_one_pool_and_a_pool_its_own_file() {
    let pool = |provider: &str| CredentialPool::builder(provider).credential("a", Secret::new("k"));
    let twice = [pool("p").build().unwrap(), pool("p").build().unwrap()];
    assert_eq!(CredentialPools::new(twice).unwrap_err().setting(), "provider");
    // The same file by other paths, with folders that are there and such that are not.
    let folder = std::env::temp_dir();
    let name = folder.file_name().unwrap();
    for (one, other) in [
        (folder.join("never-written.json"), folder.join("never-written.json")),
        (folder.join("never-written.json"), folder.join(".").join("none").join("..").join("never-written.json")),
        (folder.join("never-written.json"), folder.join("..").join(name).join("never-written.json")),
        ("never-written.json".into(), std::env::current_dir().unwrap().join("never-written.json")),
    ] {
        let shared =
            [(pool("p"), &one), (pool("q"), &other)].map(|(pool, file)| pool.state_file(file).build().unwrap());
        assert_eq!(CredentialPools::new(shared).unwrap_err().setting(), "state_file", "{one:?} {other:?}");
    }
    let own = [(pool("p"), "p.json"), (pool("q"), "q.json")].map(|(pool, file)| pool.state_file(file).build().unwrap());
    assert!(CredentialPools::new(own).is_ok());
    let pools = CredentialPools::new([pool("q").build().unwrap(), pool("p").build().unwrap()]).unwrap();
    assert_eq!(pools.iter().map(|pool| &**pool.provider()).collect::<Vec<_>>(), ["p", "q"]);
    assert!(pools.get("q").is_some() && pools.get("r").is_none());
}

#[test]
fn candidates_are_listed_once_with_each_key() {
    let pools = super::pools(builder(["a", "b"]));
    let at = |provider: &str| Candidate::new(provider, Family::OpenAi, "https://provider.test/v1").with_model("m");
    let listed = pools.expand(&Candidates::new([at("other"), at("primary")]));
    let secret = DomainSecret::from_bytes([1; 32]);
    let domains: Vec<_> = listed.iter().map(|candidate| candidate.domain(&secret, &[])).collect();
    let with = |key| at("primary").with_credential(Secret::new(key)).domain(&secret, &[]);
    assert_eq!(domains, [at("other").domain(&secret, &[]), with("key-a"), with("key-b")]);
}
