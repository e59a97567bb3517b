use std::{
    collections::HashMap,
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use stanchion::core::{Call, Failure, FailureKind, Family};
use tower_service::Service;

use super::ModelService;

/// Chooses the model's service by the name in the request.
#[derive(Clone)]
pub struct ModelRouter(Arc<Routes>);

type Choose = for<'a> fn(&'a [(String, Family)], Family, &str) -> Option<&'a str>;

enum Routes {
    Named(HashMap<String, HashMap<Family, ModelService>>),
    OpenEnded { providers: Vec<(String, Family)>, services: HashMap<String, ModelService>, choose: Choose },
}

impl ModelRouter {
    /// Models that are configured by name.
    pub(super) fn named(routes: HashMap<String, HashMap<Family, ModelService>>) -> Self {
        Self(Arc::new(Routes::Named(routes)))
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

    fn route(&self, call: &Call) -> Result<ModelService, Failure> {
        let family = call.dialect.family();
        let Some(model) = call.model.as_deref() else {
            return Err(invalid("the request names no model"));
        };
        match &*self.0 {
            Routes::Named(models) => {
                let Some(services) = models.get(model) else {
                    let mut known: Vec<&str> = models.keys().map(String::as_str).collect();
                    known.sort_unstable();
                    known.truncate(20);
                    let text = format!("no model of this name is configured here; there are: {}", known.join(", "));
                    return Err(Failure::new(FailureKind::NotFound).with_code("model_not_found").with_message(text));
                };
                services.get(&family).cloned().ok_or_else(|| {
                    let mut spoken: Vec<&str> = services.keys().map(|family| family.as_str()).collect();
                    spoken.sort_unstable();
                    let text = format!(
                        "the candidates of this model speak {}, and the request is in the dialect {}: ask at the path of that dialect, or for another model",
                        spoken.join(" and "),
                        call.dialect
                    );
                    invalid(&text).with_code("dialect_mismatch")
                })
            }
            Routes::OpenEnded { providers, services, choose } => {
                choose(providers, family, model).map(|name| services[name].clone()).ok_or_else(|| {
                    let spoken: Vec<&str> = providers.iter().map(|(name, _)| name.as_str()).collect();
                    let text = format!(
                        "no provider at hand speaks the dialect {}; keys are set for: {}",
                        call.dialect,
                        spoken.join(", ")
                    );
                    invalid(&text).with_code("dialect_mismatch")
                })
            }
        }
    }
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

    fn call(&mut self, request: Request<Full<Bytes>>) -> RouterFuture {
        let service = match request.extensions().get::<Call>() {
            Some(call) => self.route(call),
            None => Err(Failure::new(FailureKind::Misconfigured)),
        };
        RouterFuture(match service {
            Ok(service) => Routed::Service { service, request: Some(request) },
            Err(failure) => Routed::Refused(Some(failure)),
        })
    }
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
