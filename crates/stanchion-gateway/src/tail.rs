//! `stanchion tail`: what happens in a gateway, line by line in a terminal.

mod line;
mod messages;

use std::{
    error::Error,
    fmt,
    io::{self, IsTerminal, Write},
    path::Path,
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use stanchion::upstream::{ClientTls, InvalidTls, Transport, TransportBody};
use tokio::time::{sleep, timeout};
use tower_service::Service;

use self::{line::Lines, messages::Messages};

/// The gateway shows a sign of life every second.
const SILENCE: Duration = Duration::from_secs(10);
const CONNECT: Duration = Duration::from_secs(5);
const BACKOFF: [u64; 6] = [300, 700, 1_500, 3_000, 5_000, 8_000];

/// What to watch, and how to show it.
#[derive(Debug, Clone)]
pub struct Tail {
    /// The address of the admin listener.
    pub url: String,
    /// The admin key.
    pub key: Option<HeaderValue>,
    /// Whom to trust besides the platform's roots where the address is https, and the certificate to present.
    pub tls: ClientTls,
    /// Only the requests of this model.
    pub model: Option<String>,
    /// Whether events are printed as they come, one JSON object a line.
    pub json: bool,
    /// Whether lines have colours.
    pub colors: bool,
}

/// Why it ended.
#[derive(Debug)]
pub enum TailError {
    /// The address is none.
    Address(String),
    /// Nobody answered when it began.
    Unreachable(String),
    /// The listener is not trusted, or speaks no TLS.
    Tls(String, rustls::Error),
    /// The key is missing or wrong.
    Key,
    /// The answer is not that of an admin listener.
    Answer(StatusCode),
    /// It cannot be printed any more.
    Print(io::Error),
}

impl fmt::Display for TailError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(url) => write!(f, "{url:?} is no address: write one such as http://127.0.0.1:9090"),
            Self::Unreachable(url) => {
                write!(f, "nobody answers at {url}: is the gateway running, and does its configuration have [admin]? ")?;
                f.write_str(if url.starts_with("https:") {
                    "Another address is given by --url, and a certificate, if it asks for one, by --cert"
                } else {
                    "Another address is given by --url; with [admin.tls] it begins with https"
                })
            }
            Self::Tls(url, error @ rustls::Error::InvalidCertificate(_)) => {
                write!(f, "{url} is not trusted ({error}): name who signed its certificate by --ca")
            }
            Self::Tls(url, error @ rustls::Error::AlertReceived(_)) => {
                write!(f, "{url} refused us ({error}): if it asks for a certificate, give one by --cert and --cert-key")
            }
            Self::Tls(url, error) => {
                write!(f, "no TLS can be spoken with {url} ({error}): does its configuration have [admin.tls]?")
            }
            Self::Key => f.write_str(
                "the admin listener wants its key, and did not take this one: name the variable that has it by --key-env",
            ),
            Self::Answer(status) => write!(
                f,
                "the answer was {status}: that is no admin listener, or as many listen to it as may"
            ),
            Self::Print(error) => write!(f, "standard output: {error}"),
        }
    }
}

impl Error for TailError {}

/// Whether lines to standard output have colours: as `color` says, or else where a terminal shows them and nobody objects.
pub fn colors(color: clap::ColorChoice) -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    match color {
        clap::ColorChoice::Always => true,
        clap::ColorChoice::Never => false,
        clap::ColorChoice::Auto => {
            let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
            io::stdout().is_terminal() && !is_set("NO_COLOR") && !is_dumb
        }
    }
}

/// The admin key as it is presented; `None` if no header can carry it.
pub fn bearer(key: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(format!("Bearer {key}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Whom to trust besides the platform's roots, and the certificate and key to present, from their files.
///
/// # Errors
///
/// With what is wrong with which of them.
pub fn trust(ca: Option<&Path>, identity: Option<(&Path, &Path)>) -> Result<ClientTls, String> {
    let read = |path: &Path| std::fs::read(path).map_err(|error| format!("{} cannot be read: {error}", path.display()));
    let mut tls = ClientTls::new();
    if let Some(path) = ca {
        tls = tls.with_roots(&read(path)?).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    if let Some((cert, key)) = identity {
        tls = tls.with_identity(&read(cert)?, &read(key)?).map_err(|error| {
            let wrong = if error == InvalidTls::Certificate { cert } else { key };
            format!("{}: {error}", wrong.display())
        })?;
    }
    Ok(tls)
}

/// What rustls says of a failure, at any depth.
fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    if let Some(found) = error.downcast_ref() {
        return Some(found);
    }
    // An I/O error's source is that of the error which it is made of.
    let within = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    match within {
        Some(within) => tls_error(within),
        None => tls_error(error.source()?),
    }
}

impl Tail {
    /// Prints what happens to `out` until that is closed; connects again whenever the connection is lost. Says on `aside` how the
    /// connection fares.
    pub async fn run(self, out: &mut (impl Write + Send), aside: &mut (impl Write + Send)) -> Result<(), TailError> {
        let mut transport = Transport::builder().connect_timeout(CONNECT).tls(self.tls.clone()).build();
        let mut lines = Lines::new(self.colors);
        let (mut was_there, mut failures) = (false, 0);
        loop {
            match self.connect(&mut transport).await {
                Ok(body) => {
                    let _ = if was_there {
                        writeln!(aside, "stanchion: connected again")
                    } else {
                        writeln!(aside, "stanchion: watching {}; Ctrl-C ends it", self.url)
                    };
                    (was_there, failures) = (true, 0);
                    match self.print(body, &mut lines, out).await {
                        Ok(()) => {}
                        // Whoever read it has seen enough.
                        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                        Err(error) => return Err(TailError::Print(error)),
                    }
                }
                // One that was there may be away; one that refuses is not.
                Err(TailError::Unreachable(_)) if was_there => {}
                Err(error) => return Err(error),
            }
            let wait = Duration::from_millis(BACKOFF[failures.min(BACKOFF.len() - 1)]);
            if failures == 0 {
                let _ = writeln!(aside, "stanchion: the connection to {} is lost; trying again", self.url);
            }
            failures += 1;
            sleep(wait).await;
        }
    }

    fn request(&self) -> Option<Request<Full<Bytes>>> {
        let mut url = url::Url::parse(&self.url).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
        let path = format!("{}/events", url.path().trim_end_matches('/'));
        url.set_path(&path);
        url.set_fragment(None);
        url.query_pairs_mut().clear().append_pair("view", "requests");
        if let Some(model) = &self.model {
            url.query_pairs_mut().append_pair("model", model);
        }
        let mut request = Request::get(url.as_str()).header(header::ACCEPT, "text/event-stream");
        if let Some(key) = &self.key {
            request = request.header(header::AUTHORIZATION, key);
        }
        request.body(Full::default()).ok()
    }

    async fn connect(&self, transport: &mut Transport) -> Result<TransportBody, TailError> {
        let request = self.request().ok_or_else(|| TailError::Address(self.url.clone()))?;
        let unreachable = || TailError::Unreachable(self.url.clone());
        let response = timeout(SILENCE, transport.call(request)).await.map_err(|_| unreachable())?;
        let response = response.map_err(|failure| match tls_error(&failure) {
            Some(error) => TailError::Tls(self.url.clone(), error.clone()),
            None => unreachable(),
        })?;
        match response.status() {
            StatusCode::OK => Ok(response.into_body()),
            StatusCode::UNAUTHORIZED => Err(TailError::Key),
            status => Err(TailError::Answer(status)),
        }
    }

    /// Prints what comes until nothing comes any more.
    async fn print(&self, mut body: TransportBody, lines: &mut Lines, out: &mut impl Write) -> io::Result<()> {
        let mut messages = Messages::default();
        while let Ok(Some(Ok(frame))) = timeout(SILENCE, body.frame()).await {
            let Ok(data) = frame.into_data() else { continue };
            if !messages.feed(&data) {
                break;
            }
            while let Some((name, data)) = messages.next() {
                self.show(&name, &data, lines, out)?;
            }
            out.flush()?;
        }
        Ok(())
    }

    fn show(&self, name: &str, data: &str, lines: &mut Lines, out: &mut impl Write) -> io::Result<()> {
        if self.json {
            return match name {
                "event" | "action" | "lost" => writeln!(out, "{data}"),
                _ => Ok(()),
            };
        }
        let Ok(data) = serde_json::from_str::<Value>(data) else { return Ok(()) };
        match lines.of(name, &data) {
            Some(line) => writeln!(out, "{line}"),
            None => Ok(()),
        }
    }
}
