//! One canonical form of JSON, and its SHA-256.

use sha2::{Digest as _, Sha256};

use super::json::{Json, Text, plain_number};

/// A SHA-256.
pub(crate) type Digest = [u8; 32];

/// What is gathered before it is hashed: small pieces cost more than they are long.
const BUFFER: usize = 4096;
/// Where a breakpoint is set. It says what to cache, and is no part of what is cached.
pub(super) const BREAKPOINT: &str = "cache_control";

/// Hashes what is written to it. Every value has a tag and its length, so that no two documents come to the same bytes.
pub(super) struct Canonical {
    hasher: Sha256,
    buffer: Vec<u8>,
}

impl Canonical {
    pub(super) fn new() -> Self {
        Self { hasher: Sha256::new(), buffer: Vec::with_capacity(BUFFER) }
    }

    /// The digest of what was written since the last one.
    pub(super) fn finish(&mut self) -> Digest {
        self.flush();
        self.hasher.finalize_reset().into()
    }

    fn flush(&mut self) {
        self.hasher.update(&self.buffer);
        self.buffer.clear();
    }

    fn bytes(&mut self, bytes: &[u8]) {
        if self.buffer.len() + bytes.len() > BUFFER {
            self.flush();
        }
        if bytes.len() > BUFFER { self.hasher.update(bytes) } else { self.buffer.extend_from_slice(bytes) }
    }

    pub(super) fn tag(&mut self, tag: u8, mut length: usize) {
        // Seven bits a byte, the least first: most lengths are one.
        let mut bytes = [tag, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let mut end = 1;
        while length > 0x7f {
            bytes[end] = length as u8 | 0x80;
            length >>= 7;
            end += 1;
        }
        bytes[end] = length as u8;
        self.bytes(&bytes[..=end]);
    }

    pub(super) fn text(&mut self, text: &str) {
        self.tag(b's', text.len());
        self.bytes(text.as_bytes());
    }

    fn written(&mut self, text: &Text<'_>) {
        match text {
            Text::Raw(raw) => {
                self.tag(b'r', raw.len());
                self.bytes(raw.as_bytes());
            }
            other => self.text(other.as_str()),
        }
    }

    pub(super) fn digest(&mut self, digest: &Digest) {
        self.tag(b'h', digest.len());
        self.bytes(digest);
    }

    fn number(&mut self, number: &str) {
        // What has no other short spelling: no zero at either end, no sign, no point.
        if let [b'1'..=b'9', .., b'1'..=b'9'] | [b'1'..=b'9'] = number.as_bytes()
            && number.bytes().all(|byte| byte.is_ascii_digit())
        {
            self.tag(b'+', number.len());
            self.bytes(number.as_bytes());
            self.bytes(&0_i64.to_le_bytes());
            return;
        }
        match plain_number(number) {
            Some((negative, digits, exponent)) => {
                self.tag(if negative { b'-' } else { b'+' }, digits.len());
                self.bytes(digits.as_bytes());
                self.bytes(&exponent.to_le_bytes());
            }
            None => {
                self.tag(b'?', number.len());
                self.bytes(number.as_bytes());
            }
        }
    }

    /// A value, keys in order.
    pub(super) fn value(&mut self, value: &Json<'_>) {
        match value {
            Json::Null => self.tag(b'0', 0),
            Json::Bool(value) => self.tag(b'b', usize::from(*value)),
            Json::Number(number) => self.number(number),
            Json::Text(text) => self.written(text),
            Json::Array(items) => {
                self.tag(b'[', items.len());
                for item in items {
                    self.value(item);
                }
            }
            Json::Object(members) => self.object(members, |_| true, |this, _, value| this.value(value)),
        }
    }

    /// An object without the breakpoint of its own, if it has one.
    pub(super) fn unmarked(&mut self, value: &Json<'_>) {
        match value {
            Json::Object(members) => {
                self.object(members, |key| key != BREAKPOINT, |this, _, value| this.value(value));
            }
            other => self.value(other),
        }
    }

    /// A message or a block of one. Breakpoints in it are left out; a text that is written as one block of text, as it
    /// must be to bear a breakpoint, is the same text.
    pub(super) fn message(&mut self, value: &Json<'_>) {
        match value {
            Json::Object(members) => self.object(
                members,
                |key| key != BREAKPOINT,
                |this, key, value| if key == "content" { this.content(value) } else { this.value(value) },
            ),
            other => self.value(other),
        }
    }

    pub(super) fn content(&mut self, content: &Json<'_>) {
        match content {
            Json::Text(text) => {
                // As the block below would be.
                self.tag(b'[', 1);
                self.tag(b'{', 2);
                self.text("text");
                self.written(text);
                self.text("type");
                self.text("text");
            }
            Json::Array(blocks) => {
                self.tag(b'[', blocks.len());
                for block in blocks {
                    self.message(block);
                }
            }
            other => self.value(other),
        }
    }

    fn object(
        &mut self,
        members: &[(Text<'_>, Json<'_>)],
        keep: impl Fn(&str) -> bool,
        write: impl Fn(&mut Self, &str, &Json<'_>),
    ) {
        let kept = || members.iter().filter(|(key, _)| keep(key.as_str()));
        self.tag(b'{', kept().count());
        for (key, value) in kept() {
            self.written(key);
            write(self, key.as_str(), value);
        }
    }
}

/// The digest of one text.
pub(crate) fn of_text(text: &str) -> Digest {
    of_parts(&[Some(text)])
}

/// The digest of several parts, each of which may be missing.
pub(crate) fn of_parts(parts: &[Option<&str>]) -> Digest {
    let mut hasher = Sha256::new();
    for part in parts {
        // One more than the length, so that a missing part is no empty one.
        hasher.update(part.map_or(0, |part| part.len() as u64 + 1).to_le_bytes());
        hasher.update(part.unwrap_or_default());
    }
    hasher.finalize().into()
}

/// One digest of several.
pub(crate) fn of_digests<'a>(digests: impl IntoIterator<Item = &'a Digest>) -> Digest {
    let mut hasher = Sha256::new();
    for digest in digests {
        hasher.update(digest);
    }
    hasher.finalize().into()
}
