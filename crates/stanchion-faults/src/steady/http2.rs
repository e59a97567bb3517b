//! Over HTTP/2.

use std::sync::Arc;

use bytes::Bytes;
use h2::{RecvStream, SendStream, server::SendResponse};
use http::{Request, Response, header::CONTENT_TYPE};
use tokio::net::TcpStream;

use super::reply::{Replies, Reply};

/// So that a reply of any size that is measured goes out without waiting for the other side's windows.
const WINDOW: u32 = 1 << 24;

pub(super) async fn serve(socket: TcpStream, replies: &Replies) {
    let mut builder = h2::server::Builder::new();
    builder.initial_window_size(WINDOW).initial_connection_window_size(WINDOW).max_send_buffer_size(WINDOW as usize);
    let Ok(mut connection) = builder.handshake::<_, Bytes>(socket).await else { return };
    while let Some(Ok((request, respond))) = connection.accept().await {
        let reply = replies.of(request.uri().path());
        // A stream that breaks concerns its client alone.
        tokio::spawn(async move { drop(answer(request, respond, reply).await) });
    }
}

async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    reply: Arc<Reply>,
) -> Result<(), h2::Error> {
    let mut body = request.into_body();
    while let Some(piece) = body.data().await {
        let length = piece?.len();
        body.flow_control().release_capacity(length)?;
    }
    let mut response = Response::new(());
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(reply.content_type));
    let stream = respond.send_response(response, false)?;
    send(stream, &reply).await
}

async fn send(mut stream: SendStream<Bytes>, reply: &Reply) -> Result<(), h2::Error> {
    for (number, piece) in reply.pieces.iter().enumerate() {
        if let Some(gap) = reply.gap.filter(|_| number > 0) {
            tokio::time::sleep(gap).await;
        }
        stream.send_data(piece.clone(), number + 1 == reply.pieces.len())?;
    }
    Ok(())
}
