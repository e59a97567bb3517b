//! Reading HTTP/1.1 from a raw socket: heads, lines, chunks. Every read is bounded.

use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::headers::Headers;

/// The longest request or status line with all header fields.
const MAX_HEAD: usize = 1 << 20;
/// The largest body, chunk or line that is kept.
pub(crate) const MAX_BODY: usize = 256 << 20;
const MAX_TRAILERS: usize = 64;

/// What stands before a body.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) first_line: String,
    pub(crate) headers: Headers,
}

/// A source of bytes with what was read ahead of need.
#[derive(Debug)]
pub(crate) struct Incoming<R> {
    source: R,
    buffer: BytesMut,
}

fn malformed(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl<R: AsyncRead + Unpin> Incoming<R> {
    pub(crate) fn new(source: R) -> Self {
        Self { source, buffer: BytesMut::new() }
    }

    /// How many bytes were read and not yet taken.
    pub(crate) fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// Reads more into the buffer; 0 is the end. Losing the future loses no byte.
    pub(crate) async fn more(&mut self) -> io::Result<usize> {
        self.buffer.reserve(16 << 10);
        self.source.read_buf(&mut self.buffer).await
    }

    async fn need_more(&mut self) -> io::Result<()> {
        match self.more().await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Takes everything up to and including `mark`.
    async fn until(&mut self, mark: &[u8], limit: usize) -> io::Result<Bytes> {
        let mut searched = 0;
        loop {
            if let Some(at) = memchr::memmem::find(&self.buffer[searched..], mark) {
                return Ok(self.buffer.split_to(searched + at + mark.len()).freeze());
            }
            if self.buffer.len() > limit {
                return Err(malformed("longer than allowed"));
            }
            searched = self.buffer.len().saturating_sub(mark.len() - 1);
            self.need_more().await?;
        }
    }

    /// The next head; `None` when the other side closed before it began.
    pub(crate) async fn head(&mut self) -> io::Result<Option<Head>> {
        if self.buffer.is_empty() && self.more().await? == 0 {
            return Ok(None);
        }
        let bytes = self.until(b"\r\n\r\n", MAX_HEAD).await?;
        // Latin-1: each byte is one character, whatever it means.
        let text: String = bytes.iter().map(|&byte| char::from(byte)).collect();
        let mut lines = text.split("\r\n");
        let first_line = lines.next().unwrap_or_default().to_owned();
        let mut headers = Headers::default();
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            headers.push(name, value);
        }
        Ok(Some(Head { first_line, headers }))
    }

    /// Exactly so many bytes.
    pub(crate) async fn exactly(&mut self, length: usize) -> io::Result<Bytes> {
        if length > MAX_BODY {
            return Err(malformed("more than is kept"));
        }
        while self.buffer.len() < length {
            self.need_more().await?;
        }
        Ok(self.buffer.split_to(length).freeze())
    }

    /// Whatever comes next, at most `limit` bytes; nothing at the end.
    pub(crate) async fn some(&mut self, limit: usize) -> io::Result<Bytes> {
        if self.buffer.is_empty() {
            self.more().await?;
        }
        Ok(self.buffer.split_to(self.buffer.len().min(limit)).freeze())
    }

    /// The next chunk of a chunked body; `None` is the last one, whose trailers are left unread.
    pub(crate) async fn chunk(&mut self) -> io::Result<Option<Bytes>> {
        let line = self.until(b"\n", MAX_HEAD).await?;
        let size = std::str::from_utf8(&line).unwrap_or_default().split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).map_err(|_| malformed("no chunk size"))?;
        if size == 0 {
            return Ok(None);
        }
        let chunk = self.exactly(size).await?;
        self.exactly(2).await?;
        Ok(Some(chunk))
    }

    /// Skips the trailers after the last chunk.
    async fn trailers(&mut self) -> io::Result<()> {
        for _ in 0..MAX_TRAILERS {
            if self.until(b"\n", MAX_HEAD).await?.trim_ascii().is_empty() {
                return Ok(());
            }
        }
        Err(malformed("too many trailers"))
    }

    /// A request's whole body.
    pub(crate) async fn request_body(&mut self, headers: &Headers) -> io::Result<Bytes> {
        if !headers.chunked() {
            let length = headers.get("content-length").unwrap_or("0");
            return self.exactly(length.parse().map_err(|_| malformed("no content length"))?).await;
        }
        let mut body = BytesMut::new();
        while let Some(chunk) = self.chunk().await? {
            if body.len() + chunk.len() > MAX_BODY {
                return Err(malformed("more than is kept"));
            }
            body.extend_from_slice(&chunk);
        }
        self.trailers().await?;
        Ok(body.freeze())
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::Incoming;

    #[tokio::test]
    async fn heads_and_both_kinds_of_body_are_read_in_turn() {
        let wire = b"POST /a HTTP/1.1\r\nX-Odd: \xe9\r\nContent-Length: 2\r\n\r\nhi\
            POST /b HTTP/1.1\r\ntransfer-encoding: Chunked\r\n\r\n2;ext=1\r\nab\r\n1\r\nc\r\n0\r\nx-trailer: 1\r\n\r\n";
        let mut incoming = Incoming::new(&wire[..]);
        let head = incoming.head().await.unwrap().unwrap();
        assert_eq!((head.first_line.as_str(), head.headers.get("x-odd")), ("POST /a HTTP/1.1", Some("\u{e9}")));
        assert_eq!(incoming.request_body(&head.headers).await.unwrap(), "hi");
        let head = incoming.head().await.unwrap().unwrap();
        assert_eq!(incoming.request_body(&head.headers).await.unwrap(), "abc");
        assert!(incoming.head().await.unwrap().is_none());
    }

    #[tokio::test]
    async fn broken_framing_is_told_apart_from_an_early_end() {
        for (wire, kind) in [
            (&b"zz\r\n"[..], ErrorKind::InvalidData),
            (b"", ErrorKind::UnexpectedEof),
            (b"5\r\nab", ErrorKind::UnexpectedEof),
            (b"ffffffffff\r\n", ErrorKind::InvalidData),
        ] {
            assert_eq!(Incoming::new(wire).chunk().await.unwrap_err().kind(), kind, "{wire:?}");
        }
        assert_eq!(Incoming::new(&b"POST"[..]).head().await.unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }
}
