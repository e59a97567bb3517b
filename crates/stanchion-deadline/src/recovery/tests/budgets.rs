//! Who has a budget.

use stanchion_core::{ContextBuilder, RequestClass};
use tower::{ServiceExt, service_fn};

use super::*;

/// The budget that a service within sees, and the attempts that it may make.
async fn seen(layer: RecoveryLayer, request: Request<()>) -> Option<(Duration, u32)> {
    let (tell, told) = std::sync::mpsc::channel();
    let service = layer.layer(service_fn(move |request: Request<()>| {
        let budget = Context::of(&request).and_then(Context::recovery);
        tell.send(budget.map(|budget| (budget.budget(), budget.attempt_limit()))).unwrap();
        async { Ok::<_, Failure>(Response::new(ScriptedBody::frames(["x"]))) }
    }));
    service.oneshot(request).await.unwrap();
    told.try_recv().unwrap()
}

/// A request, and its budget where the layer gives one and where it is off.
type Row = (&'static str, fn() -> Request<()>, Option<(Duration, u32)>, Option<(Duration, u32)>);

#[tokio::test(start_paused = true)]
async fn who_waits_has_a_budget_unless_the_application_says_otherwise() {
    fn of(class: RequestClass, own: impl FnOnce(ContextBuilder) -> ContextBuilder) -> Request<()> {
        request_in(own(Context::builder().class(class)).build())
    }
    fn seven(builder: ContextBuilder) -> ContextBuilder {
        builder.recovery(RecoveryBudget::new(s(7)).with_attempts(3))
    }
    let on = RecoveryLayer::new(RecoveryLimits::builder().budget(s(60)).attempts(5).build().unwrap());
    let off = layer(Duration::ZERO);
    let (given, own) = (Some((s(60), 5)), Some((s(7), 3)));
    let rows: [Row; 7] = [
        ("no context", || Request::new(()), given, None),
        ("foreground", || of(RequestClass::Foreground, |builder| builder), given, None),
        ("background", || of(RequestClass::Background, |builder| builder), None, None),
        ("internal", || of(RequestClass::Internal, |builder| builder), None, None),
        ("its own", || of(RequestClass::Foreground, seven), own, own),
        ("its own, in the background", || of(RequestClass::Background, seven), own, own),
        ("refused", || of(RequestClass::Foreground, |builder| builder.recovery(None)), None, None),
    ];
    for (name, request, with, without) in rows {
        assert_eq!(seen(on, request()).await, with, "{name}");
        assert_eq!(seen(off, request()).await, without, "{name}, and the layer is off");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_said_once_is_said() {
    let context = Context::default();
    assert_eq!(seen(layer(Duration::ZERO), request_in(context.clone())).await, None);
    assert_eq!(seen(layer(s(60)), request_in(context)).await, None, "a layer outside has said that there is none");
}
