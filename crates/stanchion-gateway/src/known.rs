//! The providers that are known by name, and which models are theirs: the table that a gateway without a configuration
//! goes by.

use stanchion::core::Family;

/// A provider that needs no configuration, or is at least known by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownProvider {
    /// Its name.
    pub name: &'static str,
    /// What it speaks.
    pub family: Family,
    /// The variables that may hold its key, the first of them first. Without any it wants a configuration: an address, or
    /// a credential that is more than a key.
    pub keys: &'static [&'static str],
    /// Where it is.
    pub base_url: &'static str,
    /// What the names of its models contain, in lower case. Without any, its models are found by the provider's name
    /// alone: they are called as others' are, or as somebody likes.
    pub patterns: &'static [&'static str],
}

const fn provider(
    name: &'static str,
    keys: &'static [&'static str],
    base_url: &'static str,
    patterns: &'static [&'static str],
) -> KnownProvider {
    KnownProvider { name, family: Family::OpenAi, keys, base_url, patterns }
}

/// All of them. The first whose pattern is in a model's name is its provider: octos' registry, in its order. There the
/// plans for coding, whose keys are refused at the ordinary address, stand before the provider's own entry.
pub const PROVIDERS: [KnownProvider; 19] = [
    KnownProvider {
        family: Family::Anthropic,
        ..provider("anthropic", &["ANTHROPIC_API_KEY"], "https://api.anthropic.com", &["claude"])
    },
    provider("openai", &["OPENAI_API_KEY"], "https://api.openai.com/v1", &["gpt", "text-embedding"]),
    KnownProvider {
        family: Family::Gemini,
        ..provider("gemini", &["GEMINI_API_KEY"], "https://generativelanguage.googleapis.com", &["gemini"])
    },
    KnownProvider { family: Family::Gemini, ..provider("vertex", &[], "", &[]) },
    provider("r9s", &["R9S_API_KEY"], "https://api.r9s.ai/v1", &[]),
    provider(OPENROUTER, &["OPENROUTER_API_KEY"], "https://openrouter.ai/api/v1", &[]),
    provider("deepseek", &["DEEPSEEK_API_KEY"], "https://api.deepseek.com/v1", &["deepseek"]),
    provider("groq", &["GROQ_API_KEY"], "https://api.groq.com/openai/v1", &["llama", "mixtral"]),
    provider("moonshot-coding", &["KIMI_CODING_API_KEY"], "https://api.kimi.com/coding/v1", &[]),
    provider("moonshot", &["MOONSHOT_API_KEY", "KIMI_API_KEY"], "https://api.moonshot.ai/v1", &["kimi", "moonshot"]),
    provider("dashscope", &["DASHSCOPE_API_KEY"], "https://dashscope.aliyuncs.com/compatible-mode/v1", &["qwen"]),
    provider("minimax", &["MINIMAX_API_KEY"], "https://api.minimax.io/v1", &["minimax"]),
    provider("zai-coding", &["ZAI_CODING_API_KEY"], "https://api.z.ai/api/coding/paas/v4", &[]),
    provider("zhipu", &["ZHIPU_API_KEY"], "https://open.bigmodel.cn/api/paas/v4", &["glm"]),
    provider("zai", &["ZAI_API_KEY"], "https://api.z.ai/api/paas/v4", &[]),
    provider("nvidia", &["NVIDIA_API_KEY"], "https://integrate.api.nvidia.com/v1", &[]),
    KnownProvider { family: Family::Ollama, ..provider("ollama", &[], "", &[]) },
    provider("vllm", &[], "", &[]),
    provider("local", &[], "", &[]),
];

/// Who serves models of others under names such as `openai/gpt-oss-120b`, besides the router.
const HOSTS: [&str; 3] = ["groq", "nvidia", "r9s"];

impl KnownProvider {
    /// The provider of this name whose key can be set.
    pub fn with_key(name: &str) -> Option<&'static Self> {
        PROVIDERS.iter().find(|known| known.name == name && !known.keys.is_empty())
    }

    /// Whether a model of another vendor's may be meant by `vendor/model`.
    pub fn hosts_others(name: &str) -> bool {
        PROVIDERS.iter().all(|known| known.name != name) || HOSTS.contains(&name)
    }
}

/// Who has everybody's models, under names such as `vendor/model`.
pub const OPENROUTER: &str = "openrouter";

/// With which OpenAI's models may begin that have no "gpt" in their names. Anywhere else these letters mean nothing.
const OPENAI_PREFIXES: [&str; 3] = ["o1", "o3", "o4"];

/// Whose model this is, by its name in any case of letters; `None` if the table does not say.
pub fn provider_of(model: &str) -> Option<&'static KnownProvider> {
    let model = model.to_ascii_lowercase();
    if OPENAI_PREFIXES.iter().any(|prefix| model.starts_with(prefix)) {
        return PROVIDERS.iter().find(|known| known.name == "openai");
    }
    PROVIDERS.iter().find(|known| known.patterns.iter().any(|pattern| model.contains(pattern)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_as_it_is_written_down() {
        // Each provider with models that are its own; one without patterns is found by none of them.
        let table: [(&str, &[&str]); 19] = [
            ("anthropic", &["claude-sonnet-4-20250514", "Claude-X", "eu.claude-3"]),
            (
                "openai",
                &[
                    "gpt-4o",
                    "chatgpt-4o-latest",
                    "ft:gpt-4o:org",
                    "o1",
                    "o1-mini",
                    "o3",
                    "O4-mini",
                    "text-embedding-3-small",
                ],
            ),
            ("gemini", &["gemini-2.5-flash", "models/gemini-2.5-pro"]),
            ("vertex", &[]),
            ("r9s", &[]),
            ("openrouter", &[]),
            ("deepseek", &["deepseek-chat", "deepseek-r1-distill-llama-70b", "deepseek-r1-distill-qwen-32b"]),
            ("groq", &["llama-3.3-70b-versatile", "mixtral-8x7b-32768"]),
            ("moonshot-coding", &[]),
            ("moonshot", &["kimi-k2.5", "moonshot-v1-8k"]),
            ("dashscope", &["qwen-max", "qwen3-coder"]),
            ("minimax", &["MiniMax-M2.5"]),
            ("zai-coding", &[]),
            ("zhipu", &["glm-4-plus", "glm-5"]),
            ("zai", &[]),
            ("nvidia", &[]),
            ("ollama", &[]),
            ("vllm", &[]),
            ("local", &[]),
        ];
        assert_eq!(PROVIDERS.map(|known| known.name), table.map(|(name, _)| name));
        for (name, models) in table {
            for model in models {
                assert_eq!(provider_of(model).map(|known| known.name), Some(name), "{model}");
            }
            let known = PROVIDERS.iter().find(|known| known.name == name).unwrap();
            assert_eq!(known.patterns.is_empty(), models.is_empty(), "{name}");
            assert_eq!(known.keys.is_empty(), known.base_url.is_empty(), "{name}");
        }
    }

    #[test]
    fn every_pattern_finds_its_provider_and_is_in_lower_case() {
        for known in &PROVIDERS {
            for pattern in known.patterns {
                assert_eq!(*pattern, pattern.to_ascii_lowercase());
                let found = provider_of(&format!("x-{pattern}-y")).unwrap();
                assert_eq!(found.name, known.name, "{pattern}");
            }
        }
    }

    #[test]
    fn the_short_prefixes_count_at_the_beginning_only() {
        for model in ["ro1and", "x-o3", "foo4", "some-random-model", "", "o", "o2"] {
            assert_eq!(provider_of(model), None, "{model}");
        }
        assert_eq!(provider_of("o1-qwen").unwrap().name, "openai");
        assert_eq!(provider_of("qwen-o1").unwrap().name, "dashscope");
    }

    #[test]
    fn no_two_providers_share_a_name_or_a_key() {
        let mut keys: Vec<_> = PROVIDERS.iter().flat_map(|known| known.keys.iter().chain([&known.name])).collect();
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }
}
