use proptest::prelude::*;

use super::{DomainScope, DomainSecret, FailureDomain, canonical};

/// The scope of the published test vectors.
const SCOPE: DomainScope<'static> = DomainScope {
    provider: "deepseek",
    wire_api: "openai-completions",
    base_url: "https://provider.example/v1",
    model: "deepseek-v4-flash",
    tier: Some("default"),
    api_version: Some("2026-08-16"),
    credential: Some("secret-api-key"),
    headers: &[("Authorization", "Bearer private-token"), ("x-route-tenant", "tenant-a")],
    policy: &[("providerCircuitOpenDurationMs", 10_000)],
};

type Headers = [(&'static str, &'static str); 2];
const TURNED: Headers = [("x-route-tenant", "tenant-a"), ("authorization", "Bearer private-token")];
const PADDED: Headers = [(" AUTHORIZATION ", "Bearer private-token "), ("X-Route-Tenant", " tenant-a")];
const OTHER_TENANT: Headers = [("Authorization", "Bearer private-token"), ("x-route-tenant", "Tenant-a")];

/// That scope, with a change.
fn with(change: impl FnOnce(&mut DomainScope<'static>)) -> DomainScope<'static> {
    let mut scope = SCOPE;
    change(&mut scope);
    scope
}

fn text(scope: &DomainScope<'_>) -> String {
    let mut text = Vec::new();
    canonical::write(scope, |bytes| text.extend_from_slice(bytes));
    String::from_utf8(text).unwrap()
}

fn domain(scope: &DomainScope<'_>) -> FailureDomain {
    DomainSecret::from_bytes([7; 32]).domain(scope)
}

#[test]
fn the_vector_of_a_circuit() {
    assert_eq!(
        text(&SCOPE),
        r#"["deepseek","openai-completions","https://provider.example/v1","deepseek-v4-flash","default","2026-08-16","secret-api-key",[["authorization","Bearer private-token"],["x-route-tenant","tenant-a"]],{"providerCircuitOpenDurationMs":10000}]"#
    );
    assert_eq!(domain(&SCOPE).to_hex(), "62c85eed541c48cc2309a425344006e94a4c2df4418a01dab95ed4a3ab57f277");
}

#[test]
fn the_vector_of_an_admission() {
    let scope = DomainScope {
        model: "model",
        credential: Some("private-key"),
        policy: &[("providerRequestConcurrency", 4), ("providerRequestPendingBytes", 134_217_728)],
        ..SCOPE
    };
    assert!(text(&scope).ends_with(r#",{"providerRequestConcurrency":4,"providerRequestPendingBytes":134217728}]"#));
    assert_eq!(
        DomainSecret::from_bytes([11; 32]).domain(&scope).to_hex(),
        "b3b6f5309d99cb38593e18f3510878d0ded03bfc40273782ee07094533893acd"
    );
}

#[test]
fn an_empty_scope_has_all_nine_elements() {
    assert_eq!(text(&DomainScope::default()), r#"["","","","","","","",[],{}]"#);
}

#[test]
fn addresses_that_are_the_same() {
    for (one, other) in [
        ("https://provider.example/v1", "https://PROVIDER.Example/v1"),
        ("https://provider.example/v1", "https://provider.example:443/v1"),
        ("https://provider.example/v1", "https://provider.example/v1/"),
        ("https://provider.example/v1", "https://provider.example/v1////"),
        ("https://provider.example/v1", "https://provider.example/v1#part"),
        ("https://provider.example/v1", "https://provider.example/v1?"),
        ("https://provider.example/v1", "https://provider.example/v1//?#"),
        ("https://provider.example/v1", "  https://provider.example/v1\t\n"),
        ("https://provider.example/v1", "HTTPS://provider.example/v1"),
        ("https://provider.example/v1?a=1&b=2", "https://provider.example/v1?b=2&a=1"),
        ("https://provider.example/v1?a=1&b=2", "https://provider.example/v1/?b=2&a=1"),
        ("https://provider.example/", "https://provider.example"),
        ("https://provider.example/", "https://provider.example///"),
        ("", "  "),
        ("provider.example/v1", " provider.example/v1// "),
    ] {
        assert_eq!(domain(&with(|s| s.base_url = one)), domain(&with(|s| s.base_url = other)), "{one} {other}");
    }
}

#[test]
fn addresses_that_are_not_the_same() {
    for (one, other) in [
        ("https://provider.example/v1", "https://provider.example/V1"),
        ("https://provider.example/v1", "https://provider.example/v1/x"),
        ("https://provider.example/v1", "http://provider.example/v1"),
        ("https://provider.example/v1", "https://provider.example:8443/v1"),
        ("https://provider.example/v1", "https://user@provider.example/v1"),
        ("https://user@provider.example/v1", "https://User@provider.example/v1"),
        ("https://user:a@provider.example/v1", "https://user:b@provider.example/v1"),
        ("https://provider.example/v1", "https://provider.example/v1?a=1"),
        ("https://provider.example/v1?a=1", "https://provider.example/v1?A=1"),
        ("https://provider.example/v1?a=1&a=2", "https://provider.example/v1?a=2&a=1"),
        ("", "https://provider.example/v1"),
    ] {
        assert_ne!(domain(&with(|s| s.base_url = one)), domain(&with(|s| s.base_url = other)), "{one} {other}");
    }
}

#[test]
fn scopes_that_fail_together() {
    let bare = with(|s| (s.tier, s.api_version, s.credential) = (None, None, None));
    let plain = with(|s| s.headers = &[]);
    for (one, other) in [
        (SCOPE, with(|s| s.provider = " deepseek ")),
        (SCOPE, with(|s| s.wire_api = " openai-completions")),
        (SCOPE, with(|s| s.model = "deepseek-v4-flash\n")),
        (SCOPE, with(|s| s.tier = Some(" default "))),
        (SCOPE, with(|s| s.api_version = Some(" 2026-08-16 "))),
        (bare, with(|s| (s.tier, s.api_version, s.credential) = (Some(""), Some(""), Some("")))),
        (bare, with(|s| (s.tier, s.api_version, s.credential) = (Some("  "), Some("\t"), None))),
        (SCOPE, with(|s| s.headers = &TURNED)),
        (SCOPE, with(|s| s.headers = &PADDED)),
        (plain, with(|s| s.headers = DomainScope::default().headers)),
    ] {
        assert_eq!(domain(&one), domain(&other), "{} {}", text(&one), text(&other));
    }
}

#[test]
fn scopes_that_do_not_fail_together() {
    for (one, other) in [
        (SCOPE, with(|s| s.provider = "DeepSeek")),
        (SCOPE, with(|s| s.wire_api = "OpenAI-completions")),
        (SCOPE, with(|s| s.model = "deepseek-V4-flash")),
        (SCOPE, with(|s| s.tier = None)),
        (SCOPE, with(|s| s.tier = Some("Default"))),
        (SCOPE, with(|s| s.api_version = None)),
        (SCOPE, with(|s| s.credential = None)),
        (SCOPE, with(|s| s.credential = Some(" secret-api-key"))),
        (SCOPE, with(|s| s.credential = Some("secret-api-key "))),
        (SCOPE, with(|s| s.headers = &[])),
        (SCOPE, with(|s| s.headers = &OTHER_TENANT)),
        // Names that collide in lower case keep their order.
        (with(|s| s.headers = &[("A", "1"), ("a", "2")]), with(|s| s.headers = &[("a", "2"), ("A", "1")])),
        (SCOPE, with(|s| s.policy = &[])),
        (SCOPE, with(|s| s.policy = &[("providerCircuitOpenDurationMs", 10_001)])),
        (with(|s| s.policy = &[("a", 1), ("b", 2)]), with(|s| s.policy = &[("b", 2), ("a", 1)])),
        // A value does not run over into its neighbour.
        (with(|s| (s.provider, s.wire_api) = ("a\",\"b", "")), with(|s| (s.provider, s.wire_api) = ("a", "b\",\""))),
        (with(|s| (s.tier, s.api_version) = (Some("a"), None)), with(|s| (s.tier, s.api_version) = (None, Some("a")))),
    ] {
        assert_ne!(domain(&one), domain(&other), "{}", text(&one));
    }
}

#[test]
fn addresses_of_all_sorts() {
    for (given, canonical) in [
        ("https://H.example:443/a/?b=2&a=%201&b=1#f", "https://h.example/a?a=+1&b=2&b=1"),
        ("http://h.example:80", "http://h.example/"),
        ("http://h.example:443/", "http://h.example:443/"),
        ("https://B\u{dc}CHER.example/", "https://xn--bcher-kva.example/"),
        ("http://[::1]:8080/v1/", "http://[::1]:8080/v1"),
        ("http://127.1/", "http://127.0.0.1/"),
        ("https://h.example/a/../b/", "https://h.example/b"),
        ("https://h.example/?&&", "https://h.example/"),
        ("grpc://host.example/", "grpc://host.example/"),
        ("grpc://Host.Example/Service//", "grpc://host.example/Service"),
        ("unix:/run/model.sock", "unix:/run/model.sock"),
        ("mailto:Someone/", "mailto:Someone/"),
        ("http://", "http:"),
        ("///", ""),
    ] {
        assert_eq!(super::canonical::base_url(given), canonical, "{given}");
    }
}

#[test]
fn nothing_shows_what_a_domain_is_made_of() {
    let secret = DomainSecret::from_bytes(*b"0123456789abcdef0123456789abcdef");
    let domain = secret.domain(&SCOPE);
    let shown = format!("{SCOPE:?}{SCOPE:#?}{domain:?}{domain:#?}{secret:?}{secret:#?}{:?}", Some((domain, &secret)));
    assert_eq!(
        shown,
        "DomainScope(..)DomainScope(..)FailureDomain(..)FailureDomain(..)DomainSecret(..)DomainSecret(..)\
         Some((FailureDomain(..), DomainSecret(..)))"
    );
    let inputs =
        [SCOPE.provider, SCOPE.wire_api, SCOPE.base_url, SCOPE.model, "default", "2026-08-16", "secret-api-key"];
    let inputs = inputs.into_iter().chain(SCOPE.headers.iter().flat_map(|(name, value)| [*name, *value]));
    for hidden in inputs.chain(["10000", "0123456789abcdef", "48", &domain.to_hex()[..8]]) {
        assert!(!shown.contains(hidden), "{hidden}");
    }
}

#[test]
fn random_secrets_differ_and_so_do_their_domains() {
    let (one, other) = (DomainSecret::random(), DomainSecret::random());
    assert_ne!(one.domain(&SCOPE), other.domain(&SCOPE));
    assert_eq!(one.domain(&SCOPE), one.domain(&SCOPE));
}

proptest! {
    #[test]
    fn any_scope_is_json_of_nine_elements(
        words in prop::array::uniform6("\\PC{0,12}|[\\x00-\\x20\"\\\\]{0,6}"),
        headers in prop::collection::vec(("\\PC{0,8}", "\\PC{0,8}"), 0..4),
        limit in any::<u64>(),
    ) {
        let headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let [provider, wire_api, base_url, model, tier, credential] = words.each_ref().map(String::as_str);
        let (tier, credential, policy) = (Some(tier), Some(credential), [(provider, limit)]);
        let (headers, policy) = (headers.as_slice(), policy.as_slice());
        let scope =
            DomainScope { provider, wire_api, base_url, model, tier, api_version: None, credential, headers, policy };
        let json: serde_json::Value = serde_json::from_str(&text(&scope)).unwrap();
        prop_assert_eq!(json.as_array().map(Vec::len), Some(9));
        prop_assert_eq!(&json[6], credential.unwrap());
        prop_assert_eq!(&json[8][provider], limit);
    }

    #[test]
    fn a_canonical_address_stays_as_it_is(
        host in "https?://([a-zA-Z]{1,3}@)?[a-zA-Z]{1,6}(\\.[a-z]{2,3})?(:[0-9]{1,4})?",
        rest in "(/[a-zA-Z0-9%./]{0,8}/{0,3})?(\\?[a-c=&%+]{0,8})?(#[a-z]{0,3})?",
    ) {
        let url = format!("{host}{rest}");
        let once = canonical::base_url(&url);
        prop_assert_eq!(canonical::base_url(&once), once.as_str());
        prop_assert_eq!(canonical::base_url(&format!(" {url}\n")), once.as_str());
    }

    #[test]
    fn no_address_panics(url in "\\PC{0,40}|[a-z]{1,5}:/{0,3}[a-zA-Z0-9:/?#%@\\[\\]. ]{0,30}") {
        canonical::base_url(&url);
    }

    #[test]
    fn the_order_of_different_headers_is_of_no_matter(
        headers in prop::collection::btree_map("[a-z-]{1,6}", "[ -~]{0,6}", 0..6),
        seed in any::<prop::sample::Index>(),
    ) {
        let sorted: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let mut turned = sorted.clone();
        if !turned.is_empty() {
            turned.rotate_left(seed.index(sorted.len()));
        }
        let [sorted, turned] = [&sorted, &turned].map(|headers| domain(&DomainScope { headers, ..SCOPE }));
        prop_assert_eq!(sorted, turned);
    }
}
