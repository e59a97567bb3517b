//! What a reply has used, from what is known of it at its end.

use stanchion_core::{Dialect, Ending, StreamRecord, Usage, UsageQuality};

/// Bytes of text to a token. English prose has a little more, other scripts fewer.
const BYTES_PER_TOKEN: u64 = 4;

/// What a reply has used, and how well that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// The counts, [normalised](normalise).
    pub tokens: Usage,
    /// How they came to be known.
    pub quality: UsageQuality,
}

impl Tally {
    /// What a reply has used so far, or in the end if it has ended.
    ///
    /// What the provider reported counts if it had said everything: the model has finished, or the reply is complete.
    /// Otherwise, and where it reported nothing, the rest is estimated:
    ///
    /// * the input is `request_tokens`, less what was read from the cache or written to it;
    /// * the output is a token for every four bytes of its text, and at least one for every frame that came with output
    ///   or after it. A provider that had counted more by then is right.
    ///
    /// A count of zero is not believed against the evidence: of output after text has passed, of input if there was a
    /// request. Nothing is estimated of the cache, and nothing of reasoning that was never shown.
    pub fn of(record: Option<&StreamRecord>, dialect: Option<Dialect>, request_tokens: Option<u64>) -> Self {
        let request_tokens = request_tokens.filter(|tokens| *tokens > 0);
        let Some(record) = record else {
            // The reply was not read. That there was a request is all that is known.
            let tokens = Usage { input: request_tokens, ..Usage::default() };
            return Self { tokens, quality: UsageQuality::Unknown };
        };
        let mut tokens = normalise(record.usage());
        let said_all = record.error().is_none()
            && (record.finished() || record.terminal() || record.ending() == Some(Ending::Complete));
        let mut estimated = false;

        if tokens.input.is_none() || request_tokens.is_some() && tokens.input_total() == Some(0) {
            let cached = tokens.cache_read.unwrap_or(0).saturating_add(tokens.cache_write.unwrap_or(0));
            tokens.input = request_tokens.map(|tokens| tokens.saturating_sub(cached));
            estimated = true;
        }
        let written = written(record);
        match tokens.output {
            Some(reported) if said_all && (reported > 0 || written == 0) => {}
            // Nothing but vectors comes out of an embedding.
            None if said_all && dialect == Some(Dialect::OpenAiEmbeddings) => tokens.output = Some(0),
            reported => {
                tokens.output = Some(reported.unwrap_or(0).max(written));
                estimated = true;
            }
        }
        let quality = if tokens.input.is_none() || tokens.output.is_none() {
            UsageQuality::Unknown
        } else if estimated {
            UsageQuality::Estimated
        } else {
            UsageQuality::Measured
        };
        Self { tokens, quality }
    }
}

/// About how many tokens of output have passed.
fn written(record: &StreamRecord) -> u64 {
    if !record.output_started() {
        return 0;
    }
    let frames = record.progress().saturating_sub(record.progress_at_output()) + 1;
    record.text_bytes().div_ceil(BYTES_PER_TOKEN).max(frames)
}

/// Makes counts agree with each other: no part is larger than its whole, and the lifetimes of what was written to the
/// cache come to what was written.
///
/// Where a provider tells one lifetime, the rest is the other's; where it tells more than it wrote, what lives for an
/// hour counts first, since it costs more. What nobody told stays untold.
#[must_use]
pub fn normalise(mut usage: Usage) -> Usage {
    if let (None, Some(_), _) | (None, _, Some(_)) = (usage.cache_write, usage.cache_write_5m, usage.cache_write_1h) {
        let parts = [usage.cache_write_5m, usage.cache_write_1h];
        usage.cache_write = Some(parts.into_iter().flatten().fold(0, u64::saturating_add));
    }
    if let Some(write) = usage.cache_write {
        let (short, long) = match (usage.cache_write_5m, usage.cache_write_1h) {
            (None, None) => (None, None),
            (Some(short), None) => (Some(short.min(write)), Some(write - short.min(write))),
            (_, Some(long)) => (Some(write - long.min(write)), Some(long.min(write))),
        };
        (usage.cache_write_5m, usage.cache_write_1h) = (short, long);
    }
    usage.reasoning = match (usage.reasoning, usage.output) {
        (Some(reasoning), Some(output)) => Some(reasoning.min(output)),
        (reasoning, _) => reasoning,
    };
    usage
}
