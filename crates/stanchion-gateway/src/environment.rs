//! Serving without a configuration file: providers from the keys in the environment, chosen by the model's name.

use stanchion::core::{Candidate, Family, Secret};

use crate::known::{self, KnownProvider, OPENROUTER, PROVIDERS};

/// The variables that are looked at, for messages.
pub fn variables() -> String {
    PROVIDERS.iter().filter_map(|known| known.keys.first().copied()).collect::<Vec<_>>().join(", ")
}

/// The providers whose keys are set, as candidates that take the model's name as the client gives it.
pub fn candidates(variable: &dyn Fn(&str) -> Option<String>) -> Vec<Candidate> {
    let key =
        |known: &KnownProvider| known.keys.iter().filter_map(|name| variable(name)).find(|key| !key.trim().is_empty());
    PROVIDERS
        .iter()
        .filter_map(|known| {
            let credential = Secret::new(key(known)?.trim());
            Some(Candidate::new(known.name, known.family, known.base_url).with_credential(credential))
        })
        .collect()
}

/// Why no provider at hand is asked for a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoProvider {
    /// Nobody at hand speaks the request's dialect.
    Dialect,
    /// The model is that of a provider which speaks another dialect.
    SpeaksAnother(&'static KnownProvider),
    /// The model is that of a provider whose key is not set.
    NoKey(&'static KnownProvider),
    /// The table does not know whose model it is, and several could be meant.
    Unclear,
}

/// Which provider serves a model, and what that calls it. `at_hand` are the names of those whose keys are set, with what
/// they speak.
///
/// 1. `provider/model` is a model of that provider, if it is at hand.
/// 2. Any other name with a slash is OpenRouter's way of naming. Without OpenRouter a known provider's name before the slash
///    means that provider, unless the only one that speaks the dialect serves models of others under such names.
/// 3. Else the [table](known::provider_of) says whose it is. If that provider is not at hand, OpenRouter has the model,
///    or the only one has it that speaks the dialect.
/// 4. What the table does not know goes to the only one that speaks the dialect. A prompt is not sent to several in turn
///    to see whose it was.
pub fn provider_for<'a>(
    at_hand: &'a [(String, Family)],
    dialect: Family,
    model: &'a str,
) -> Result<(&'a str, &'a str), NoProvider> {
    let named = |name: &str| at_hand.iter().find(|(known, _)| known == name);
    let speaks = |(name, family): &'a (String, Family)| (*family == dialect).then_some(name.as_str());
    let speaking: Vec<&str> = at_hand.iter().filter_map(speaks).collect();
    let router = speaking.iter().find(|name| **name == OPENROUTER).copied();

    if let Some((name, rest)) = model.split_once('/').filter(|(_, rest)| !rest.is_empty())
        && let Some(provider) = named(name)
    {
        // Some of OpenRouter's own models begin with its name.
        let rest = if name == OPENROUTER && !rest.contains('/') { model } else { rest };
        return match speaks(provider) {
            Some(name) => Ok((name, rest)),
            None => Err(another(name)),
        };
    }
    if let Some(router) = router.filter(|_| model.contains('/')) {
        return Ok((router, model));
    }
    let only = || <[&str; 1]>::try_from(speaking.as_slice()).map(|[only]| (only, model));
    if let Some((vendor, _)) = model.split_once('/').filter(|(_, rest)| !rest.is_empty())
        && let Some(known) = KnownProvider::with_key(vendor)
    {
        return match only() {
            Ok((only, _)) if known.family == dialect && KnownProvider::hosts_others(only) => Ok((only, model)),
            _ if speaking.is_empty() => Err(NoProvider::Dialect),
            _ => Err(NoProvider::NoKey(known)),
        };
    }
    match known::provider_of(model) {
        Some(known) => match (named(known.name), router) {
            (Some(provider), _) if speaks(provider).is_some() => Ok((&provider.0, model)),
            (_, Some(router)) => Ok((router, model)),
            (Some(_), None) => Err(NoProvider::SpeaksAnother(known)),
            (None, None) if speaking.is_empty() => Err(NoProvider::Dialect),
            (None, None) => only().map_err(|_| NoProvider::NoKey(known)),
        },
        None if speaking.is_empty() => Err(NoProvider::Dialect),
        None => only().map_err(|_| NoProvider::Unclear),
    }
}

fn another(name: &str) -> NoProvider {
    PROVIDERS.iter().find(|known| known.name == name).map_or(NoProvider::Dialect, NoProvider::SpeaksAnother)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_keys_that_are_set_make_a_provider() {
        let found = candidates(&|name| match name {
            "OPENAI_API_KEY" => Some("sk-1\n".into()),
            "GEMINI_API_KEY" | "MOONSHOT_API_KEY" => Some("  ".into()),
            "KIMI_API_KEY" => Some("sk-2".into()),
            _ => None,
        });
        assert_eq!(found.iter().map(Candidate::provider).collect::<Vec<_>>(), ["openai", "moonshot"]);
        let keys: Vec<_> = found.iter().map(|found| found.credential().unwrap().expose()).collect();
        assert_eq!(keys, ["sk-1", "sk-2"]);
        assert!(variables().starts_with("ANTHROPIC_API_KEY, OPENAI_API_KEY") && !variables().contains(", ,"));
    }

    fn at_hand(names: &[&str]) -> Vec<(String, Family)> {
        let family = |name: &str| PROVIDERS.iter().find(|known| known.name == name).unwrap().family;
        names.iter().map(|name| ((*name).to_owned(), family(name))).collect()
    }

    #[test]
    fn a_models_name_chooses_the_provider() {
        use Family::{Anthropic, Gemini, OpenAi};
        let all = at_hand(&["anthropic", "openai", "openrouter", "deepseek", "groq"]);
        let two = at_hand(&["anthropic", "openai", "groq"]);
        let one = at_hand(&["openai"]);
        let router = at_hand(&["openrouter"]);
        for (providers, dialect, model, expected) in [
            // By the table.
            (&all, OpenAi, "gpt-4o", ("openai", "gpt-4o")),
            (&all, OpenAi, "deepseek-r1-distill-llama-70b", ("deepseek", "deepseek-r1-distill-llama-70b")),
            (&two, OpenAi, "llama-3.3-70b", ("groq", "llama-3.3-70b")),
            (&all, Anthropic, "claude-x", ("anthropic", "claude-x")),
            // By the provider's name, which goes.
            (&all, OpenAi, "deepseek/anything", ("deepseek", "anything")),
            (&two, OpenAi, "groq/openai/gpt-oss-120b", ("groq", "openai/gpt-oss-120b")),
            (&all, Anthropic, "anthropic/anything", ("anthropic", "anything")),
            // OpenRouter's names.
            (&all, OpenAi, "openrouter/openai/gpt-4o", ("openrouter", "openai/gpt-4o")),
            (&all, OpenAi, "openrouter/auto", ("openrouter", "openrouter/auto")),
            (&all, OpenAi, "meta-llama/llama-4", ("openrouter", "meta-llama/llama-4")),
            (&all, OpenAi, "claude-x", ("openrouter", "claude-x")),
            (&all, OpenAi, "qwen-max", ("openrouter", "qwen-max")),
            (&router, OpenAi, "gpt-4o", ("openrouter", "gpt-4o")),
            (&router, OpenAi, "anything", ("openrouter", "anything")),
            // There is one only.
            (&one, OpenAi, "meta/llama", ("openai", "meta/llama")),
            (&one, OpenAi, "anything", ("openai", "anything")),
            (&two, Anthropic, "anything", ("anthropic", "anything")),
            (&two, Anthropic, "kimi-k2", ("anthropic", "kimi-k2")),
            (&one, OpenAi, "openai/", ("openai", "openai/")),
            (&at_hand(&["groq"]), OpenAi, "openai/gpt-oss-120b", ("groq", "openai/gpt-oss-120b")),
            (&at_hand(&["anthropic", "nvidia"]), OpenAi, "deepseek/v3", ("nvidia", "deepseek/v3")),
            (&at_hand(&["openai"]), OpenAi, "local/llama", ("openai", "local/llama")),
        ] {
            assert_eq!(provider_for(providers, dialect, model), Ok(expected), "{model}");
        }
        let known = |name: &str| PROVIDERS.iter().find(|known| known.name == name).unwrap();
        for (providers, dialect, model, expected) in [
            (&all, Gemini, "gemini-x", NoProvider::Dialect),
            (&all, Gemini, "anything", NoProvider::Dialect),
            (&two, OpenAi, "claude-x", NoProvider::SpeaksAnother(known("anthropic"))),
            (&all, OpenAi, "anthropic/claude-x", NoProvider::SpeaksAnother(known("anthropic"))),
            (&two, Anthropic, "gpt-4o", NoProvider::SpeaksAnother(known("openai"))),
            (&two, OpenAi, "qwen-max", NoProvider::NoKey(known("dashscope"))),
            (&two, OpenAi, "anything", NoProvider::Unclear),
            // Another's name is another's, whoever else is at hand.
            (&one, OpenAi, "anthropic/claude-x", NoProvider::NoKey(known("anthropic"))),
            (&one, OpenAi, "deepseek/anything", NoProvider::NoKey(known("deepseek"))),
            (&at_hand(&["groq"]), OpenAi, "anthropic/claude-x", NoProvider::NoKey(known("anthropic"))),
            (&two, OpenAi, "deepseek/anything", NoProvider::NoKey(known("deepseek"))),
            (&router, Gemini, "anthropic/claude-x", NoProvider::Dialect),
            (&all, OpenAi, "anything", NoProvider::Unclear),
        ] {
            assert_eq!(provider_for(providers, dialect, model), Err(expected), "{model}");
        }
    }
}
