//! The whole onion inside an axum application: model calls under `/v1`, everything else as ever.
//!
//! ```sh
//! OPENAI_API_KEY=... cargo run -p stanchion-examples --example axum_service
//! ```

// readme: begin
use axum::{Router, routing::get};
use stanchion::{
    Onion,
    core::{Candidate, Candidates, Family, Secret},
    upstream::{Transport, Upstream},
};

fn app(key: &str) -> Router {
    let candidates = Candidates::new([
        Candidate::new("openai", Family::OpenAi, "https://api.openai.com/v1").with_credential(Secret::new(key)),
        Candidate::new("local", Family::OpenAi, "http://127.0.0.1:11434/v1").with_model("llama3"),
    ]);
    let model_calls = Onion::standard(candidates).service(Upstream::new(Transport::builder().build()));
    Router::new().route("/", get(|| async { "hello" })).route_service("/v1/chat/completions", model_calls)
}
// readme: end

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let key = std::env::var("OPENAI_API_KEY").unwrap_or_default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app(&key)).await
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http::{Request, StatusCode};
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::app;

    #[tokio::test]
    async fn model_calls_and_pages_live_side_by_side() {
        let page = app("sk-x").oneshot(Request::get("/").body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(page.into_body().collect().await.unwrap().to_bytes(), "hello");

        // A request that the onion itself refuses, in the dialect's own form.
        let request = Request::post("/v1/chat/completions").body(Body::from("{\"model\":")).unwrap();
        let refused = app("sk-x").oneshot(request).await.unwrap();
        assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
        let body = refused.into_body().collect().await.unwrap().to_bytes();
        assert!(body.starts_with(b"{\"error\":"), "{body:?}");
    }

    #[test]
    fn the_readme_shows_this_very_code() {
        let example = include_str!("axum_service.rs");
        let shown = example.split("// readme: begin\n").nth(1).unwrap().split("// readme: end").next().unwrap().trim();
        assert!(
            include_str!("../README.md").contains(shown),
            "the README's axum example differs from examples/axum_service.rs"
        );
    }
}
