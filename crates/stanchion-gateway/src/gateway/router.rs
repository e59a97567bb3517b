use std::{
    collections::HashMap,
    fmt,
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper::body::Body as _;
use stanchion::{
    core::{Call, Failure, FailureKind, Family},
    wire::request::replace_model,
};
use tower_service::Service;

use super::{
    ModelService,
    names::{ModelNames, Route},
};
use crate::{environment::NoProvider, keys::AllowedModels};

/// Chooses the model's service by the name in the request.
#[derive(Clone)]
pub struct ModelRouter(Arc<Routes>);

/// Chooses a provider that speaks the dialect for a model: its name, and what it calls the model.
type Choose = for<'a> fn(&'a [(String, Family)], Family, &'a str) -> Result<(&'a str, &'a str), NoProvider>;

enum Routes {
    Named { names: Arc<ModelNames>, models: HashMap<String, Served>, providers: HashMap<String, Served> },
    OpenEnded { providers: Vec<(String, Family)>, services: HashMap<String, ModelService>, choose: Choose },
}

/// What serves a model, or a provider's models.
pub(super) struct Served {
    /// By the dialects that are spoken.
    pub(super) services: HashMap<Family, ModelService>,
    /// Whether any candidate is asked for what the client asks for.
    pub(super) forwards_name: bool,
}

/// Where a request goes.
struct Chosen {
    service: ModelService,
    /// Another name for the model than the client's; and whether the body needs it.
    renamed: Option<(Arc<str>, bool)>,
}

impl ModelRouter {
    /// Models and providers that are configured.
    pub(super) fn named(
        names: Arc<ModelNames>,
        models: HashMap<String, Served>,
        providers: HashMap<String, Served>,
    ) -> Self {
        Self(Arc::new(Routes::Named { names, models, providers }))
    }

    /// Providers that serve whatever they know.
    pub(super) fn open_ended(
        services: impl IntoIterator<Item = (String, Family, ModelService)>,
        choose: Choose,
    ) -> Self {
        let (mut providers, mut by_name) = (Vec::new(), HashMap::new());
        for (name, family, service) in services {
            providers.push((name.clone(), family));
            by_name.insert(name, service);
        }
        Self(Arc::new(Routes::OpenEnded { providers, services: by_name, choose }))
    }

    fn route(&self, call: &Call, allowed: Option<&AllowedModels>) -> Result<Chosen, Failure> {
        let family = call.dialect.family();
        let Some(model) = call.model.as_deref() else {
            return Err(invalid("the request names no model"));
        };
        let renamed = |asks_for: &str, in_body| (asks_for != model).then(|| (asks_for.into(), in_body));
        match &*self.0 {
            Routes::Named { names, models, providers } => {
                if !names.is_allowed(model, allowed) {
                    let text = format!("this key may not ask for this model; it may ask for: {}", names.told(allowed));
                    let failure = Failure::new(FailureKind::PermissionDenied);
                    return Err(failure.with_code("model_not_allowed").with_message(text));
                }
                let Some(found) = names.find(model) else {
                    let text = format!("no model of this name is configured here; there are: {}", names.told(allowed));
                    return Err(not_found(&text));
                };
                let served = match found.route {
                    Route::Model(name) => models.get(name),
                    Route::Provider(name) => providers.get(name),
                };
                let served = served.ok_or_else(|| Failure::new(FailureKind::Misconfigured))?;
                let service = served.services.get(&family).cloned().ok_or_else(|| {
                    let mut spoken: Vec<&str> = served.services.keys().map(|family| family.as_str()).collect();
                    spoken.sort_unstable();
                    let text = format!(
                        "the candidates of this model speak {}, and the request is in the dialect {}: ask at the path of that dialect, or for another model",
                        spoken.join(" and "),
                        call.dialect
                    );
                    invalid(&text).with_code("dialect_mismatch")
                })?;
                Ok(Chosen { service, renamed: renamed(found.asks_for, served.forwards_name) })
            }
            Routes::OpenEnded { providers, services, choose } => match choose(providers, family, model) {
                Ok((name, asks_for)) => {
                    Ok(Chosen { service: services[name].clone(), renamed: renamed(asks_for, true) })
                }
                Err(problem) => Err(nobody(problem, call, providers)),
            },
        }
    }
}

/// Nobody is asked: why, and whom there is.
fn nobody(problem: NoProvider, call: &Call, providers: &[(String, Family)]) -> Failure {
    let known: Vec<String> = providers.iter().map(|(name, family)| format!("{name} ({family})")).collect();
    let known = known.join(", ");
    match problem {
        NoProvider::Dialect => {
            let text = format!("no provider at hand speaks the dialect {}; keys are set for: {known}", call.dialect);
            invalid(&text).with_code("dialect_mismatch")
        }
        NoProvider::SpeaksAnother(other) => {
            let text = format!(
                "this is a model of {}, which speaks {}, and the request is in the dialect {}: ask at the path of that dialect",
                other.name, other.family, call.dialect
            );
            invalid(&text).with_code("dialect_mismatch")
        }
        NoProvider::NoKey(other) => {
            let text = format!(
                "this is a model of {}, whose key is not set ({}); set it, or say which provider is meant, as provider/model; keys are set for: {known}",
                other.name,
                other.keys.join(" or "),
            );
            not_found(&text)
        }
        NoProvider::Unclear => not_found(&format!(
            "it is not known whose model this is: say which provider is meant, as provider/model; keys are set for: {known}"
        )),
    }
}

fn not_found(text: &str) -> Failure {
    Failure::new(FailureKind::NotFound).with_code("model_not_found").with_message(text)
}

fn invalid(text: &str) -> Failure {
    Failure::new(FailureKind::InvalidRequest).with_message(text)
}

impl fmt::Debug for ModelRouter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelRouter").finish_non_exhaustive()
    }
}

type Answer = <ModelService as Service<Request<Full<Bytes>>>>::Response;

impl Service<Request<Full<Bytes>>> for ModelRouter {
    type Response = Answer;
    type Error = Failure;
    type Future = RouterFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Full<Bytes>>) -> RouterFuture {
        let chosen = match request.extensions().get::<Call>() {
            Some(call) => self.route(call, request.extensions().get()),
            None => Err(Failure::new(FailureKind::Misconfigured)),
        };
        RouterFuture(match chosen {
            Ok(Chosen { service, renamed }) => {
                if let Some((name, in_body)) = renamed {
                    request = rename(request, name, in_body);
                }
                Routed::Service { service, request: Some(request) }
            }
            Err(failure) => Routed::Refused(Some(failure)),
        })
    }
}

/// The request as if the client had asked for the model by another name.
fn rename(mut request: Request<Full<Bytes>>, name: Arc<str>, in_body: bool) -> Request<Full<Bytes>> {
    if in_body {
        let whole = match pin!(request.body_mut()).poll_frame(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
            // A body that is all there is ready.
            _ => Bytes::new(),
        };
        *request.body_mut() = Full::new(replace_model(&whole, &name));
    }
    if let Some(call) = request.extensions_mut().get_mut::<Call>() {
        call.model = Some(name);
    }
    request
}

/// The future of [`ModelRouter`]. The model's own future is boxed here, once: what it holds is far larger than all that is around it.
pub struct RouterFuture(Routed);

#[expect(clippy::large_enum_variant, reason = "short-lived: the first poll leaves it")]
enum Routed {
    Refused(Option<Failure>),
    Service { service: ModelService, request: Option<Request<Full<Bytes>>> },
    Calling(Pin<Box<<ModelService as Service<Request<Full<Bytes>>>>::Future>>),
}

impl Future for RouterFuture {
    type Output = Result<Answer, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            match &mut self.0 {
                Routed::Refused(failure) => {
                    return Poll::Ready(Err(failure.take().expect("polled after it was ready")));
                }
                Routed::Service { service, request } => match service.poll_ready(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Err(failure)) => return Poll::Ready(Err(failure)),
                    Poll::Ready(Ok(())) => {
                        let future = service.call(request.take().expect("taken once"));
                        self.0 = Routed::Calling(Box::pin(future));
                    }
                },
                Routed::Calling(future) => return future.as_mut().poll(cx),
            }
        }
    }
}

impl fmt::Debug for RouterFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouterFuture").finish_non_exhaustive()
    }
}
