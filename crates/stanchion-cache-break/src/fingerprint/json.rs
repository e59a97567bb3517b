//! JSON as it is written: numbers and odd strings keep their spelling, so that nothing is lost before it is compared.
//!
//! What somebody has to look into becomes a tree. Everything else, which is most of a tool's schema, is written in its
//! [canonical form](super::canonical) as it is read.

use memchr::memchr2;

use super::canonical::Writer;

/// Deeper documents are not read.
const MAX_DEPTH: usize = 128;
/// What one body may have of values, keys not counted: memory is bounded by it, not by the length of a body of tiny values.
const MAX_VALUES: usize = 1 << 18;

/// A call of the search costs as much as so many words of eight bytes.
const SHORT: usize = 3;

/// A value, borrowed from its text.
#[derive(Debug, PartialEq)]
pub(super) enum Json<'a> {
    Null,
    Bool(bool),
    Number(&'a str),
    Text(Text<'a>),
    Array(Vec<Self>),
    /// By key. Of two equal ones the first is the first.
    Object(Vec<(Text<'a>, Self)>),
    /// An object or array that nobody looks into, in its canonical form.
    Written(Box<[u8]>),
}

/// What of a value somebody looks into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Open {
    /// Nothing: it is compared as a whole.
    Nothing,
    /// The members or items, as wholes.
    One,
    /// A tool: it, the function in it or the list of functions, and a breakpoint.
    Tool,
    /// A message or block: it, its blocks, the length of their text, and breakpoints.
    Message,
}

impl Open {
    /// What of a member's value is open, in an object that is.
    fn member(self, key: &str) -> Self {
        match (self, key) {
            (Self::Tool, "functionDeclarations" | "function_declarations") => Self::Tool,
            (Self::Tool, "function" | "custom" | BREAKPOINT) | (Self::Message, BREAKPOINT) => Self::One,
            (Self::Message, "content" | "parts" | "source" | "text") => Self::Message,
            _ => Self::Nothing,
        }
    }

    /// What of an item is open, in an array that is.
    fn item(self) -> Self {
        if self == Self::One { Self::Nothing } else { self }
    }
}

/// Where a breakpoint is set. It says what to cache, and is no part of what is cached.
pub(super) const BREAKPOINT: &str = "cache_control";

/// A string.
#[derive(Debug, PartialEq)]
pub(super) enum Text<'a> {
    Plain(&'a str),
    Unescaped(String),
    /// Between its quotes. It holds half of a surrogate pair, which no Rust string can.
    Raw(&'a str),
}

impl Text<'_> {
    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Plain(text) | Self::Raw(text) => text,
            Self::Unescaped(text) => text,
        }
    }
}

impl<'a> Json<'a> {
    pub(super) fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text.as_str()) } else { None }
    }

    /// The member of this name, if this is an object that has it.
    pub(super) fn get(&self, name: &str) -> Option<&Json<'a>> {
        let Self::Object(members) = self else { return None };
        members.iter().find(|(key, _)| key.as_str() == name).map(|(_, value)| value)
    }
}

/// Reads values one by one. What it cannot follow ends it.
pub(super) struct Parser<'a> {
    text: &'a str,
    at: usize,
    values: usize,
    depth: usize,
    writer: Writer,
}

impl<'a> Parser<'a> {
    pub(super) fn new(body: &'a [u8]) -> Option<Self> {
        let text = std::str::from_utf8(body).ok()?;
        Some(Self { text, at: 0, values: MAX_VALUES, depth: MAX_DEPTH, writer: Writer::default() })
    }

    /// The next byte that is no blank.
    pub(super) fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = bytes.get(self.at) {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    fn token(&mut self, wanted: u8) -> Option<()> {
        (self.peek()? == wanted).then(|| self.at += 1)
    }

    fn word(&mut self, word: &str) -> Option<()> {
        self.text.as_bytes()[self.at..].starts_with(word.as_bytes()).then(|| self.at += word.len())
    }

    /// Nothing but blanks follows.
    pub(super) fn end(&mut self) -> Option<()> {
        self.peek().is_none().then_some(())
    }

    /// Goes through an object: `member` reads each value.
    pub(super) fn object(&mut self, mut member: impl FnMut(&mut Self, Text<'a>) -> Option<()>) -> Option<()> {
        self.token(b'{')?;
        self.descend(|this| {
            if this.token(b'}').is_some() {
                return Some(());
            }
            loop {
                this.peek()?;
                let key = this.string()?;
                this.token(b':')?;
                member(this, key)?;
                if this.token(b',').is_none() {
                    return this.token(b'}');
                }
            }
        })
    }

    /// Goes through an array: `item` reads each value.
    pub(super) fn array(&mut self, mut item: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.token(b'[')?;
        self.descend(|this| {
            if this.token(b']').is_some() {
                return Some(());
            }
            loop {
                item(this)?;
                if this.token(b',').is_none() {
                    return this.token(b']');
                }
            }
        })
    }

    fn descend(&mut self, read: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        self.depth = self.depth.checked_sub(1)?;
        read(self)?;
        self.depth += 1;
        Some(())
    }

    /// The next value.
    pub(super) fn value(&mut self, open: Open) -> Option<Json<'a>> {
        let first = self.peek()?;
        if matches!(first, b'{' | b'[') && open == Open::Nothing {
            self.writer.clear();
            self.write()?;
            return Some(Json::Written(self.writer.bytes().into()));
        }
        self.values = self.values.checked_sub(1)?;
        Some(match first {
            b'"' => Json::Text(self.string()?),
            b'{' => {
                let mut members = Vec::new();
                self.object(|this, key| {
                    let value = this.value(open.member(key.as_str()))?;
                    members.push((key, value));
                    Some(())
                })?;
                members.sort_by(|(a, _), (b, _)| a.as_str().cmp(b.as_str()));
                Json::Object(members)
            }
            b'[' => {
                let mut items = Vec::new();
                self.array(|this| this.value(open.item()).map(|value| items.push(value)))?;
                Json::Array(items)
            }
            b'n' => self.word("null").map(|()| Json::Null)?,
            b't' => self.word("true").map(|()| Json::Bool(true))?,
            b'f' => self.word("false").map(|()| Json::Bool(false))?,
            b'-' | b'0'..=b'9' => Json::Number(self.number()),
            _ => return None,
        })
    }

    /// Writes the next value in its canonical form, behind what is written.
    fn write(&mut self) -> Option<()> {
        self.values = self.values.checked_sub(1)?;
        match self.peek()? {
            b'"' => {
                let text = self.string()?;
                self.writer.text(&text);
            }
            b'{' => {
                let object = self.writer.begin_object();
                self.object(|this, key| {
                    this.writer.begin_member(&key);
                    this.write()?;
                    this.writer.end_member();
                    Some(())
                })?;
                self.writer.end_object(object);
            }
            b'[' => {
                self.writer.begin_array();
                self.array(Self::write)?;
                self.writer.end_array();
            }
            b'n' => self.word("null").map(|()| self.writer.null())?,
            b't' => self.word("true").map(|()| self.writer.bool(true))?,
            b'f' => self.word("false").map(|()| self.writer.bool(false))?,
            b'-' | b'0'..=b'9' => {
                let number = self.number();
                self.writer.number(number);
            }
            _ => return None,
        }
        Some(())
    }

    fn number(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let other = |byte: u8| !matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
        let number = &rest[..rest.bytes().position(other).unwrap_or(rest.len())];
        self.at += number.len();
        number
    }

    fn string(&mut self) -> Option<Text<'a>> {
        let bytes = self.text.as_bytes();
        if bytes.get(self.at) != Some(&b'"') {
            return None;
        }
        let (start, mut escaped) = (self.at, false);
        self.at += 1;
        loop {
            self.at += quote_or_escape(bytes.get(self.at..)?)?;
            if bytes[self.at] == b'"' {
                break;
            }
            escaped = true;
            self.at += 2;
        }
        let inner = &self.text[start + 1..self.at];
        self.at += 1;
        if !escaped {
            return Some(Text::Plain(inner));
        }
        let whole = &self.text[start..self.at];
        Some(serde_json::from_str(whole).map_or(Text::Raw(inner), Text::Unescaped))
    }
}

/// Where the next quote or backslash is.
fn quote_or_escape(bytes: &[u8]) -> Option<usize> {
    const LOW: u64 = u64::from_ne_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    // The high bit of every byte of `word` that is `wanted`; above the first such byte of others, too.
    let found = |word: u64, wanted: u8| {
        let differs = word ^ (LOW * u64::from(wanted));
        differs.wrapping_sub(LOW) & !differs & HIGH
    };
    // Most keys end within a few words.
    let (words, _) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().take(SHORT).enumerate() {
        let word = u64::from_le_bytes(*word);
        let ends = found(word, b'"') | found(word, b'\\');
        if ends != 0 {
            return Some(index * 8 + ends.trailing_zeros() as usize / 8);
        }
    }
    let rest = words.len().min(SHORT) * 8;
    memchr2(b'"', b'\\', &bytes[rest..]).map(|at| rest + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_end_where_they_end_whatever_their_length() {
        for length in 0..40 {
            for (inner, escaped) in [("x", false), ("é", false), ("\u{80}", false), (r"\\", true), (r#"\""#, true)] {
                let text = format!("{}{inner}", "\u{ff}.a!".chars().cycle().take(length).collect::<String>());
                let quoted = format!("\"{text}\",\"\\\"");
                let mut parser = Parser::new(quoted.as_bytes()).unwrap();
                let found = parser.string().unwrap();
                assert_eq!(matches!(found, Text::Unescaped(_)), escaped);
                assert_eq!(found.as_str(), serde_json::from_str::<String>(&format!("\"{text}\"")).unwrap());
                assert_eq!(parser.peek(), Some(b','));
            }
            assert!(Parser::new(format!("\"{}", "a".repeat(length)).as_bytes()).unwrap().string().is_none());
        }
    }

    #[test]
    fn only_what_is_looked_into_becomes_a_tree() {
        let shown = |open, text: &'static str| {
            let value = Parser::new(text.as_bytes()).unwrap().value(open).unwrap();
            let shown = format!("{value:?}");
            (shown.matches("Written").count(), shown)
        };
        let message =
            r#"{"content":[{"input":{"a":1},"cache_control":{"ttl":"1h"},"content":[{"text":[2]}]}],"x":[3]}"#;
        assert!(shown(Open::Nothing, message).1.starts_with("Written"));
        assert_eq!(shown(Open::One, message).0, 2);
        let (written, message) = shown(Open::Message, message);
        assert!(
            message.contains(r#"(Plain("ttl"), Text(Plain("1h")))"#) && message.contains(r#"Array([Number("2")])"#)
        );
        assert_eq!(written, 2, "{message}");
        for (tool, written, open) in [
            (r#"{"name":"a","input_schema":{"x":{}},"cache_control":{"ttl":"1h"}}"#, 1, r#"Text(Plain("1h"))"#),
            (r#"{"type":"function","function":{"name":"a","parameters":{"x":{}}}}"#, 1, r#"Text(Plain("a"))"#),
            (r#"{"functionDeclarations":[{"name":"a","parameters":{}}],"googleSearch":{}}"#, 2, r#"Text(Plain("a"))"#),
        ] {
            let (found, shown) = shown(Open::Tool, tool);
            assert!(found == written && shown.contains(open), "{shown}");
        }
    }

    #[test]
    fn values_are_read_as_they_are_written() {
        let read = |text: &'static str| Parser::new(text.as_bytes()).unwrap().value(Open::Message);
        assert_eq!(read("\"a\\n\""), Some(Json::Text(Text::Unescaped("a\n".into()))));
        assert_eq!(read(r#""\ud83d""#), Some(Json::Text(Text::Raw(r"\ud83d"))));
        assert_eq!(read(" [ 1.50 , null ] "), Some(Json::Array(vec![Json::Number("1.50"), Json::Null])));
        assert_eq!(read(r#"{"a":true}"#), Some(Json::Object(vec![(Text::Plain("a"), Json::Bool(true))])));
        for broken in ["", "[", "[1,", "{", "{\"a\"", "{\"a\":}", "nul", "\"a", "\"\\", "?", "{1:2}", "[1 2]", "{,}"] {
            assert_eq!(read(broken), None, "{broken}");
        }
    }

    #[test]
    fn depth_and_number_of_values_are_bounded() {
        let nested = |depth: usize| [vec![b'['; depth], vec![b']'; depth]].concat();
        let many = |values: usize| format!("[{}]", vec!["0"; values].join(",")).into_bytes();
        for open in [Open::Nothing, Open::One, Open::Tool, Open::Message] {
            let is_read = |text: &[u8]| Parser::new(text).unwrap().value(open).is_some();
            assert!(is_read(&nested(MAX_DEPTH)) && !is_read(&nested(MAX_DEPTH + 1)) && !is_read(&nested(1_000_000)));
            assert!(is_read(&many(MAX_VALUES - 1)) && !is_read(&many(MAX_VALUES)));
        }
    }
}
