//! Says when a session's prompt cache broke, why, and how many tokens it cost.
//!
//! Providers keep the beginning of a prompt in a cache and read it for a tenth of the price. When something near the
//! beginning changes (a time in the system prompt, the order of tools, an old message) nothing fails: the next call
//! pays for all of it anew, and so does every one after it. [`CacheBreak`] compares each reply's cache reads with the
//! last reply's in the same session, and tells a collapse with its cause as an event.
//!
//! * **Sessions.** A session is what the [`Context`](stanchion_core::Context) of a request says it is; two owners may
//!   use the same name, and two [tenants](stanchion_core::Tenant) never share one. Requests without one pass untouched,
//!   unless [`derive_sessions`] is set: then the conversation's first user message and the owner are the session, but
//!   for a request that continues a conversation that the provider keeps. 32 are kept ([`max_sessions`]); the one seen longest ago makes
//!   room.
//! * **What is compared.** The [`Fingerprint`]s of both requests: system prompt, each tool, request policy, messages,
//!   and the places of breakpoints. It is taken while the provider is at work, so that no call waits for it.
//! * **When it is judged.** Once the reply's usage is known: with the end marker, the end, an error, or when the body is
//!   dropped. Usage is read from the [`StreamRecord`](stanchion_core::StreamRecord), so a layer within must observe.
//! * **Unknown is not zero.** A reply that does not tell what was read from the cache is not judged, and what was seen
//!   before stands. Only Gemini leaves such a count out where it is zero: once a model has told it in a session, a reply
//!   of the same model that reports its input and not this count has read nothing.
//! * **One after the other.** Replies are compared in the order in which they began. One that began before the reply that
//!   was judged last, as parallel calls of a session do, is not judged and does not take its place.
//! * **What a break is.** The reply before read at least 1,000 tokens; this one reads less by 512 or by a tenth of
//!   that, whichever is more, but by no more than 2,000 if that is less; and it reads less than 95 % of it. A prompt
//!   shorter than 90 % of the one before it, if nothing else changed, reads less because there is less to read. A new
//!   [context epoch](stanchion_core::Context::context_epoch) begins anew, without a word.
//! * **Nothing is kept but fingerprints.** No prompt, reply, tool name, schema, session, owner or epoch is in the
//!   monitor's memory; events have counts and reasons.
//! * **Retention.** A [`CacheRetention`](stanchion_core::CacheRetention) in a request's extensions is written into the
//!   body: see [`with_cache_retention`](stanchion_wire::request::with_cache_retention). With `none` the session is
//!   forgotten, in every dialect, and nothing is told; a reply that had begun before does not bring it back.
//!
//! # Causes
//!
//! The first that holds is the [reason](stanchion_core::CacheBreakReason); the event's flags tell all.
//!
//! | reason | holds when |
//! |---|---|
//! | `model_changed` | another provider, dialect or model answered |
//! | `system_prompt_changed` | the system prompt is another |
//! | `tools_changed` | tools were added, removed or have another contract |
//! | `request_policy_changed` | any other member of the body [that matters](Fingerprint) is another, the candidate's address, headers, tier, API version, temperature or output limit, `anthropic-beta`, `anthropic-version`, `openai-beta`, or how long the prompt is to be kept |
//! | `ttl_expired` | as long passed between the two replies' beginnings as the earlier one was to be kept: 5 min, 1 h or a day |
//! | `tool_order_changed` | the tools that stayed are in another order: maps without an order do that |
//! | `messages_changed` | a message that was sent before is another now; [`first_changed_message`] says which |
//! | `breakpoints_changed` | fewer `cache_control` than before, or one that stands further ahead |
//! | `server_side` | none of these; the order of keys and the spelling of JSON are not compared, and some providers' caches do |
//!
//! Tool order, messages and breakpoints are causes of our own; a monitor that does not know them calls such a break
//! server-side. They do not matter to what counts as a break.
//!
//! A system prompt that is another on every call is never cached, and so never breaks. From the third one in a row a
//! session has a *volatile prefix*: told once, as
//! [`PromptCacheVolatile`](stanchion_core::Event::PromptCacheVolatile), and a flag of each break.
//!
//! # Example
//!
//! ```
//! use std::sync::{Arc, Mutex};
//!
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::{BodyExt, Full};
//! use stanchion_cache_break::{CacheBreakLayer, CacheBreakPolicy, describe};
//! use stanchion_core::{Call, Context, Dialect, Event, Failure, StreamRecord, Usage};
//! use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! // A provider whose cache holds as long as the request begins alike.
//! let provider = service_fn(|request: Request<Full<Bytes>>| async move {
//!     let body = request.into_body().collect().await.unwrap().to_bytes();
//!     let kept = body.starts_with(br#"{"system":"It is 9:00."#);
//!     // What the observing layer does.
//!     let (record, mut recorder) = StreamRecord::new();
//!     recorder.usage(&Usage { input: Some(20), cache_read: Some(if kept { 6_000 } else { 500 }), ..Usage::default() });
//!     let mut response = Response::new(Full::new(Bytes::from("Hello.")));
//!     response.extensions_mut().insert(record);
//!     Ok::<_, Failure>(response)
//! });
//!
//! let layer = CacheBreakLayer::new(CacheBreakPolicy::default());
//! let mut service = ServiceBuilder::new().layer(layer).service(provider);
//!
//! let told = Arc::new(Mutex::new(Vec::new()));
//! for time in ["9:00", "10:00"] {
//!     let told = told.clone();
//!     let observer = Arc::new(move |event: &Event| told.lock().unwrap().push(event.clone()));
//!     let body = format!(r#"{{"system":"It is {time}.","messages":[{{"role":"user","content":"Hello?"}}]}}"#);
//!     let mut request = Request::new(Full::new(Bytes::from(body)));
//!     request.extensions_mut().insert(Context::builder().session("s1").observer(observer).build());
//!     request.extensions_mut().insert(Call::new(Dialect::AnthropicMessages, true));
//!     service.ready().await.unwrap().call(request).await.unwrap().into_body().collect().await.unwrap();
//! }
//! let told = told.lock().unwrap();
//! let [Event::PromptCacheBreak(broken)] = told.as_slice() else { panic!("one break") };
//! assert_eq!(describe(broken), "system prompt changed: 6,000 → 500");
//! # }
//! ```
//!
//! # Settings
//!
//! | setting | unit | range | default | meaning |
//! |---|---|---|---|---|
//! | [`max_sessions`] | sessions | 1 to 65,536 | 32 | how many are kept |
//! | [`max_messages`](CacheBreakPolicyBuilder::max_messages) | messages | 0 to 65,536 | 1,024 | how many of a conversation are kept apart, 8 bytes each |
//! | [`max_tools`](CacheBreakPolicyBuilder::max_tools) | tools | 0 to 65,536 | 512 | how many of a request are kept apart, 32 bytes each |
//! | [`max_body_bytes`](CacheBreakPolicyBuilder::max_body_bytes) | bytes | any | 8 MiB | the largest body that is read |
//! | [`derive_sessions`] | | | no | whether a session that is not named is known by its first message |
//!
//! By default a session takes 25 KiB at most, and all of them less than 1 MiB. As many as can be kept, 65,536, take up to
//! 1.6 GiB. What an event's
//! [`lost_tokens`](stanchion_core::PromptCacheBreak::lost_tokens) cost is for
//! [`with_price`](CacheBreakLayer::with_price) to say.
//!
//! [`max_sessions`]: CacheBreakPolicyBuilder::max_sessions
//! [`derive_sessions`]: CacheBreakPolicyBuilder::derive_sessions
//! [`first_changed_message`]: stanchion_core::PromptCacheBreak::first_changed_message

mod body;
mod fingerprint;
mod future;
mod handle;
mod layer;
mod metrics;
mod monitor;
mod policy;
mod service;
mod watch;

pub use body::CacheBreakBody;
pub use fingerprint::{CacheLifetime, Fingerprint, FingerprintBounds};
pub use future::CacheBreakFuture;
pub use handle::CacheBreakMonitor;
pub use layer::{CacheBreakLayer, Loss};
pub use metrics::{CacheCounters, CacheMetrics, advice, describe, grouped, percent, reason_words, tokens};
pub use monitor::{Findings, Monitor, Observation, SessionKey};
pub use policy::{CacheBreakPolicy, CacheBreakPolicyBuilder, InvalidCacheBreak};
pub use service::{CacheBreak, WholeBody};
