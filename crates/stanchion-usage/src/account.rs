//! The account of one reply: opened with the request, closed once.

use std::{
    collections::HashSet,
    pin::Pin,
    sync::{Arc, LazyLock, Mutex, PoisonError},
    task::{Context as Wakes, Poll, Waker},
};

use bytes::Bytes;
use http::{Extensions, Request};
use http_body::Body;
use http_body_util::Full;
use memchr::memmem::Finder;
use stanchion_core::{
    AttemptReply, Attempts, Call, Candidate, Context, Dialect, Ending, Event, Selected, StreamRecord, Usage, UsageEvent,
};

use crate::{Catalogue, Tally, UsageLayer};

/// What is known of a request, and then of its reply.
pub(crate) struct Account {
    context: Option<Context>,
    catalogue: Option<Arc<Catalogue>>,
    caches: ToldCaches,
    dialect: Option<Dialect>,
    /// The model that the client named.
    model: Option<Arc<str>>,
    request_tokens: u64,
    /// Whether it asks for its prompt to be kept for an hour.
    hour: bool,
    selected: Option<Selected>,
    record: Option<StreamRecord>,
    attempts: Attempts,
}

impl Account {
    /// Opens it, and has the layers within write down the request's attempts.
    pub(crate) fn open(request: &mut Request<Full<Bytes>>, layer: &UsageLayer) -> Self {
        let attempts = Attempts::attach(request);
        let call = request.extensions().get::<Call>();
        let measured = call.map_or(0, |call| call.estimated_tokens() as u64);
        let size = || request.body().size_hint().exact().unwrap_or(0).div_ceil(4);
        Self {
            context: Context::of(request).cloned(),
            catalogue: layer.catalogue.clone(),
            caches: layer.caches.clone(),
            dialect: call.map(|call| call.dialect),
            model: call.and_then(|call| call.model.clone()),
            request_tokens: if measured == 0 { size() } else { measured },
            hour: call.is_some_and(|call| wants_an_hour(call.dialect, request.body())),
            selected: request.extensions().get().cloned(),
            record: None,
            attempts,
        }
    }

    /// Takes down who has answered, and where it will stand what the reply has used.
    pub(crate) fn answered(&mut self, extensions: &Extensions) {
        if let Some(selected) = extensions.get::<Selected>() {
            self.selected = Some(selected.clone());
        }
        self.record = extensions.get().cloned();
    }

    /// Whether the reply has said all that it will say of its usage, although its body goes on.
    pub(crate) fn is_complete(&self) -> bool {
        self.record.as_ref().is_some_and(|record| record.terminal() || record.ending().is_some())
    }

    /// Tells of the attempts that did not come to be the answer: they are paid for as well.
    pub(crate) fn close_others(&self) {
        for AttemptReply { selected, record, .. } in self.attempts.take() {
            let is_answer = match (&record, &self.record) {
                (Some(record), Some(answer)) => record.is_same(answer),
                _ => false,
            };
            if !is_answer && record.as_ref().is_none_or(is_paid_for) {
                self.tell(selected.as_ref().or(self.selected.as_ref()), record.as_ref());
            }
        }
    }

    /// Tells what the reply has used.
    pub(crate) fn close(self) {
        self.tell(self.selected.as_ref(), self.record.as_ref());
    }

    /// The counts that the cost is made of. A write whose lifetime nobody tells may have been for an hour, where the
    /// request asked for that: it is not billed as one for five minutes.
    fn billed(&self, tokens: Usage) -> Usage {
        let untold = tokens.cache_write_5m.is_none() && tokens.cache_write_1h.is_none();
        let cache_write_1h = if untold && self.hour { tokens.cache_write } else { tokens.cache_write_1h };
        Usage { cache_write_1h, ..tokens }
    }

    fn tell(&self, selected: Option<&Selected>, record: Option<&StreamRecord>) {
        Context::emit(self.context.as_ref(), || {
            let Tally { mut tokens, quality } = Tally::of(record, self.dialect, Some(self.request_tokens));
            let candidate = selected.map(|selected| &*selected.candidate);
            let told = record.map(StreamRecord::usage).unwrap_or_default();
            if self.dialect == Some(Dialect::GeminiGenerateContent) && told.input.is_some() {
                tokens.cache_read = self.caches.read(candidate, told.cache_read);
            }
            let model = candidate.and_then(|candidate| candidate.model()).or(self.model.as_ref());
            let catalogue = self.catalogue.as_deref().unwrap_or_else(|| Catalogue::built_in());
            let cost = candidate
                .zip(model)
                .and_then(|(candidate, model)| catalogue.cost_with(candidate, model, &self.billed(tokens)));
            Event::Usage(UsageEvent {
                candidate: candidate.map(|candidate| candidate.name().clone()),
                model: model.cloned(),
                request_class: self.context.as_ref().map(Context::class).unwrap_or_default(),
                quality,
                tokens,
                cost_nanodollars: cost.map(crate::Money::nanodollars),
            })
        });
    }
}

/// Whose replies have told what they read from the cache. Gemini leaves such a count out where it is zero, and so does
/// whoever does not know it.
#[derive(Clone, Default)]
pub(crate) struct ToldCaches(Arc<Mutex<HashSet<Arc<str>>>>);

impl ToldCaches {
    /// How many candidates are kept.
    const MOST: usize = 1_024;

    /// What a reply of this candidate read from the cache, which says so or says nothing.
    fn read(&self, candidate: Option<&Candidate>, told: Option<u64>) -> Option<u64> {
        let Some(name) = candidate.map(Candidate::name) else { return told };
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_some() && names.len() < Self::MOST {
            names.insert(name.clone());
        }
        told.or_else(|| names.contains(name).then_some(0))
    }
}

/// Whether a request says of anything that it is to be kept for an hour. A look at the bytes is enough: what a user says
/// has its quotes escaped.
fn wants_an_hour(dialect: Dialect, body: &Full<Bytes>) -> bool {
    // Made once: to prepare the search costs more than the search.
    static HOUR: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(br#""1h""#));
    matches!(dialect, Dialect::AnthropicMessages | Dialect::OpenAiChat) && HOUR.find(&whole(body.clone())).is_some()
}

/// The bytes of a body that is always ready.
pub(crate) fn whole(mut body: Full<Bytes>) -> Bytes {
    match Pin::new(&mut body).poll_frame(&mut Wakes::from_waker(Waker::noop())) {
        Poll::Ready(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
        _ => Bytes::new(),
    }
}

/// Whether a reply that nobody got has cost something. One that failed by itself before it said anything has not: an
/// error in the place of an answer, or an empty body.
fn is_paid_for(record: &StreamRecord) -> bool {
    matches!(record.ending(), None | Some(Ending::Cancelled)) || record.output_started() || !record.usage().is_empty()
}
