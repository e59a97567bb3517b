use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use http::{
    Uri,
    uri::{PathAndQuery, Scheme},
};
use hyper::client::conn::{http1, http2};
use hyper_rustls::HttpsConnector;
use hyper_util::{
    client::legacy::connect::{Connection as _, HttpConnector},
    rt::TokioExecutor,
};
use tokio::sync::oneshot;

use super::{
    connect::Connect,
    connection::Connection,
    origin::{Arrival, Keep, Opening, Origin, Part, Waiting},
};

/// The connections to all origins, and how more are opened.
pub(super) struct Pool {
    pub(super) connect: Connect<HttpsConnector<HttpConnector>>,
    pub(super) http1: http1::Builder,
    pub(super) http2: http2::Builder<TokioExecutor>,
    /// Each origin speaks HTTP/2, and no connection needs to ask for it.
    pub(super) http2_prior_knowledge: bool,
    pub(super) keep: Keep,
    pub(super) origins: RwLock<Origins>,
}

/// Origins by their authority, as it is written.
#[derive(Default)]
pub(super) struct Origins {
    http: HashMap<Box<str>, Arc<Origin>>,
    https: HashMap<Box<str>, Arc<Origin>>,
}

impl Origins {
    fn of(&mut self, scheme: &Scheme) -> &mut HashMap<Box<str>, Arc<Origin>> {
        if *scheme == Scheme::HTTPS { &mut self.https } else { &mut self.http }
    }
}

impl Pool {
    /// Whose URI it is. `None`: it has no scheme and authority that are spoken here.
    pub(super) fn origin(&self, uri: &Uri) -> Option<Arc<Origin>> {
        let (scheme, authority) = (uri.scheme()?, uri.authority()?.as_str());
        let known = {
            let origins = self.origins.read().unwrap_or_else(PoisonError::into_inner);
            match scheme.as_str() {
                "http" => origins.http.get(authority).cloned(),
                "https" => origins.https.get(authority).cloned(),
                _ => return None,
            }
        };
        known.or_else(|| self.new_origin(uri))
    }

    #[cold]
    fn new_origin(&self, uri: &Uri) -> Option<Arc<Origin>> {
        let mut parts = uri.clone().into_parts();
        parts.path_and_query = Some(PathAndQuery::from_static("/"));
        let (scheme, authority) = (parts.scheme.clone()?, parts.authority.clone()?);
        let uri = Uri::from_parts(parts).ok()?;
        let mut origins = self.origins.write().unwrap_or_else(PoisonError::into_inner);
        let origins = origins.of(&scheme);
        if origins.len() == origins.capacity() {
            // Before the map grows: those to which nothing leads and of which nobody knows.
            origins.retain(|_, origin| Arc::strong_count(origin) > 1 || !origin.is_empty());
        }
        let new = || Arc::new(Origin::new(uri, self.keep));
        Some(origins.entry(authority.as_str().into()).or_insert_with(new).clone())
    }

    /// A connection, kept or new. Takes one that somebody gives back while it is being opened.
    pub(super) async fn connection(self: Arc<Self>, origin: Arc<Origin>) -> Arrival {
        loop {
            let Waiting { arrival, part } = match origin.take_or_wait(self.http2_prior_knowledge) {
                Ok(connection) => return Ok(connection),
                Err(waiting) => waiting,
            };
            match part {
                Part::OpensItsOwn => return self.first(origin, arrival).await,
                // Nobody is to wait for one who may not be polled, or be dropped.
                Part::OpensForAll(opening) => drop(tokio::spawn(self.clone().for_all(origin.clone(), opening))),
                Part::Waits => {}
            }
            if let Ok(arrived) = arrival.await {
                return arrived;
            }
        }
    }

    /// Opens a connection, and takes it or what comes before.
    async fn first(self: Arc<Self>, origin: Arc<Origin>, mut arrival: oneshot::Receiver<Arrival>) -> Arrival {
        let mut opening = Box::pin(self.open(origin.clone()));
        let opened = tokio::select! {
            biased;
            Ok(arrived) = &mut arrival => {
                // Whoever comes next can have what is nearly there.
                tokio::spawn(async move {
                    if let Ok(opened) = opening.await {
                        origin.put(opened);
                    }
                });
                return arrived;
            }
            opened = &mut opening => opened,
        };
        arrival.close();
        match (opened, arrival.try_recv()) {
            (Ok(opened), Ok(Ok(arrived))) => {
                origin.put(arrived);
                Ok(opened)
            }
            (Err(_), Ok(arrived)) => arrived,
            (Err(error), Err(_)) => origin.take().ok_or(error),
            (opened, _) => opened,
        }
    }

    /// Opens the connection that all share, or tells those who wait why there is none.
    async fn for_all(self: Arc<Self>, origin: Arc<Origin>, _opening: Opening) {
        if let Err(error) = self.open(origin.clone()).await {
            origin.refuse(&error);
        }
    }

    /// Opens a connection. One that all can share is kept from now on, and given to those who wait.
    pub(super) async fn open(self: Arc<Self>, origin: Arc<Origin>) -> Arrival {
        let stream = self.connect.connect(origin.uri().clone()).await?;
        let history = stream.inner().history().clone();
        if self.http2_prior_knowledge || stream.connected().is_negotiated_h2() {
            if let Some(faster) = origin.shared() {
                return Ok(faster);
            }
            let (sender, connection) = self.http2.handshake(stream).await?;
            drive(connection);
            Ok(origin.put_shared(Connection::http2(sender, history)))
        } else {
            let (mut sender, connection) = self.http1.handshake(stream).await?;
            drive(connection);
            sender.ready().await?;
            Ok(Connection::http1(sender, history))
        }
    }
}

fn drive(connection: impl Future<Output = hyper::Result<()>> + Send + 'static) {
    tokio::spawn(async move {
        // Its requests are told what goes wrong.
        let _ = connection.await;
    });
}

#[cfg(test)]
mod tests;
