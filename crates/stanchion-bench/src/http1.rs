//! As much of a client of HTTP/1.1 as a generator of load needs: blocking, and hardly more than system calls.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use memchr::memmem;

/// A stall of the other side ends a measurement instead of hanging it.
const SILENCE: Duration = Duration::from_secs(60);

/// A connection that is kept open from request to request.
#[derive(Debug)]
pub struct Connection {
    socket: TcpStream,
    buffer: Vec<u8>,
    /// What of the buffer is read and not yet used.
    start: usize,
    end: usize,
}

/// What came of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// Its status.
    pub status: u16,
    /// When the first byte of its body was at hand.
    pub first: Instant,
    /// When it had ended.
    pub ended: Instant,
    /// How many lines of its body begin with `data:`.
    pub events: u64,
    /// How large its body is, in bytes.
    pub bytes: u64,
}

impl Connection {
    /// Connects.
    pub fn open(address: SocketAddr) -> io::Result<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(SILENCE))?;
        Ok(Self { socket, buffer: vec![0; 64 * 1024], start: 0, end: 0 })
    }

    /// Writes a request, and reads no reply.
    pub fn send(&mut self, request: &[u8]) -> io::Result<()> {
        self.socket.write_all(request)
    }

    /// Reads a reply to its end.
    pub fn receive(&mut self) -> io::Result<Reply> {
        let head = loop {
            if let Some(end) = memmem::find(self.unread(), b"\r\n\r\n") {
                break end + 4;
            }
            self.fill()?;
        };
        let (status, length) = {
            let head = std::str::from_utf8(&self.unread()[..head]).map_err(io::Error::other)?;
            let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
            (status.ok_or_else(|| io::Error::other("no status"))?, Length::of(head)?)
        };
        self.start += head;
        let mut body = Body { lines: Lines::default(), first: None, bytes: 0 };
        match length {
            Length::Bytes(length) => self.take(length, &mut body)?,
            Length::Chunked => {
                while let size @ 1.. = self.chunk_size()? {
                    self.take(size, &mut body)?;
                    self.line()?;
                }
                self.line()?;
            }
        }
        let ended = Instant::now();
        Ok(Reply { status, first: body.first.unwrap_or(ended), ended, events: body.lines.events, bytes: body.bytes })
    }

    fn unread(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Reads more.
    fn fill(&mut self) -> io::Result<()> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end == self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.buffer.len() {
            return Err(io::Error::other("a head or a line is longer than the buffer"));
        }
        match self.socket.read(&mut self.buffer[self.end..])? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            read => {
                self.end += read;
                Ok(())
            }
        }
    }

    fn take(&mut self, mut length: u64, body: &mut Body) -> io::Result<()> {
        while length > 0 {
            if self.start == self.end {
                self.fill()?;
            }
            let piece = self.unread().len().min(usize::try_from(length).unwrap_or(usize::MAX));
            body.add(&self.buffer[self.start..self.start + piece]);
            self.start += piece;
            length -= piece as u64;
        }
        Ok(())
    }

    /// Where the line that comes next begins and ends in the buffer, without its end.
    fn line(&mut self) -> io::Result<std::ops::Range<usize>> {
        loop {
            if let Some(length) = memmem::find(self.unread(), b"\r\n") {
                let line = self.start..self.start + length;
                self.start += length + 2;
                return Ok(line);
            }
            self.fill()?;
        }
    }

    fn chunk_size(&mut self) -> io::Result<u64> {
        let line = self.line()?;
        let line = std::str::from_utf8(&self.buffer[line]).map_err(io::Error::other)?;
        let digits = line.split(';').next().unwrap_or(line).trim();
        u64::from_str_radix(digits, 16).map_err(io::Error::other)
    }
}

enum Length {
    Bytes(u64),
    Chunked,
}

impl Length {
    fn of(head: &str) -> io::Result<Self> {
        for line in head.split("\r\n").skip(1) {
            let Some((name, value)) = line.split_once(':') else { continue };
            if name.eq_ignore_ascii_case("content-length") {
                return value.trim().parse().map(Self::Bytes).map_err(io::Error::other);
            }
            if name.eq_ignore_ascii_case("transfer-encoding") {
                return Ok(Self::Chunked);
            }
        }
        Err(io::Error::other("the end of the reply cannot be told"))
    }
}

struct Body {
    lines: Lines,
    first: Option<Instant>,
    bytes: u64,
}

impl Body {
    fn add(&mut self, piece: &[u8]) {
        self.first.get_or_insert_with(Instant::now);
        self.bytes += piece.len() as u64;
        self.lines.add(piece);
    }
}

/// Counts the lines that begin with `data:`, however they are cut.
#[derive(Debug, Default)]
struct Lines {
    /// How far the line that is being read agrees with the prefix; `None` once it does not, or is counted.
    agreed: Option<usize>,
    begun: bool,
    events: u64,
}

const PREFIX: &[u8] = b"data:";

impl Lines {
    fn add(&mut self, mut piece: &[u8]) {
        if !self.begun {
            self.begun = true;
            self.agreed = Some(0);
        }
        while !piece.is_empty() {
            match self.agreed {
                Some(agreed) if piece[0] == PREFIX[agreed] => {
                    piece = &piece[1..];
                    self.agreed = Some(agreed + 1);
                    if agreed + 1 == PREFIX.len() {
                        self.events += 1;
                        self.agreed = None;
                    }
                }
                _ => match memchr::memchr(b'\n', piece) {
                    Some(end) => {
                        piece = &piece[end + 1..];
                        self.agreed = Some(0);
                    }
                    None => {
                        self.agreed = None;
                        return;
                    }
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn played(reply: &[u8], pieces: usize) -> io::Result<Reply> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let reply = reply.to_vec();
        let server = std::thread::spawn(move || -> io::Result<()> {
            let (mut socket, _) = listener.accept()?;
            socket.set_nodelay(true)?;
            for piece in reply.chunks(pieces) {
                socket.write_all(piece)?;
            }
            Ok(())
        });
        let mut connection = Connection::open(address)?;
        let read = connection.receive();
        server.join().expect("the server does not panic")?;
        read
    }

    #[test]
    fn replies_are_read_however_they_are_cut() {
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nb\r\ndata: 1\n\nda\r\n8;x=y\r\nta: 2\n\n\n\r\n0\r\n\r\n";
        let whole = b"HTTP/1.1 503 No\r\nContent-Length: 8\r\n\r\n{\"data:\"";
        for pieces in [1, 3, 1000] {
            let reply = played(chunked, pieces).unwrap();
            assert_eq!((reply.status, reply.events, reply.bytes), (200, 2, 19), "{pieces}");
            let reply = played(whole, pieces).unwrap();
            assert_eq!((reply.status, reply.events, reply.bytes), (503, 0, 8), "{pieces}");
        }
        assert!(played(&chunked[..chunked.len() - 3], 7).is_err());
    }
}
