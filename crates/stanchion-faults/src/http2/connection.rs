//! One connection and its streams.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::{Request, StatusCode};
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::attempt::Attempt;
use super::ledger::Ledger;
use super::meter::{Meter, Metered};
use super::play::{Goodbye, play, read_body};

const GOAWAY: u8 = 7;
/// How long a client may take to close its side after a goodbye.
const LAST_WORDS: Duration = Duration::from_secs(5);
const EXHAUSTED: &str =
    r#"{"error":{"message":"unexpected extra request","type":"invalid_request_error","code":"script_exhausted"}}"#;

/// Serves one connection to its end.
pub(super) async fn serve(socket: TcpStream, attempts: Arc<[Attempt]>, ledger: Arc<Ledger>) {
    // Each step is a packet of its own.
    let _ = socket.set_nodelay(true);
    let (socket, meter) = (Arc::new(socket), Arc::new(Meter::default()));
    let metered = Metered { socket: Arc::clone(&socket), meter: Arc::clone(&meter) };
    let number = ledger.connect();
    let Ok(mut connection) = h2::server::handshake(metered).await else { return };
    let (sender, mut goodbyes) = mpsc::channel(1);
    let mut streams = JoinSet::new();
    let goodbye = loop {
        tokio::select! {
            accepted = connection.accept() => match accepted {
                Some(Ok((request, respond))) => {
                    let exchange = Exchange {
                        attempts: Arc::clone(&attempts),
                        ledger: Arc::clone(&ledger),
                        meter: Arc::clone(&meter),
                        goodbye: sender.clone(),
                    };
                    streams.spawn(exchange.run(number, request, respond));
                }
                // The client has closed, or broken the protocol.
                Some(Err(_)) | None => break None,
            },
            Some(goodbye) = goodbyes.recv() => break Some(goodbye),
            Some(_) = streams.join_next() => {}
        }
    };
    let Some(goodbye) = goodbye else {
        // What still plays learns from this that its client has gone.
        drop((connection, goodbyes));
        let _ = timeout(LAST_WORDS, async { while streams.join_next().await.is_some() {} }).await;
        return;
    };
    // The frame that is going out goes out whole.
    let whole = async {
        loop {
            tokio::select! {
                biased;
                () = meter.between_frames() => return,
                accepted = connection.accept() => if !matches!(accepted, Some(Ok(_))) { return },
            }
        }
    };
    let _ = timeout(LAST_WORDS, whole).await;
    streams.shutdown().await;
    drop(connection);
    let _ = timeout(LAST_WORDS, part(&socket, goodbye)).await;
}

/// Says goodbye by hand, and closes once the client has.
async fn part(socket: &TcpStream, goodbye: Goodbye) -> io::Result<()> {
    let mut frame = vec![0, 0, 8, GOAWAY, 0, 0, 0, 0, 0];
    frame.extend(goodbye.last_stream.to_be_bytes());
    frame.extend(u32::from(goodbye.reason).to_be_bytes());
    let mut written = 0;
    while written < frame.len() {
        socket.writable().await?;
        match socket.try_write(&frame[written..]) {
            Ok(length) => written += length,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    SockRef::from(socket).shutdown(std::net::Shutdown::Write)?;
    // Closing on unread bytes would reset the connection, and the goodbye with it.
    let mut unread = [0; 4096];
    loop {
        socket.readable().await?;
        match socket.try_read(&mut unread) {
            Ok(0) => return Ok(()),
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            _ => {}
        }
    }
}

struct Exchange {
    attempts: Arc<[Attempt]>,
    ledger: Arc<Ledger>,
    meter: Arc<Meter>,
    goodbye: mpsc::Sender<Goodbye>,
}

impl Exchange {
    /// Reads one request and plays its attempt.
    async fn run(self, connection: u64, request: Request<RecvStream>, respond: SendResponse<Bytes>) {
        let (head, body) = request.into_parts();
        let index = self.ledger.enter(connection, &head);
        let exhausted;
        let attempt = if let Some(attempt) = self.attempts.get(index) {
            attempt
        } else {
            exhausted = Attempt::json(StatusCode::BAD_REQUEST, EXHAUSTED);
            &exhausted
        };
        let played = async {
            let body = read_body(body).await?;
            self.ledger.amend(index, |request| request.body = body);
            play(attempt, respond, &self.meter, &self.goodbye).await
        };
        if let Err(abandoned) = played.await {
            self.ledger.amend(index, |request| request.abandoned = Some(abandoned));
        }
    }
}
