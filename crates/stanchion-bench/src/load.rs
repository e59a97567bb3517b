//! Load, and what came of it.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde::Serialize;

use crate::http1::Connection;

/// What is asked for, and where.
#[derive(Debug, Clone)]
pub struct Target {
    /// Who is asked.
    pub address: SocketAddr,
    /// The path.
    pub path: String,
    /// The model that is named in the request.
    pub model: String,
    /// Whether a stream is asked for.
    pub stream: bool,
    /// How large the prompt is, in bytes.
    pub prompt: usize,
    /// Header fields besides the usual, each as `name: value`.
    pub headers: Vec<String>,
}

impl Target {
    /// The bytes of one request, as an official client library sends it.
    pub fn request(&self) -> Vec<u8> {
        let prompt = "word ".repeat(self.prompt.div_ceil(5));
        let body = format!(
            r#"{{"model":"{}","stream":{},"messages":[{{"role":"user","content":"{prompt}"}}]}}"#,
            self.model, self.stream
        );
        let (address, path, length) = (self.address, &self.path, body.len());
        let more: String = self.headers.iter().flat_map(|header| [header.as_str(), "\r\n"]).collect();
        format!(
            "POST {path} HTTP/1.1\r\nhost: {address}\r\naccept: application/json\r\ncontent-type: application/json\r\n\
             user-agent: OpenAI/Python 3.57.0\r\nauthorization: Bearer sk-x\r\nx-stainless-lang: python\r\n\
             x-stainless-retry-count: 0\r\n{more}content-length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    }
}

/// What came of a load.
#[derive(Debug, Serialize)]
pub struct Report {
    /// How long it lasted, in seconds.
    pub seconds: f64,
    /// Requests that were answered whole, with a status of success.
    pub requests: u64,
    /// Those that were not.
    pub failed: u64,
    /// Events of all replies.
    pub events: u64,
    /// Time to the first byte of the body, from when the request was to be sent.
    pub first: Percentiles,
    /// Time to the end of the body, likewise.
    pub whole: Percentiles,
}

/// In microseconds.
#[derive(Debug, Default, Clone, Copy, Serialize)]
#[expect(missing_docs, reason = "their names say it")]
pub struct Percentiles {
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

impl Percentiles {
    fn of(mut nanoseconds: Vec<u64>) -> Self {
        if nanoseconds.is_empty() {
            return Self::default();
        }
        nanoseconds.sort_unstable();
        let at = |share: f64| {
            let rank = (share * nanoseconds.len() as f64).ceil() as usize;
            nanoseconds[rank.clamp(1, nanoseconds.len()) - 1] as f64 / 1e3
        };
        Self { p50: at(0.5), p90: at(0.9), p99: at(0.99), p999: at(0.999), max: at(1.0) }
    }
}

#[derive(Debug, Default)]
struct Seen {
    requests: u64,
    failed: u64,
    events: u64,
    first: Vec<u64>,
    whole: Vec<u64>,
}

impl Seen {
    /// Asks once; a connection that broke is made anew for the next.
    fn ask(&mut self, connection: &mut Option<Connection>, target: &Target, request: &[u8], due: Instant) {
        let asked = (|| {
            let open = match connection.take() {
                Some(open) => open,
                None => Connection::open(target.address)?,
            };
            let open = connection.insert(open);
            open.send(request)?;
            open.receive()
        })();
        match asked {
            Ok(reply) if reply.status == 200 => {
                self.requests += 1;
                self.events += reply.events;
                self.first.push(nanoseconds(due, reply.first));
                self.whole.push(nanoseconds(due, reply.ended));
            }
            Ok(_) => self.failed += 1,
            Err(_) => {
                self.failed += 1;
                *connection = None;
            }
        }
    }

    fn merge(&mut self, other: Self) {
        self.requests += other.requests;
        self.failed += other.failed;
        self.events += other.events;
        self.first.extend(other.first);
        self.whole.extend(other.whole);
    }

    fn report(self, took: Duration) -> Report {
        Report {
            seconds: took.as_secs_f64(),
            requests: self.requests,
            failed: self.failed,
            events: self.events,
            first: Percentiles::of(self.first),
            whole: Percentiles::of(self.whole),
        }
    }
}

fn nanoseconds(from: Instant, to: Instant) -> u64 {
    u64::try_from(to.saturating_duration_since(from).as_nanos()).unwrap_or(u64::MAX)
}

/// So many at once, each the next as soon as the last is answered.
pub fn closed_loop(target: &Target, concurrency: usize, warm_up: Duration, duration: Duration) -> Report {
    let began = Instant::now() + warm_up;
    let end = began + duration;
    let seen = on_threads(concurrency, |_| {
        let (mut seen, mut connection, request) = (Seen::default(), None, target.request());
        let mut cold = Seen::default();
        loop {
            let now = Instant::now();
            match now {
                _ if now >= end => return seen,
                _ if now >= began => seen.ask(&mut connection, target, &request, now),
                _ => cold.ask(&mut connection, target, &request, now),
            }
        }
    });
    seen.report(duration)
}

/// So many a second, whether the last is answered or not, over at most `connections` at once.
///
/// Each request has an instant at which it is due, and its times count from there: what waits because the other side is
/// slow waits visibly (no coordinated omission).
pub fn open_loop(target: &Target, rate: f64, connections: usize, warm_up: Duration, duration: Duration) -> Report {
    let start = Instant::now() + Duration::from_millis(20);
    let (cold, all) = ((rate * warm_up.as_secs_f64()) as u64, (rate * (warm_up + duration).as_secs_f64()) as u64);
    let next = AtomicU64::new(0);
    let seen = on_threads(connections, |_| {
        let (mut seen, mut ignored, mut connection, request) =
            (Seen::default(), Seen::default(), None, target.request());
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= all {
                return seen;
            }
            let due = start + Duration::from_secs_f64(number as f64 / rate);
            if let Some(early) = due.checked_duration_since(Instant::now()) {
                thread::sleep(early);
            }
            let into = if number < cold { &mut ignored } else { &mut seen };
            into.ask(&mut connection, target, &request, due);
        }
    });
    seen.report(duration)
}

fn on_threads(threads: usize, work: impl Fn(usize) -> Seen + Sync) -> Seen {
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..threads).map(|number| scope.spawn(move || work(number))).collect();
        let mut all = Seen::default();
        for thread in threads {
            all.merge(thread.join().expect("a thread of load does not panic"));
        }
        all
    })
}

/// Opens so many streams and reads none of them further than it must, until `told` says that they were looked at.
pub fn hold_open(target: &Target, streams: usize, told: &Arc<AtomicBool>) -> io::Result<()> {
    let request = target.request();
    let mut open = Vec::with_capacity(streams);
    for _ in 0..streams {
        let mut connection = Connection::open(target.address)?;
        connection.send(&request)?;
        open.push(connection);
    }
    while !told.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_ranks() {
        let percentiles = Percentiles::of((1..=1000).map(|number| number * 1000).rev().collect());
        let Percentiles { p50, p90, p99, p999, max } = percentiles;
        let nanoseconds = |microseconds: f64| (microseconds * 1000.0).round() as u64;
        assert_eq!([p50, p90, p99, p999, max].map(nanoseconds), [500_000, 900_000, 990_000, 999_000, 1_000_000]);
        assert_eq!(nanoseconds(Percentiles::of(vec![7000]).p50), 7000);
        assert_eq!(nanoseconds(Percentiles::of(Vec::new()).max), 0);
    }

    #[test]
    fn a_request_is_as_long_as_it_says() {
        let target = Target {
            address: ([127, 0, 0, 1], 80).into(),
            path: "/v1/chat/completions".into(),
            model: "m".into(),
            stream: true,
            prompt: 400,
            headers: vec!["x-more: 1".into()],
        };
        let request = String::from_utf8(target.request()).unwrap();
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("content-length: {}", body.len())), "{head}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(body).unwrap()["stream"], true);
    }
}
