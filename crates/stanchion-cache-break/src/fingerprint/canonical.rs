//! One canonical form of JSON: keys in order, and no blanks, escapes or spellings of numbers.
//!
//! A value begins with a tag; a text or number has its length behind that, an object or array ends with a tag of its own:
//! so no two values come to the same bytes.

use super::{json::Text, number::plain_number};

const NULL: u8 = b'0';
const FALSE: u8 = b'f';
const TRUE: u8 = b't';
const TEXT: u8 = b's';
/// A text with half of a surrogate pair, as it was written.
const RAW: u8 = b'r';
const POSITIVE: u8 = b'+';
const NEGATIVE: u8 = b'-';
/// What looks like a number and is none, or beyond reason.
const ODD: u8 = b'?';
const OBJECT: u8 = b'{';
const OBJECT_END: u8 = b'}';
const ARRAY: u8 = b'[';
const ARRAY_END: u8 = b']';

/// Writes values one behind the other.
#[derive(Debug, Default)]
pub(super) struct Writer {
    bytes: Vec<u8>,
    /// The members of every object that is being written, the innermost last.
    members: Vec<Member>,
    /// What is being put in order.
    spare: Vec<u8>,
}

/// A member of an object, by its places in what is written.
#[derive(Debug, Clone, Copy)]
struct Member {
    /// The beginning of the key: of most keys no more has to be compared.
    begins: u64,
    start: usize,
    key: usize,
    value: usize,
    end: usize,
}

/// An object that is being written.
#[derive(Debug)]
pub(super) struct OpenObject {
    /// Where its members begin, among bytes and among members.
    start: usize,
    members: usize,
}

impl Writer {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.members.clear();
    }

    /// A tag and a length: seven bits a byte, the least first. Most lengths are one byte.
    pub(super) fn tag(&mut self, tag: u8, mut length: usize) {
        if length <= 0x7f {
            self.bytes.extend_from_slice(&[tag, length as u8]);
            return;
        }
        self.bytes.push(tag);
        while length > 0x7f {
            self.bytes.push(length as u8 | 0x80);
            length >>= 7;
        }
        self.bytes.push(length as u8);
    }

    fn tagged(&mut self, tag: u8, bytes: &[u8]) {
        self.tag(tag, bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn null(&mut self) {
        self.bytes.push(NULL);
    }

    pub(super) fn bool(&mut self, value: bool) {
        self.bytes.push(if value { TRUE } else { FALSE });
    }

    pub(super) fn text(&mut self, text: &Text<'_>) {
        match text {
            Text::Raw(raw) => self.tagged(RAW, raw.as_bytes()),
            other => self.plain_text(other.as_str()),
        }
    }

    pub(super) fn plain_text(&mut self, text: &str) {
        self.tagged(TEXT, text.as_bytes());
    }

    pub(super) fn number(&mut self, number: &str) {
        // Most numbers are whole and have no sign: a count of zeros, and what is before them.
        if !number.starts_with('0') && number.bytes().all(|byte| byte.is_ascii_digit()) {
            let digits = number.trim_end_matches('0');
            let zeros = number.len() - digits.len();
            return self.worth(POSITIVE, digits, i64::try_from(zeros).unwrap_or(i64::MAX));
        }
        match plain_number(number) {
            Some((negative, digits, exponent)) => {
                self.worth(if negative { NEGATIVE } else { POSITIVE }, &digits, exponent);
            }
            None => self.tagged(ODD, number.as_bytes()),
        }
    }

    fn worth(&mut self, sign: u8, digits: &str, exponent: i64) {
        self.tagged(sign, digits.as_bytes());
        self.bytes.extend_from_slice(&exponent.to_le_bytes());
    }

    /// Values that are written already.
    pub(super) fn written(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn begin_array(&mut self) {
        self.bytes.push(ARRAY);
    }

    pub(super) fn end_array(&mut self) {
        self.bytes.push(ARRAY_END);
    }

    pub(super) fn begin_object(&mut self) -> OpenObject {
        self.bytes.push(OBJECT);
        OpenObject { start: self.bytes.len(), members: self.members.len() }
    }

    /// The key of a member; its value is to follow.
    pub(super) fn begin_member(&mut self, key: &Text<'_>) {
        let start = self.bytes.len();
        self.text(key);
        let value = self.bytes.len();
        let key = value - key.as_str().len();
        let mut begins = [0; 8];
        let known = (value - key).min(8);
        begins[..known].copy_from_slice(&self.bytes[key..key + known]);
        self.members.push(Member { begins: u64::from_be_bytes(begins), start, key, value, end: value });
    }

    /// The value of the last member that was begun and not ended is written.
    pub(super) fn end_member(&mut self) {
        let end = self.bytes.len();
        if let Some(member) = self.members.last_mut() {
            member.end = end;
        }
    }

    /// Puts the members in order. Of two equal keys the first stays the first.
    pub(super) fn end_object(&mut self, object: OpenObject) {
        let members = &mut self.members[object.members..];
        let bytes = &self.bytes;
        let order = |a: &Member, b: &Member| {
            a.begins.cmp(&b.begins).then_with(|| bytes[a.key..a.value].cmp(&bytes[b.key..b.value]))
        };
        if !members.is_sorted_by(|a, b| order(a, b).is_le()) {
            members.sort_by(order);
            self.spare.clear();
            for member in &*members {
                self.spare.extend_from_slice(&self.bytes[member.start..member.end]);
            }
            self.bytes[object.start..].copy_from_slice(&self.spare);
        }
        self.members.truncate(object.members);
        self.bytes.push(OBJECT_END);
    }

    /// An object whose members come in order already.
    pub(super) fn begin_sorted(&mut self) {
        self.bytes.push(OBJECT);
    }

    pub(super) fn end_sorted(&mut self) {
        self.bytes.push(OBJECT_END);
    }
}
