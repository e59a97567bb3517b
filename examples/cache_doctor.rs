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
//! | `reply` | the reply: the document, or the text of the stream as a string |
//! | `usage` | in the place of the reply: its usage alone, in the provider's own words |

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
    fmt,
    time::Duration,
};

use serde::Deserialize;
use serde_json::value::RawValue;
use stanchion::{
    cache_break::{
        CacheBreakPolicy, CacheCounters, Fingerprint, Monitor, Observation, SessionKey, advice, describe, grouped,
        percent, reason_words,
    },
    core::{CacheBreakReason, Dialect, PromptCacheBreak, PromptCacheVolatile, Usage},
    usage::{Catalogue, Money, normalise},
    wire::{
        dialect::{StreamReader, read_document},
        frame::{FrameDecoder, Framing},
        request::peek,
    },
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
    reply: Option<&'a RawValue>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
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
    sessions: HashSet<String>,
    replies: usize,
    counters: CacheCounters,
}

fn examine(text: &str) -> Result<Report, String> {
    // A file may hold more sessions than a process has at a time.
    let policy = CacheBreakPolicy::builder().max_sessions(4096).build().expect("the setting is within its range");
    let mut monitor = Monitor::new(policy);
    let mut epochs: HashMap<String, Option<String>> = HashMap::new();
    // The sessions whose replies have told what was read from the cache.
    let mut told = HashSet::new();
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
        let usage = match (exchange.reply, exchange.usage) {
            (Some(reply), None) => used(dialect, reply).map_err(|problem| wrong(&problem))?,
            (None, Some(counts)) => usage(dialect, counts),
            _ => return Err(wrong("either `reply` or `usage` is needed")),
        };
        let usage = with_zero(dialect, usage, told.contains(&exchange.session));

        report.replies += 1;
        report.counters.add(&usage);
        let session = exchange.session;
        if usage.cache_read.is_some() {
            told.insert(session.clone());
        }
        report.sessions.insert(session.clone());
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

/// The counts of a whole reply: a document, or a stream as one string.
fn used(dialect: Dialect, reply: &RawValue) -> Result<Usage, String> {
    let Ok(stream) = serde_json::from_str::<String>(reply.get()) else {
        return Ok(normalise(read_document(dialect, reply.get().as_bytes()).usage.unwrap_or_default()));
    };
    let mut decoder = FrameDecoder::new(Framing::Sse, FrameDecoder::DEFAULT_MAX_EVENT);
    let mut reader = StreamReader::new(dialect);
    let mut usage = Usage::default();
    // A last event without its blank line is one, too.
    decoder.push((stream + "\n\n").into());
    while let Some(frame) = decoder.next_frame().map_err(|error| error.to_string())? {
        usage.merge(&reader.read(&frame).usage.unwrap_or_default());
    }
    Ok(normalise(usage))
}

/// Gemini leaves out a count that is zero: once it was told in a session, it is.
fn with_zero(dialect: Dialect, usage: Usage, told: bool) -> Usage {
    let is_zero = dialect == Dialect::GeminiGenerateContent && told && usage.input.is_some();
    Usage { cache_read: usage.cache_read.or_else(|| is_zero.then_some(0)), ..usage }
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

    /// Each cause, how often, how many tokens and what they cost as far as it is known; the dearest first.
    fn causes(&self) -> Vec<(CacheBreakReason, usize, u64, Money)> {
        let mut causes: Vec<(CacheBreakReason, usize, u64, Money)> = Vec::new();
        for (broken, cost) in self.breaks() {
            let known = causes.iter().position(|(reason, ..)| *reason == broken.reason);
            let at = known.unwrap_or(causes.len());
            if known.is_none() {
                causes.push((broken.reason, 0, 0, Money::ZERO));
            }
            let (_, count, lost_tokens, sum) = &mut causes[at];
            *count += 1;
            *lost_tokens += broken.lost_tokens;
            *sum += cost.unwrap_or_default();
        }
        causes.sort_by_key(|(_, _, lost_tokens, cost)| Reverse((*cost, *lost_tokens)));
        causes
    }

    /// Of the breaks that have a known price.
    fn cost(&self) -> Money {
        self.breaks().filter_map(|(_, cost)| cost).sum()
    }
}

/// What one finding is, and under it what it means and what can be done.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken { broken, cost } => {
                let cost =
                    cost.map_or("at a price that is not known".into(), |cost| format!("{} too much", dollars(cost)));
                writeln!(f, "{} tokens from the cache", describe(broken))?;
                write!(f, "{INDENT}{} tokens paid for anew, {cost}", grouped(broken.lost_tokens))?;
                write!(f, ", {} s after the reply before", broken.elapsed.as_secs())?;
                if broken.tools_changed {
                    let [added, removed, changed] =
                        [broken.added_tool_count, broken.removed_tool_count, broken.changed_tool_count];
                    write!(f, "\n{INDENT}tools: {added} added, {removed} removed, {changed} changed")?;
                }
                if broken.system_prompt_changed {
                    let length = match broken.system_char_delta {
                        0 => "as long as before: perhaps a time or an id in it".to_owned(),
                        delta => format!("{delta:+} characters"),
                    };
                    write!(f, "\n{INDENT}system prompt: {length}")?;
                }
                write!(f, "\n{INDENT}→ {}", advice(broken.reason))
            }
            Self::Volatile(volatile) => {
                let (changes, calls) = (volatile.change_count, volatile.call_number);
                writeln!(f, "the system prompt was another on {changes} of {calls} calls")?;
                write!(f, "{INDENT}→ {}", advice(CacheBreakReason::SystemPromptChanged))
            }
            Self::Compacted => f.write_str("compacted: what is read is counted anew from here"),
            Self::Untold => f.write_str("not judged: the reply does not say what it read from the cache"),
        }
    }
}

const INDENT: &str = "             ";

fn dollars(cost: Money) -> String {
    format!("${cost}")
}

fn counted(count: usize, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = "";
        for (line, session, finding) in &self.findings {
            if session != before {
                writeln!(f, "{session}")?;
                before = session;
            }
            writeln!(f, "  line {line:<6}{finding}")?;
        }
        let rate = percent(self.counters.metrics().hit_rate);
        let replies = counted(self.replies, "reply", "replies");
        let sessions = counted(self.sessions.len(), "session", "sessions");
        let blank = if self.findings.is_empty() { "" } else { "\n" };
        writeln!(f, "{blank}{replies} in {sessions}; {rate} of the input was read from the cache.")?;
        let unpriced = self.breaks().filter(|(_, cost)| cost.is_none()).count();
        let unknown = if unpriced == 0 { String::new() } else { format!(", and {unpriced} more at unknown prices") };
        match self.breaks().count() {
            0 => f.write_str("No cache broke.\n"),
            breaks => {
                let (lost, cost) = (grouped(self.lost_tokens()), dollars(self.cost()));
                let breaks = counted(breaks, "break", "breaks");
                writeln!(f, "{breaks}: {lost} tokens paid for anew, {cost} too much{unknown}. What cost most:")?;
                self.causes().iter().try_for_each(|(reason, count, lost_tokens, cost)| {
                    let (lost, words) = (grouped(*lost_tokens), reason_words(*reason));
                    writeln!(f, "  {:>9} {lost:>9} tokens  {count} × {words}", dollars(*cost))
                })
            }
        }
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
    use super::{CacheBreakReason, Finding, Report, SAMPLE, examine};

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
    fn what_is_shown_names_cause_cost_and_remedy() {
        let shown = examine(SAMPLE).unwrap().to_string();
        for part in [
            "tool\n  line 3     tool definitions changed: 8,000 → 0 tokens from the cache\n",
            "8,000 tokens paid for anew, $0.0276 too much, 25 s after the reply before\n",
            "→ settle the tools",
            "\n20 replies in 7 sessions; 44 % of the input was read from the cache.\n\
             5 breaks: 32,096 tokens paid for anew, $0.10172 too much. What cost most:\n   $0.03105     9,000 tokens  1 ×",
        ] {
            assert!(shown.contains(part), "{part:?} is not in\n{shown}");
        }
        let healthy: String =
            SAMPLE.lines().filter(|line| line.contains("\"session\":\"elsewhere\"")).take(1).collect();
        assert_eq!(
            examine(&healthy).unwrap().to_string(),
            "1 reply in 1 session; 98 % of the input was read from the cache.\nNo cache broke.\n"
        );
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
        let line = SAMPLE.lines().last().unwrap();
        for other in [line.replace("\"usage\":", "\"reply\":{},\"usage\":"), line.replace("\"usage\":", "\"x\":")] {
            let told = examine(&other).unwrap_err();
            assert!(told.contains("either `reply` or `usage`") || told.contains("unknown field"), "{told}");
        }
    }

    #[test]
    fn a_reply_is_read_as_its_usage_is() {
        // The sample has all three: a stream, a document, and the usage alone.
        let of = |name: &str| SAMPLE.lines().filter(|line| line.contains(name)).count();
        assert!(of("\"reply\":\"event: message_start") > 0 && of("\"reply\":{") > 0 && of("\"usage\":{") > 0);
        let line = |reply: &str| {
            format!(
                "{{\"session\":\"s\",\"at\":0,\"dialect\":\"openai-chat\",\"request\":{{\"model\":\"gpt-4o\",\"messages\":[]}},{reply}}}"
            )
        };
        let usage = r#"{"prompt_tokens":1000,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":400}}"#;
        let document = format!(r#"{{"choices":[{{"message":{{"content":"ok"}}}}],"usage":{usage}}}"#);
        let stream = format!(
            "data: {{\"choices\":[{{\"delta\":{{\"content\":\"ok\"}}}}]}}\n\ndata: {{\"choices\":[],\"usage\":{usage}}}"
        );
        let stream = serde_json::to_string(&stream).unwrap();
        for reply in [format!("\"usage\":{usage}"), format!("\"reply\":{document}"), format!("\"reply\":{stream}")] {
            let shown = examine(&line(&reply)).unwrap().to_string();
            assert!(shown.contains("40 % of the input was read"), "{shown}");
        }
    }

    #[test]
    fn what_gemini_leaves_out_is_zero_once_it_has_told_it() {
        let line = |at: u64, count: &str| {
            format!(
                "{{\"session\":\"s\",\"at\":{at},\"dialect\":\"gemini-generate-content\",\"model\":\"gemini-2.5-flash\",\"request\":{{\"contents\":[]}},\"usage\":{{\"promptTokenCount\":7000,\"candidatesTokenCount\":1{count}}}}}\n"
            )
        };
        let text = [line(0, ""), line(1, ",\"cachedContentTokenCount\":6000"), line(2, "")].concat();
        assert_eq!(short(&examine(&text).unwrap()), ["1 s Untold", "3 s ServerSide 6000 0.00162"]);
    }
}
