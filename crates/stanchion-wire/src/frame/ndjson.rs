//! One JSON document a line. LF ends a line; a CR before it and blank lines are tolerated.

use std::borrow::Cow;

use memchr::memchr;

use super::Frame;

pub(super) fn find_end(bytes: &[u8], from: usize) -> Option<usize> {
    memchr(b'\n', &bytes[from..]).map(|found| from + found + 1)
}

pub(super) fn parse<'a>(raw: &'a [u8], text: &'a [u8]) -> Frame<'a> {
    let line = text.trim_ascii();
    Frame { raw, event: None, data: (!line.is_empty()).then_some(Cow::Borrowed(line)), comment: false }
}
