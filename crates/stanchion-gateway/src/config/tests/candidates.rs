//! What a candidate has of its own, of its provider, and of the first of its model.

use std::sync::Arc;

use stanchion::core::Candidate;

use super::parse;

const PROVIDERS: &str = "[providers.p]\ndialect = \"openai\"\nbase_url = \"http://h/v1\"\napi_key = \"sk-p\"\n\
    [providers.q]\ndialect = \"anthropic\"\nbase_url = \"http://h\"\napi_version = \"2025-01-01\"\n";

/// The candidates of a model, each after the first given as a table's lines.
fn candidates(list: &str) -> Vec<Arc<Candidate>> {
    let text = format!("{PROVIDERS}[models.m]\ncandidates = [{list}]\n");
    parse(&text).unwrap_or_else(|error| panic!("{error}")).models["m"].candidates.iter().cloned().collect()
}

const FIRST: &str = "{ provider = \"p\", model = \"a\", temperature = 0.2, max_output_tokens = 9, tier = \"flex\", \
    api_version = \"v7\", headers = { x-tenant = \"t\" }, context_window = 8000 }";

/// What a candidate has.
fn shown(candidate: &Candidate) -> String {
    let settings = [
        candidate.temperature().map(|temperature| format!("temperature {temperature}")),
        candidate.max_output_tokens().map(|tokens| format!("limit {tokens}")),
        candidate.tier().map(|tier| format!("tier {tier}")),
        candidate.api_version().map(|version| format!("version {version}")),
        candidate.headers().get("x-tenant").map(|_| "headers".to_owned()),
        candidate.context_window().map(|tokens| format!("window {tokens}")),
    ];
    settings.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[test]
fn a_candidate_has_of_the_first_what_it_does_not_set() {
    for (own, expected) in [
        // All of it, if it is of the same provider and sets nothing. A window is the model's own.
        ("{ provider = \"p\", model = \"b\" }", "temperature 0.2, limit 9, tier flex, version v7, headers"),
        (
            "{ provider = \"p\", context_window = 9 }",
            "temperature 0.2, limit 9, tier flex, version v7, headers, window 9",
        ),
        ("{ provider = \"p\", tier = \"auto\" }", "temperature 0.2, limit 9, tier auto, version v7, headers"),
        // Who sets some has thought of all, but for the temperature and the tier.
        ("{ provider = \"p\", max_output_tokens = 5 }", "temperature 0.2, limit 5, tier flex"),
        ("{ provider = \"p\", temperature = 1 }", "temperature 1, tier flex"),
        ("{ provider = \"p\", api_version = \"v8\" }", "temperature 0.2, tier flex, version v8"),
        ("{ provider = \"p\", headers = { x-tenant = \"u\" } }", "temperature 0.2, tier flex, headers"),
        // Another provider has its own, and the temperature.
        ("{ provider = \"q\" }", "temperature 0.2, version 2025-01-01"),
        // And nothing is had that is not wanted.
        ("{ provider = \"p\", inherit = false }", ""),
        ("{ provider = \"q\", inherit = false, tier = \"x\" }", "tier x, version 2025-01-01"),
    ] {
        assert_eq!(shown(&candidates(&format!("{FIRST}, {own}"))[1]), expected, "{own}");
    }
    // The third has it of the first, whatever the second is.
    let list = candidates(&format!("{FIRST}, {{ provider = \"p\", temperature = 1 }}, {{ provider = \"p\" }}"));
    assert_eq!(shown(&list[2]), "temperature 0.2, limit 9, tier flex, version v7, headers");
    let credentials: Vec<_> = list.iter().map(|candidate| candidate.credential().is_some()).collect();
    assert_eq!(credentials, [true; 3]);
}

#[test]
fn a_candidate_whose_window_is_not_known_is_told_where_windows_count() {
    let warned = |fallback: &str, list: &str| -> Vec<String> {
        let text = format!("{PROVIDERS}[models.m]\nfallback = {{ {fallback} }}\ncandidates = [{list}]\n");
        parse(&text).unwrap_or_else(|error| panic!("{error}")).warnings.into_iter().map(|told| told.key).collect()
    };
    let (known, unknown) = ("{ provider = \"p\", model = \"a\", context_window = 9 }", "{ provider = \"q\" }");
    let larger = "on_overflow = \"larger_window\"";
    assert_eq!(warned(larger, &format!("{known}, {unknown}")), ["models.m.candidates[1]"]);
    for (fallback, list) in [
        (larger, format!("{known}, {known}")),
        (larger, unknown.to_owned()),
        ("on_overflow = \"stop\"", format!("{known}, {unknown}")),
    ] {
        assert!(warned(fallback, &list).is_empty(), "{fallback} {list}");
    }
}

#[test]
fn a_tier_that_no_request_can_name_is_told() {
    for dialect in ["gemini", "ollama"] {
        let candidate = "{ provider = \"r\", tier = \"flex\" }";
        let text = format!(
            "[providers.r]\ndialect = \"{dialect}\"\nbase_url = \"http://h\"\n[models.m]\ncandidates = [{candidate}]\n"
        );
        let error = parse(&text).map(drop).unwrap_err().to_string();
        assert!(error.contains(":5: models.m.candidates[0].tier: requests in this dialect name no tier"), "{error}");
    }
}

#[test]
fn a_version_that_has_no_place_is_told() {
    for (provider, complaint) in [
        (
            "dialect = \"ollama\"\nbase_url = \"http://h\"\napi_version = \"1\"",
            ":4: providers.r.api_version: this dialect has no versions",
        ),
        ("dialect = \"gemini\"\nbase_url = \"http://h/v1beta/\"\napi_version = \"v1\"", "the version is given twice"),
        (
            "dialect = \"openai\"\nbase_url = \"http://h/dep?api-version=1\"\napi_version = \"2\"",
            "the version is given twice",
        ),
        ("dialect = \"anthropic\"\nbase_url = \"http://h\"\napi_version = \"\"", "a version has visible characters"),
        (
            "dialect = \"anthropic\"\nbase_url = \"http://h\"\napi_version = \"a\\nb\"",
            "a version has visible characters",
        ),
    ] {
        let text = format!("[providers.r]\n{provider}\n[models.m]\ncandidates = [{{ provider = \"r\" }}]\n");
        let error = parse(&text).map(drop).unwrap_err().to_string();
        assert!(error.contains(complaint), "{provider}\n  told:   {error}\n  wanted: {complaint}");
    }
}
