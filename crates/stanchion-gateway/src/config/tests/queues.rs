//! What requests queue for, and what of it may change.

use super::*;

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
