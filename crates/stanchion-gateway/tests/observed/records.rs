//! One line for each logical request.

use std::time::Duration;

use http_body_util::BodyExt;
use serde_json::json;
use stanchion::telemetry::{Metrics, MetricsFormat};
use stanchion_gateway::gateway::Parts;

use crate::{
    Folder, PLANTED, ask, begin, config, parse,
    provider::{OUTPUT, Play, Provider},
    serve,
};

const LONG: Duration = Duration::from_secs(30);

fn to(folder: &Folder, name: &str) -> String {
    format!("[telemetry.records]\npath = '{}'\n", folder.path(name).display())
}

#[tokio::test]
async fn each_request_is_one_record_however_it_ended_and_no_word_of_it_is_kept() {
    let (provider, folder) = (Provider::start().await, Folder::new());
    let gateway = serve(&mut Parts::new(), &config(&provider, &to(&folder, "calls.jsonl")));
    provider.play([Play::Overloaded, Play::Whole]);
    assert!(ask(&gateway, "main", None).await.contains(OUTPUT));
    provider.play([Play::Overloaded; 4]);
    ask(&gateway, "main", None).await;
    provider.play([Play::Cut]);
    assert!(ask(&gateway, "main", None).await.contains(OUTPUT));
    provider.play([Play::Silent]);
    let mut left = begin(&gateway, "main", None).await.into_body();
    left.frame().await.unwrap().unwrap();
    drop(left);
    ask(&gateway, "nobody-knows-it", None).await;
    assert!(gateway.records.close(LONG));

    let records = folder.records("calls.jsonl");
    let of = |key: &str| records.iter().map(|record| record[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("ending"), ["complete", "failed", "truncated", "cancelled", "failed"]);
    assert_eq!(of("model"), ["main", "main", "main", "main", "other"]);
    for record in &records[..4] {
        for key in ["id", "time", "dialect", "class", "duration_ms", "waits", "attempts", "bytes", "request_bytes"] {
            assert!(!record[key].is_null(), "{key}: {record}");
        }
        assert_eq!((&record["stream"], &record["dialect"]), (&json!(true), &json!("openai-chat")));
    }

    let retried = &records[0];
    assert_eq!(retried["candidate"], "openai/gpt-4o");
    assert_eq!(retried["provider_model"], "gpt-4o");
    assert_eq!(
        (&retried["retries"], &retried["fallbacks"], &retried["status_code"]),
        (&json!(1), &json!(0), &json!(200))
    );
    assert!(retried["waits"]["backoff_ms"].as_u64().is_some_and(|waited| waited > 0), "{retried}");
    assert!(retried["first_output_ms"].is_u64() && retried["first_chunk_ms"].is_u64(), "{retried}");
    let usage = &retried["usage"];
    assert_eq!((&usage["quality"], &usage["input"], &usage["output"]), (&json!("measured"), &json!(100), &json!(20)));
    assert!(usage["cost_nanodollars"].as_u64().is_some_and(|cost| cost > 0), "{usage}");
    let attempts = retried["attempts"].as_array().unwrap();
    let told = |at: usize, key: &str| attempts[at][key].clone();
    assert_eq!(
        (told(0, "number"), told(0, "outcome"), told(0, "status_code")),
        (json!(1), json!("failed"), json!(503))
    );
    assert_eq!((told(1, "number"), told(1, "outcome"), told(1, "failure")), (json!(2), json!("answered"), json!(null)));
    assert!(told(0, "failure").is_string() && told(1, "first_output_ms").is_u64(), "{retried}");

    let failed = &records[1];
    assert_eq!(failed["attempts"].as_array().unwrap().len(), 4);
    assert_eq!((&failed["retries"], &failed["fallbacks"]), (&json!(2), &json!(1)));
    assert_eq!((&failed["status_code"], &failed["candidate"]), (&json!(503), &json!("openai/gpt-4o-mini")));
    assert!(failed["failure"].is_string() && failed["first_output_ms"].is_null(), "{failed}");

    for broken in [&records[2], &records[3]] {
        assert!(broken["first_output_ms"].is_u64() && broken["bytes"].as_u64() > Some(0), "{broken}");
        assert_eq!(broken["attempts"].as_array().unwrap().len(), 1, "{broken}");
        assert_eq!(broken["usage"]["quality"], "estimated", "{broken}");
    }
    assert_eq!(records[4]["requested_model"], "nobody-knows-it");
    assert_eq!(records[4]["attempts"], json!([]));

    let text = folder.text("calls.jsonl");
    let leaks: Vec<_> = PLANTED.iter().filter(|canary| text.contains(**canary)).collect();
    assert!(leaks.is_empty(), "{leaks:?}");
}

#[tokio::test]
async fn another_configuration_has_them_written_elsewhere_also_for_what_runs() {
    let (provider, folder) = (Provider::start().await, Folder::new());
    let mut parts = Parts::new();
    let first = serve(&mut parts, &config(&provider, &to(&folder, "first.jsonl")));
    let metrics = Metrics::new();
    first.measure(&metrics);
    provider.play([Play::Whole, Play::Silent]);
    ask(&first, "main", None).await;
    let running = begin(&first, "main", None).await;
    // What still waits for the disk goes to the new file, too.
    while folder.text("first.jsonl").is_empty() {
        tokio::task::yield_now().await;
    }

    let second = serve(&mut parts, &config(&provider, &to(&folder, "second.jsonl")));
    provider.play([Play::Whole]);
    ask(&second, "main", None).await;
    drop(running);

    // What cannot be opened changes nothing.
    let wrong = parse(&config(&provider, &to(&folder, &"long".repeat(100))));
    let complaint = parts.open(&wrong).unwrap_err();
    assert_eq!(complaint.key, "telemetry.records.path");
    assert!(complaint.reason.contains("cannot be written"), "{}", complaint.reason);
    provider.play([Play::Whole]);
    ask(&second, "main", None).await;

    // Without the table, nothing is kept; with it again, they go on.
    let none = serve(&mut parts, &config(&provider, ""));
    provider.play([Play::Whole]);
    ask(&none, "main", None).await;
    let limited = format!("{}max_bytes = \"64KiB\"\n", to(&folder, "second.jsonl"));
    let again = serve(&mut parts, &config(&provider, &limited));
    provider.play([Play::Whole]);
    ask(&again, "main", None).await;
    assert!(again.records.close(LONG));

    let endings = |name: &str| -> Vec<String> {
        folder.records(name).iter().map(|record| record["ending"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(endings("first.jsonl"), ["complete"]);
    assert_eq!(endings("second.jsonl"), ["complete", "cancelled", "complete", "complete"]);
    let text = metrics.encode(MetricsFormat::Prometheus);
    assert!(text.contains("stanchion_call_records_written_total 5"), "{text}");
}
