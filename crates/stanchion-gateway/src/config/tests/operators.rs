//! What is there for operators: their listener, records, traces, and a collector.

use super::*;

#[test]
fn operators_have_a_listener_of_their_own_where_there_is_a_table_for_it() {
    let admin = |table: &str| parse(&format!("{WHOLE}\n{table}")).map(|config| config.admin);
    assert!(admin("").unwrap().is_none());
    let settings = admin("[admin]").unwrap().unwrap();
    assert_eq!((settings.listen, settings.key), (([127, 0, 0, 1], 9090).into(), None));
    let digest = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
    let settings = admin(&format!("[admin]\nlisten = \"0.0.0.0:9\"\nkey_sha256 = \"{digest}\"")).unwrap().unwrap();
    assert_eq!((settings.listen, settings.key.unwrap()[0]), (([0, 0, 0, 0], 9).into(), 0x2b));
    let settings = admin("[admin]\nkey_env = \"PRIMARY_KEY\"").unwrap().unwrap();
    assert!(settings.key.is_some() && !format!("{settings:?}").contains("sk-primary"));
    for (table, key, reason) in [
        ("listen = \"0.0.0.0:9\"", "admin.listen", "no key is set"),
        ("listen = \"[::]:9\"", "admin.listen", "no key is set"),
        ("listen = \"9090\"", "admin.listen", "no address"),
        ("key_env = \"EMPTY_KEY\"", "admin.key_env", "is not set"),
        ("key_sha256 = \"secret\"", "admin.key_sha256", "no SHA-256"),
        (
            "key_sha256 = \"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"",
            "admin.key_sha256",
            "of nothing",
        ),
        ("key_env = \"PRIMARY_KEY\"\nkey_file = \"x\"", "admin.key_file", "twice"),
        ("key_env = \"PRIMARY_KEY\"\nkey_sha256 = \"x\"", "admin.key_sha256", "twice"),
    ] {
        let error = admin(&format!("[admin]\n{table}")).unwrap_err();
        let told = error.complaints();
        assert_eq!((told.len(), told[0].key.as_str()), (1, key), "{table}: {told:?}");
        assert!(told[0].reason.contains(reason) && !told[0].reason.contains("secret"), "{told:?}");
    }
}

#[test]
fn records_and_traces_are_kept_where_they_are_configured() {
    let telemetry = |table: &str| parse(&format!("{WHOLE}\n{table}")).map(|config| config.telemetry);
    let nothing = telemetry("").unwrap();
    assert_eq!((nothing.records, nothing.start_traces, nothing.log_spans), (None, false, false));
    let all = "[telemetry.records]\npath = \"calls.jsonl\"\nmax_bytes = \"1MiB\"\nfiles = 3\n[telemetry.traces]\nstart = true\nlog = true";
    let all = telemetry(all).unwrap();
    let records = all.records.unwrap();
    assert_eq!((records.path.to_str(), records.max_bytes, records.files), (Some("calls.jsonl"), 1024 * 1024, 3));
    assert!(all.start_traces && all.log_spans);
    for (table, key, reason) in [
        ("records.path = \"/\"", "telemetry.records.path", "is no file"),
        (
            "records.path = \"no-such-folder/calls.jsonl\"",
            "telemetry.records.path",
            "there is no directory no-such-folder",
        ),
        ("records = { path = \"c\", max_bytes = \"1KiB\" }", "telemetry.records.max_bytes", "at least \"64KiB\""),
        ("records = { path = \"c\", files = 0 }", "telemetry.records.files", "1 to 1,000"),
        ("records = { pth = \"c\" }", "telemetry.records.pth", "did you mean `path`?"),
        ("records = {}", "telemetry.records", "`path` is missing"),
        ("traces.started = true", "telemetry.traces.started", "did you mean `start`?"),
    ] {
        let error = telemetry(&format!("[telemetry]\n{table}")).unwrap_err();
        let told = error.complaints().iter().find(|complaint| complaint.key == key);
        assert!(told.is_some_and(|told| told.reason.contains(reason)), "{table}: {:?}", error.complaints());
    }
}

#[cfg(feature = "otlp")]
#[test]
fn telemetry_is_sent_to_a_collector_where_there_is_a_table_for_it() {
    let variable = |name: &str| match name {
        "HEADERS" => Some("authorization=Bearer%20sk-hidden, x-tenant=me".to_owned()),
        "BROKEN" => Some("sk-hidden".to_owned()),
        _ => None,
    };
    let telemetry = |table: &str| {
        Config::parse("f", &with(&format!("[telemetry.otlp]\n{table}")), &variable).map(|config| config.telemetry)
    };
    let settings = telemetry("").unwrap();
    assert!(settings.start_traces, "what is sent has to begin somewhere");
    let otlp = settings.otlp.unwrap();
    assert_eq!((&*otlp.endpoint, otlp.traces, otlp.metrics), ("http://127.0.0.1:4318", true, true));
    assert_eq!((otlp.metrics_every, otlp.headers.len()), (Duration::from_secs(60), 0));
    let otlp = telemetry("headers_env = \"HEADERS\"\ntraces = false").unwrap().otlp.unwrap();
    assert_eq!(
        (&otlp.headers["authorization"], &otlp.headers["x-tenant"]),
        (&"Bearer sk-hidden".parse().unwrap(), &"me".parse().unwrap())
    );
    assert!(!format!("{otlp:?}").contains("hidden"));
    for (table, key, reason) in [
        ("endpoint = \"localhost:4318\"", "telemetry.otlp.endpoint", "is no URL"),
        ("endpoint = \"http://me:it@there\"", "telemetry.otlp.endpoint", "set headers_env instead"),
        ("headers_env = \"NONE\"", "telemetry.otlp.headers_env", "NONE is not set"),
        ("headers_env = \"BROKEN\"", "telemetry.otlp.headers_env", "write name=value"),
        ("metrics_every = \"0s\"", "telemetry.otlp.metrics_every", "set 1s to 1h"),
        ("endpont = \"\"", "telemetry.otlp.endpont", "did you mean `endpoint`?"),
    ] {
        let error = telemetry(table).unwrap_err();
        let told = error.complaints();
        assert_eq!((told.len(), told[0].key.as_str()), (1, key), "{table}: {told:?}");
        assert!(told[0].reason.contains(reason) && !told[0].reason.contains("hidden"), "{told:?}");
    }
}
