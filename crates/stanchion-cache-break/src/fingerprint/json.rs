//! JSON as it is written: numbers and odd strings keep their spelling, so that nothing is lost before it is compared.

use memchr::memchr2;

/// Deeper documents are not read.
const MAX_DEPTH: usize = 128;
/// What one body may have of values, keys not counted: memory is bounded by it, not by the length of a body of tiny values.
const MAX_VALUES: usize = 1 << 18;

/// A call of the search costs as much as so many bytes looked at one by one.
const SHORT: usize = 16;

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
}

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
}

impl<'a> Parser<'a> {
    pub(super) fn new(body: &'a [u8]) -> Option<Self> {
        let text = std::str::from_utf8(body).ok()?;
        Some(Self { text, at: 0, values: MAX_VALUES, depth: MAX_DEPTH })
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

    pub(super) fn value(&mut self) -> Option<Json<'a>> {
        self.values = self.values.checked_sub(1)?;
        Some(match self.peek()? {
            b'"' => Json::Text(self.string()?),
            b'{' => {
                let mut members = Vec::new();
                self.object(|this, key| this.value().map(|value| members.push((key, value))))?;
                members.sort_by(|(a, _), (b, _)| a.as_str().cmp(b.as_str()));
                Json::Object(members)
            }
            b'[' => {
                let mut items = Vec::new();
                self.array(|this| this.value().map(|value| items.push(value)))?;
                Json::Array(items)
            }
            b'n' => self.word("null").map(|()| Json::Null)?,
            b't' => self.word("true").map(|()| Json::Bool(true))?,
            b'f' => self.word("false").map(|()| Json::Bool(false))?,
            b'-' | b'0'..=b'9' => {
                let rest = &self.text[self.at..];
                let other = |byte: u8| !matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
                let number = &rest[..rest.bytes().position(other).unwrap_or(rest.len())];
                self.at += number.len();
                Json::Number(number)
            }
            _ => return None,
        })
    }

    fn string(&mut self) -> Option<Text<'a>> {
        let bytes = self.text.as_bytes();
        if bytes.get(self.at) != Some(&b'"') {
            return None;
        }
        let (start, mut escaped) = (self.at, false);
        self.at += 1;
        // Most keys end here.
        while bytes.get(self.at).is_some_and(|byte| !matches!(byte, b'"' | b'\\')) && self.at < start + SHORT {
            self.at += 1;
        }
        loop {
            self.at += memchr2(b'"', b'\\', bytes.get(self.at..)?)?;
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

/// A number in one spelling: sign, digits without outer zeros, exponent of ten. `None` if it is none, or beyond reason.
pub(super) fn plain_number(number: &str) -> Option<(bool, String, i64)> {
    let (negative, rest) = number.strip_prefix('-').map_or((false, number), |rest| (true, rest));
    let (mantissa, exponent) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut exponent = exponent.parse::<i64>().ok()?.checked_sub(i64::try_from(fraction.len()).ok()?)?;
    let mut digits = String::with_capacity(mantissa.len());
    digits.extend([whole, fraction]);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let kept = digits.trim_end_matches('0').len();
    exponent = exponent.checked_add(i64::try_from(digits.len() - kept).ok()?)?;
    digits.truncate(kept);
    let leading = digits.len() - digits.trim_start_matches('0').len();
    digits.drain(..leading);
    Some(if digits.is_empty() { (false, digits, 0) } else { (negative, digits, exponent) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_what_they_are_worth() {
        let same = |a, b| assert_eq!(plain_number(a), plain_number(b), "{a} and {b}");
        for (a, b) in
            [("1", "1.0"), ("1", "10e-1"), ("100", "1E2"), ("-0.50", "-5e-1"), ("0", "-0.00e9"), ("1e+2", "100")]
        {
            same(a, b);
        }
        // More digits than a float keeps.
        same("9007199254740993", "9007199254740993.0");
        for (a, b) in
            [("1", "-1"), ("1", "10"), ("9007199254740992", "9007199254740993"), ("0.1", "0.10000000000000001")]
        {
            assert_ne!(plain_number(a), plain_number(b), "{a} and {b}");
        }
        for odd in ["", "-", "1e", "1.2.3", "1e99999999999999999999", "+1", "1-2"] {
            assert_eq!(plain_number(odd), None, "{odd}");
        }
    }

    #[test]
    fn values_are_read_as_they_are_written() {
        let read = |text: &'static str| Parser::new(text.as_bytes()).unwrap().value();
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
        assert!(Parser::new(&nested(MAX_DEPTH)).unwrap().value().is_some());
        assert!(Parser::new(&nested(MAX_DEPTH + 1)).unwrap().value().is_none());
        assert!(Parser::new(&nested(1_000_000)).unwrap().value().is_none());
        let many = |values: usize| format!("[{}]", vec!["0"; values].join(","));
        assert!(Parser::new(many(MAX_VALUES - 1).as_bytes()).unwrap().value().is_some());
        assert!(Parser::new(many(MAX_VALUES).as_bytes()).unwrap().value().is_none());
    }
}
