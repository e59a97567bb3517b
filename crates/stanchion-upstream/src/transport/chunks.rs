//! Joins the transfer chunks that came in one read of a connection.
//!
//! hyper hands out a chunked body one transfer chunk at a time, each by way of a task switch, however many came together. So
//! between the socket and hyper their borders are taken out: what one read brought becomes one chunk, in place. Nothing
//! waits, nothing is copied elsewhere, and hyper remains the one that reads HTTP: what is not of the plain form is left as
//! it came, and so is all that follows it on that connection.

#[cfg(test)]
mod exchanges;
#[cfg(test)]
mod tests;

use super::head::{self, After, Head};

/// Of a head that comes in several reads, so much is kept; after a longer one nothing is joined.
const MAX_HEAD: usize = 16 * 1024;

/// So many digits a plain size may have: more than memory can hold, and their sum fits in 64 bits.
const MAX_DIGITS: usize = 15;

/// Follows what is written and read on one connection of a client's, from its beginning.
#[derive(Debug, Default)]
pub(super) struct ChunkJoin {
    state: State,
    /// The beginning of a head that is not all there yet.
    begun: Vec<u8>,
}

/// What the next byte is of.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing: no request was written yet since the last response.
    #[default]
    Idle,
    Head,
    /// A body with a length, of which so much is left.
    Body(u64),
    /// A size line of which something came, or nothing.
    Size {
        size: u64,
        digits: usize,
    },
    SizeLf(u64),
    /// A chunk's data, of which so much is left.
    Data(u64),
    DataCr,
    DataLf,
    /// The line after the last chunk: a trailer, or the end.
    Trailer,
    TrailerRest,
    TrailerLf,
    EndLf,
    /// Something that is not followed, nor is anything after it.
    Other,
}

const SIZE: State = State::Size { size: 0, digits: 0 };

impl ChunkJoin {
    /// Some bytes are about to be written, these at first.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        if self.state == State::Idle && !bytes.is_empty() {
            // HEAD and CONNECT are answered otherwise, and HTTP/2 begins with something else.
            let plain = bytes.starts_with(b"POST ") || bytes.starts_with(b"GET ");
            self.state = if plain { State::Head } else { State::Other };
        }
    }

    /// Some bytes were read. Changes them in place, and tells how many of them there still are: some, if there were any.
    pub(super) fn read(&mut self, bytes: &mut [u8]) -> usize {
        if self.state == State::Other {
            return bytes.len();
        }
        let mut read = Read { bytes, at: 0, kept: 0 };
        while !read.rest().is_empty() {
            self.state = self.follow(&mut read);
        }
        read.kept
    }

    fn follow(&mut self, read: &mut Read<'_>) -> State {
        match self.state {
            State::Head => return self.head(read),
            State::Body(left) => {
                return match read.pass_some(left) {
                    0 => State::Idle,
                    left => State::Body(left),
                };
            }
            State::Data(left) => {
                return match read.pass_some(left) {
                    0 => State::DataCr,
                    left => State::Data(left),
                };
            }
            SIZE => {
                if let Some(chunk) = Chunk::at(read.bytes, read.at) {
                    return read.join(chunk);
                }
            }
            State::Idle | State::Other => {
                read.pass(read.rest().len());
                return State::Other;
            }
            _ => {}
        }
        let next = self.byte(read.rest()[0]);
        read.pass(1);
        next
    }

    /// What is next after this byte, where one is looked at at a time.
    fn byte(&self, byte: u8) -> State {
        match (self.state, byte) {
            (State::Size { digits: 1.., size }, b'\r') => State::SizeLf(size),
            (State::Size { digits: digits @ 0..MAX_DIGITS, size }, _) => match digit(byte) {
                Some(digit) => State::Size { size: size << 4 | digit, digits: digits + 1 },
                None => State::Other,
            },
            (State::SizeLf(0) | State::TrailerLf, b'\n') => State::Trailer,
            (State::SizeLf(size), b'\n') => State::Data(size),
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataLf, b'\n') => SIZE,
            (State::Trailer, b'\r') => State::EndLf,
            (State::EndLf, b'\n') => State::Idle,
            (State::TrailerRest, b'\r') => State::TrailerLf,
            (State::Trailer | State::TrailerRest, _) => State::TrailerRest,
            _ => State::Other,
        }
    }

    fn head(&mut self, read: &mut Read<'_>) -> State {
        let before = self.begun.len();
        let head = if before == 0 {
            head::read(read.rest())
        } else {
            let room = read.rest().len().min(MAX_HEAD - before);
            self.begun.extend_from_slice(&read.rest()[..room]);
            // However small the reads, the head itself is read but once.
            match memchr::memmem::find(&self.begun[before.saturating_sub(3)..], b"\r\n\r\n") {
                Some(_) => head::read(&self.begun),
                None => Head::Unfinished,
            }
        };
        if head == Head::Unfinished {
            if before == 0 {
                self.begun.extend_from_slice(&read.rest()[..read.rest().len().min(MAX_HEAD)]);
            }
            read.pass(read.rest().len());
            if self.begun.len() < MAX_HEAD {
                return State::Head;
            }
        }
        self.begun = Vec::new();
        let Head::Whole { length, after } = head else {
            return State::Other;
        };
        read.pass(length - before);
        match after {
            After::Head => State::Head,
            After::Nothing | After::Length(0) => State::Idle,
            After::Length(length) => State::Body(length),
            After::Chunks => SIZE,
        }
    }
}

/// The bytes of one read: what is kept so far, a gap, and what is yet to be looked at.
struct Read<'a> {
    bytes: &'a mut [u8],
    kept: usize,
    at: usize,
}

impl Read<'_> {
    fn rest(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    /// Passes on the next bytes as they are.
    fn pass(&mut self, count: usize) {
        if self.kept < self.at {
            self.bytes.copy_within(self.at..self.at + count, self.kept);
        }
        self.at += count;
        self.kept += count;
    }

    /// Passes on so many bytes, or as many of them as there are. Tells how many are missing.
    fn pass_some(&mut self, count: u64) -> u64 {
        let here = count.min(self.rest().len() as u64);
        self.pass(here as usize);
        count - here
    }

    /// Passes on this chunk, which is next, as one with all that follow it.
    fn join(&mut self, first: Chunk) -> State {
        // As wide as the size of all that is here can be.
        let width = (usize::BITS - self.rest().len().leading_zeros()).div_ceil(4) as usize;
        let fits = |size: u64| size >> (4 * width) == 0;
        let (line, mut to) = (self.kept, self.kept + width + 2);

        let mut chunk = first;
        let mut next = first.next(self.bytes).filter(|next| {
            // A wider line takes room that the second one gives up.
            fits(first.size + next.size) && to + first.size as usize <= next.data
        });
        if next.is_none() {
            self.pass(first.data - self.at);
            return State::Data(first.size);
        }
        let mut size = first.size;
        loop {
            let here = chunk.size.min((self.bytes.len() - chunk.data) as u64);
            self.at = chunk.data + here as usize;
            self.bytes.copy_within(chunk.data..self.at, to);
            to += here as usize;
            let Some(joined) = next else {
                self.kept = to;
                self.write_size(line, width, size);
                return if here < chunk.size { State::Data(chunk.size - here) } else { State::DataCr };
            };
            size += joined.size;
            chunk = joined;
            next = chunk.next(self.bytes).filter(|next| fits(size + next.size));
        }
    }

    fn write_size(&mut self, at: usize, width: usize, mut size: u64) {
        let (digits, end) = self.bytes[at..at + width + 2].split_at_mut(width);
        for digit in digits.iter_mut().rev() {
            *digit = b"0123456789abcdef"[(size & 0xf) as usize];
            size >>= 4;
        }
        end.copy_from_slice(b"\r\n");
    }
}

/// A chunk whose size line is all there, and which is not the last one.
#[derive(Clone, Copy)]
struct Chunk {
    size: u64,
    /// Where its data begins.
    data: usize,
}

impl Chunk {
    /// The one whose size line begins here.
    fn at(bytes: &[u8], at: usize) -> Option<Self> {
        let line = &bytes[at..];
        let mut size = 0;
        for (digits, &byte) in line.iter().enumerate().take(MAX_DIGITS + 1) {
            if let Some(digit) = digit(byte) {
                size = size << 4 | digit;
            } else {
                let plain = size > 0 && line[digits..].starts_with(b"\r\n");
                return plain.then_some(Self { size, data: at + digits + 2 });
            }
        }
        None
    }

    /// The one after this, if all of this one is there.
    fn next(self, bytes: &[u8]) -> Option<Self> {
        if self.size >= (bytes.len() - self.data) as u64 {
            return None;
        }
        let end = self.data + self.size as usize;
        if !bytes[end..].starts_with(b"\r\n") {
            return None;
        }
        Self::at(bytes, end + 2)
    }
}

fn digit(byte: u8) -> Option<u64> {
    let digit = match byte {
        b'0'..=b'9' => byte - b'0',
        b'a'..=b'f' => byte - b'a' + 10,
        b'A'..=b'F' => byte - b'A' + 10,
        _ => return None,
    };
    Some(digit.into())
}
