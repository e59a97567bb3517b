//! How a name leads to a row.

use proptest::prelude::*;
use stanchion_usage::{Capability, Catalogue, Match, Model, Price};

/// A catalogue of models with prices from 1 up, by provider and name.
fn of(models: &[(&str, &str)]) -> Catalogue {
    let row = |(index, (provider, id)): (usize, &(&str, &str))| {
        let price = format!("{{ input = {}, output = 1, date = \"2026-01-31\", source = \"test\" }}", index + 1);
        format!("[[models]]\nprovider = \"{provider}\"\nid = \"{id}\"\nprice = {price}\n")
    };
    Catalogue::parse("test.toml", &models.iter().enumerate().map(row).collect::<String>()).unwrap()
}

/// The number of the row that is found, from 1, and how.
fn found(catalogue: &Catalogue, provider: Option<&str>, id: &str) -> Option<(u64, Match)> {
    let million = Price::parse("1").unwrap().of(1);
    let found = catalogue.price(provider, id)?;
    Some((u64::try_from(found.prices.input.of(1).femtodollars() / million.femtodollars()).unwrap(), found.how))
}

#[test]
fn prices_are_found_in_order() {
    let catalogue = of(&[
        ("a", "alpha-2"),
        ("b", "alpha-2"),
        ("a", "alpha-2-large"),
        ("a", "alpha"),
        ("a", "beta-pro-long"),
        ("a", "beta-pro-x"),
    ]);
    for (provider, id, expected) in [
        (None, "alpha-2", Some((1, Match::Exact))),
        (None, " ALPHA-2 ", Some((1, Match::Exact))),
        (Some("b"), "alpha-2", Some((2, Match::Provider))),
        (Some("B"), "Alpha-2", Some((2, Match::Provider))),
        // An unknown provider is no reason to know nothing.
        (Some("c"), "alpha-2", Some((1, Match::Exact))),
        // The longest name within this one.
        (None, "x/alpha-2-large-2026", Some((3, Match::Contained))),
        (None, "alpha-2-small", Some((1, Match::Contained))),
        (None, "alpha-9", Some((4, Match::Contained))),
        // A part of a longer word or number is another model.
        (None, "alphabet", None),
        (None, "alpha-21", Some((4, Match::Contained))),
        (None, "alpha-2.5", Some((4, Match::Contained))),
        (None, "alpha-2.", Some((1, Match::Contained))),
        (None, "x.alpha-2:free", Some((1, Match::Contained))),
        (None, "xalpha", None),
        (None, "alph", None),
        // The shortest name around this one; of equals the first by the alphabet.
        (None, "beta", Some((6, Match::Containing))),
        (None, "beta-pro", Some((6, Match::Containing))),
        (None, "pro-long", Some((5, Match::Containing))),
        (None, "beta-pro-l", None),
        (None, "gamma", None),
    ] {
        assert_eq!(found(&catalogue, provider, id), expected, "{provider:?} {id}");
    }
}

#[test]
fn of_equally_long_names_the_alphabet_decides() {
    let catalogue = of(&[("a", "bbb"), ("a", "aaa")]);
    assert_eq!(found(&catalogue, None, "aaa-bbb"), Some((2, Match::Contained)));
    let catalogue = of(&[("a", "x-model-b"), ("a", "x-model-a")]);
    assert_eq!(found(&catalogue, None, "model"), Some((2, Match::Containing)));
}

#[test]
fn a_name_over_two_lines_is_no_part_of_two_names() {
    let catalogue = of(&[("a", "alpha"), ("a", "bravo")]);
    assert_eq!(found(&catalogue, None, "alpha\nbravo"), Some((1, Match::Contained)));
    let catalogue = of(&[("a", "x-alpha"), ("a", "bravo-x")]);
    assert_eq!(found(&catalogue, None, "alpha"), Some((1, Match::Containing)));
    assert_eq!(found(&catalogue, None, "alpha\nbravo"), None);
}

#[test]
fn parts_that_overlap_are_all_looked_at() {
    let catalogue = of(&[("p", "1-1-")]);
    assert_eq!(found(&catalogue, None, "a1-1-1-"), Some((1, Match::Contained)));
    let catalogue = of(&[("p", "a1-1-1-")]);
    assert_eq!(found(&catalogue, None, "1-1-"), Some((1, Match::Containing)));
}

#[test]
fn a_bare_name_is_the_models_with_the_shortest_way_to_it() {
    let catalogue = of(&[
        ("r", "router/meta/m1"),
        ("z", "zeta/m1"),
        ("m", "meta/m1"),
        ("r", "a/b/m2"),
        ("r", "a/a/m2"),
        ("o", "own/m3"),
        ("o", "m3"),
    ]);
    assert_eq!(found(&catalogue, None, "m1"), Some((3, Match::Alias)));
    assert_eq!(found(&catalogue, None, "m2"), Some((5, Match::Alias)));
    assert_eq!(found(&catalogue, None, "m3"), Some((7, Match::Exact)));
    assert_eq!(found(&catalogue, None, "zeta/m1"), Some((2, Match::Exact)));
}

/// Whether a name has another as a part that is no piece of a longer word or number.
fn has(name: &str, part: &str) -> bool {
    let mut places = (0..=name.len()).filter(|at| name.is_char_boundary(*at) && name[*at..].starts_with(part));
    places.any(|at| {
        let (before, after) = (&name[..at], &name[at + part.len()..]);
        let number = after.strip_prefix('.').unwrap_or("x");
        !before.ends_with(|letter: char| letter.is_alphanumeric())
            && !after.starts_with(|letter: char| letter.is_alphanumeric())
            && !number.starts_with(|letter: char| letter.is_ascii_digit())
    })
}

/// The rules for parts of names once more, in the plainest way: a look at every model.
fn by_parts(catalogue: &Catalogue, id: &str) -> Option<(String, Match)> {
    let names = || catalogue.models().map(|model: &Model| model.id.to_ascii_lowercase());
    let longest = names().filter(|name| has(id, name)).min_by_key(|name| (usize::MAX - name.len(), name.clone()));
    let shortest =
        || names().filter(|name| id.len() >= 4 && has(name, id)).min_by_key(|name| (name.len(), name.clone()));
    longest.map(|name| (name, Match::Contained)).or_else(|| shortest().map(|name| (name, Match::Containing)))
}

proptest! {
    #[test]
    fn parts_of_names_are_found_as_a_look_at_all_of_them_finds(
        names in proptest::collection::hash_set("[abAB1.-]{1,9}", 0..24),
        id in "[ab1.\n-]{1,14}",
    ) {
        let mut seen = std::collections::HashSet::new();
        let models: Vec<_> = names.iter().filter(|name| seen.insert(name.to_lowercase())).map(|name| ("p", &**name)).collect();
        let catalogue = of(&models);
        prop_assume!(catalogue.model(&id).is_none() && id.trim() == id);
        let found = catalogue.price(None, &id).map(|found| (found.model.unwrap().id.to_ascii_lowercase(), found.how));
        prop_assert_eq!(found, by_parts(&catalogue, &id));
    }
}

#[test]
fn a_model_without_a_price_does_not_hide_those_that_have_one() {
    let text = "[[models]]\nid = \"gpt-4o\"\nprovider = \"house\"\ncontext_window = 9\n";
    let catalogue = Catalogue::built_in().with(Catalogue::parse("own.toml", text).unwrap());
    // The house's own has none; the name has one all the same.
    assert_eq!(catalogue.price(Some("house"), "gpt-4o").map(|found| found.how), Some(Match::Exact));
    // Nor does the first of a name, where another provider has a price for it.
    let text = "[[models]]\nid = \"m\"\nprovider = \"a\"\n[[models]]\nid = \"m\"\nprovider = \"b\"\n\
                price = { input = 1, output = 1, date = \"2026-09-01\", source = \"us\" }\n";
    let catalogue = Catalogue::parse("own.toml", text).unwrap();
    assert_eq!(catalogue.price(None, "m").map(|found| &*found.model.unwrap().provider), Some("b"));
}

#[test]
fn limits_are_found_by_exact_names_only() {
    let catalogue = Catalogue::built_in();
    assert_eq!(catalogue.model("GPT-4o").map(|model| &*model.id), Some("gpt-4o"));
    for id in ["gpt-4o-2024-11-20", "gpt-", "openai/gpt-4o", ""] {
        assert_eq!(catalogue.model(id), None, "{id}");
    }
    let model = catalogue.model("sonnet").unwrap();
    assert!(model.can(Capability::Reasoning) && !catalogue.model("4o").unwrap().can(Capability::Reasoning));
    assert_eq!(model.window(None, None), Some(200_000));
    assert_eq!(model.window(None, Some(1)), Some(1));
    assert_eq!(model.window(Some(2), Some(1)), Some(2));
}

#[test]
fn providers_are_told_by_the_names_of_their_models() {
    for (id, expected) in [
        ("claude-opus-4-1", Some("anthropic")),
        ("Anthropic/Claude-x", Some("anthropic")),
        ("gpt-4o", Some("openai")),
        ("chatgpt-4o-latest", Some("openai")),
        ("o1", Some("openai")),
        ("o1-preview", Some("openai")),
        ("o3-mini", Some("openai")),
        ("openai/o4-mini", Some("openai")),
        // By what it begins with, not by what it contains.
        ("foo1-x", None),
        ("model-o3", None),
        ("gemini-2.5-flash", Some("google")),
        ("deepseek-r1", Some("deepseek")),
        ("kimi-k2", Some("moonshot")),
        ("moonshot-v1-8k", Some("moonshot")),
        ("qwen3-coder", Some("dashscope")),
        ("minimax-m2", Some("minimax")),
        ("glm-4.6", Some("zai")),
        ("nemotron-nano", Some("nvidia")),
        ("mixtral-8x7b", Some("mistral")),
        ("grok-4", Some("xai")),
        ("house-model", None),
        ("", None),
    ] {
        assert_eq!(Catalogue::built_in().provider_of(id), expected, "{id}");
    }
    let names: Vec<_> = Catalogue::built_in().providers().collect();
    assert_eq!(names.len(), 19);
    // A coding plan stands before what it is a plan for.
    for base in ["moonshot", "dashscope", "minimax", "zai"] {
        let place = |name: &str| names.iter().position(|other| *other == name).unwrap();
        assert!(place(&format!("{base}-coding")) < place(base), "{base}");
    }
}
