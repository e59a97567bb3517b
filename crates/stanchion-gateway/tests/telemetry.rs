//! What the gateway tells its sinks.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use stanchion::telemetry::{Live, Metrics, MetricsFormat, Sink};
use stanchion_gateway::{config::Config, gateway::Gateway};
use tower::ServiceExt;

const CONFIG: &str = r#"
[providers.p]
dialect = "openai"
# Nothing listens there.
base_url = "http://127.0.0.1:9/v1"
[models.m]
candidates = [{ provider = "p", model = "x" }]
retry = { max_retries = 0 }
"#;

fn request(model: &str) -> Request<Full<Bytes>> {
    let body = format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":"Hello?"}}]}}"#);
    Request::post("/v1/chat/completions").body(Full::from(body)).unwrap()
}

#[tokio::test]
async fn requests_for_known_and_unknown_models_reach_the_sinks() {
    let config = Config::parse("test", CONFIG, &|_| None).unwrap();
    let (live, metrics) = (Live::default(), Metrics::new());
    let sinks: [Arc<dyn Sink>; 2] = [Arc::new(live.clone()), Arc::new(metrics.clone())];
    let gateway = Gateway::new(&config, None).with_sinks(sinks);
    gateway.measure(&metrics);
    for model in ["m", "nobody-knows-it"] {
        let Ok(reply) = gateway.edge.clone().oneshot(request(model)).await;
        assert!(reply.status().is_client_error() || reply.status().is_server_error());
        reply.into_body().collect().await.unwrap();
    }
    assert_eq!(live.in_flight(), 0);
    let text = metrics.encode(MetricsFormat::Prometheus);
    for line in [
        r#"stanchion_requests_total{model="m",class="foreground",dialect="openai-chat",ending="failed"} 1.0"#,
        r#"stanchion_request_failures_total{model="m",kind="connect_failed",phase="connect"} 1.0"#,
        r#"stanchion_attempt_failures_total{candidate="p/x",kind="connect_failed",phase="connect"} 1.0"#,
        r#"stanchion_requests_total{model="other",class="foreground",dialect="openai-chat",ending="failed"} 1.0"#,
        r#"stanchion_circuit_state{candidate="p/x",state="closed"} 1.0"#,
        r#"stanchion_queue_depth{class="background"} 0.0"#,
    ] {
        assert!(text.lines().any(|told| told == line), "no {line} in\n{text}");
    }
    assert!(!text.contains("nobody-knows-it"));
}
