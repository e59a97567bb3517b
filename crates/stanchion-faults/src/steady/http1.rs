//! Over HTTP/1.1: no more is read of a request than how long it is.

use std::{io, sync::Arc};

use bytes::{Buf, BytesMut};
use memchr::memmem;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::reply::{Replies, Reply};

/// Longer than any head that is meant.
const LONGEST_HEAD: usize = 64 * 1024;

pub(super) async fn serve(mut socket: TcpStream, replies: &Replies) -> io::Result<()> {
    let mut buffer = BytesMut::with_capacity(16 * 1024);
    // Most connections ask for one thing, over and over.
    let mut last: Option<(Box<str>, Arc<Reply>)> = None;
    loop {
        let head = loop {
            if let Some(end) = memmem::find(&buffer, b"\r\n\r\n") {
                break end + 4;
            }
            if buffer.len() > LONGEST_HEAD || socket.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        };
        let text = std::str::from_utf8(&buffer[..head]).map_err(io::Error::other)?;
        let path = text.split(' ').nth(1).unwrap_or("/");
        let reply = match &last {
            Some((known, reply)) if **known == *path => reply.clone(),
            _ => last.insert((path.into(), replies.of(path))).1.clone(),
        };
        let body = Length::of(text);
        buffer.advance(head);
        match body {
            Length::Bytes(mut left) => {
                while left > 0 {
                    if buffer.is_empty() && socket.read_buf(&mut buffer).await? == 0 {
                        return Ok(());
                    }
                    let read = left.min(buffer.len());
                    buffer.advance(read);
                    left -= read;
                }
            }
            Length::Chunked => {
                // No JSON holds a line break within a text: this is the last chunk.
                while !buffer.ends_with(b"0\r\n\r\n") {
                    if socket.read_buf(&mut buffer).await? == 0 {
                        return Ok(());
                    }
                }
                buffer.clear();
            }
        }
        write(&mut socket, &reply).await?;
    }
}

async fn write(socket: &mut TcpStream, reply: &Reply) -> io::Result<()> {
    let Some(gap) = reply.gap else { return socket.write_all(&reply.http1).await };
    for (number, piece) in reply.http1_pieces.iter().enumerate() {
        if number > 0 {
            tokio::time::sleep(gap).await;
        }
        socket.write_all(piece).await?;
    }
    Ok(())
}

/// How long a request's body is.
#[derive(Debug, PartialEq, Eq)]
enum Length {
    Bytes(usize),
    Chunked,
}

impl Length {
    fn of(head: &str) -> Self {
        for line in head.split("\r\n").skip(1) {
            let Some((name, value)) = line.split_once(':') else { continue };
            if name.eq_ignore_ascii_case("content-length") {
                return Self::Bytes(value.trim().parse().unwrap_or(0));
            }
            if name.eq_ignore_ascii_case("transfer-encoding") {
                return Self::Chunked;
            }
        }
        Self::Bytes(0)
    }
}
