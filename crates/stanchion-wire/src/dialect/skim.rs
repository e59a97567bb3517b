//! A whole reply of the plain kind, read without a tree: why it ended and what it used is picked up while its syntax is checked.
//!
//! What is odd in any way is not understood here, and is parsed: a fault, an empty answer, a member that counts and comes twice, an
//! escape in a name, a number with too many digits. That both readings agree is a property test.

use stanchion_core::{Dialect, Usage};

use super::{
    FrameClass, Reading, anthropic, finish_fault, openai_chat,
    usage::{AnthropicCounts, OpenAiCounts},
};

/// How deep a document is followed, well below what the parser takes.
const MAX_DEPTH: u8 = 32;
/// How many digits of a whole number are taken: it fits whatever they are.
const MAX_DIGITS: usize = 19;

/// Reads a document whose white space around it is gone. `None` sends it to the parser.
pub(super) fn skim(dialect: Dialect, document: &[u8]) -> Option<Reading> {
    let mut walk = Walk { text: document, at: 0, depth: 0 };
    let mut reading = Reading::of(FrameClass::Terminal);
    match dialect {
        Dialect::OpenAiChat => chat(&mut walk, &mut reading)?,
        Dialect::AnthropicMessages => message(&mut walk, &mut reading)?,
        _ => return None,
    }
    // Where nobody counts the output, its text has to be weighed.
    reading.usage.as_ref()?.output?;
    reading.raise(FrameClass::Output);
    (walk.at == document.len()).then_some(reading)
}

fn chat(walk: &mut Walk<'_>, reading: &mut Reading) -> Option<()> {
    let (mut used, mut chosen) = (false, false);
    walk.object(|walk, name| match name {
        b"usage" => {
            first(&mut used)?;
            reading.usage = Some(openai_usage(walk)?);
            Some(())
        }
        b"choices" => {
            first(&mut chosen)?;
            let mut any = false;
            walk.array(|walk| {
                any = true;
                let mut ended = None;
                walk.object(|walk, name| match name {
                    b"finish_reason" => ended.replace(walk.plain()?).is_none().then_some(()),
                    _ => walk.skip(),
                })?;
                // Whether there is anything in an answer matters only as long as the model does not say that it has finished.
                let reason = std::str::from_utf8(ended?).ok().filter(|reason| !reason.is_empty())?;
                reading.finish = Some(openai_chat::finish_reason(reason));
                finish_fault(Dialect::OpenAiChat, reason).is_none().then_some(())
            })?;
            any.then_some(())
        }
        b"error" => walk.null(),
        b"object" => (walk.plain()? != b"error").then_some(()),
        b"type" | b"code" => None,
        _ => walk.skip(),
    })
}

fn message(walk: &mut Walk<'_>, reading: &mut Reading) -> Option<()> {
    let (mut used, mut ended) = (false, None);
    walk.object(|walk, name| match name {
        b"usage" => {
            first(&mut used)?;
            reading.usage = Some(anthropic_usage(walk)?);
            Some(())
        }
        b"stop_reason" => ended.replace(walk.plain()?).is_none().then_some(()),
        b"type" => (walk.plain()? == b"message").then_some(()),
        b"error" => walk.null(),
        b"object" | b"code" => None,
        _ => walk.skip(),
    })?;
    reading.finish = Some(anthropic::stop_reason(std::str::from_utf8(ended?).ok()?));
    Some(())
}

fn openai_usage(walk: &mut Walk<'_>) -> Option<Usage> {
    let mut counts = OpenAiCounts::default();
    let (mut prompt_told, mut completion_told) = (false, false);
    walk.object(|walk, name| match name {
        b"prompt_tokens" | b"input_tokens" => walk.count(&mut counts.prompt),
        b"completion_tokens" | b"output_tokens" => walk.count(&mut counts.completion),
        b"total_tokens" => walk.count(&mut counts.total),
        b"cached_tokens" | b"prompt_cache_hit_tokens" | b"num_cached_tokens" | b"cache_read_input_tokens" => {
            walk.count(&mut counts.cache_read)
        }
        b"cache_creation_input_tokens" => walk.count(&mut counts.cache_write),
        b"prompt_tokens_details" | b"input_tokens_details" | b"prompt_token_details" => {
            first(&mut prompt_told)?;
            walk.object_or_null(|walk, name| match name {
                b"cached_tokens" => walk.count(&mut counts.cache_read),
                b"cache_write_tokens" | b"cache_creation_input_tokens" => walk.count(&mut counts.cache_write),
                _ => walk.skip(),
            })
        }
        b"completion_tokens_details" | b"output_tokens_details" => {
            first(&mut completion_told)?;
            walk.object_or_null(|walk, name| match name {
                b"reasoning_tokens" => walk.count(&mut counts.reasoning),
                _ => walk.skip(),
            })
        }
        _ => walk.skip(),
    })?;
    counts.usage()
}

fn anthropic_usage(walk: &mut Walk<'_>) -> Option<Usage> {
    let mut counts = AnthropicCounts::default();
    let (mut split, mut details) = (false, false);
    walk.object(|walk, name| match name {
        b"input_tokens" => walk.count(&mut counts.input),
        b"output_tokens" => walk.count(&mut counts.output),
        b"cache_read_input_tokens" => walk.count(&mut counts.cache_read),
        b"cache_creation_input_tokens" => walk.count(&mut counts.cache_write),
        b"cache_creation" => {
            first(&mut split)?;
            walk.object_or_null(|walk, name| match name {
                b"ephemeral_5m_input_tokens" => walk.count(&mut counts.short),
                b"ephemeral_1h_input_tokens" => walk.count(&mut counts.long),
                _ => walk.skip(),
            })
        }
        b"output_tokens_details" => {
            first(&mut details)?;
            walk.object_or_null(|walk, name| match name {
                b"thinking_tokens" => walk.count(&mut counts.thinking),
                _ => walk.skip(),
            })
        }
        _ => walk.skip(),
    })?;
    counts.usage()
}

/// Gives up at the second time: of several the last counts, and what the first said would have to be taken back.
fn first(met: &mut bool) -> Option<()> {
    (!std::mem::replace(met, true)).then_some(())
}

/// A walk over JSON that takes nothing that the parser refuses.
struct Walk<'a> {
    text: &'a [u8],
    at: usize,
    depth: u8,
}

impl<'a> Walk<'a> {
    fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.text.get(self.at)?;
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    fn take(&mut self, wanted: u8) -> Option<()> {
        (self.peek()? == wanted).then(|| self.at += 1)
    }

    fn literal(&mut self, word: &[u8]) -> Option<()> {
        self.text[self.at..].starts_with(word).then(|| self.at += word.len())
    }

    fn null(&mut self) -> Option<()> {
        self.peek()?;
        self.literal(b"null")
    }

    fn deeper(&mut self) -> Option<()> {
        self.depth += 1;
        (self.depth <= MAX_DEPTH).then_some(())
    }

    /// An object: `member` is asked for each of its values, with its name.
    fn object(&mut self, mut member: impl FnMut(&mut Self, &'a [u8]) -> Option<()>) -> Option<()> {
        self.take(b'{')?;
        self.deeper()?;
        if self.peek()? != b'}' {
            loop {
                let name = self.plain()?;
                // So begins what stands for a number.
                if name.first() == Some(&b'$') {
                    return None;
                }
                self.take(b':')?;
                member(self, name)?;
                if self.peek()? != b',' {
                    break;
                }
                self.at += 1;
            }
        }
        self.depth -= 1;
        self.take(b'}')
    }

    fn object_or_null(&mut self, member: impl FnMut(&mut Self, &'a [u8]) -> Option<()>) -> Option<()> {
        if self.peek()? == b'n' { self.null() } else { self.object(member) }
    }

    fn array(&mut self, mut item: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.take(b'[')?;
        self.deeper()?;
        if self.peek()? != b']' {
            loop {
                item(self)?;
                if self.peek()? != b',' {
                    break;
                }
                self.at += 1;
            }
        }
        self.depth -= 1;
        self.take(b']')
    }

    /// The inside of a string that has no escapes.
    fn plain(&mut self) -> Option<&'a [u8]> {
        self.take(b'"')?;
        let from = self.at;
        self.text_to_mark()?;
        let inside = &self.text[from..self.at];
        self.literal(b"\"")?;
        Some(inside)
    }

    fn string(&mut self) -> Option<()> {
        self.take(b'"')?;
        loop {
            self.text_to_mark()?;
            match self.text[self.at] {
                b'"' => {
                    self.at += 1;
                    return Some(());
                }
                b'\\' => match self.text.get(self.at + 1)? {
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.at += 2,
                    b'u' => match self.unit()? {
                        0xd800..=0xdbff => {
                            (0xdc00..=0xdfff).contains(&self.unit()?).then_some(())?;
                        }
                        // Half of a pair alone is no text.
                        0xdc00..=0xdfff => return None,
                        _ => {}
                    },
                    _ => return None,
                },
                // A control character, which has to be escaped.
                _ => return None,
            }
        }
    }

    /// A unit of UTF-16, written as `\u` and four digits.
    fn unit(&mut self) -> Option<u16> {
        self.literal(b"\\u")?;
        let digits: &[u8; 4] = self.text[self.at..].first_chunk()?;
        self.at += digits.len();
        digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)? as u16))
    }

    /// Goes on to the next quote, escape or control character, eight bytes at a time.
    fn text_to_mark(&mut self) -> Option<()> {
        const ONES: u64 = u64::MAX / 255;
        const HIGHS: u64 = ONES << 7;
        while let Some(word) = self.text.get(self.at..).and_then(<[u8]>::first_chunk) {
            let word = u64::from_le_bytes(*word);
            let below = |word: u64, bound: u64| word.wrapping_sub(ONES * bound) & !word;
            let is = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
            // The lowest mark is a true one; a borrow may only add some above it.
            let marks = (below(word, 0x20) | is(b'"') | is(b'\\')) & HIGHS;
            if marks != 0 {
                self.at += marks.trailing_zeros() as usize / 8;
                return Some(());
            }
            self.at += 8;
        }
        let rest = self.text.get(self.at..)?;
        self.at += rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f))?;
        Some(())
    }

    fn digits(&mut self) -> usize {
        let digits = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += digits;
        digits
    }

    /// A whole number that is written plainly.
    fn natural(&mut self) -> Option<u64> {
        let from = self.at;
        let digits = self.digits();
        let plain = (1..=MAX_DIGITS).contains(&digits) && (digits == 1 || self.text[from] != b'0');
        plain.then(|| self.text[from..self.at].iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
    }

    fn number(&mut self) -> Option<()> {
        if self.text[self.at] == b'-' {
            self.at += 1;
        }
        self.natural()?;
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            (self.digits() > 0).then_some(())?;
        }
        if let Some(b'e' | b'E') = self.text.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.text.get(self.at) {
                self.at += 1;
            }
            // A number of nineteen digits stays finite with these.
            (1..=2).contains(&self.digits()).then_some(())?;
        }
        Some(())
    }

    /// A count of tokens that nothing else has told otherwise, or null where nothing has told it.
    fn count(&mut self, count: &mut Option<u64>) -> Option<()> {
        if self.peek()? == b'n' {
            self.null()?;
            return count.is_none().then_some(());
        }
        let number = self.natural()?;
        // What follows is looked at by the object: a fraction or an exponent ends the walk.
        (count.replace(number).is_none_or(|told| told == number)).then_some(())
    }

    fn skip(&mut self) -> Option<()> {
        match self.peek()? {
            b'"' => self.string(),
            b'{' => self.object(|walk, _| walk.skip()),
            b'[' => self.array(Self::skip),
            b't' => self.literal(b"true"),
            b'f' => self.literal(b"false"),
            b'n' => self.literal(b"null"),
            b'-' | b'0'..=b'9' => self.number(),
            _ => None,
        }
    }
}
