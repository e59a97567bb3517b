//! One connection: request after request, until one of them ends it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use socket2::SockRef;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::Instant;

use super::Scripts;
use super::ledger::{Ledger, RequestRecord};
use super::peer::{Left, Peer};
use super::play::{After, play};
use crate::http1::Incoming;
use crate::scenario::Script;

const NOTHING_HERE: &str = r#"{"object":"list","data":[]}"#;
const EXHAUSTED: &str =
    r#"{"error":{"message":"unexpected extra request","type":"invalid_request_error","code":"script_exhausted"}}"#;

/// Serves one connection to its end.
pub(super) async fn serve(socket: TcpStream, scripts: Arc<Scripts>, ledger: Arc<Ledger>) {
    // Each step is a packet of its own.
    let _ = socket.set_nodelay(true);
    let number = ledger.connect();
    let (reader, writer) = socket.into_split();
    let mut connection = Connection { incoming: Incoming::new(reader), writer, scripts, ledger, number, played: 0 };
    loop {
        match connection.exchange().await {
            Ok(After::KeepAlive) => {}
            Ok(After::Reset) => return connection.reset(),
            Ok(After::Close) | Err(_) => return,
        }
    }
}

struct Connection {
    incoming: Incoming<OwnedReadHalf>,
    writer: OwnedWriteHalf,
    scripts: Arc<Scripts>,
    ledger: Arc<Ledger>,
    number: u64,
    played: u64,
}

impl Connection {
    /// Reads one request and answers it.
    async fn exchange(&mut self) -> io::Result<After> {
        let Some(head) = self.incoming.head().await? else { return Ok(After::Close) };
        let mut words = head.first_line.splitn(3, ' ');
        let (Some(method), Some(path), Some(_)) = (words.next(), words.next(), words.next()) else {
            return Ok(After::Close);
        };
        if head.headers.get("expect").is_some_and(|wish| wish.eq_ignore_ascii_case("100-continue")) {
            self.writer.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        let body = self.incoming.request_body(&head.headers).await?;
        let key = candidate_of(path);
        let scripts = self.scripts.get(&key).filter(|_| method == "POST").cloned();
        // A health probe or a list of models, of the gateway's own: something harmless will do.
        let Some(scripts) = scripts else { return self.answer("200 OK", NOTHING_HERE).await };

        let record = RequestRecord {
            at: Instant::now(),
            method: method.to_owned(),
            path: path.to_owned(),
            headers: head.headers,
            body,
            connection: self.number,
            reused: self.played > 0,
            overrun: false,
            gone_at: None,
            ended_at: None,
        };
        self.played += 1;
        let index = self.ledger.enter(&key, record);
        let Some(script) = script_for(&scripts, index) else {
            self.ledger.overrun(&key, index);
            return self.answer("400 Bad Request", EXHAUSTED).await;
        };
        let exchange = self.ledger.open(key, index);
        let mut peer = Peer { incoming: &mut self.incoming, writer: &mut self.writer };
        match play(script, &mut peer).await {
            Ok(after) => Ok(after),
            Err(Left) => {
                exchange.gone();
                Ok(After::Close)
            }
        }
    }

    async fn answer(&mut self, status: &str, body: &'static str) -> io::Result<After> {
        let length = body.len();
        let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n");
        self.writer.write_all(&[head.as_bytes(), body.as_bytes()].concat()).await?;
        Ok(After::KeepAlive)
    }

    /// Breaks the connection: what is closed without lingering is reset.
    fn reset(self) {
        let _ = SockRef::from(self.writer.as_ref()).set_linger(Some(Duration::ZERO));
        // Dropping this half would say a proper goodbye first.
        self.writer.forget();
    }
}

/// `s07` and `a` of `/s07/a/v1/chat/completions?x=y`.
fn candidate_of(path: &str) -> (String, String) {
    let path = path.split('?').next().unwrap_or_default().trim_matches('/');
    let mut parts = path.split('/').map(str::to_owned);
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
}

/// The n-th script, or the last one where it repeats.
fn script_for(scripts: &[Script], index: usize) -> Option<&Script> {
    scripts.get(index).or_else(|| scripts.last().filter(|last| last.repeat))
}

#[cfg(test)]
mod tests {
    use super::{candidate_of, script_for};
    use crate::scenario::Script;

    #[test]
    fn the_first_two_parts_of_a_path_say_which_candidate() {
        for (path, scenario, candidate) in [
            ("/s07/a/v1/chat/completions?x=/y", "s07", "a"),
            ("/s07/a", "s07", "a"),
            ("//s07/a/", "s07", "a"),
            ("/s07", "s07", ""),
            ("/", "", ""),
        ] {
            assert_eq!(candidate_of(path), (scenario.to_owned(), candidate.to_owned()), "{path}");
        }
    }

    #[test]
    fn only_the_last_script_repeats() {
        let script = |status, repeat| Script { status, repeat, ..Script::default() };
        let status = |scripts: &[Script], index| script_for(scripts, index).map(|script| script.status);
        let ends = [script(500, true), script(200, false)];
        assert_eq!([status(&ends, 0), status(&ends, 1), status(&ends, 2)], [Some(500), Some(200), None]);
        let repeats = [script(500, false), script(200, true)];
        assert_eq!([status(&repeats, 1), status(&repeats, 9)], [Some(200), Some(200)]);
    }
}
