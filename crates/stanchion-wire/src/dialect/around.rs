//! Most deltas of a stream differ in nothing but their text.

use super::scan::Cursor;

/// A plain chunk around its text. Another that is the same around another text means the same, so that a comparison
/// tells what a scan would.
#[derive(Default)]
pub(super) struct Around {
    choice: u64,
    /// Up to the text, its quote included; empty if nothing is known. Begins with the fields of the event before its data, if
    /// they are known.
    before: Vec<u8>,
    /// Where the data begin in it; 0 if only they are known.
    data_at: usize,
    /// From the text's closing quote on; where the chunk is padded, up to the padding with its quote.
    behind: Vec<u8>,
    /// From the padding's closing quote on.
    behind_padding: Option<Vec<u8>>,
}

/// The one event name before the data of a plain delta.
const EVENT: &[u8] = b"event: content_block_delta\n";
/// What ends an event after its data.
const END: &[u8] = b"\n\n";

/// OpenAI makes all chunks of a stream equally long by this member, with letters that mean nothing.
const PADDING: &[u8] = b"\"obfuscation\":\"";

impl Around {
    /// What is larger around its text than this, in bytes, is not remembered: it is no plain delta of a known provider.
    const MOST: usize = 2048;

    /// Remembers a chunk of this choice that is plain, whose text stands there, without its quotes.
    pub(super) fn remember(&mut self, data: &[u8], choice: u64, (from, to): (usize, usize)) {
        // Nothing is known until all of it is: no part may stay of the one before.
        self.before.clear();
        self.data_at = 0;
        if data.len() - (to - from) > Self::MOST {
            return;
        }
        let behind = &data[to..];
        let padding = memchr::memmem::find(behind, PADDING).and_then(|at| {
            let begin = at + PADDING.len();
            let mut cursor = Cursor::new(behind, begin - 1);
            cursor.string()?;
            Some((begin, cursor.at() - 1))
        });
        let (begin, end) = padding.unzip();
        self.choice = choice;
        self.before.extend_from_slice(&data[..from]);
        self.behind.clear();
        self.behind.extend_from_slice(&behind[..begin.unwrap_or(behind.len())]);
        self.behind_padding = end.map(|end| behind[end..].to_vec());
    }

    /// The choice of a chunk that is the same as the one that is remembered, but for its text; and how many bytes of that.
    pub(super) fn recognise(&self, data: &[u8]) -> Option<(u64, usize)> {
        let before = self.before.get(self.data_at..)?;
        if before.is_empty() || !data.starts_with(before) {
            return None;
        }
        let (text, behind) = string_from(data, before.len() - 1)?;
        let behind = behind.strip_prefix(&*self.behind)?;
        let ends = match &self.behind_padding {
            None => behind.is_empty(),
            Some(end) => string_from(data, data.len() - behind.len() - 1)?.1 == end,
        };
        (ends && text > 0).then_some((self.choice, text))
    }

    /// Learns from an event with these data how the events of this stream are written, if it is in the usual way.
    pub(super) fn learn(&mut self, event: &[u8], data: &[u8]) {
        if self.before.is_empty() || self.data_at > 0 {
            return;
        }
        let Some(fields) = event.strip_suffix(END).and_then(|event| event.strip_suffix(data)) else { return };
        if matches!(fields.strip_prefix(EVENT).unwrap_or(fields), b"data: " | b"data:") {
            self.before.splice(..0, fields.iter().copied());
            self.data_at = fields.len();
        }
    }

    /// The same as [`recognise`](Self::recognise) for a whole event at the beginning of these bytes: how long it is, and how many
    /// bytes of it are text.
    pub(super) fn recognise_event(&self, bytes: &[u8]) -> Option<(usize, usize)> {
        if self.data_at == 0 {
            return None;
        }
        let from = bytes.strip_prefix(&*self.before)?;
        let text = text_length(from)?;
        let mut behind = from[text..].strip_prefix(&*self.behind)?;
        if let Some(end) = &self.behind_padding {
            behind = behind[text_length(behind)?..].strip_prefix(&**end)?;
        }
        let rest = behind.strip_prefix(END)?;
        (text > 0).then_some((bytes.len() - rest.len(), text))
    }
}

/// The length of the inside of a string that begins here, behind its quote, and ends on this line.
fn text_length(bytes: &[u8]) -> Option<usize> {
    /// Most texts are a word: a search would take longer to begin than to end.
    const WORD: usize = 24;
    let telling = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..=0x1f);
    if let Some(at) = bytes.iter().take(WORD).position(telling)
        && bytes[at] == b'"'
    {
        return Some(at);
    }
    let mut at = 0;
    loop {
        at += memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes[at] == b'"' {
            return memchr::memchr2(b'\n', b'\r', &bytes[..at]).is_none().then_some(at);
        }
        at += 2;
    }
}

/// The length of a string that begins with its quote there, and what follows from its closing quote on.
fn string_from(data: &[u8], at: usize) -> Option<(usize, &[u8])> {
    let mut cursor = Cursor::new(data, at);
    let (text, _) = cursor.string()?;
    Some((text.len(), &data[cursor.at() - 1..]))
}

/// Hidden: what stands behind one text may be another.
impl std::fmt::Debug for Around {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Around").field("choice", &self.choice).finish_non_exhaustive()
    }
}
