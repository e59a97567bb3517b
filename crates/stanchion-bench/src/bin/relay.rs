//! A bare relay: hyper's server before hyper's client, frame by frame. What a gateway can be measured against, since it
//! is made of the same parts and does nothing else.

use std::{convert::Infallible, net::SocketAddr, process::ExitCode};

use bytes::Bytes;
use clap::Parser;
use http::{Request, Response, StatusCode, Uri, header};
use http_body_util::{Either, Empty};
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use tokio::net::TcpListener;

/// Passes every request on to one address, and every reply back.
#[derive(Debug, Parser)]
#[command(name = "relay")]
struct Arguments {
    /// Where to listen
    #[arg(long, value_name = "ADDR")]
    listen: SocketAddr,
    /// Where requests go, as an address with a path that goes before theirs
    #[arg(long, value_name = "URI")]
    to: Uri,
    /// Speak HTTP/2 to the upstream
    #[arg(long)]
    http2: bool,
}

type Upstream = Client<HttpConnector, Incoming>;
type Body = Either<Incoming, Empty<Bytes>>;

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("relay: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> std::io::Result<()> {
    let listener = TcpListener::bind(arguments.listen).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let mut builder = Client::builder(TokioExecutor::new());
    let upstream: Upstream = builder.pool_max_idle_per_host(256).http2_only(arguments.http2).build(connector);
    let to = arguments.to;
    loop {
        let (stream, _) = listener.accept().await?;
        let _ = stream.set_nodelay(true);
        let (upstream, to) = (upstream.clone(), to.clone());
        tokio::spawn(async move {
            let service = hyper::service::service_fn(|request| pass(upstream.clone(), to.clone(), request));
            // A client that leaves early is no concern of a relay.
            let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn pass(upstream: Upstream, to: Uri, mut request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let path = format!("{}{}", to.path().trim_end_matches('/'), request.uri().path());
    let target = Uri::builder()
        .scheme("http")
        .authority(to.authority().map_or("", |authority| authority.as_str()))
        .path_and_query(path)
        .build();
    let Ok(target) = target else { return Ok(failed()) };
    *request.uri_mut() = target;
    *request.version_mut() = http::Version::HTTP_11;
    request.headers_mut().remove(header::HOST);
    request.headers_mut().remove(header::CONNECTION);
    match upstream.request(request).await {
        Ok(mut response) => {
            *response.version_mut() = http::Version::HTTP_11;
            Ok(response.map(Either::Left))
        }
        Err(_) => Ok(failed()),
    }
}

fn failed() -> Response<Body> {
    let mut response = Response::new(Either::Right(Empty::new()));
    *response.status_mut() = StatusCode::BAD_GATEWAY;
    response
}
