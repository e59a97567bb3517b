//! Most deltas of a stream differ in nothing but their text.

use super::scan::Cursor;

/// A plain chunk around its text. Another that is the same around another text means the same, so that a comparison
/// tells what a scan would.
#[derive(Default)]
pub(super) struct Around {
    choice: u64,
    /// Up to the text, its quote included; empty if nothing is known.
    before: Vec<u8>,
    /// From the text's closing quote on; where the chunk is padded, up to the padding with its quote.
    behind: Vec<u8>,
    /// From the padding's closing quote on.
    behind_padding: Option<Vec<u8>>,
}

/// OpenAI makes all chunks of a stream equally long by this member, with letters that mean nothing.
const PADDING: &[u8] = b"\"obfuscation\":\"";

impl Around {
    /// What is larger around its text than this, in bytes, is not remembered: it is no plain delta of a known provider.
    const MOST: usize = 2048;

    /// Remembers a chunk of this choice that is plain, whose text stands there, without its quotes.
    pub(super) fn remember(&mut self, data: &[u8], choice: u64, (from, to): (usize, usize)) {
        self.before.clear();
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
        if self.before.is_empty() || !data.starts_with(&self.before) {
            return None;
        }
        let (text, behind) = string_from(data, self.before.len() - 1)?;
        let behind = behind.strip_prefix(&*self.behind)?;
        let ends = match &self.behind_padding {
            None => behind.is_empty(),
            Some(end) => string_from(data, data.len() - behind.len() - 1)?.1 == end,
        };
        (ends && text > 0).then_some((self.choice, text))
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
