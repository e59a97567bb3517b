//! The names that clients can ask for.

use super::parse;

const PROVIDERS: &str = "[providers.p]\ndialect = \"openai\"\nbase_url = \"http://h/v1\"\n";

fn models(text: &str) -> String {
    let text = text.replace("CANDIDATES", "candidates = [{ provider = \"p\" }]");
    format!("{PROVIDERS}{text}\n")
}

#[test]
fn a_model_may_have_aliases_and_patterns() {
    let text = models("[models.a]\naliases = [\"b\", \"c/d\"]\nmatch = [\"x-*\"]\nCANDIDATES");
    let model = &parse(&text).unwrap().models["a"];
    assert_eq!(
        (&model.aliases[..], &model.patterns[..]),
        (&["b".to_owned(), "c/d".to_owned()][..], &["x-*".to_owned()][..])
    );
}

#[test]
fn a_name_in_two_places_is_told_with_both() {
    for (text, complaint) in [
        (
            "[models.a]\nCANDIDATES\n[models.b]\naliases = [\"c\", \"a\"]\nCANDIDATES",
            ":7: models.b.aliases[1]: \"a\" is the name of a model: models.a, line 4",
        ),
        (
            "[models.a]\naliases = [\"a\"]\nCANDIDATES",
            ":5: models.a.aliases[0]: \"a\" is the name of a model: models.a, line 4",
        ),
        (
            "[models.a]\naliases = [\"c\"]\nCANDIDATES\n[models.b]\nCANDIDATES\naliases = [\n\"x\",\n\"c\"]",
            ":11: models.b.aliases[1]: \"c\" is an alias already: models.a.aliases[0], line 5",
        ),
        (
            "[models.a]\nmatch = [\"c*\"]\nCANDIDATES\n[models.b]\nCANDIDATES\nmatch = [\"c*\"]",
            ":9: models.b.match[0]: \"c*\" is a pattern already: models.a.match[0], line 5",
        ),
        (
            "[models.a]\naliases = [\"c*\"]\nCANDIDATES",
            ":5: models.a.aliases[0]: \"c*\" is no name: write a pattern under match",
        ),
        ("[models.a]\naliases = [\" \"]\nCANDIDATES", ":5: models.a.aliases[0]: \" \" is no name"),
        ("[models.a]\nmatch = [\"c\"]\nCANDIDATES", ":5: models.a.match[0]: \"c\": a pattern has a *"),
        ("[models.a]\nmatch = [\"c**\"]\nCANDIDATES", ":5: models.a.match[0]: \"c**\": a pattern has a *"),
    ] {
        let error = parse(&models(text)).map(drop).unwrap_err().to_string();
        assert!(error.contains(complaint), "{text}\n  told:   {error}\n  wanted: {complaint}");
    }
}

#[test]
fn a_provider_takes_any_name_only_where_it_is_told_to() {
    let closed = models("[models.a]\nCANDIDATES");
    assert!(parse(&closed).unwrap().passthrough.is_empty());
    let open = closed.replace("base_url", "passthrough = true\nbase_url") + "[defaults.retry]\nmax_retries = 7";
    let config = parse(&open).unwrap();
    let model = &config.passthrough["p"];
    assert_eq!((model.retry.max_retries(), model.candidates.len()), (7, 1));
    assert_eq!(model.candidates.select(0).unwrap().candidate.model(), None);
    // Then no model need be configured.
    let alone = PROVIDERS.replace("base_url", "passthrough = true\nbase_url");
    assert_eq!(parse(&alone).unwrap().passthrough.len(), 1);
    assert!(parse(PROVIDERS).is_err());
    assert!(parse(&PROVIDERS.replace("base_url", "passthrough = false\nbase_url")).is_err());
    let slash = alone.replace("[providers.p]", "[providers.\"p/q\"]");
    let error = parse(&slash).map(drop).unwrap_err().to_string();
    assert!(error.contains("passthrough: provider/model cannot name a provider with a slash"), "{error}");
}
