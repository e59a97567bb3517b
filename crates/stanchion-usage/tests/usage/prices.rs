//! Every row of the tables.

use stanchion_core::{Candidate, Family, Usage};
use stanchion_usage::{CacheBilling, Catalogue, Match, Money, Price, Rates};

use super::tokens;

fn dollars(text: &str) -> Money {
    Price::parse(text).unwrap().of(1_000_000)
}

fn price(text: &str) -> Price {
    Price::parse(text).unwrap()
}

/// 100k in, 10k out, 900k read, 50k written.
fn large() -> Usage {
    Usage { cache_read: Some(900_000), cache_write: Some(50_000), ..tokens(100_000, 10_000) }
}

#[test]
fn who_answers_says_how_the_cache_is_billed() {
    use CacheBilling::{Anthropic, Gemini, Other};
    for (family, provider, model, expected) in [
        // Who speaks the dialect bills by it, whatever its name.
        (Family::Anthropic, "primary", "m", Anthropic),
        (Family::Anthropic, "vertex", "m", Anthropic),
        (Family::Gemini, "primary", "m", Gemini),
        (Family::Gemini, "anthropic", "m", Gemini),
        // Of the others the name tells.
        (Family::OpenAi, "anthropic", "m", Anthropic),
        (Family::OpenAi, "my-Anthropic-proxy", "m", Anthropic),
        (Family::OpenAi, "vertex-anthropic", "m", Anthropic),
        (Family::OpenAi, "zai", "m", Anthropic),
        (Family::OpenAi, "zai-coding", "m", Anthropic),
        (Family::OpenAi, "zai-other", "m", Other),
        (Family::OpenAi, "r9s", "claude-x", Anthropic),
        (Family::OpenAi, "r9s", "Claude-x", Other),
        (Family::OpenAi, "r9s", "gpt-4o", Other),
        (Family::OpenAi, "gemini", "m", Gemini),
        (Family::OpenAi, "Vertex-AI", "m", Gemini),
        (Family::OpenAi, "google", "m", Gemini),
        (Family::OpenAi, "openai", "claude-x", Other),
        (Family::OpenAi, "openrouter", "anthropic/claude-x", Other),
        (Family::Ollama, "local", "llama", Other),
    ] {
        assert_eq!(CacheBilling::of(family, provider, model), expected, "{family} {provider} {model}");
    }
}

#[test]
fn the_multiples_of_each_way_to_bill() {
    for (billing, read, write, write_1h, whole) in [
        (CacheBilling::Anthropic, "0.3", "3.75", "6", "0.9075"),
        (CacheBilling::Gemini, "0.75", "0", "0", "1.125"),
        (CacheBilling::Other, "3", "3.75", "6", "3.3375"),
    ] {
        let rates = Rates::new(price("3"), price("15"), billing);
        let expected = Rates {
            input: price("3"),
            output: price("15"),
            cache_read: price(read),
            cache_write: price(write),
            cache_write_1h: price(write_1h),
        };
        assert_eq!(rates, expected);
        assert_eq!(rates.cost(&large()), Some(dollars(whole)), "{billing:?}");
    }
}

#[test]
fn the_buckets_are_disjoint_and_each_has_its_price() {
    let rates = Rates::new(price("3"), price("15"), CacheBilling::Anthropic);
    let million = 1_000_000;
    for (usage, expected) in [
        (tokens(million, 0), "3"),
        (tokens(0, million), "15"),
        (Usage { reasoning: Some(million), ..tokens(0, million) }, "15"),
        (Usage { cache_read: Some(million), ..tokens(0, 0) }, "0.3"),
        (Usage { cache_write: Some(million), ..tokens(0, 0) }, "3.75"),
        (Usage { cache_write: Some(million), cache_write_5m: Some(million), ..tokens(0, 0) }, "3.75"),
        (Usage { cache_write: Some(million), cache_write_1h: Some(million), ..tokens(0, 0) }, "6"),
        (Usage { cache_write: Some(million), cache_write_1h: Some(600_000), ..tokens(0, 0) }, "5.1"),
        (tokens(0, 0), "0"),
    ] {
        assert_eq!(rates.cost(&usage), Some(dollars(expected)), "{usage:?}");
    }
}

#[test]
fn what_is_not_known_costs_an_unknown_sum_and_not_nothing() {
    let rates = Rates::new(price("3"), price("15"), CacheBilling::Other);
    assert_eq!(rates.cost(&Usage::default()), None);
    assert_eq!(rates.cost(&Usage { input: Some(1), ..Usage::default() }), None);
    assert_eq!(rates.cost(&Usage { output: Some(1), ..Usage::default() }), None);
    let catalogue = Catalogue::built_in();
    assert_eq!(catalogue.cost(Family::OpenAi, "house", "house-model", &tokens(1, 1)), None);
    assert_eq!(catalogue.cost(Family::OpenAi, "openai", "gpt-4o", &tokens(0, 0)), Some(Money::ZERO));
}

#[test]
fn each_family_has_the_price_of_its_row() {
    for (ids, input, output) in [
        (&["claude-opus-4-1", "anthropic/Claude-Opus-4", "claude-4-opus-x"][..], "15", "75"),
        (&["claude-opus-4-5-20251101", "anthropic/claude-opus-4.6", "claude-opus-4-8", "claude-opus-5"], "5", "25"),
        (&["claude-opus-5-5", "anthropic/claude-opus-5.5"], "4", "20"),
        (&["claude-sonnet-5", "claude-sonnet-5-5"], "2", "10"),
        (&["anthropic.claude-haiku-4-5-20251001-v1:0", "claude-haiku-4.5", "claude-haiku-4-5"], "1", "5"),
        // Each of its own price, and none of another's whose name is within.
        (&["gpt-4", "gpt-4-0613", "openai/gpt-4"], "30", "60"),
        (&["gpt-4-32k-0613"], "60", "120"),
        (&["gpt-4-turbo", "gpt-4-turbo-2024-04-09", "gpt-4-0125-preview"], "10", "30"),
        (&["gpt-3.5-turbo", "gpt-3.5-turbo-0125"], "0.50", "1.50"),
        (&["chatgpt-4o-latest"], "5", "15"),
        (&["gpt-4.1", "gpt-4.1-2025-04-14"], "2", "8"),
        (&["gpt-4.1-mini"], "0.40", "1.60"),
        (&["gpt-5", "gpt-5-2025-08-07", "gpt-5-codex"], "1.25", "10"),
        (&["gpt-5-mini"], "0.25", "2"),
        (&["gpt-5-pro"], "15", "120"),
        (&["gpt-5.4"], "2.50", "15"),
        (&["gemini-2.5-pro", "google/gemini-2.5-pro", "gemini-2.5-pro-preview-06-05"], "1.25", "10"),
        (&["gemini-2.5-flash-lite"], "0.10", "0.40"),
        (&["google/gemini-2.5-flash"], "0.30", "2.50"),
        (&["claude-sonnet-4-5", "claude-4-sonnet", "claude-3-5-sonnet-20241022"], "3", "15"),
        (&["claude-3-5-haiku-latest", "claude-haiku-9"], "0.80", "4"),
        (&["openai/gpt-4o-mini-x", "gpt-4o-mini"], "0.15", "0.60"),
        (&["gpt-4o-2024-11-20"], "2.50", "10"),
        (&["o3", "o3-mini", "o4-mini", "openai/o4-mini"], "10", "40"),
        (&["gemini-2.0-flash", "gemini-1.5-pro"], "0.075", "0.30"),
        (&["deepseek-r1-0528", "deepseek-r1-distill-llama-70b"], "0.55", "2.19"),
        (&["deepseek-chat"], "0.27", "1.10"),
        (&["qwen3-coder-plus", "qwen3-235b-a22b", "qwen3.5-x"], "0.30", "1.20"),
        (&["qwen-max"], "0.15", "0.60"),
        (&["llama-3.1-405b-instruct", "llama-3.1-nemotron-ultra-253b"], "5", "15"),
        (&["llama-3.3-70b-versatile", "meta-3.1-70b", "llama-4-maverick"], "0.40", "1.60"),
        (&["llama-4-scout", "llama3-70b-8192"], "0.30", "1.20"),
        (&["llama3.2", "llama-guard"], "0.10", "0.40"),
        (&["mistral-large-latest"], "2", "6"),
        (&["mistral-small", "mixtral-8x7b"], "0.20", "0.60"),
        (&["kimi-k3"], "3", "15"),
        (&["kimi-k2-thinking", "moonshot-v1-8k"], "0.60", "2.40"),
        (&["kimi-latest"], "0.30", "1.20"),
        (&["minimax-m1", "minimax-m2"], "0.50", "2"),
        (&["minimax-text-01"], "0.20", "1.10"),
        (&["glm-5", "glm5-air"], "0.50", "2"),
        (&["glm-4.6", "glm4"], "0.30", "1.20"),
        (&["nemotron-super-49b", "nemotron-ultra"], "1.50", "5"),
        (&["nemotron-nano"], "0.20", "0.80"),
    ] {
        for id in ids {
            let found = Catalogue::built_in().price(None, id).unwrap_or_else(|| panic!("{id} has no price"));
            assert_eq!((found.prices.input, found.prices.output), (price(input), price(output)), "{id}");
        }
    }
    for id in ["", "  ", "command-r", "ollama-thing", "house", "yo3", "x-o3", "gpt-", "gpt-5.9", "gpt-49"] {
        assert_eq!(Catalogue::built_in().price(None, id), None, "{id}");
    }
}

#[test]
fn each_model_has_the_limits_and_prices_of_its_row() {
    for (id, aliases, provider, window, most, input, output, read) in [
        (
            "claude-sonnet-4-20250514",
            &["sonnet", "claude-sonnet"][..],
            "anthropic",
            Some(200_000),
            Some(16_384),
            "3",
            "15",
            Some("0.30"),
        ),
        (
            "claude-haiku-4-5-20251001",
            &["haiku", "claude-haiku", "cheap"],
            "anthropic",
            Some(200_000),
            Some(64_000),
            "1",
            "5",
            Some("0.10"),
        ),
        ("gpt-4o", &["4o"], "openai", Some(128_000), Some(16_384), "2.50", "10", Some("1.25")),
        ("gpt-4o-mini", &[], "openai", None, None, "0.15", "0.60", Some("0.075")),
        ("gpt-4o-2024-05-13", &[], "openai", None, None, "5", "15", None),
        (
            "gemini-2.5-flash",
            &["flash", "gemini-flash"],
            "google",
            Some(1_048_576),
            Some(65_536),
            "0.30",
            "2.50",
            Some("0.03"),
        ),
    ] {
        let catalogue = Catalogue::built_in();
        let model = catalogue.model(id).unwrap();
        assert_eq!((model.provider.as_str(), model.context_window, model.max_output), (provider, window, most), "{id}");
        let prices = model.price.as_ref().unwrap();
        assert_eq!((prices.input, prices.output, prices.cache_read), (price(input), price(output), read.map(price)));
        assert!(!prices.source.is_empty() && prices.date.len() == 10);
        for alias in aliases {
            assert_eq!(catalogue.model(alias).map(|model| model.id.as_str()), Some(id), "{alias}");
            assert_eq!(catalogue.price(None, alias).unwrap().how, Match::Alias);
        }
    }
}

#[test]
fn listed_prices_of_the_cache_are_the_models_own_providers() {
    let cost = |family, provider, model| Catalogue::built_in().cost(family, provider, model, &large());
    let sonnet = "claude-sonnet-4-20250514";
    assert_eq!(cost(Family::Anthropic, "anthropic", sonnet), Some(dollars("0.9075")));
    // Whoever passes the model on need not pass on what it gets taken off.
    assert_eq!(cost(Family::OpenAi, "openrouter", sonnet), Some(dollars("3.3375")));
    // 0.03 in, 0.025 out, 0.027 read, nothing written.
    assert_eq!(cost(Family::Gemini, "google", "gemini-2.5-flash"), Some(dollars("0.082")));
    // 0.25 in, 0.1 out, 1.125 read, 0.15625 written.
    assert_eq!(cost(Family::OpenAi, "openai", "gpt-4o"), Some(dollars("1.63125")));
    // Without a listed price of a read the whole price is assumed, so as not to understate: 0.5, 0.15, 4.5 and 0.3125.
    assert_eq!(cost(Family::OpenAi, "openai", "gpt-4o-2024-05-13"), Some(dollars("5.4625")));
}

#[test]
fn what_is_taken_off_is_for_whoever_lists_it() {
    // 900,000 are read of the cache: at 1.25 where the discount is the provider's own, at 2.50 elsewhere.
    let (own, full) = (dollars("1.63125"), dollars("2.75625"));
    let at = |provider: &str, url: &str| Candidate::new(provider, Family::OpenAi, url);
    for (candidate, model, expected) in [
        (at("openai", "http://127.0.0.1:9"), "gpt-4o", own),
        // It is called something else, and is who it is by its address.
        (at("primary", "https://api.openai.com/v1"), "gpt-4o", own),
        (at("primary", "https://EU.api.openai.com:443/v1"), "gpt-4o-2024-11-20", own),
        (at("primary", "https://notapi.openai.com.example/v1"), "gpt-4o", full),
        (at("primary", "https://xapi.openai.com/v1"), "gpt-4o", full),
        (at("proxy", "https://proxy.example/v1"), "gpt-4o", full),
        (at("openrouter", "https://openrouter.ai/api/v1"), "openai/gpt-4o", full),
        (at("openrouter", "https://openrouter.ai/api/v1"), "gpt-4o", full),
    ] {
        let catalogue = Catalogue::built_in();
        assert_eq!(catalogue.cost_with(&candidate, model, &large()), Some(expected), "{candidate:?} {model}");
        let loss = catalogue.loss_with(&candidate, model, 1_000_000, &Usage::default());
        assert_eq!(loss, (expected == own).then(|| dollars("1.25")), "{candidate:?} {model}");
    }
}

#[test]
fn the_operators_own_prices_count_whatever_dialect_the_provider_speaks() {
    let price = "{ input = 0.60, output = 2.50, cache_read = 0.15, date = \"2026-09-01\", source = \"us\" }";
    let own = format!("[[models]]\nid = \"kimi-k2\"\nprovider = \"moonshot\"\nprice = {price}\n");
    let catalogue = Catalogue::built_in().with(Catalogue::parse("own.toml", &own).unwrap());
    let million = Usage { cache_read: Some(1_000_000), ..tokens(0, 0) };
    for (family, provider, model, read) in [
        (Family::OpenAi, "moonshot", "kimi-k2", "0.15"),
        (Family::Anthropic, "moonshot", "kimi-k2", "0.15"),
        (Family::Gemini, "moonshot", "kimi-k2", "0.15"),
        (Family::Anthropic, "Moonshot", "moonshotai/kimi-k2-0905", "0.15"),
        // Somebody else bills as those do who speak so: a tenth, a quarter, all of it.
        (Family::Anthropic, "proxy", "kimi-k2", "0.06"),
        (Family::Gemini, "proxy", "kimi-k2", "0.15"),
        (Family::OpenAi, "proxy", "kimi-k2", "0.6"),
    ] {
        let cost = catalogue.cost(family, provider, model, &million);
        assert_eq!(cost, Some(dollars(read)), "{family} {provider} {model}");
        let at = Candidate::new(provider, family, "http://house.example");
        assert_eq!(catalogue.cost_with(&at, model, &million), cost);
    }
    // A row of the name that the candidate has comes before one of whom its address tells.
    let text = "[[models]]\nid = \"m\"\nprovider = \"openai\"\nprice = P2\n[[models]]\nid = \"m\"\nprovider = \"primary\"\nprice = P1\n"
        .replace("P1", "{ input = 1, output = 0, date = \"2026-09-01\", source = \"us\" }")
        .replace("P2", "{ input = 2, output = 0, date = \"2026-09-01\", source = \"us\" }");
    let catalogue = Catalogue::built_in().with(Catalogue::parse("own.toml", &text).unwrap());
    for (provider, url, cost) in [
        ("primary", "https://api.openai.com/v1", "1"),
        ("openai", "https://api.openai.com/v1", "2"),
        ("other", "https://api.openai.com/v1", "2"),
    ] {
        let at = Candidate::new(provider, Family::OpenAi, url);
        assert_eq!(catalogue.cost_with(&at, "m", &tokens(1_000_000, 0)), Some(dollars(cost)), "{provider}");
    }
}

#[test]
fn a_broken_cache_costs_what_was_paid_above_a_read() {
    let million = 1_000_000;
    let loss = |family, provider, model, write, write_1h| {
        let usage = Usage { cache_write: write, cache_write_1h: write_1h, ..Usage::default() };
        Catalogue::built_in().loss(family, provider, model, million, &usage).map(|loss| loss.to_string())
    };
    let sonnet = "claude-sonnet-4-20250514";
    for (family, provider, model, write, write_1h, expected) in [
        // Fresh input, less what is listed.
        (Family::OpenAi, "openai", "gpt-4o", None, None, Some("1.25")),
        (Family::OpenAi, "openai", "gpt-4o-mini", Some(0), None, Some("0.075")),
        (Family::OpenAi, "OpenAI", "gpt-4o-2024-11-20", None, None, Some("1.25")),
        (Family::Gemini, "google", "gemini-2.5-flash", None, None, Some("0.27")),
        (Family::Anthropic, "anthropic", sonnet, None, None, Some("2.7")),
        // Written anew: 3.75 or 6, less 0.30; half of it for an hour; half of it fresh.
        (Family::Anthropic, "anthropic", sonnet, Some(million), None, Some("3.45")),
        (Family::Anthropic, "anthropic", sonnet, Some(9 * million), None, Some("3.45")),
        (Family::Anthropic, "anthropic", sonnet, Some(million), Some(million), Some("5.7")),
        (Family::Anthropic, "anthropic", sonnet, Some(million), Some(million / 2), Some("4.575")),
        (Family::Anthropic, "anthropic", sonnet, Some(million / 2), None, Some("3.075")),
        // Anthropic takes the same off for all models, and so does Gemini.
        (Family::Anthropic, "anthropic", "claude-opus-4-1", None, None, Some("13.5")),
        (Family::Gemini, "google", "gemini-2.0-flash", None, None, Some("0.05625")),
        // Of everyone else nobody knows; nor of whoever passes on a model that another lists.
        (Family::OpenAi, "openai", "gpt-4o-2024-05-13", None, None, None),
        (Family::OpenAi, "openai", "o3", None, None, None),
        (Family::OpenAi, "groq", "llama-4-scout", None, None, None),
        (Family::OpenAi, "openrouter", sonnet, None, None, None),
        (Family::OpenAi, "openrouter", "openai/gpt-4o", None, None, None),
        (Family::OpenAi, "primary", "gpt-4o", None, None, None),
        (Family::OpenAi, "house", "house-model", None, None, None),
    ] {
        assert_eq!(loss(family, provider, model, write, write_1h).as_deref(), expected, "{provider} {model}");
    }
    // What is listed as free is free, and what is listed at full price is no loss: both are known.
    for (read, expected) in [("0", "2"), ("2", "0")] {
        let price = format!("{{ input = 2, output = 1, cache_read = {read}, date = \"2026-09-01\", source = \"us\" }}");
        let text = format!("[[models]]\nid = \"m\"\nprovider = \"p\"\nprice = {price}\n");
        let loss = Catalogue::parse("own.toml", &text).unwrap();
        let loss = loss.loss(Family::OpenAi, "p", "m", million, &Usage::default());
        assert_eq!(loss.map(|loss| loss.to_string()).as_deref(), Some(expected));
    }
}
