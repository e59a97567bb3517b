//! The outermost layer: where a client's HTTP request becomes something that can be replayed, and a
//! [`Failure`](stanchion_core::Failure) becomes an error that the client's library understands.
//!
//! On the way in, [`Edge`] finds the dialect by the path, collects the body within a bound, reads which model is asked for and whether the
//! reply is to be streamed, and puts a [`Call`](stanchion_core::Call) and a [`Context`](stanchion_core::Context) into the request's extensions.
//!
//! On the way out, a failure before the response is rendered as the dialect's error, and the provider's own answer to a caller's
//! mistake is given back verbatim. A failure after output goes into the stream as the dialect's in-band error, and then the
//! stream ends: no end marker, no finish is ever made up. A reply that the provider sent whole to a client that asked for a stream becomes one.
//! While a client waits, a [heartbeat](#heartbeat) can keep its connection alive, and [control events](#control-events)
//! can tell it why it waits.
//!
//! Its error is [`Infallible`](std::convert::Infallible): axum and hyper can serve it as it is.
//!
//! ```
//! use bytes::Bytes;
//! use http::{Request, Response, StatusCode};
//! use http_body_util::{BodyExt, Full};
//! use stanchion_core::{Failure, FailureKind};
//! use stanchion_edge::EdgeLayer;
//! use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let broken = service_fn(|_: Request<Full<Bytes>>| async { Err::<Response<Full<Bytes>>, _>(Failure::new(FailureKind::Overloaded)) });
//! let service = ServiceBuilder::new().layer(EdgeLayer::new()).service(broken);
//!
//! let request = Request::post("/v1/messages").body(Full::new(Bytes::from(r#"{"model":"m","stream":true}"#))).unwrap();
//! let response = service.oneshot(request).await.unwrap();
//! assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
//! let body = response.into_body().collect().await.unwrap().to_bytes();
//! assert!(body.starts_with(br#"{"type":"error","error":{"type":"overloaded_error""#));
//! # }
//! ```
//!
//! | request header | meaning |
//! |---|---|
//! | `x-stanchion-session` | the conversation |
//! | `x-stanchion-owner` | whose capacity is used; defaults to the session |
//! | `x-stanchion-class` | `foreground` (default), `background` or `internal` |
//! | `x-stanchion-context-epoch` | changes when the conversation was compacted |
//! | `x-stanchion-commit` | when the reply leaves: `first_output`, `window` or `complete` |
//! | `x-stanchion-events` | `sse`: [control events](#control-events) in the stream |
//!
//! | response header | meaning |
//! |---|---|
//! | `x-stanchion-candidate` | which candidate answered, as `provider/model` |
//! | `x-stanchion-attempts` | how many physical attempts were made |
//! | `x-stanchion-events` | `sse`: the stream holds control events, as was asked |
//!
//! | setting | default | meaning |
//! |---|---|---|
//! | [`EdgeLayer::max_request_bytes`] | 32 MiB | the largest request body; a larger one is a 413 |
//! | [`EdgeLayer::upload_idle`] | 30 s | the longest pause within a request body; a longer one is a 408 |
//! | [`EdgeLayer::upload_timeout`] | 5 min | the longest that a whole request body may take; a slower one is a 408 |
//! | [`EdgeLayer::identity_headers`] | on | whether the headers above are believed |
//! | [`EdgeLayer::observer`] | none | who sees the events of every request |
//! | [`EdgeLayer::rules`] | the table's | by which rules a failure becomes a status |
//! | [`EdgeLayer::heartbeat`] | off | how often a client that waits hears something; 1 s or more |
//! | [`EdgeLayer::heartbeat_for`] | off | the same, chosen for each call |
//!
//! What it refuses itself, it marks with [`Refused`] in the response's extensions, for whoever counts.
//!
//! Both features below are for replies that are Server-Sent Events: OpenAI's chats and responses, Anthropic's messages,
//! and Gemini's with `alt=sse`. Lines of NDJSON (Ollama), Gemini's array and whole documents have no place for a word
//! of ours. What is off costs nothing: no allocation and no lock.
//!
//! # Heartbeat
//!
//! A client may wait long before its reply begins: in a queue, for a backoff, for a circuit, for a provider that
//! thinks, or because the reply is held back until it is whole. Proxies and clients take a silent connection for a dead
//! one. With a heartbeat, a stream whose service has not answered at its first poll begins at once: `200`,
//! `content-type: text/event-stream`. Then a comment (`: waiting`) is sent whenever nothing was sent for so long, until
//! the first byte of the reply. From there on every byte is the provider's.
//!
//! What it costs, since the head has left when the answer comes:
//!
//! - A failure comes in band, as one after output does, and the stream ends. Client libraries raise it, but without its
//!   status: a library that asks again on a 429 or 503 by itself does not do so here. What is known at the first poll
//!   (an unknown path or model, a bad body) keeps its status.
//! - The provider's headers do not come through, nor `x-stanchion-candidate` and `x-stanchion-attempts`, and the
//!   response's extensions are empty.
//! - A whole document (of at most 8 MiB) becomes the stream that was promised. An answer that is no success is read (64
//!   KiB and 5 s at most) and told as the failure that it is. A body in a content coding, and one that can be no
//!   stream, is a failure too.
//! - A byte order mark before the reply is left out if a comment came before it.
//! - The future of the service within moves into the body, in a box. That the service becomes ready is waited for
//!   without a heartbeat: a service that queues should do so in its call, as all of Stanchion's do.
//!
//! # Control events
//!
//! A client that sends `x-stanchion-events: sse` also gets the [`Event`](stanchion_core::Event)s of its request,
//! between the frames of the reply:
//!
//! ```text
//! event: stanchion.provider_retry
//! data: {"type":"provider_retry","phase":"scheduled","attempt":1,"max_retries":2,"reason":"overloaded","delay_ms":500,"mode":"standard"}
//! ```
//!
//! They hold no prompt, no output, no tool name, no credential and no identity, but they name candidates, as
//! `provider/model`. The header counts only where [`EdgeLayer::identity_headers`] is on.
//!
//! - An event stands before the piece of the reply that came after it, and before the error that ends a stream. It
//!   never stands within an event of the provider's, and never after the end marker. Take the events out and what is
//!   left is what the provider sent, byte for byte.
//! - With a heartbeat, they come while the client waits. Without one, those that happened before come with the
//!   beginning of the reply; a request that fails before its output keeps its status, and its events are lost to the
//!   client.
//! - At most 256 wait for a client that is slow to read; then the oldest go.
//! - All other observers see what they saw before: the layer's own, and that of a [`Context`](stanchion_core::Context)
//!   which the application put into the request.
//! - A stream that is still encoded, or that is known neither by its reader nor by its content type, has none; then the
//!   response lacks the header.
//!
//! The header is for clients that read events by their names. The libraries of the providers do not:
//! they take any event for one of their own.
//!
//! | client | comments | an event of ours |
//! |---|---|---|
//! | `openai` 3.57 (Python), chats | left out | one more chunk, whose `choices` is `None`: a loop that indexes it at once raises `TypeError`, one that tests it first goes on, as `chat.completions.stream` does |
//! | the same, responses | left out | one more event, of a wrong class and with our `type`; `responses.stream` raises if one comes before `response.created` |
//! | `anthropic` 2.14 (Python) | left out | one more event, of a wrong class and with our `type`; `messages.stream` goes on |

mod body;
mod border;
mod collect;
mod events;
mod future;
mod identity;
mod layer;
mod live;
mod refused;
mod service;

pub use body::EdgeBody;
pub use future::EdgeFuture;
pub use identity::is_name;
pub use layer::EdgeLayer;
pub use refused::Refused;
pub use service::Edge;

#[cfg(test)]
mod tests;
