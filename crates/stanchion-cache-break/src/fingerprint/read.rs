//! What stands where in each dialect's request.

use stanchion_core::Dialect;

use super::{
    Breakpoint, CacheLifetime, Fingerprint, FingerprintBounds, Section, Tool,
    digest::{Canonical, Digest, of_digests},
    json::{BREAKPOINT, Json, Open, Parser},
};

/// Ever more of them are counted as these.
const MAX_BREAKPOINTS: usize = 32;

/// What a member of the request is.
enum Part {
    Model,
    System,
    Tools,
    Messages,
    /// What was sent before is named, not sent.
    Continued,
    /// A breakpoint of the whole request.
    Breakpoint,
    Ignored,
    /// Policy, but for some of its members.
    Generation,
    Policy,
}

/// What no cache looks at: it stands behind the prompt, or says nothing of it.
const UNKEYED: [&str; 15] = [
    "stream",
    "stream_options",
    "metadata",
    "labels",
    "safety_identifier",
    "store",
    "background",
    "include",
    "seed",
    "stop",
    "stop_sequences",
    "n",
    "prediction",
    "logprobs",
    "top_logprobs",
];

/// The same within Gemini's `generationConfig`.
const UNKEYED_GENERATION: [&str; 8] = [
    "seed",
    "stopSequences",
    "stop_sequences",
    "candidateCount",
    "candidate_count",
    "responseLogprobs",
    "response_logprobs",
    "logprobs",
];

fn part(dialect: Dialect, key: &str) -> Part {
    match (dialect, key) {
        (_, "model") => Part::Model,
        (_, key) if UNKEYED.contains(&key) => Part::Ignored,
        (Dialect::GeminiGenerateContent, "generationConfig" | "generation_config") => Part::Generation,
        (Dialect::OpenAiChat | Dialect::AnthropicMessages, "messages")
        | (Dialect::OpenAiResponses, "input")
        | (Dialect::GeminiGenerateContent, "contents") => Part::Messages,
        (_, "tools") | (Dialect::OpenAiChat, "functions") => Part::Tools,
        (Dialect::OpenAiResponses, "instructions")
        | (Dialect::AnthropicMessages, "system")
        | (Dialect::GeminiGenerateContent, "systemInstruction" | "system_instruction") => Part::System,
        (Dialect::OpenAiResponses, "previous_response_id" | "conversation") => Part::Continued,
        (Dialect::AnthropicMessages | Dialect::OpenAiChat, BREAKPOINT) => Part::Breakpoint,
        _ => Part::Policy,
    }
}

pub(super) fn read(dialect: Dialect, body: &[u8], bounds: FingerprintBounds) -> Option<Fingerprint> {
    if matches!(dialect, Dialect::OpenAiEmbeddings | Dialect::Ollama) {
        return None;
    }
    let mut parser = Parser::new(body)?;
    let mut reader = Reader::new(dialect, bounds);
    parser.object(|parser, key| reader.member(parser, key.as_str()))?;
    parser.end()?;
    Some(reader.finish())
}

struct Reader {
    dialect: Dialect,
    bounds: FingerprintBounds,
    canonical: Canonical,
    model: Option<Digest>,
    /// Of the member, and of the leading messages: whichever is written first.
    system: [Digest; 2],
    /// Whether all messages so far are the system's.
    leading: bool,
    system_chars: u64,
    policy: Vec<(String, Digest)>,
    tools: Vec<Tool>,
    tool_count: u64,
    /// Of the tools beyond the bound, in order.
    more_tools: Digest,
    rolling: Digest,
    messages: Vec<u64>,
    message_count: u64,
    breakpoints: Vec<Breakpoint>,
    /// Of what lives for five minutes and for longer.
    lifetimes: (bool, bool),
    day: bool,
    first_user: Option<Digest>,
    continues: bool,
}

impl Reader {
    fn new(dialect: Dialect, bounds: FingerprintBounds) -> Self {
        Self {
            dialect,
            bounds,
            canonical: Canonical::default(),
            model: None,
            system: Default::default(),
            leading: true,
            system_chars: 0,
            policy: Vec::new(),
            tools: Vec::new(),
            tool_count: 0,
            more_tools: Digest::default(),
            rolling: Digest::default(),
            messages: Vec::new(),
            message_count: 0,
            breakpoints: Vec::new(),
            lifetimes: (false, false),
            day: false,
            first_user: None,
            continues: false,
        }
    }

    fn member(&mut self, parser: &mut Parser<'_>, key: &str) -> Option<()> {
        match part(self.dialect, key) {
            Part::Messages => {
                if parser.peek()? == b'[' {
                    return parser.array(|parser| parser.value(Open::Message).map(|message| self.message(&message)));
                }
                let value = parser.value(Open::Message)?;
                self.message(&value);
            }
            Part::Tools => {
                if parser.peek()? == b'[' {
                    return parser.array(|parser| parser.value(Open::Tool).map(|tool| self.tool(&tool)));
                }
                let value = parser.value(Open::Nothing)?;
                self.policy(key, &value);
            }
            Part::System => {
                let value = parser.value(Open::Message)?;
                self.system_prompt(&value);
            }
            Part::Model => {
                let value = parser.value(Open::Nothing)?;
                self.canonical.value(&value);
                self.model = Some(self.canonical.finish());
            }
            Part::Continued => self.continues |= parser.value(Open::Nothing)? != Json::Null,
            Part::Ignored => drop(parser.value(Open::Nothing)?),
            Part::Breakpoint => {
                let value = parser.value(Open::One)?;
                // It stands at the end, wherever that is.
                self.mark(&value, Section::Messages, u32::MAX);
            }
            Part::Generation => {
                let mut value = parser.value(Open::One)?;
                if let Json::Object(members) = &mut value {
                    members.retain(|(key, _)| !UNKEYED_GENERATION.contains(&key.as_str()));
                }
                self.policy(key, &value);
            }
            Part::Policy => {
                let value = parser.value(Open::Nothing)?;
                self.day |= key == "prompt_cache_retention" && value.as_text() == Some("24h");
                self.policy(key, &value);
            }
        }
        Some(())
    }

    fn policy(&mut self, key: &str, value: &Json<'_>) {
        self.canonical.value(value);
        self.policy.push((key.to_owned(), self.canonical.finish()));
    }

    fn system_prompt(&mut self, value: &Json<'_>) {
        self.canonical.content(value);
        let digest = self.canonical.finish();
        self.add_system(0, &digest, value);
        if let Json::Array(blocks) = value {
            for (index, block) in blocks.iter().enumerate() {
                self.marks(block, Section::System, index as u32);
            }
        }
    }

    fn add_system(&mut self, to: usize, digest: &Digest, value: &Json<'_>) {
        self.system[to] = of_digests([&self.system[to], digest]);
        self.system_chars += utf16_length(value);
    }

    fn message(&mut self, message: &Json<'_>) {
        self.canonical.message(message);
        let digest = self.canonical.finish();
        let role = message.get("role").and_then(Json::as_text);
        let openai = matches!(self.dialect, Dialect::OpenAiChat | Dialect::OpenAiResponses);
        self.leading &= openai && matches!(role, Some("system" | "developer"));
        if self.leading {
            self.add_system(1, &digest, message);
            self.marks(message, Section::System, 0);
            return;
        }
        // A text alone, or without a role, is a user's.
        let users = match self.dialect {
            Dialect::OpenAiResponses => role == Some("user") || matches!(message, Json::Text(_)),
            Dialect::GeminiGenerateContent => role.is_none_or(|role| role == "user"),
            _ => role == Some("user"),
        };
        if users && self.first_user.is_none() {
            self.first_user = Some(digest);
        }
        self.rolling = of_digests([&self.rolling, &digest]);
        if self.messages.len() < self.bounds.messages {
            let mut start = [0; 8];
            start.copy_from_slice(&self.rolling[..8]);
            self.messages.push(u64::from_le_bytes(start));
        }
        let index = u32::try_from(self.message_count).unwrap_or(u32::MAX - 1);
        self.message_count += 1;
        self.marks(message, Section::Messages, index);
    }

    fn tool(&mut self, tool: &Json<'_>) {
        if self.dialect == Dialect::GeminiGenerateContent
            && let Json::Object(members) = tool
        {
            for (key, value) in members {
                match (key.as_str(), value) {
                    ("functionDeclarations" | "function_declarations", Json::Array(declarations)) => {
                        for declaration in declarations {
                            self.add_tool(declaration, &[declaration.get("name").and_then(Json::as_text)]);
                        }
                    }
                    (kind, value) => self.add_tool(value, &[None, Some(kind)]),
                }
            }
            return;
        }
        let text = |value: &Json<'_>, key: &str| value.get(key).and_then(Json::as_text).map(str::to_owned);
        // By its name, else by what it is and whose.
        let name =
            text(tool, "name").or_else(|| ["function", "custom"].iter().find_map(|kind| text(tool.get(kind)?, "name")));
        let (kind, server) = match name {
            Some(_) => (None, None),
            None => (text(tool, "type"), text(tool, "server_label").or_else(|| text(tool, "mcp_server_name"))),
        };
        let index = u32::try_from(self.tool_count).unwrap_or(u32::MAX);
        self.add_tool(tool, &[name.as_deref(), kind.as_deref(), server.as_deref()]);
        if let Some(mark) = tool.get(BREAKPOINT) {
            self.mark(mark, Section::Tools, index);
        }
    }

    fn add_tool(&mut self, tool: &Json<'_>, identity: &[Option<&str>]) {
        let identity = super::of_parts(identity);
        self.canonical.unmarked(tool);
        let contract = self.canonical.finish();
        self.tool_count += 1;
        if self.tools.len() < self.bounds.tools {
            self.tools.push(Tool { identity: half(&identity), contract: half(&contract) });
        } else {
            self.more_tools = of_digests([&self.more_tools, &identity, &contract]);
        }
    }

    /// The breakpoints of a block or message.
    fn marks(&mut self, value: &Json<'_>, section: Section, index: u32) {
        if let Some(mark) = value.get(BREAKPOINT) {
            self.mark(mark, section, index);
        }
        let source = value.get("source").and_then(|source| source.get("content"));
        for inner in [value.get("content"), source] {
            if let Some(Json::Array(blocks)) = inner {
                for block in blocks {
                    self.marks(block, section, index);
                }
            }
        }
    }

    fn mark(&mut self, mark: &Json<'_>, section: Section, index: u32) {
        if !matches!(mark, Json::Object(_)) {
            return;
        }
        match mark.get("ttl").and_then(Json::as_text) {
            Some("1h") => self.lifetimes.1 = true,
            _ => self.lifetimes.0 = true,
        }
        if self.breakpoints.len() < MAX_BREAKPOINTS {
            self.breakpoints.push(Breakpoint { section, index });
        }
    }

    fn finish(mut self) -> Fingerprint {
        // What is kept for hours is kept without room to grow.
        self.tools.shrink_to_fit();
        self.messages.shrink_to_fit();
        self.breakpoints.shrink_to_fit();
        self.policy.sort();
        for (key, digest) in &self.policy {
            self.canonical.text(key);
            self.canonical.digest(digest);
        }
        let policy = self.canonical.finish();
        let mut sorted = self.tools.clone();
        sorted.sort_unstable();
        self.canonical.tag(b't', sorted.len());
        for Tool { identity, contract } in &sorted {
            self.canonical.digest(&whole(*identity, *contract));
        }
        self.canonical.digest(&self.more_tools);
        let all_tools = self.canonical.finish();
        let lifetime = match (self.day, self.lifetimes) {
            (true, _) => CacheLifetime::Day,
            (false, (false, true)) => CacheLifetime::Long,
            (false, _) => CacheLifetime::Short,
        };
        Fingerprint {
            model: self.model,
            system: of_digests(&self.system),
            system_chars: self.system_chars,
            policy,
            tools: self.tools,
            tool_count: self.tool_count,
            all_tools,
            messages: self.messages,
            message_count: self.message_count,
            breakpoints: self.breakpoints,
            lifetime,
            first_user: self.first_user,
            continues: self.continues,
            omits_zero: self.dialect == Dialect::GeminiGenerateContent,
        }
    }
}

fn half(digest: &Digest) -> [u8; 16] {
    let mut half = [0; 16];
    half.copy_from_slice(&digest[..16]);
    half
}

fn whole(first: [u8; 16], second: [u8; 16]) -> Digest {
    let mut whole = Digest::default();
    whole[..16].copy_from_slice(&first);
    whole[16..].copy_from_slice(&second);
    whole
}

/// The length of the text in a prompt, in UTF-16 units.
fn utf16_length(value: &Json<'_>) -> u64 {
    match value {
        // One unit for each character, and one more for each beyond the basic plane: those have four bytes.
        Json::Text(text) => {
            let units = |byte: u8| u64::from(byte & 0xc0 != 0x80) + u64::from(byte >= 0xf0);
            text.as_str().bytes().map(units).sum()
        }
        Json::Array(items) => items.iter().map(utf16_length).sum(),
        Json::Object(_) => {
            let text = ["text", "content", "parts"].iter().find_map(|key| value.get(key));
            text.map_or(0, utf16_length)
        }
        _ => 0,
    }
}
