use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use serde::{Deserialize, Serialize};

use crate::{Event, RecoveryBudget, RetainedBytes, TraceContext};

/// Who waits for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RequestClass {
    /// A person waits.
    #[default]
    Foreground,
    /// An agent works by itself.
    Background,
    /// The application's own housekeeping, such as health probes.
    Internal,
}

impl RequestClass {
    /// Reads `foreground`, `background` or `internal`, in any case.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Foreground, Self::Background, Self::Internal]
            .into_iter()
            .find(|class| class.as_str().eq_ignore_ascii_case(text.trim()))
    }

    /// The name used in headers, configuration and events.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Foreground => "foreground",
            Self::Background => "background",
            Self::Internal => "internal",
        }
    }
}

/// Which budget a retry is taken from, where a policy has two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RetryClass {
    /// The provider limits the rate.
    RateLimit,
    /// Everything else that passes.
    Transient,
}

/// Sees the events of a request as they happen.
///
/// Called on the request's own path: an observer must return quickly and must not block.
pub trait Observer: Send + Sync {
    /// One event.
    fn observe(&self, event: &Event);
}

impl<F: Fn(&Event) + Send + Sync> Observer for F {
    fn observe(&self, event: &Event) {
        self(event);
    }
}

/// What the layers know of a logical request besides its bytes. Lives in the request's extensions; a clone is one count up.
///
/// One request, one context: it counts the request's attempts and keeps its recovery. An application that keeps a
/// conversation's context makes the next request's with [`for_next_request`](Self::for_next_request).
///
/// `Debug` shows the class and the number of attempts, never session or owner.
#[derive(Clone)]
pub struct Context(Arc<Inner>);

struct Inner {
    observer: Option<Arc<dyn Observer>>,
    known: Known,
}

/// What is known of the request, or the context that knows it.
#[expect(clippy::large_enum_variant, reason = "the small one is rare, and is gone with its request")]
enum Known {
    Here(Shared),
    By(Context),
}

struct Shared {
    session: Option<Box<str>>,
    owner: Option<Box<str>>,
    class: RequestClass,
    context_epoch: Option<Box<str>>,
    recovery: OnceLock<Option<RecoveryBudget>>,
    attempts: AtomicU32,
    retries: [AtomicU32; 2],
    repaired: AtomicBool,
    footprint: OnceLock<u64>,
    retained: OnceLock<RetainedBytes>,
    trace: OnceLock<Option<TraceContext>>,
}

/// Builds a [`Context`].
#[derive(Default)]
pub struct ContextBuilder {
    session: Option<Box<str>>,
    owner: Option<Box<str>>,
    class: RequestClass,
    context_epoch: Option<Box<str>>,
    recovery: OnceLock<Option<RecoveryBudget>>,
    trace: OnceLock<Option<TraceContext>>,
    observer: Option<Arc<dyn Observer>>,
}

impl ContextBuilder {
    /// The conversation: what a prompt cache belongs to.
    #[must_use]
    pub fn session(mut self, session: impl Into<Box<str>>) -> Self {
        self.session = Some(session.into());
        self
    }

    /// Whose capacity the request uses: the root session, handed down to its sub-agents. Defaults to the session.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<Box<str>>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Who waits. Defaults to foreground.
    #[must_use]
    pub fn class(mut self, class: RequestClass) -> Self {
        self.class = class;
        self
    }

    /// Changes when the conversation was compacted, so that a smaller cache read is no break.
    #[must_use]
    pub fn context_epoch(mut self, epoch: impl Into<Box<str>>) -> Self {
        self.context_epoch = Some(epoch.into());
        self
    }

    /// The budget within which this request recovers, or `None` for the standard mode. If neither is said, a recovery
    /// layer says it. A budget of no time is over with the first failure: for none, give `None`.
    #[must_use]
    pub fn recovery(mut self, budget: impl Into<Option<RecoveryBudget>>) -> Self {
        self.recovery = OnceLock::from(budget.into());
        self
    }

    /// Where this request stands in a trace, or `None` for nowhere. If neither is said, a telemetry layer says it.
    #[must_use]
    pub fn trace(mut self, trace: impl Into<Option<TraceContext>>) -> Self {
        self.trace = OnceLock::from(trace.into());
        self
    }

    /// Who sees the events of this request.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// The context.
    pub fn build(self) -> Context {
        let shared = Shared {
            session: self.session,
            owner: self.owner,
            class: self.class,
            context_epoch: self.context_epoch,
            recovery: self.recovery,
            attempts: AtomicU32::new(0),
            retries: Default::default(),
            repaired: AtomicBool::new(false),
            footprint: OnceLock::new(),
            retained: OnceLock::new(),
            trace: self.trace,
        };
        Context(Arc::new(Inner { observer: self.observer, known: Known::Here(shared) }))
    }
}

impl Context {
    /// Starts building a context.
    pub fn builder() -> ContextBuilder {
        ContextBuilder::default()
    }

    /// The context of a request, if it carries one.
    pub fn of<B>(request: &http::Request<B>) -> Option<&Self> {
        request.extensions().get()
    }

    /// The same request with one more observer, who sees what is emitted to the new context and to its clones. All else
    /// is shared: who asks, the recovery budget, what was counted, and the observers that were there before.
    #[must_use]
    pub fn with_observer(&self, observer: Arc<dyn Observer>) -> Self {
        Self(Arc::new(Inner { observer: Some(observer), known: Known::By(self.clone()) }))
    }

    fn shared(&self) -> &Shared {
        let mut context = self;
        loop {
            match &context.0.known {
                Known::Here(shared) => return shared,
                Known::By(other) => context = other,
            }
        }
    }

    /// The observers, those that came last first.
    fn observers(&self) -> impl Iterator<Item = &dyn Observer> {
        let contexts = std::iter::successors(Some(self), |context| match &context.0.known {
            Known::Here(_) => None,
            Known::By(other) => Some(other),
        });
        contexts.filter_map(|context| context.0.observer.as_deref())
    }

    /// A context for another request of the same conversation, owner, class and observer: nothing has been attempted in
    /// it, and whether it has a recovery budget or a trace is for others to say.
    #[must_use]
    pub fn for_next_request(&self) -> Self {
        let mut own = self;
        while let Known::By(other) = &own.0.known {
            own = other;
        }
        let Shared { session, owner, class, context_epoch, .. } = self.shared();
        let builder = ContextBuilder {
            session: session.clone(),
            owner: owner.clone(),
            class: *class,
            context_epoch: context_epoch.clone(),
            recovery: OnceLock::new(),
            trace: OnceLock::new(),
            observer: own.0.observer.clone(),
        };
        builder.build()
    }

    /// The conversation.
    pub fn session(&self) -> Option<&str> {
        self.shared().session.as_deref()
    }

    /// Whose capacity the request uses: the owner if one is named, else the session.
    pub fn owner(&self) -> Option<&str> {
        self.shared().owner.as_deref().or(self.session())
    }

    /// Who waits.
    pub fn class(&self) -> RequestClass {
        self.shared().class
    }

    /// Changes when the conversation was compacted.
    pub fn context_epoch(&self) -> Option<&str> {
        self.shared().context_epoch.as_deref()
    }

    /// The recovery budget of a bounded foreground request; `None` in standard mode.
    pub fn recovery(&self) -> Option<&RecoveryBudget> {
        self.shared().recovery.get()?.as_ref()
    }

    /// Gives the request a recovery budget, unless it was said before whether it has one. For the recovery layer.
    pub fn recover_within(&self, budget: impl FnOnce() -> Option<RecoveryBudget>) {
        self.shared().recovery.get_or_init(budget);
    }

    /// How many physical attempts were made so far, over all candidates.
    pub fn attempts(&self) -> u32 {
        self.shared().attempts.load(Ordering::Relaxed)
    }

    /// Counts one more physical attempt and returns its number, from 1. For the layer that makes the exchange.
    pub fn count_attempt(&self) -> u32 {
        self.shared().attempts.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// How many retries out of a budget of this class were made so far, over all candidates. For policies that count for
    /// the whole request.
    pub fn retries(&self, class: RetryClass) -> u32 {
        self.shared().retries[class as usize].load(Ordering::Relaxed)
    }

    /// Counts one more retry out of a budget of this class.
    pub fn count_retry(&self, class: RetryClass) {
        self.shared().retries[class as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Takes the one repair that a logical request may have. `false` if it was taken before.
    pub fn take_repair(&self) -> bool {
        !self.shared().repaired.swap(true, Ordering::Relaxed)
    }

    /// About how many bytes the request keeps in memory while it waits; `None` if nobody has asked yet.
    pub fn footprint(&self) -> Option<u64> {
        self.shared().footprint.get().copied()
    }

    /// The same, computed by the first who asks: retries and other candidates take what was computed before. An
    /// application that holds parsed messages asks before it sends the request.
    pub fn footprint_or_init(&self, footprint: impl FnOnce() -> u64) -> u64 {
        *self.shared().footprint.get_or_init(footprint)
    }

    /// Where layers count what they retain for the request; `None` if nobody bounds it.
    pub(crate) fn retained(&self) -> Option<&RetainedBytes> {
        self.shared().retained.get()
    }

    /// Says it, unless it was said before.
    pub(crate) fn retain_in(&self, total: &RetainedBytes) {
        self.shared().retained.get_or_init(|| total.clone());
    }

    /// Where the request stands in a trace; `None` if it is in none. Its attempts tell their providers so.
    pub fn trace(&self) -> Option<&TraceContext> {
        self.shared().trace.get()?.as_ref()
    }

    /// The same, said by `trace` unless it was said before. For the telemetry layer.
    pub fn trace_or_init(&self, trace: impl FnOnce() -> Option<TraceContext>) -> Option<&TraceContext> {
        self.shared().trace.get_or_init(trace).as_ref()
    }

    /// Tells an event to the request's observer and to `tracing`. The event is not even built when nobody listens.
    pub fn emit(context: Option<&Self>, event: impl FnOnce() -> Event) {
        let mut observers = context.into_iter().flat_map(Context::observers).peekable();
        #[cfg(feature = "tracing")]
        let traced = tracing::enabled!(target: "stanchion", tracing::Level::INFO);
        #[cfg(not(feature = "tracing"))]
        let traced = false;
        if observers.peek().is_none() && !traced {
            return;
        }
        let event = event();
        #[cfg(feature = "tracing")]
        event.trace();
        for observer in observers {
            observer.observe(&event);
        }
    }
}

impl Default for Context {
    fn default() -> Self {
        Self::builder().build()
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("class", &self.class())
            .field("attempts", &self.attempts())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ContextBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContextBuilder").field("class", &self.class).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::FallbackEvent;

    #[test]
    fn a_session_owns_itself_unless_an_owner_is_named() {
        assert_eq!(Context::builder().session("s").build().owner(), Some("s"));
        assert_eq!(Context::builder().session("s").owner("root").build().owner(), Some("root"));
        assert_eq!(Context::default().owner(), None);
    }

    #[test]
    fn the_next_request_has_the_identity_and_nothing_of_the_past() {
        let builder = Context::builder().session("s").owner("o").class(RequestClass::Background).context_epoch("e");
        let first = builder.recovery(None).build();
        first.count_attempt();
        first.count_retry(RetryClass::Transient);
        assert!(first.take_repair());
        let next =
            first.with_observer(Arc::new(|_: &Event| unreachable!("of the last request alone"))).for_next_request();
        assert_eq!((next.session(), next.owner(), next.context_epoch()), (Some("s"), Some("o"), Some("e")));
        assert_eq!(
            (next.class(), next.attempts(), next.retries(RetryClass::Transient)),
            (RequestClass::Background, 0, 0)
        );
        assert!(next.take_repair());
        next.recover_within(|| Some(RecoveryBudget::new(RecoveryBudget::DEFAULT)));
        assert!(next.recovery().is_some());
        Context::emit(Some(&next), || Event::ModelFallback(FallbackEvent { from: "a".into(), to: "b".into() }));
    }

    #[test]
    fn debug_shows_no_identity() {
        let builder = Context::builder().session("alice").owner("bob").context_epoch("e1");
        let shown = format!("{builder:?} {:?}", Context::builder().session("alice").owner("bob").build());
        assert!(!shown.contains("alice") && !shown.contains("bob"), "{shown}");
    }

    #[test]
    fn an_observer_sees_what_is_emitted() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let into = seen.clone();
        let context = Context::builder()
            .observer(Arc::new(move |event: &Event| into.lock().unwrap().push(event.clone())))
            .build();
        let event = Event::ModelFallback(FallbackEvent { from: "a".into(), to: "b".into() });
        Context::emit(Some(&context), || event.clone());
        assert_eq!(*seen.lock().unwrap(), [event]);
    }

    #[test]
    fn one_more_observer_shares_all_the_rest() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let listener = |name: &'static str| {
            let into = seen.clone();
            Arc::new(move |_: &Event| into.lock().unwrap().push(name))
        };
        let event = || Event::ModelFallback(FallbackEvent { from: "a".into(), to: "b".into() });
        let first = Context::builder().session("s").class(RequestClass::Background).observer(listener("first")).build();
        let second = first.with_observer(listener("second"));
        let third = second.with_observer(listener("third"));
        Context::emit(Some(&first), event);
        assert_eq!(std::mem::take(&mut *seen.lock().unwrap()), ["first"]);
        Context::emit(Some(&third.clone()), event);
        assert_eq!(*seen.lock().unwrap(), ["third", "second", "first"]);

        assert_eq!((third.session(), third.class()), (Some("s"), RequestClass::Background));
        assert_eq!((third.count_attempt(), first.count_attempt()), (1, 2));
        third.count_retry(RetryClass::Transient);
        assert_eq!((second.attempts(), first.retries(RetryClass::Transient)), (2, 1));
        assert!(second.take_repair() && !first.take_repair());
        assert_eq!((first.footprint(), third.footprint_or_init(|| 7)), (None, 7));
        assert_eq!((first.footprint_or_init(|| unreachable!("computed once")), second.footprint()), (7, Some(7)));
        let root = || TraceContext::root(crate::TraceId::new(1), crate::SpanId::new(2), true);
        assert_eq!((first.trace(), third.trace_or_init(|| Some(root()))), (None, Some(&root())));
        assert_eq!(first.trace_or_init(|| unreachable!("it is said")), Some(&root()));
        assert_eq!(third.for_next_request().trace(), None);
        let apart = Context::builder().trace(None).build();
        assert_eq!(apart.trace_or_init(|| unreachable!("it is said that there is none")), None);
        third.recover_within(|| None);
        first.recover_within(|| unreachable!("it is said whether there is a budget"));

        let alone = Context::default().with_observer(listener("alone"));
        Context::emit(Some(&alone), event);
        assert_eq!(seen.lock().unwrap().last(), Some(&"alone"));
    }

    #[test]
    fn nothing_is_built_when_nobody_listens() {
        // Without a subscriber `tracing` does not listen either.
        Context::emit(Some(&Context::default()), || unreachable!());
        Context::emit(None, || unreachable!());
    }

    #[test]
    fn classes_are_read_in_any_case() {
        assert_eq!(RequestClass::parse(" Background "), Some(RequestClass::Background));
        assert_eq!(RequestClass::parse("vip"), None);
    }
}
