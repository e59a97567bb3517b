//! Reads what was asked and what it used, and says where the prompt cache broke, why, and what that cost.
//!
//! ```sh
//! cargo run -p stanchion-examples --example cache_doctor -- my-requests.jsonl
//! ```
//!
//! Without a file it reads the sample beside it. Each line is one object:
//!
//! | member | meaning |
//! |---|---|
//! | `session` | which conversation it belongs to |
//! | `at` | when the reply began, in seconds from any beginning |
//! | `dialect` | `openai-chat`, `openai-responses`, `anthropic-messages` or `gemini-generate-content` |
//! | `epoch` | another one after the conversation was compacted; may be left out |
//! | `model` | who answered, where the request's body does not say it, as Gemini's; may be left out |
//! | `request` | the request's body |
//! | `usage` | the reply's usage, in the provider's own words |

use std::{collections::HashMap, fmt, time::Duration};

use serde::Deserialize;
use serde_json::value::RawValue;
use stanchion::{
    cache_break::{CacheBreakPolicy, CacheCounters, Fingerprint, Monitor, Observation, SessionKey, describe, percent},
    core::{Dialect, PromptCacheBreak, PromptCacheVolatile, Usage},
    usage::{Catalogue, Money, normalise},
    wire::{dialect::read_document, request::peek},
};
use tokio::time::Instant;

const SAMPLE: &str = include_str!("cache_doctor.jsonl");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exchange<'a> {
    session: String,
    at: u64,
    dialect: String,
    epoch: Option<String>,
    model: Option<String>,
    /// As it was sent: what the monitor compares are the bytes.
    #[serde(borrow)]
    request: &'a RawValue,
    #[serde(borrow)]
    usage: &'a RawValue,
}

/// What a line has shown.
#[derive(Debug)]
enum Finding {
    Broken {
        broken: Box<PromptCacheBreak>,
        /// What the lost tokens cost above the price of a read; `None` if no price is known.
        cost: Option<Money>,
    },
    Volatile(PromptCacheVolatile),
    /// The conversation was compacted: that less is read from now on is no break.
    Compacted,
    /// The reply does not say what it read from the cache.
    Untold,
}

/// What stands in the whole file.
#[derive(Debug, Default)]
struct Report {
    /// Each with its line, from 1, and its session.
    findings: Vec<(usize, String, Finding)>,
    replies: usize,
    counters: CacheCounters,
}

fn examine(text: &str) -> Result<Report, String> {
    // A file may hold more sessions than a process has at a time.
    let policy = CacheBreakPolicy::builder().max_sessions(4096).build().expect("the setting is within its range");
    let mut monitor = Monitor::new(policy);
    let mut epochs: HashMap<String, Option<String>> = HashMap::new();
    let mut report = Report::default();
    let beginning = Instant::now();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let number = index + 1;
        let wrong = |problem: &str| format!("line {number}: {problem}");
        let exchange: Exchange<'_> = serde_json::from_str(line).map_err(|error| wrong(&error.to_string()))?;
        let dialect = dialect(&exchange.dialect).ok_or_else(|| wrong("a dialect without prompt caches"))?;
        let body = exchange.request.get().as_bytes();
        let fingerprint = Fingerprint::read(dialect, body, policy.bounds())
            .ok_or_else(|| wrong("a request that cannot be compared"))?;
        let at = Duration::from_secs(exchange.at);
        let now = beginning.checked_add(at).ok_or_else(|| wrong("`at` is beyond all clocks"))?;
        let peeked = peek(dialect, body).map_err(|error| wrong(&error.to_string()))?;
        let model = exchange.model.or_else(|| peeked.model.map(Into::into)).unwrap_or_default();
        let usage = usage(dialect, exchange.usage);

        report.replies += 1;
        report.counters.add(&usage);
        let session = exchange.session;
        let mut tell = |finding| report.findings.push((number, session.clone(), finding));
        if usage.cache_read.is_none() {
            // The monitor would pass over it, too. It is told here since a file of nothing else would look healthy.
            tell(Finding::Untold);
            continue;
        }
        let seen = Observation::new(fingerprint, usage)
            .with_model(&[dialect.as_str(), &model])
            .with_context_epoch(exchange.epoch.as_deref());
        let found = monitor.observe(SessionKey::new(None, &session), seen, now);
        if let Some(broken) = found.broken {
            let cost = cost_of_loss(dialect, &model, &usage, broken.lost_tokens);
            tell(Finding::Broken { broken: Box::new(broken), cost });
        }
        if let Some(volatile) = found.volatile {
            tell(Finding::Volatile(volatile));
        }
        let compacted = epochs.get(&session).is_some_and(|before| *before != exchange.epoch);
        if compacted {
            tell(Finding::Compacted);
        }
        epochs.insert(session, exchange.epoch);
    }
    Ok(report)
}

fn dialect(name: &str) -> Option<Dialect> {
    let cached =
        [Dialect::OpenAiChat, Dialect::OpenAiResponses, Dialect::AnthropicMessages, Dialect::GeminiGenerateContent];
    cached.into_iter().find(|dialect| dialect.as_str() == name)
}

/// The counts of a reply, the same whoever gave it.
fn usage(dialect: Dialect, usage: &RawValue) -> Usage {
    let member = if dialect == Dialect::GeminiGenerateContent { "usageMetadata" } else { "usage" };
    // Of a reply that has nothing but its usage, the usage is read all the same.
    let reply = format!("{{\"{member}\":{usage}}}");
    normalise(read_document(dialect, reply.as_bytes()).usage.unwrap_or_default())
}

/// What was lost, above what it would have cost to read it from the cache.
fn cost_of_loss(dialect: Dialect, model: &str, usage: &Usage, lost_tokens: u64) -> Option<Money> {
    let catalogue = Catalogue::built_in();
    // The file does not say who served the model, so it is taken to be whoever made it.
    let provider = catalogue.provider_of(model).unwrap_or_default();
    catalogue.loss(dialect.family(), provider, model, lost_tokens, usage)
}

impl Report {
    fn breaks(&self) -> impl Iterator<Item = (&PromptCacheBreak, Option<Money>)> {
        self.findings.iter().filter_map(|(_, _, finding)| match finding {
            Finding::Broken { broken, cost } => Some((&**broken, *cost)),
            _ => None,
        })
    }

    fn lost_tokens(&self) -> u64 {
        self.breaks().map(|(broken, _)| broken.lost_tokens).sum()
    }

    /// Of the breaks that have a known price.
    fn cost(&self) -> Money {
        self.breaks().filter_map(|(_, cost)| cost).sum()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken { broken, cost } => {
                write!(f, "{}\n    {} tokens paid for anew, ", describe(broken), broken.lost_tokens)?;
                match cost {
                    Some(cost) => write!(f, "${cost} above the price of a read")?,
                    None => f.write_str("at a price that is not known")?,
                }
                write!(f, ", {} s after the reply before", broken.elapsed.as_secs())?;
                if broken.tools_changed {
                    let [added, removed, changed] =
                        [broken.added_tool_count, broken.removed_tool_count, broken.changed_tool_count];
                    write!(f, "\n    tools: {added} added, {removed} removed, {changed} changed")?;
                }
                if broken.system_prompt_changed {
                    write!(f, "\n    system prompt: {:+} characters", broken.system_char_delta)?;
                }
                Ok(())
            }
            Self::Volatile(volatile) => write!(
                f,
                "the system prompt was another on {} of {} calls; is there a time in it?",
                volatile.change_count, volatile.call_number
            ),
            Self::Compacted => f.write_str("compacted: what is read is counted anew"),
            Self::Untold => f.write_str("not judged: the reply does not say what it read from the cache"),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (line, session, finding) in &self.findings {
            writeln!(f, "line {line}, {session}: {finding}")?;
        }
        let (breaks, unpriced) = (self.breaks().count(), self.breaks().filter(|(_, cost)| cost.is_none()).count());
        write!(
            f,
            "\n{} replies, {} of their input read from the cache. ",
            self.replies,
            percent(self.counters.metrics().hit_rate)
        )?;
        write!(f, "{breaks} breaks lost {} tokens and ${}", self.lost_tokens(), self.cost())?;
        if unpriced > 0 {
            write!(f, ", and what {unpriced} of them cost is not known")?;
        }
        f.write_str(".\n")
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let text = match std::env::args_os().nth(1) {
        Some(path) => std::fs::read_to_string(path)?,
        None => SAMPLE.to_owned(),
    };
    print!("{}", examine(&text)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use stanchion::core::CacheBreakReason;

    use super::{Finding, Report, SAMPLE, examine};

    fn short(report: &Report) -> Vec<String> {
        let name = |finding: &Finding| match finding {
            Finding::Broken { broken, cost } => {
                let cost = cost.map_or_else(|| "unknown".to_owned(), |cost| cost.to_string());
                format!("{:?} {} {cost}", broken.reason, broken.lost_tokens)
            }
            Finding::Volatile(_) => "Volatile".to_owned(),
            Finding::Compacted => "Compacted".to_owned(),
            Finding::Untold => "Untold".to_owned(),
        };
        report.findings.iter().map(|(line, session, finding)| format!("{line} {session} {}", name(finding))).collect()
    }

    #[test]
    fn the_sample_shows_each_cause() {
        let report = examine(SAMPLE).unwrap();
        let expected = [
            "3 tool ToolsChanged 8000 0.0276",
            "6 edited MessagesChanged 9000 0.03105",
            "9 clock SystemPromptChanged 6000 0.0207",
            "10 clock Volatile",
            "13 compacted Compacted",
            "14 silent Untold",
            "15 silent Untold",
            "18 pause TtlExpired 5000 0.01725",
            "20 elsewhere ServerSide 4096 0.00512",
        ];
        assert_eq!(short(&report), expected);
        assert_eq!((report.lost_tokens(), report.cost().to_string()), (32_096, "0.10172".to_owned()));
    }

    #[test]
    fn without_its_epoch_a_compaction_looks_like_a_break() {
        let lines: Vec<_> = SAMPLE.lines().filter(|line| line.contains("\"session\":\"compacted\"")).collect();
        let text = lines.join("\n").replace("\"epoch\":\"2\"", "\"epoch\":\"1\"");
        let report = examine(&text).unwrap();
        let reasons: Vec<_> = report.breaks().map(|(broken, _)| broken.reason).collect();
        assert_eq!(reasons, [CacheBreakReason::SystemPromptChanged]);
    }

    #[test]
    fn a_message_that_was_edited_is_pointed_at() {
        let report = examine(SAMPLE).unwrap();
        let edited = report.breaks().find(|(broken, _)| broken.reason == CacheBreakReason::MessagesChanged).unwrap();
        assert_eq!(edited.0.first_changed_message, Some(2));
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named() {
        assert!(examine("\n{}").unwrap_err().starts_with("line 2: missing field"));
    }
}
