//! Server-Sent Events, as WHATWG HTML §9.2 reads them.

use std::{borrow::Cow, ops::Range};

use memchr::{memchr, memchr2};

use super::{Frame, FrameDecoder};

/// Finds blank lines. Line ends are LF, CRLF and lone CR; a CR and its LF may come in two chunks.
#[derive(Debug)]
pub(super) struct SseScanner {
    /// No byte of the current line has come.
    line_is_empty: bool,
    /// The last byte was a CR that ended a line: a LF after it belongs to it.
    after_carriage_return: bool,
}

impl Default for SseScanner {
    fn default() -> Self {
        Self { line_is_empty: true, after_carriage_return: false }
    }
}

impl SseScanner {
    /// At the start of a chunk and of a frame: how many bytes belong to the line end of the frame before.
    pub(super) fn skip_split_line_feed(&mut self, chunk: &[u8]) -> usize {
        if self.after_carriage_return && !chunk.is_empty() {
            self.after_carriage_return = false;
            return usize::from(chunk[0] == b'\n');
        }
        0
    }

    /// Whether a frame begins here.
    pub(super) fn is_at_start(&self) -> bool {
        self.line_is_empty && !self.after_carriage_return
    }

    pub(super) fn find_end(&mut self, bytes: &[u8], from: usize) -> Option<usize> {
        let mut at = from;
        while at < bytes.len() {
            if std::mem::replace(&mut self.after_carriage_return, false) && bytes[at] == b'\n' {
                at += 1;
                continue;
            }
            let Some(found) = memchr2(b'\n', b'\r', &bytes[at..]) else {
                self.line_is_empty = false;
                return None;
            };
            let blank = self.line_is_empty && found == 0;
            at += found + 1;
            self.line_is_empty = true;
            if bytes[at - 1] == b'\r' {
                match bytes.get(at) {
                    Some(b'\n') => at += 1,
                    Some(_) => {}
                    // Whether a LF follows is not known yet; the line ends here all the same.
                    None => self.after_carriage_return = true,
                }
            }
            if blank {
                return Some(at);
            }
        }
        None
    }
}

/// Where a plain frame ends, and where in the bytes the values of its fields are.
pub(super) struct Plain {
    pub(super) end: usize,
    pub(super) event: Option<Range<usize>>,
    pub(super) data: Option<Range<usize>>,
    pub(super) comment: bool,
}

/// Finds and reads a frame in one pass, if it is whole and as nearly all are: lines that end in LF, at most one of them data, and none
/// that is no field. What it says of a frame is what [`parse`] says.
pub(super) fn plain(bytes: &[u8], from: usize) -> Option<Plain> {
    let mut plain = Plain { end: from, event: None, data: None, comment: false };
    loop {
        let at = plain.end;
        let line = bytes.get(at..)?;
        if *line.first()? == b'\n' {
            plain.end += 1;
            return Some(plain);
        }
        let end = at + memchr2(b'\n', b'\r', line).filter(|end| line[*end] == b'\n')?;
        plain.end = end + 1;
        let value = |name: &[u8]| at + name.len() + usize::from(line[name.len()] == b' ')..end;
        if line.starts_with(b"data:") {
            if plain.data.replace(value(b"data:")).is_some() {
                return None;
            }
        } else if line.starts_with(b"event:") {
            plain.event = Some(value(b"event:"));
        } else if line[0] == b':' {
            plain.comment = true;
        } else {
            return None;
        }
    }
}

/// The lines of `text`, without their ends.
fn lines(mut text: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        if text.is_empty() {
            return None;
        }
        let Some(end) = memchr2(b'\n', b'\r', text) else {
            return Some(std::mem::take(&mut text));
        };
        let line = &text[..end];
        let crlf = text[end] == b'\r' && text.get(end + 1) == Some(&b'\n');
        text = &text[end + 1 + usize::from(crlf)..];
        Some(line)
    })
}

pub(super) fn parse<'a>(raw: &'a [u8], text: &'a [u8], stray: &mut Vec<u8>) -> Frame<'a> {
    let mut frame = Frame { raw, event: None, data: None, comment: false };
    for line in lines(text) {
        if line.is_empty() {
            continue;
        }
        let (name, value) = match memchr(b':', line) {
            Some(colon) => (&line[..colon], line[colon + 1..].strip_prefix(b" ").unwrap_or(&line[colon + 1..])),
            None => (line, &b""[..]),
        };
        match name {
            b"data" => match &mut frame.data {
                None => frame.data = Some(Cow::Borrowed(value)),
                Some(data) => {
                    let data = data.to_mut();
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
            },
            b"event" => frame.event = Some(value),
            b"" => frame.comment = true,
            b"id" | b"retry" => {}
            _ => keep_stray(stray, line),
        }
    }
    if frame.data.as_deref().is_some_and(<[u8]>::is_empty) {
        // An empty data buffer dispatches nothing.
        frame.data = None;
    }
    frame
}

fn keep_stray(stray: &mut Vec<u8>, line: &[u8]) {
    let room = FrameDecoder::MAX_STRAY.saturating_sub(stray.len() + 1);
    if room > 0 {
        stray.extend_from_slice(&line[..line.len().min(room)]);
        stray.push(b'\n');
    }
}
