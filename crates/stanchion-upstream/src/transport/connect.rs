use std::{error::Error, fmt, sync::Arc, time::Duration};

use http::Uri;
use stanchion_core::BoxError;
use tokio::time::timeout;
use tower_service::Service;

use super::stream::{Tracked, TrackedIo};

/// Bounds the whole of a connect, and tracks the connection that comes of it.
#[derive(Debug, Clone)]
pub(super) struct Connect<C> {
    connector: C,
    limit: Duration,
}

impl<C> Connect<C>
where
    C: Service<Uri> + Clone,
    C::Error: Into<BoxError>,
{
    pub(super) fn new(connector: C, limit: Duration) -> Self {
        Self { connector, limit }
    }

    /// Connects to the server of a URI.
    pub(super) async fn connect(&self, uri: Uri) -> Result<TrackedIo<C::Response>, ConnectError> {
        let mut connector = self.connector.clone();
        let connected = async {
            std::future::poll_fn(|cx| connector.poll_ready(cx)).await?;
            connector.call(uri).await
        };
        match timeout(self.limit, connected).await {
            Ok(Ok(stream)) => Ok(Tracked::wrap(stream)),
            Ok(Err(error)) => Err(ConnectError::Failed(Arc::from(error.into()))),
            Err(_) => Err(ConnectError::Timeout(ConnectTimeout { limit: self.limit })),
        }
    }
}

/// Why there is no connection.
#[derive(Debug, Clone)]
pub(super) enum ConnectError {
    /// The name was not found, the server refused, or a handshake failed.
    Failed(Arc<dyn Error + Send + Sync>),
    Timeout(ConnectTimeout),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(_) => f.write_str("no connection"),
            Self::Timeout(timeout) => timeout.fmt(f),
        }
    }
}

impl Error for ConnectError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Failed(error) => Some(&**error),
            Self::Timeout(_) => None,
        }
    }
}

impl From<hyper::Error> for ConnectError {
    fn from(error: hyper::Error) -> Self {
        Self::Failed(Arc::new(error))
    }
}

/// No connection within the limit.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConnectTimeout {
    pub(super) limit: Duration,
}

impl fmt::Display for ConnectTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no connection within {:?}", self.limit)
    }
}

impl Error for ConnectTimeout {}
