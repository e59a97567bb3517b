//! The elements of one JSON array, found by depth and not by line.

use std::borrow::Cow;

use memchr::memchr2;

use super::Frame;

/// Finds where an element ends. Separators and the opening bracket belong to the element after them; the closing bracket is a frame of its own.
#[derive(Debug, Default)]
pub(super) struct JsonArrayScanner {
    /// Depth within the current element; 0 outside.
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl JsonArrayScanner {
    pub(super) fn find_end(&mut self, bytes: &[u8], from: usize) -> Option<usize> {
        let mut at = from;
        while at < bytes.len() {
            if self.in_string {
                if std::mem::replace(&mut self.escaped, false) {
                    at += 1;
                    continue;
                }
                let found = memchr2(b'"', b'\\', &bytes[at..])?;
                at += found + 1;
                if bytes[at - 1] == b'"' {
                    self.in_string = false;
                } else {
                    self.escaped = true;
                }
                continue;
            }
            let byte = bytes[at];
            at += 1;
            match byte {
                b'"' => self.in_string = true,
                b'{' => self.depth += 1,
                // A bracket outside of an element is the array's own.
                b'[' if self.depth > 0 => self.depth += 1,
                b'}' | b']' if self.depth > 1 => self.depth -= 1,
                b'}' if self.depth == 1 => {
                    self.depth = 0;
                    return Some(at);
                }
                b']' if self.depth == 0 => return Some(at),
                _ => {}
            }
        }
        None
    }
}

pub(super) fn parse<'a>(raw: &'a [u8], text: &'a [u8]) -> Frame<'a> {
    let element = text.trim_ascii_start();
    let element = element.strip_prefix(b"[").or(element.strip_prefix(b",")).unwrap_or(element).trim_ascii();
    let has_data = !element.is_empty() && element != b"]";
    Frame { raw, event: None, data: has_data.then_some(Cow::Borrowed(element)), comment: false }
}
