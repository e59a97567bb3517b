//! Token counts, normalised: fresh input apart from what the cache read and wrote, reasoning within the output. Missing stays missing.

use crate::json::Value;

use stanchion_core::Usage;

fn count(value: &Value<'_>, key: &str) -> Option<u64> {
    value.get(key).and_then(|count| {
        count.as_u64().or_else(|| count.as_f64().filter(|count| *count >= 0.0).map(|count| count as u64))
    })
}

fn some(usage: Usage) -> Option<Usage> {
    (!usage.is_empty()).then_some(usage)
}

/// OpenAI Chat and Responses, and the many that imitate them.
pub(super) fn openai(value: &Value<'_>) -> Option<Usage> {
    let prompt = count(value, "prompt_tokens").or_else(|| count(value, "input_tokens"));
    let completion = count(value, "completion_tokens").or_else(|| count(value, "output_tokens"));
    let details = ["prompt_tokens_details", "input_tokens_details", "prompt_token_details"]
        .iter()
        .find_map(|key| value.get(key))
        .unwrap_or(&Value::Null);
    let cache_read = count(details, "cached_tokens")
        .or_else(|| count(value, "cached_tokens"))
        .or_else(|| count(value, "prompt_cache_hit_tokens"))
        .or_else(|| count(value, "num_cached_tokens"))
        .or_else(|| count(value, "cache_read_input_tokens"));
    let cache_write = count(details, "cache_write_tokens")
        .or_else(|| count(details, "cache_creation_input_tokens"))
        .or_else(|| count(value, "cache_creation_input_tokens"));
    let reasoning = ["completion_tokens_details", "output_tokens_details"]
        .iter()
        .find_map(|key| value.get(key))
        .and_then(|details| count(details, "reasoning_tokens"));
    let total = count(value, "total_tokens");
    OpenAiCounts { prompt, completion, total, cache_read, cache_write, reasoning }.usage()
}

/// What OpenAI's form tells, by whatever names.
#[derive(Default)]
pub(super) struct OpenAiCounts {
    pub(super) prompt: Option<u64>,
    pub(super) completion: Option<u64>,
    pub(super) total: Option<u64>,
    pub(super) cache_read: Option<u64>,
    pub(super) cache_write: Option<u64>,
    pub(super) reasoning: Option<u64>,
}

impl OpenAiCounts {
    pub(super) fn usage(self) -> Option<Usage> {
        let Self { prompt, completion, total, cache_read, cache_write, reasoning } = self;
        let (read, write) = (cache_read.unwrap_or(0), cache_write.unwrap_or(0));
        // Where more was read than sent, the count of the prompt excludes the cache (xAI); where only both together are more,
        // it excludes what was written.
        let input = prompt.map(|prompt| match prompt.checked_sub(read) {
            None => prompt,
            Some(unread) => unread.checked_sub(write).unwrap_or(unread),
        });
        let output = completion.map(|completion| match (reasoning, prompt, total) {
            // xAI leaves reasoning out of the completion; its total gives it away.
            (Some(reasoning), Some(prompt), Some(total))
                if reasoning > 0 && total == prompt.saturating_add(completion).saturating_add(reasoning) =>
            {
                completion.saturating_add(reasoning)
            }
            _ => completion,
        });
        some(Usage { input, cache_read, cache_write, output, reasoning, ..Usage::default() })
    }
}

/// Anthropic: the input count excludes what the cache read and wrote.
pub(super) fn anthropic(value: &Value<'_>) -> Option<Usage> {
    let split = value.get("cache_creation").unwrap_or(&Value::Null);
    AnthropicCounts {
        input: count(value, "input_tokens"),
        output: count(value, "output_tokens"),
        cache_read: count(value, "cache_read_input_tokens"),
        cache_write: count(value, "cache_creation_input_tokens"),
        short: count(split, "ephemeral_5m_input_tokens"),
        long: count(split, "ephemeral_1h_input_tokens"),
        thinking: value.get("output_tokens_details").and_then(|details| count(details, "thinking_tokens")),
    }
    .usage()
}

/// What Anthropic tells.
#[derive(Default)]
pub(super) struct AnthropicCounts {
    pub(super) input: Option<u64>,
    pub(super) output: Option<u64>,
    pub(super) cache_read: Option<u64>,
    pub(super) cache_write: Option<u64>,
    /// Of what was written to the cache, that for five minutes and that for an hour.
    pub(super) short: Option<u64>,
    pub(super) long: Option<u64>,
    pub(super) thinking: Option<u64>,
}

impl AnthropicCounts {
    pub(super) fn usage(self) -> Option<Usage> {
        let Self { input, output, cache_read, cache_write, short, long, thinking } = self;
        some(Usage {
            input,
            cache_read,
            cache_write: cache_write.or_else(|| match (short, long) {
                (None, None) => None,
                (short, long) => Some(short.unwrap_or(0).saturating_add(long.unwrap_or(0))),
            }),
            cache_write_5m: short,
            cache_write_1h: long,
            output,
            reasoning: thinking,
        })
    }
}

/// What a later report of Anthropic's says of the input, laid over what was said before. Some restate it as zero, all of
/// it or what the cache did: a report of less than was read and written already is none.
pub(super) fn later(earlier: &Usage, mut report: Usage) -> Usage {
    let mut total = *earlier;
    total.merge(&report);
    let told = |usage: &Usage| usage.input_total().unwrap_or(0);
    let filled = |count: Option<u64>| count.is_some_and(|count| count > 0);
    let knows_of_the_cache = filled(earlier.cache_read) || filled(earlier.cache_write);
    if told(&total) < told(earlier) && (knows_of_the_cache || told(&total) == 0) {
        report = Usage { output: report.output, reasoning: report.reasoning, ..Usage::default() };
    }
    report
}

/// Gemini: thoughts are counted beside the candidates, what tools fed back beside the prompt.
pub(super) fn gemini(value: &Value<'_>) -> Option<Usage> {
    let cache_read = count(value, "cachedContentTokenCount");
    let prompt = count(value, "promptTokenCount")
        .map(|prompt| prompt.saturating_add(count(value, "toolUsePromptTokenCount").unwrap_or(0)));
    let (candidates, thoughts) = (count(value, "candidatesTokenCount"), count(value, "thoughtsTokenCount"));
    some(Usage {
        input: prompt.map(|prompt| prompt.saturating_sub(cache_read.unwrap_or(0))),
        cache_read,
        output: match (candidates, thoughts) {
            (None, None) => None,
            (candidates, thoughts) => Some(candidates.unwrap_or(0).saturating_add(thoughts.unwrap_or(0))),
        },
        reasoning: thoughts,
        ..Usage::default()
    })
}

/// Ollama's native counts.
pub(super) fn ollama(value: &Value<'_>) -> Option<Usage> {
    some(Usage { input: count(value, "prompt_eval_count"), output: count(value, "eval_count"), ..Usage::default() })
}
