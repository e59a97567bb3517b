//! SHA-256 of values in their canonical form.

use sha2::{Digest as _, Sha256};

use super::{
    canonical::Writer,
    json::{BREAKPOINT, Json},
};

/// A SHA-256.
pub(crate) type Digest = [u8; 32];

/// Hashes what is written to it.
#[derive(Default)]
pub(super) struct Canonical {
    writer: Writer,
}

impl Canonical {
    /// The digest of what was written since the last one.
    pub(super) fn finish(&mut self) -> Digest {
        let digest = Sha256::digest(self.writer.bytes());
        self.writer.clear();
        digest.into()
    }

    pub(super) fn tag(&mut self, tag: u8, length: usize) {
        self.writer.tag(tag, length);
    }

    pub(super) fn text(&mut self, text: &str) {
        self.writer.plain_text(text);
    }

    pub(super) fn digest(&mut self, digest: &Digest) {
        self.writer.tag(b'h', digest.len());
        self.writer.written(digest);
    }

    /// A value, keys in order.
    pub(super) fn value(&mut self, value: &Json<'_>) {
        match value {
            Json::Null => self.writer.null(),
            Json::Bool(value) => self.writer.bool(*value),
            Json::Number(number) => self.writer.number(number),
            Json::Text(text) => self.writer.text(text),
            Json::Written(bytes) => self.writer.written(bytes),
            Json::Array(items) => self.array(items, Self::value),
            Json::Object(_) => self.object(value, None, |this, _, value| this.value(value)),
        }
    }

    /// An object without the breakpoint of its own, if it has one.
    pub(super) fn unmarked(&mut self, value: &Json<'_>) {
        self.object(value, Some(BREAKPOINT), |this, _, value| this.value(value));
    }

    /// A message or a block of one. Breakpoints in it are left out; a text that is written as one block of text, as it
    /// must be to bear a breakpoint, is the same text.
    pub(super) fn message(&mut self, value: &Json<'_>) {
        self.object(value, Some(BREAKPOINT), |this, key, value| match key {
            "content" => this.content(value),
            // Of a document, whose source may be blocks.
            "source" => this.message(value),
            _ => this.value(value),
        });
    }

    pub(super) fn content(&mut self, content: &Json<'_>) {
        match content {
            Json::Text(text) => {
                // As the block below would be.
                self.writer.begin_array();
                self.writer.begin_sorted();
                self.writer.plain_text("text");
                self.writer.text(text);
                self.writer.plain_text("type");
                self.writer.plain_text("text");
                self.writer.end_sorted();
                self.writer.end_array();
            }
            Json::Array(blocks) => self.array(blocks, Self::message),
            other => self.value(other),
        }
    }

    fn array(&mut self, items: &[Json<'_>], write: fn(&mut Self, &Json<'_>)) {
        self.writer.begin_array();
        for item in items {
            write(self, item);
        }
        self.writer.end_array();
    }

    /// Every member but the one of that name, as `write` does it. What is no object is a value like others.
    fn object(&mut self, value: &Json<'_>, but: Option<&str>, write: fn(&mut Self, &str, &Json<'_>)) {
        let Json::Object(members) = value else { return self.value(value) };
        self.writer.begin_sorted();
        for (key, value) in members.iter().filter(|(key, _)| Some(key.as_str()) != but) {
            self.writer.text(key);
            write(self, key.as_str(), value);
        }
        self.writer.end_sorted();
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
