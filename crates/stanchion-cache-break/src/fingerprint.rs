//! What a request is made of, as fingerprints: enough to say what changed, not what it says.

mod canonical;
mod digest;
mod json;
mod number;
mod read;
#[cfg(test)]
mod tests;

use std::{fmt, time::Duration};

use stanchion_core::Dialect;

pub(crate) use self::digest::{Digest, of_digests, of_parts, of_text};

/// How much of one request is kept apart. What is beyond is one fingerprint, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FingerprintBounds {
    /// How many messages, from the first. 8 bytes each.
    pub messages: usize,
    /// How many tools, from the first. 32 bytes each.
    pub tools: usize,
}

impl Default for FingerprintBounds {
    /// 1,024 messages and 512 tools: 24 KiB.
    fn default() -> Self {
        Self { messages: 1024, tools: 512 }
    }
}

/// For how long a provider keeps a prompt in its cache after it was last used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CacheLifetime {
    /// Five minutes: Anthropic's default, and what OpenAI promises at least.
    #[default]
    Short,
    /// An hour: Anthropic's `"ttl": "1h"`.
    Long,
    /// A day: OpenAI's `"prompt_cache_retention": "24h"`.
    Day,
}

impl CacheLifetime {
    /// How long that is.
    pub const fn duration(self) -> Duration {
        Duration::from_secs(match self {
            Self::Short => 300,
            Self::Long => 3_600,
            Self::Day => 86_400,
        })
    }
}

/// The fingerprints of one request.
///
/// SHA-256 over one canonical form of JSON: the order of keys, blanks, escapes and the spelling of numbers change
/// nothing; any other change does. Of messages the first 8 bytes are kept, of tools the first 16; everything else is
/// kept whole. No text, name or schema is.
///
/// | part | OpenAI chat | OpenAI Responses | Anthropic | Gemini |
/// |---|---|---|---|---|
/// | system | leading messages of `system` or `developer` | `instructions`, and such messages | `system` | `systemInstruction` |
/// | tools | `tools`, `functions` | `tools` | `tools` | `tools`, each declaration apart |
/// | messages | the rest of `messages` | the rest of `input` | `messages` | `contents` |
/// | policy | every other member | every other member | every other member | every other member |
///
/// No part of the policy: `model`, which is told apart; `previous_response_id` and `conversation`, whose prefix is out of
/// sight; and what no cache looks at, since it stands behind the prompt or says nothing of it. That is `stream`,
/// `stream_options`, `metadata`, `labels`, `safety_identifier`, `store`, `background`, `include`, `seed`, `stop`,
/// `stop_sequences`, `n`, `prediction`, `logprobs` and `top_logprobs`; and of Gemini's `generationConfig` `seed`,
/// `stopSequences`, `candidateCount`, `responseLogprobs` and `logprobs`. `user` is one: OpenAI finds caches by it.
///
/// Breakpoints (`cache_control` of a tool, of a block of system or message, or of the request) are no part of any of
/// these: they move on with a conversation. They are kept as places. What bears one is a block, so a text and one block
/// of that text are the same.
#[derive(Clone, PartialEq, Eq)]
pub struct Fingerprint {
    pub(crate) model: Option<Digest>,
    pub(crate) system: Digest,
    pub(crate) system_chars: u64,
    pub(crate) policy: Digest,
    /// As they were sent.
    pub(crate) tools: Vec<Tool>,
    pub(crate) tool_count: u64,
    /// Of all of them; the order of the first ones does not matter.
    pub(crate) all_tools: Digest,
    /// Each is of its message and of all before it.
    pub(crate) messages: Vec<u64>,
    pub(crate) message_count: u64,
    pub(crate) breakpoints: Vec<Breakpoint>,
    pub(crate) lifetime: CacheLifetime,
    pub(crate) first_user: Option<Digest>,
    /// Whether the conversation began before the messages that were sent.
    pub(crate) continues: bool,
    /// Whether replies leave a count out that is zero.
    pub(crate) omits_zero: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tool {
    pub(crate) identity: [u8; 16],
    pub(crate) contract: [u8; 16],
}

/// Where a breakpoint stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Breakpoint {
    pub(crate) section: Section,
    /// Of the tool, block or message, from 0.
    pub(crate) index: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    Tools,
    System,
    Messages,
}

impl Fingerprint {
    /// Reads a request's body.
    ///
    /// `None` where there is nothing to compare: a dialect without prompt caches that are told of (embeddings, Ollama),
    /// a body that is no JSON object, one that nests deeper than 128 or has more than 262,144 values.
    pub fn read(dialect: Dialect, body: &[u8], bounds: FingerprintBounds) -> Option<Self> {
        read::read(dialect, body, bounds)
    }

    /// How many messages there are, leading system messages not counted.
    pub fn message_count(&self) -> u64 {
        self.message_count
    }

    /// How many tools there are.
    pub fn tool_count(&self) -> u64 {
        self.tool_count
    }

    /// How long the system prompt is, in UTF-16 units.
    pub fn system_chars(&self) -> u64 {
        self.system_chars
    }

    /// How many breakpoints there are. At most 32 are counted; Anthropic allows 4.
    pub fn breakpoint_count(&self) -> u64 {
        self.breakpoints.len() as u64
    }

    /// For how long the prompt is to be kept: of several breakpoints, the shortest.
    pub fn lifetime(&self) -> CacheLifetime {
        self.lifetime
    }

    pub(crate) fn breakpoints_in(&self, section: Section) -> impl Iterator<Item = u32> {
        self.breakpoints.iter().filter(move |point| point.section == section).map(|point| point.index)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fingerprint")
            .field("messages", &self.message_count)
            .field("tools", &self.tool_count)
            .field("breakpoints", &self.breakpoints.len())
            .finish_non_exhaustive()
    }
}
