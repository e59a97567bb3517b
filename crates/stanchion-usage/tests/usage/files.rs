//! A user's own file: what it changes, and what is said of a bad one.

use stanchion_core::Family;
use stanchion_usage::{Catalogue, CatalogueError};

use super::tokens;

const PRICE: &str = "price = { input = 1, output = 2, date = \"2026-09-01\", source = \"us\" }";

fn parse(text: &str) -> Result<Catalogue, CatalogueError> {
    Catalogue::parse("prices.toml", text)
}

#[test]
fn a_file_is_laid_over_what_is_built_in() {
    let own = format!(
        "[[models]]\nid = \"GPT-4o\"\nprovider = \"openai\"\naliases = [\"cheap\", \"flash\"]\n{PRICE}\n\
         [[models]]\nid = \"house-1\"\nprovider = \"house\"\n{PRICE}\n\
         [[families]]\ncontains = [\"qwen\"]\n{PRICE}\n\
         [[providers]]\nname = \"house\"\ncontains = [\"house\", \"claude-house\"]\n"
    );
    let catalogue = Catalogue::built_in().with(parse(&own).unwrap());
    let shown = |id: &str| catalogue.cost(Family::OpenAi, "any", id, &tokens(1_000_000, 0)).unwrap().to_string();
    // The row, the alias that was another's, the family, and what nobody touched.
    assert_eq!(
        (shown("gpt-4o"), shown("cheap"), shown("house-1"), shown("qwen3-coder")),
        ("1".into(), "1".into(), "1".into(), "1".into())
    );
    assert_eq!((shown("sonnet"), shown("deepseek-chat")), ("3".into(), "0.27".into()));
    // An alias that was another's, before it or behind it in the list.
    assert_eq!(shown("flash"), "1");
    // The whole row is replaced.
    assert_eq!(catalogue.model("gpt-4o").unwrap().context_window, None);
    assert_eq!(catalogue.model("4o"), None);
    assert_eq!(catalogue.provider_of("claude-house-2"), Some("house"));
    assert_eq!(catalogue.models().count(), Catalogue::built_in().models().count() + 1);
    // What is laid over is known of first.
    assert_eq!(catalogue.models().next().map(|model| &*model.id), Some("GPT-4o"));
    assert_eq!(catalogue.providers().count(), 20);
}

#[test]
fn what_is_laid_over_wins_whoever_it_says_serves_it() {
    let own = format!("[[models]]\nid = \"gpt-4o\"\nprovider = \"primary\"\ncontext_window = 9\n{PRICE}\n");
    let catalogue = Catalogue::built_in().with(parse(&own).unwrap());
    let shown = |provider: &str, id: &str| {
        catalogue.cost(Family::OpenAi, provider, id, &tokens(1_000_000, 0)).unwrap().to_string()
    };
    for provider in ["primary", "any"] {
        // By its name, as an alias would be, and as a part of another name.
        for id in ["gpt-4o", "openai/gpt-4o", "gpt-4o-2024-11-20"] {
            assert_eq!(shown(provider, id), "1", "{provider} {id}");
        }
    }
    assert_eq!(catalogue.model("gpt-4o").unwrap().context_window, Some(9));
    // Who has a row of its own is billed by that.
    assert_eq!(shown("openai", "gpt-4o"), "2.5");
    assert_eq!(shown("any", "gpt-4o-mini"), "0.15");
}

#[test]
fn prices_may_be_numbers_or_strings() {
    let row = |input: &str| {
        let price = format!("price = {{ input = {input}, output = 0, date = \"2026-09-01\", source = \"us\" }}");
        parse(&format!("[[models]]\nid = \"m\"\nprovider = \"p\"\n{price}\n"))
            .map(|catalogue| catalogue.cost(Family::OpenAi, "p", "m", &tokens(1_000_000, 0)).unwrap().to_string())
    };
    for (input, shown) in
        [("3", "3"), ("0.30", "0.3"), ("\"0.0375\"", "0.0375"), ("0.0000001", "0.0000001"), ("1e-1", "0.1")]
    {
        assert_eq!(row(input).as_deref(), Ok(shown), "{input}");
    }
    for input in ["-1", "nan", "inf", "1e-8", "1e9", "\"free\"", "true", "[]"] {
        let wrong = row(input).unwrap_err();
        assert_eq!((wrong.line, wrong.key.as_str()), (4, "models.price.input"), "{input}: {wrong}");
    }
}

#[test]
fn what_is_wrong_is_told_with_line_key_and_reason() {
    let model = format!("[[models]]\nid = \"m\"\nprovider = \"p\"\n{PRICE}\n");
    for (text, expected) in [
        (model.replace("\"p\"", "\"\""), "prices.toml:3: models.provider: this must not be empty"),
        (model.replace("provider", "provder"), "prices.toml:3: models.provder: unknown field `provder`"),
        (model.replace("input = 1", "input = -1"), "prices.toml:4: models.price.input: a price is a number of dollars"),
        (model.replace("2026-09-01", "1 Sept"), "prices.toml:4: models.price.date: a date is written as"),
        (model.replace("2026-09-01", "2026-13-01"), "prices.toml:4: models.price.date: a date is written as"),
        (model.replace("provider = \"p\"\n", ""), "prices.toml:1: models: missing field `provider`"),
        (model.replace(", source = \"us\"", ""), "prices.toml:4: models.price: missing field `source`"),
        (model.clone() + "context_window = 0\n", "prices.toml:5: models.context_window: this is a number of tokens"),
        (model.clone() + "context_window = \"big\"\n", "prices.toml:5: models.context_window: invalid type"),
        (
            model.clone() + "capabilities = [\"flying\"]\n",
            "prices.toml:5: models.capabilities: unknown variant `flying`",
        ),
        (model.clone() + "\n" + &model, "prices.toml:7: models.id: this model of this provider is listed twice"),
        (
            model
                .replace("price = {", "[models.price]\n")
                .replace(", ", "\n")
                .replace(" }", "\n")
                .replace("= 2", "= \"x\""),
            "prices.toml:6: models.price.output: a price is a number",
        ),
        (format!("[[families]]\n{PRICE}\n"), "prices.toml:1: families: a family needs a pattern"),
        (
            "[[providers]]\nname = \"a\"\n[[providers]]\nname = \"A\"\n".into(),
            "prices.toml:4: providers.name: this provider is listed twice",
        ),
        ("[models]\n".into(), "prices.toml:1: models: invalid type"),
        ("[[model]]\n".into(), "prices.toml:1: model: unknown field `model`"),
        ("id =\n".into(), "prices.toml:1: id: "),
        ("\n\n[[models]\n".into(), "prices.toml:3: "),
    ] {
        let told = parse(&text).unwrap_err().to_string();
        assert!(told.starts_with(expected), "{told}\ninstead of\n{expected}\nin\n{text}");
        assert!(!told.contains('\n'), "{told}");
    }
    assert!(parse("").is_ok());
}
