//! A provider that never fails and answers as fast as it can, for measuring what stands before it.
//!
//! The path says what comes back, whatever the request asks for:
//!
//! | path begins with | reply |
//! |---|---|
//! | `/whole` | one document |
//! | `/events/N` | a stream of `N` events with text, all at once; then a finish and the end marker |
//! | `/events/N/MS` | the same, with so many milliseconds before each event but the first |
//!
//! HTTP/1.1, and HTTP/2 with prior knowledge, on one port. Replies are made once, and written from memory.

mod http1;
mod http2;
mod reply;

use std::{io, net::SocketAddr, sync::Arc};

use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use self::reply::Replies;

const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0";

/// A steady provider that is running. Dropping it ends it.
#[derive(Debug)]
pub struct Steady {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Steady {
    /// Starts one at `listen`; port 0 takes any that is free.
    pub async fn start(listen: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(listen).await?;
        let address = listener.local_addr()?;
        let replies = Arc::new(Replies::default());
        let accepting = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, replies.clone()));
            }
        });
        Ok(Self { address, accepting })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Steady {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn serve(socket: TcpStream, replies: Arc<Replies>) {
    let _ = socket.set_nodelay(true);
    let mut first = [0; HTTP2_PREFACE.len()];
    // A client's first packet holds at least its preface or a request line of that length.
    let Ok(length) = socket.peek(&mut first).await else { return };
    if first[..length] == *HTTP2_PREFACE {
        http2::serve(socket, &replies).await;
    } else {
        // The client has gone: there is nobody to tell.
        let _ = http1::serve(socket, &replies).await;
    }
}
