//! Bytes into frames, without copying what arrived whole.
//!
//! A [`FrameDecoder`] is fed chunks as they come. It hands out the frames that are complete, and releases their bytes unchanged: every byte
//! that goes in comes out, once and in order, unless a frame is dropped by name. The bytes of a frame whose end has not come are held
//! back, so that nobody downstream ever sees half a frame. Work is linear in the bytes, however they are chunked.
//!
//! ```
//! use bytes::Bytes;
//! use stanchion_wire::frame::{FrameDecoder, Framing};
//!
//! let mut decoder = FrameDecoder::new(Framing::Sse, FrameDecoder::DEFAULT_MAX_EVENT);
//! decoder.push(Bytes::from_static(b"event: ping\ndata: {}\n\ndata: [DO"));
//! let frame = decoder.next_frame().unwrap().expect("one whole frame");
//! assert_eq!((frame.event, &*frame.data.unwrap()), (Some(&b"ping"[..]), &b"{}"[..]));
//! assert!(decoder.next_frame().unwrap().is_none());
//! assert_eq!(decoder.release().unwrap(), "event: ping\ndata: {}\n\n");
//! assert!(decoder.release().is_none());
//! ```

mod json_array;
mod ndjson;
mod sse;

use std::{borrow::Cow, collections::VecDeque, fmt, mem};

use bytes::{Bytes, BytesMut};

use self::{json_array::JsonArrayScanner, sse::SseScanner};

/// How a reply's bytes are divided. A [`FrameDecoder`] takes all but [`Framing::Document`]: there is nothing to divide.
pub use stanchion_core::Framing;

/// One frame.
#[derive(Clone, PartialEq, Eq)]
pub struct Frame<'a> {
    /// All its bytes, line ends included.
    pub raw: &'a [u8],
    /// The SSE event name, if one is set.
    pub event: Option<&'a [u8]>,
    /// Its data: `data:` lines joined by LF, the NDJSON line, the element. `None` if it has none.
    pub data: Option<Cow<'a, [u8]>>,
    /// Whether it has SSE comment lines.
    pub comment: bool,
}

impl fmt::Debug for Frame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let data = self.data.as_deref().map(<[u8]>::len);
        f.debug_struct("Frame").field("bytes", &self.raw.len()).field("data_bytes", &data).finish_non_exhaustive()
    }
}

/// An event is larger than the ceiling. A local error: the provider may be right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventTooLarge {
    /// The ceiling, in bytes.
    pub limit: usize,
}

impl fmt::Display for EventTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "one event of the reply is larger than the ceiling of {} bytes", self.limit)
    }
}

impl std::error::Error for EventTooLarge {}

#[derive(Debug)]
enum Scanner {
    Sse(SseScanner),
    Ndjson,
    JsonArray(JsonArrayScanner),
}

impl Scanner {
    /// The end of the frame that `bytes[from..]` goes on with, if it is there.
    fn find_end(&mut self, bytes: &[u8], from: usize) -> Option<usize> {
        match self {
            Self::Sse(scanner) => scanner.find_end(bytes, from),
            Self::Ndjson => ndjson::find_end(bytes, from),
            Self::JsonArray(scanner) => scanner.find_end(bytes, from),
        }
    }
}

/// Where the frame last handed out lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    None,
    /// It came in pieces and is the newest released piece.
    Released,
    /// It lies in the current chunk, from here to `start`.
    InChunk(usize),
}

/// An incremental frame decoder. See the [module](self).
pub struct FrameDecoder {
    scanner: Scanner,
    max_event: usize,
    /// The beginning of a frame whose end has not come.
    carry: BytesMut,
    chunk: Bytes,
    /// Everything before is released or counted in `released`.
    unreleased: usize,
    /// Where the next frame begins.
    start: usize,
    released: VecDeque<Bytes>,
    last: Last,
    at_stream_start: bool,
    stray: Vec<u8>,
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl FrameDecoder {
    /// The default ceiling for one event: 16 MiB. Image output comes as events of several megabytes.
    pub const DEFAULT_MAX_EVENT: usize = 16 * 1024 * 1024;
    /// How much is kept of lines that are no SSE fields: 64 KiB.
    pub const MAX_STRAY: usize = 64 * 1024;

    /// A decoder that fails once a single event is larger than `max_event` bytes.
    ///
    /// # Panics
    ///
    /// With [`Framing::Document`], which has no frames.
    pub fn new(framing: Framing, max_event: usize) -> Self {
        Self {
            scanner: match framing {
                Framing::Sse => Scanner::Sse(SseScanner::default()),
                Framing::Ndjson => Scanner::Ndjson,
                Framing::JsonArray => Scanner::JsonArray(JsonArrayScanner::default()),
                Framing::Document => panic!("a whole document has no frames"),
            },
            max_event,
            carry: BytesMut::new(),
            chunk: Bytes::new(),
            unreleased: 0,
            start: 0,
            released: VecDeque::new(),
            last: Last::None,
            at_stream_start: true,
            stray: Vec::new(),
        }
    }

    /// Takes the next chunk. The frames of the one before must have been taken to the end.
    pub fn push(&mut self, chunk: Bytes) {
        debug_assert!(self.start == self.chunk.len(), "frames of the last chunk are still to be taken");
        self.flush_chunk();
        self.chunk = chunk;
        self.unreleased = 0;
        self.start = 0;
        if self.carry.is_empty()
            && let Scanner::Sse(scanner) = &mut self.scanner
        {
            // A LF that completes the CR of the last blank line belongs to the frame that is already out.
            self.start = scanner.skip_split_line_feed(&self.chunk);
        }
    }

    /// Releases what is complete of the current chunk.
    fn flush_chunk(&mut self) {
        if let Some(piece) = self.take_complete() {
            self.released.push_back(piece);
        }
    }

    /// What is complete of the current chunk and was not released yet.
    fn take_complete(&mut self) -> Option<Bytes> {
        if self.unreleased == self.start {
            return None;
        }
        if self.unreleased == 0 && self.start == self.chunk.len() {
            // All of it: it leaves as it came.
            (self.start, self.last) = (0, Last::None);
            return Some(mem::take(&mut self.chunk));
        }
        let piece = self.chunk.slice(self.unreleased..self.start);
        self.unreleased = self.start;
        Some(piece)
    }

    /// What lies ahead in the chunk, if it begins a frame of SSE: for a caller who can tell by the bytes alone what that is. Empty
    /// otherwise.
    pub fn ahead(&self) -> &[u8] {
        match &self.scanner {
            Scanner::Sse(scanner) if self.carry.is_empty() && scanner.is_at_start() && !self.at_stream_start => {
                &self.chunk[self.start..]
            }
            _ => &[],
        }
    }

    /// Lets so many bytes of what lies [`ahead`](Self::ahead) pass, which must be whole frames that end in LF.
    ///
    /// # Panics
    ///
    /// If they are more.
    pub fn pass(&mut self, length: usize) {
        let ahead = self.ahead();
        assert!(ahead[..length].ends_with(b"\n\n"), "only whole frames pass");
        self.start += length;
        self.last = Last::None;
    }

    /// The next complete frame of the chunk, or `None` once another chunk is needed.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, EventTooLarge> {
        self.last = Last::None;
        if self.start == self.chunk.len() {
            return Ok(None);
        }
        if let Some(plain) = self.plain() {
            self.last = Last::InChunk(self.start);
            let raw = &self.chunk[self.start..plain.end];
            self.start = plain.end;
            let value = |range| &self.chunk[range];
            return Ok(Some(Frame {
                raw,
                event: plain.event.map(value),
                data: plain.data.filter(|range| !range.is_empty()).map(value).map(Cow::Borrowed),
                comment: plain.comment,
            }));
        }
        let Some(end) = self.scanner.find_end(&self.chunk, self.start) else {
            self.flush_chunk();
            let rest = &self.chunk[self.start..];
            if self.carry.len() + rest.len() > self.max_event {
                return Err(EventTooLarge { limit: self.max_event });
            }
            self.carry.extend_from_slice(rest);
            self.start = self.chunk.len();
            self.unreleased = self.start;
            return Ok(None);
        };
        let begin = self.start;
        if self.carry.len() + (end - begin) > self.max_event {
            return Err(EventTooLarge { limit: self.max_event });
        }
        self.start = end;
        if self.carry.is_empty() {
            self.last = Last::InChunk(begin);
            let raw = &self.chunk[begin..end];
            return Ok(Some(parse(&self.scanner, raw, &mut self.at_stream_start, &mut self.stray)));
        }
        self.carry.extend_from_slice(&self.chunk[begin..end]);
        self.unreleased = end;
        self.released.push_back(self.carry.split().freeze());
        self.last = Last::Released;
        let raw = self.released.back().expect("just pushed");
        Ok(Some(parse(&self.scanner, raw, &mut self.at_stream_start, &mut self.stray)))
    }

    /// The next frame, if it is one that a single look tells all of.
    fn plain(&self) -> Option<sse::Plain> {
        if self.ahead().is_empty() {
            return None;
        }
        sse::plain(&self.chunk, self.start).filter(|plain| plain.end - self.start <= self.max_event)
    }

    /// At the end of the body: what is left, as a frame that lacks its end, or `None` if nothing is.
    ///
    /// Its bytes are released unless [`drop_last`](Self::drop_last) says otherwise.
    pub fn finish(&mut self) -> Option<Frame<'_>> {
        debug_assert!(self.start == self.chunk.len(), "frames of the last chunk are still to be taken");
        self.flush_chunk();
        self.last = Last::None;
        if self.carry.is_empty() {
            return None;
        }
        self.released.push_back(self.carry.split().freeze());
        self.last = Last::Released;
        let raw = self.released.back().expect("just pushed");
        Some(parse(&self.scanner, raw, &mut self.at_stream_start, &mut self.stray))
    }

    /// Ends the frame last handed out, which lacked its end, so that another can follow it: for an error that has to be told after it.
    pub fn end_last(&mut self) {
        let end: &'static [u8] = match self.scanner {
            Scanner::Sse(_) => b"\n\n",
            Scanner::Ndjson => b"\n",
            // The separator of an element stands before it.
            Scanner::JsonArray(_) => return,
        };
        if self.last == Last::Released {
            self.released.push_back(Bytes::from_static(end));
        }
    }

    /// Takes the frame last handed out away from what is released. Returns its length in bytes.
    pub fn drop_last(&mut self) -> usize {
        match mem::replace(&mut self.last, Last::None) {
            Last::None => 0,
            Last::Released => self.released.pop_back().map_or(0, |piece| piece.len()),
            Last::InChunk(begin) => {
                if self.unreleased < begin {
                    self.released.push_back(self.chunk.slice(self.unreleased..begin));
                }
                self.unreleased = self.start;
                self.start - begin
            }
        }
    }

    /// The next piece of complete frames, in order. What arrived together leaves together.
    pub fn release(&mut self) -> Option<Bytes> {
        self.released.pop_front().or_else(|| self.take_complete())
    }

    /// Whether pieces wait to be released.
    pub fn has_released(&self) -> bool {
        !self.released.is_empty() || self.unreleased < self.start
    }

    /// How many bytes are held back because their frame is not complete.
    pub fn held(&self) -> usize {
        self.carry.len()
    }

    /// Lines that were no SSE fields, at most [`MAX_STRAY`](Self::MAX_STRAY) bytes: some providers put a whole error there.
    pub fn stray(&self) -> &[u8] {
        &self.stray
    }
}

impl fmt::Debug for FrameDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameDecoder")
            .field("scanner", &self.scanner)
            .field("held", &self.held())
            .finish_non_exhaustive()
    }
}

fn parse<'a>(scanner: &Scanner, raw: &'a [u8], at_stream_start: &mut bool, stray: &mut Vec<u8>) -> Frame<'a> {
    let text =
        if mem::replace(at_stream_start, false) { raw.strip_prefix(BYTE_ORDER_MARK).unwrap_or(raw) } else { raw };
    match scanner {
        Scanner::Sse(_) => sse::parse(raw, text, stray),
        Scanner::Ndjson => ndjson::parse(raw, text),
        Scanner::JsonArray(_) => json_array::parse(raw, text),
    }
}

/// Whether data claims to be JSON and is cut short: it begins with a bracket and does not end with its match.
///
/// A check of two bytes. It finds what breaks every client library, not every document that is no JSON.
pub fn is_cut_short(data: &[u8]) -> bool {
    let data = data.trim_ascii();
    match data.first() {
        Some(b'{') => data.last() != Some(&b'}'),
        Some(b'[') if data != b"[DONE]" => data.last() != Some(&b']'),
        _ => false,
    }
}

/// Whether data is one complete JSON document.
pub fn is_whole_json(data: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(data).is_ok()
}

#[cfg(test)]
mod tests;
