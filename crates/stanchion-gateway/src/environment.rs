//! Serving without a configuration file: providers from the keys in the environment, chosen by the model's name.

use stanchion::core::{Candidate, Family, Secret};

/// What is known of the providers that need no configuration.
const PROVIDERS: [(&str, &str, Family, &str); 4] = [
    ("openai", "OPENAI_API_KEY", Family::OpenAi, "https://api.openai.com/v1"),
    ("anthropic", "ANTHROPIC_API_KEY", Family::Anthropic, "https://api.anthropic.com"),
    ("gemini", "GEMINI_API_KEY", Family::Gemini, "https://generativelanguage.googleapis.com"),
    ("openrouter", "OPENROUTER_API_KEY", Family::OpenAi, "https://openrouter.ai/api/v1"),
];

/// The variables that are looked at, for messages.
pub const VARIABLES: &str = "OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY, OPENROUTER_API_KEY";

/// The providers whose keys are set, as candidates that take the model's name as the client gives it.
pub fn candidates(variable: &dyn Fn(&str) -> Option<String>) -> Vec<Candidate> {
    PROVIDERS
        .into_iter()
        .filter_map(|(name, key, family, base_url)| {
            let key = variable(key)?;
            let key = key.trim();
            (!key.is_empty()).then(|| Candidate::new(name, family, base_url).with_credential(Secret::new(key)))
        })
        .collect()
}

/// Which of the providers serves a model, by its name: `vendor/model` is OpenRouter's way of naming; otherwise the first provider that speaks
/// the request's dialect. `providers` are the names of those at hand, with what they speak.
pub fn provider_for<'a>(providers: &'a [(String, Family)], family: Family, model: &str) -> Option<&'a str> {
    let is_router = |name: &str| name == "openrouter";
    let speaking = || providers.iter().filter(|(_, speaks)| *speaks == family).map(|(name, _)| name.as_str());
    let wants_router = model.contains('/');
    speaking().find(|name| is_router(name) == wants_router).or_else(|| speaking().next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_keys_that_are_set_make_a_provider() {
        let found = candidates(&|name| match name {
            "OPENAI_API_KEY" => Some("sk-1\n".into()),
            "GEMINI_API_KEY" => Some("  ".into()),
            _ => None,
        });
        assert_eq!(found.iter().map(Candidate::provider).collect::<Vec<_>>(), ["openai"]);
        assert_eq!(found[0].credential().unwrap().expose(), "sk-1");
    }

    #[test]
    fn a_models_name_chooses_the_provider() {
        let all = [
            ("openai".to_owned(), Family::OpenAi),
            ("anthropic".to_owned(), Family::Anthropic),
            ("openrouter".to_owned(), Family::OpenAi),
        ];
        let router = [("openrouter".to_owned(), Family::OpenAi)];
        for (providers, family, model, expected) in [
            (&all[..], Family::OpenAi, "gpt-x", Some("openai")),
            (&all, Family::OpenAi, "meta/llama", Some("openrouter")),
            (&all, Family::Anthropic, "claude", Some("anthropic")),
            (&all, Family::Gemini, "gemini-x", None),
            (&router, Family::OpenAi, "gpt-x", Some("openrouter")),
            (&all[..1], Family::OpenAi, "meta/llama", Some("openai")),
        ] {
            assert_eq!(provider_for(providers, family, model), expected, "{model}");
        }
    }
}
