//! W3C Trace Context, in and out.

use stanchion_gateway::gateway::Parts;

use std::time::Duration;

use crate::{
    Folder, ask, config,
    provider::{Play, Provider},
    serve,
};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

/// What the provider was told of the trace, by request.
fn parents(provider: &Provider) -> Vec<Option<String>> {
    let heads = provider.heads();
    let parent = |head: &String| head.lines().find_map(|line| line.strip_prefix("traceparent: ").map(str::to_owned));
    heads.iter().map(parent).collect()
}

#[tokio::test]
async fn a_trace_goes_on_to_each_provider_and_stands_in_the_record() {
    let (provider, folder) = (Provider::start().await, Folder::new());
    let records = format!("[telemetry.records]\npath = '{}'\n", folder.path("calls.jsonl").display());
    let gateway = serve(&mut Parts::new(), &config(&provider, &records));
    provider.play([Play::Overloaded, Play::Whole]);
    ask(&gateway, "main", Some(&format!("00-{TRACE}-{SPAN}-01"))).await;
    let told = parents(&provider);
    provider.play([Play::Whole]);
    ask(&gateway, "main", None).await;
    assert_eq!(parents(&provider), [None], "nobody began a trace");
    assert!(gateway.records.close(Duration::from_secs(30)));

    let records = folder.records("calls.jsonl");
    let record = &records[0];
    assert_eq!((&record["trace_id"], &record["parent_span_id"]), (&TRACE.into(), &SPAN.into()));
    assert_eq!(record["sampled"], true);
    let attempts: Vec<_> = record["attempts"].as_array().unwrap().iter().map(|attempt| &attempt["span_id"]).collect();
    let expected: Vec<_> =
        attempts.iter().map(|span| Some(format!("00-{TRACE}-{}-01", span.as_str().unwrap()))).collect();
    assert_eq!((told.len(), told), (2, expected));
    assert!(attempts[0] != attempts[1] && !attempts.contains(&&record["span_id"]), "{record}");
    assert!(records[1]["trace_id"].is_null());
}

#[tokio::test]
async fn a_request_begins_a_trace_where_that_is_configured() {
    let (provider, folder) = (Provider::start().await, Folder::new());
    let start =
        format!("[telemetry]\nrecords.path = '{}'\ntraces.start = true\n", folder.path("calls.jsonl").display());
    let gateway = serve(&mut Parts::new(), &config(&provider, &start));
    provider.play([Play::Whole, Play::Whole]);
    ask(&gateway, "main", None).await;
    ask(&gateway, "main", Some("no trace")).await;
    assert!(gateway.records.close(Duration::from_secs(30)));
    let records = folder.records("calls.jsonl");
    let traces: Vec<_> = records.iter().map(|record| record["trace_id"].as_str().unwrap()).collect();
    assert!(traces[0] != traces[1] && records[0]["parent_span_id"].is_null(), "{records:?}");
    let told = parents(&provider);
    for (parent, trace) in told.iter().zip(traces) {
        assert!(parent.as_ref().is_some_and(|parent| parent.contains(trace)), "{told:?}");
    }
}
