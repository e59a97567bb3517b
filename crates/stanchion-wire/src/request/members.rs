//! The members of a JSON object, as they stand in its text.

use std::{borrow::Cow, ops::Range};

use memchr::memchr2;

/// Where one member of an object stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    /// The key, quotes included.
    pub(super) key: Range<usize>,
    pub(super) value: Range<usize>,
}

impl Member {
    /// Whether the key is this one, however it is escaped.
    pub(super) fn is_called(&self, body: &[u8], key: &str) -> bool {
        decode(&body[self.key.clone()]).is_some_and(|name| name == key)
    }

    /// Whether the key is this one, however it is escaped, or one that some servers take for it.
    pub(super) fn is_like(&self, body: &[u8], key: &str) -> bool {
        let quoted = &body[self.key.clone()];
        // Most keys are told apart by their length: an escape only makes one longer, and so does what is no ASCII.
        quoted.len() >= key.len() + 2 && decode(quoted).is_some_and(|name| is_like(&name, key))
    }
}

/// Goes through the top-level members of an object. What it cannot follow ends it.
pub(super) struct Members<'a> {
    scan: Scan<'a>,
    /// What stands before the next member.
    before: u8,
}

impl<'a> Members<'a> {
    pub(super) fn of(body: &'a [u8]) -> Self {
        Self { scan: Scan { body, at: 0 }, before: b'{' }
    }
}

impl Iterator for Members<'_> {
    type Item = Member;

    fn next(&mut self) -> Option<Member> {
        self.scan.token(self.before)?;
        self.before = b',';
        let key = self.scan.string()?;
        self.scan.token(b':')?;
        let value = self.scan.value()?;
        Some(Member { key, value })
    }
}

/// Goes through the elements of an array. What it cannot follow ends it.
pub(super) struct Elements<'a> {
    scan: Scan<'a>,
    /// What stands before the next element.
    before: u8,
}

impl<'a> Elements<'a> {
    pub(super) fn of(body: &'a [u8]) -> Self {
        Self { scan: Scan { body, at: 0 }, before: b'[' }
    }
}

impl Iterator for Elements<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        self.scan.token(self.before)?;
        self.before = b',';
        self.scan.value()
    }
}

/// The text of a JSON string, quotes included; `None` if it is none.
pub(super) fn decode(string: &[u8]) -> Option<Cow<'_, str>> {
    let text = std::str::from_utf8(string).ok()?;
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') { serde_json::from_str(text).ok().map(Cow::Owned) } else { Some(Cow::Borrowed(inner)) }
}

/// Whether some server may take one key for the other: Go's folds case, that of the long s and of the Kelvin sign too.
pub(super) fn is_like(key: &str, name: &str) -> bool {
    key.eq_ignore_ascii_case(name) || !key.is_ascii() && key.to_uppercase().to_lowercase() == name.to_lowercase()
}

/// A walk over JSON that trusts its syntax: the body was checked where it came in. What it cannot follow ends it.
struct Scan<'a> {
    body: &'a [u8],
    at: usize,
}

impl Scan<'_> {
    fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.body.get(self.at) {
            self.at += 1;
        }
        self.body.get(self.at).copied()
    }

    fn token(&mut self, wanted: u8) -> Option<()> {
        (self.peek()? == wanted).then(|| self.at += 1)
    }

    /// A string, quotes included.
    fn string(&mut self) -> Option<Range<usize>> {
        let start = match self.peek()? {
            b'"' => self.at,
            _ => return None,
        };
        self.at += 1;
        loop {
            self.at += memchr2(b'"', b'\\', self.body.get(self.at..)?)?;
            if self.body[self.at] == b'"' {
                self.at += 1;
                return Some(start..self.at);
            }
            self.at += 2;
        }
    }

    fn value(&mut self) -> Option<Range<usize>> {
        let first = self.peek()?;
        let start = self.at;
        match first {
            b'"' => return self.string(),
            b'{' | b'[' => {
                let mut depth = 0_usize;
                loop {
                    match self.body.get(self.at)? {
                        b'"' => {
                            self.string()?;
                            continue;
                        }
                        b'{' | b'[' => depth += 1,
                        b'}' | b']' => depth -= 1,
                        _ => {}
                    }
                    self.at += 1;
                    if depth == 0 {
                        break;
                    }
                }
            }
            _ => {
                let rest = &self.body[start..];
                self.at +=
                    rest.iter().position(|byte| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r'))?;
            }
        }
        Some(start..self.at)
    }
}
