//! One layer alone, around a service of one's own: the commit rule without gateway, retry or fallback.
//!
//! ```sh
//! cargo run -p stanchion-examples --example one_layer
//! ```

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use stanchion::{
    core::{Call, Dialect, Failure},
    stream::{CommitLayer, ObserveLayer},
};
use tower::{Layer, ServiceExt, service_fn};

/// Asks a provider that answers with `body`, and tells what became of it.
async fn ask(body: &'static str) -> Result<String, Failure> {
    let provider =
        service_fn(move |_: Request<()>| async move { Ok::<_, Failure>(Response::new(Full::new(Bytes::from(body)))) });
    let service = CommitLayer::new().layer(ObserveLayer::new().layer(provider));
    let mut request = Request::new(());
    request.extensions_mut().insert(Call::new(Dialect::OpenAiChat, true));
    let response = service.oneshot(request).await?;
    let body = response.into_body().collect().await?.to_bytes();
    Ok(String::from_utf8_lossy(&body).into_owned())
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let whole = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let overloaded = "data: {\"error\":{\"message\":\"The server is overloaded\",\"code\":503}}\n\n";
    let cut = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
    for (name, body) in [
        ("a whole answer", whole),
        ("an error inside of a 200", overloaded),
        ("a stream that dies after its role", cut),
    ] {
        match ask(body).await {
            Ok(bytes) => println!("{name}: a response of {} bytes", bytes.len()),
            Err(failure) => println!("{name}: {failure}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use stanchion::core::FailureKind;

    use super::ask;

    #[tokio::test]
    async fn what_was_not_shown_leaves_as_an_error() {
        assert!(
            ask("data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}\n\n").await.is_ok()
        );
        let failure = ask("data: {\"error\":{\"message\":\"overloaded\",\"code\":503}}\n\n").await.unwrap_err();
        assert_eq!(failure.kind(), FailureKind::Overloaded);
    }
}
