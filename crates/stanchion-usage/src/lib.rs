//! What replies have used and what they cost, also those that were cut.
//!
//! A [`UsageService`] stands just inside of the edge and tells once of each reply, and of each attempt that was thrown
//! away, what it has used: an
//! [`Event::Usage`](stanchion_core::Event::Usage) with the candidate that answered, the model, the counts, how well
//! they are known and, where a price is known, the cost. Bytes pass as they are.
//!
//! ```
//! use std::sync::{Arc, Mutex};
//!
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::{BodyExt, Full};
//! use stanchion_core::{Call, Candidate, Context, Dialect, Event, Failure, Family, Selected, StreamRecord, Usage};
//! use stanchion_usage::UsageLayer;
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! // What an observing layer further in would write down.
//! let provider = service_fn(|_: Request<Full<Bytes>>| async {
//!     let (record, mut recorder) = StreamRecord::new();
//!     recorder.usage(&Usage {
//!         input: Some(100_000),
//!         cache_read: Some(900_000),
//!         cache_write: Some(50_000),
//!         output: Some(10_000),
//!         ..Usage::default()
//!     });
//!     recorder.terminal();
//!     let mut response = Response::new(Full::new(Bytes::from_static(b"event: message_stop\ndata: {}\n\n")));
//!     response.extensions_mut().insert(record);
//!     Ok::<_, Failure>(response)
//! });
//!
//! let told = Arc::new(Mutex::new(Vec::new()));
//! let observer = told.clone();
//! let context = Context::builder().observer(Arc::new(move |event: &Event| {
//!     if let Event::Usage(usage) = event {
//!         observer.lock().unwrap().push(usage.clone());
//!     }
//! }));
//! let model = "claude-sonnet-4-20250514";
//! let mut request = Request::new(Full::default());
//! request.extensions_mut().insert(context.build());
//! request.extensions_mut().insert(Call::new(Dialect::AnthropicMessages, true));
//! request.extensions_mut().insert(Selected::only(
//!     Candidate::new("anthropic", Family::Anthropic, "https://api.anthropic.com").with_model(model),
//! ));
//!
//! let reply = UsageLayer::new().layer(provider).oneshot(request).await.unwrap();
//! reply.into_body().collect().await.unwrap();
//!
//! let usage = &told.lock().unwrap()[0];
//! assert_eq!(usage.tokens.input_total(), Some(1_050_000));
//! // 0.9075 dollars.
//! assert_eq!(usage.cost_nanodollars, Some(907_500_000));
//! # }
//! ```
//!
//! # Settings
//!
//! | setting | default | meaning |
//! |---|---|---|
//! | [`UsageLayer::catalogue`] | [`Catalogue::built_in`] | where prices are looked up |
//! | [`UsageLayer::request_usage`] | no | whether providers are asked for usage where the client does not ask |
//!
//! # When it is told
//!
//! Once for every reply with a status of success: when its end marker has come and before that leaves, else when its
//! body ends, fails or is dropped, at whatever poll.
//!
//! And once for each attempt that did not come to be the reply and is paid for all the same, as soon as there is a reply,
//! a failure, or nobody who waits: one whose output was held back and thrown away, one that the client or a clock did not
//! wait for. An observing layer within writes them down in [`Attempts`](stanchion_core::Attempts). One that was refused,
//! or that failed in the place of an answer, costs nothing and is not told. Of one whose head had not come it is not known
//! what the provider bills: its quality is unknown, and so is its cost.
//!
//! Where nobody listens, nothing is counted or looked up; only whether the request asks for an hour in the cache is seen.
//!
//! # How well it is known
//!
//! A [`Tally`] takes the counts from the [`StreamRecord`](stanchion_core::StreamRecord), where they are normalised over
//! the dialects already: the kinds of input are disjoint, and reasoning is part of the output.
//!
//! | quality | when |
//! |---|---|
//! | measured | the provider reported input and output, and had finished |
//! | estimated | the reply was cut or left, or reports no usage: what is missing is estimated from request and text |
//! | unknown | the reply was not read (there is no record), had not begun, or the size of the request is not known |
//!
//! Nothing that a provider does not tell is taken for zero, but for one: Gemini leaves the count of what was read from the
//! cache out where it is zero. Once a candidate that speaks so has told such a count, one that is left out is zero.
//!
//! An estimate leans towards more. It knows nothing of reasoning that is billed and never shown, and nothing of the
//! cache.
//!
//! # What it costs
//!
//! The price is that of the model that the provider was asked for, by [`Catalogue::price_with`]; the cache is billed as the
//! one who answered bills it, by [`CacheBilling`], or by the prices that are listed for that one; sums are exact, in
//! [`Money`]. Who answered is known by the name that the candidate's provider was given, and by its address. A write to the
//! cache whose lifetime nobody tells is billed as one for an hour where the request asks for that of anything. Long prompts cost the same as short
//! ones here: tiers of prices are not known. A price that is not known gives no cost, and neither does a count that is
//! not known. The built-in prices are a default to estimate by: each carries its day and its source.
//!
//! What was lost where a prompt cache broke is told by [`Catalogue::loss_with`]: what was paid, less what it would have cost to
//! read. It wants the price of a read to be known, where a cost assumes the full price.
//!
//! # Asking for usage
//!
//! A stream of chat completions reports no usage unless the client asks for it. With
//! [`request_usage`](UsageLayer::request_usage), the body of one that does not is given
//! `"stream_options":{"include_usage":true}`, every other byte unchanged, and
//! [`HidesUsage`](stanchion_core::HidesUsage) in the request's extensions makes the observing layer leave the frame out
//! that holds nothing but the usage. The client sees the stream that it asked for, but for a `"usage":null` that some
//! providers then put into every chunk. A client that asks by itself is left alone, and a provider that sends no such
//! frame is fine; one that knows no `stream_options` may refuse the request, which is why this is not the default.

mod account;
mod body;
mod catalogue;
mod cost;
mod future;
mod layer;
mod money;
mod service;
mod tally;

pub use body::UsageBody;
pub use catalogue::{Capability, Catalogue, CatalogueError, Found, Match, Model, Prices};
pub use cost::{CacheBilling, Rates};
pub use future::UsageFuture;
pub use layer::UsageLayer;
pub use money::{BadPrice, Money, Price};
pub use service::UsageService;
pub use tally::{Tally, normalise};
