//! The account of one reply: opened with the request, closed once.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, response};
use http_body::Body;
use http_body_util::Full;
use stanchion_core::{Call, Context, Dialect, Event, Selected, StreamRecord, UsageEvent};

use crate::{Catalogue, Tally};

/// What is known of a request, and then of its reply.
pub(crate) struct Account {
    context: Option<Context>,
    catalogue: Option<Arc<Catalogue>>,
    dialect: Option<Dialect>,
    /// The model that the client named.
    model: Option<Arc<str>>,
    request_tokens: u64,
    selected: Option<Selected>,
    record: Option<StreamRecord>,
}

impl Account {
    pub(crate) fn open(request: &Request<Full<Bytes>>, catalogue: Option<Arc<Catalogue>>) -> Self {
        let call = request.extensions().get::<Call>();
        let measured = call.map_or(0, |call| call.estimated_tokens() as u64);
        let size = || request.body().size_hint().exact().unwrap_or(0).div_ceil(4);
        Self {
            context: Context::of(request).cloned(),
            catalogue,
            dialect: call.map(|call| call.dialect),
            model: call.and_then(|call| call.model.clone()),
            request_tokens: if measured == 0 { size() } else { measured },
            selected: request.extensions().get().cloned(),
            record: None,
        }
    }

    /// Takes down who has answered, and where it will stand what the reply has used.
    pub(crate) fn answered(&mut self, head: &response::Parts) {
        if let Some(selected) = head.extensions.get::<Selected>() {
            self.selected = Some(selected.clone());
        }
        self.record = head.extensions.get().cloned();
    }

    /// Whether the reply has said all that it will say of its usage, although its body goes on.
    pub(crate) fn is_complete(&self) -> bool {
        self.record.as_ref().is_some_and(|record| record.terminal() || record.ending().is_some())
    }

    /// Tells what the reply has used.
    pub(crate) fn close(self) {
        Context::emit(self.context.as_ref(), || {
            let Tally { tokens, quality } = Tally::of(self.record.as_ref(), self.dialect, Some(self.request_tokens));
            let candidate = self.selected.as_ref().map(|selected| &*selected.candidate);
            let model = candidate.and_then(|candidate| candidate.model()).or(self.model.as_ref());
            let catalogue = self.catalogue.as_deref().unwrap_or_else(|| Catalogue::built_in());
            let cost = candidate.zip(model).and_then(|(candidate, model)| {
                catalogue.cost(candidate.family(), candidate.provider(), model, &tokens)
            });
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
