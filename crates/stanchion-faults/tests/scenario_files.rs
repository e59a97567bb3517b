//! The files of the repository, and what is told of files that are wrong.

use std::path::{Path, PathBuf};
use std::time::Duration;

use stanchion_faults::Outcome;
use stanchion_faults::scenario::{Count, Dialect, End, Judged, Scenario, load_folder, load_matching};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/scenarios")
}

#[test]
fn every_file_of_the_repository_is_read() {
    let scenarios = load_folder(folder()).unwrap();
    let files = std::fs::read_dir(folder()).unwrap().filter_map(Result::ok).map(|entry| entry.path());
    assert_eq!(scenarios.len(), files.filter(|file| file.extension().is_some_and(|end| end == "toml")).count());
    assert!(scenarios.len() >= 40);
    assert!(scenarios.is_sorted_by_key(|scenario| scenario.file.clone()));
    for scenario in &scenarios {
        assert!(scenario.file.starts_with(&scenario.id), "{}", scenario.file);
        assert!(!scenario.name.is_empty() && !scenario.why.is_empty(), "{}", scenario.file);
        assert!(!scenario.candidates().is_empty(), "{}", scenario.file);
    }
}

#[test]
fn a_part_of_the_name_chooses() {
    let ids = |part| {
        let chosen = load_matching(folder(), part).unwrap();
        chosen.into_iter().map(|scenario| scenario.id).collect::<Vec<_>>()
    };
    assert_eq!(ids("retry-after"), ["s03", "s38", "s39"]);
    assert_eq!(ids(".toml"), [""; 0]);
}

#[test]
fn every_key_arrives() {
    let scenario = Scenario::parse(
        "h01",
        r#"
        name = "all keys"
        why = "so"
        dialect = "openai-responses"
        stream = false
        needs = ["fallback"]
        refuse = { b = true, c = false }

        [[upstream.a]]
        delay = "10ms"
        before = "hang"
        hang = 2
        [[upstream.a]]
        status = 429
        headers = { retry-after = 2, x = "y" }
        epoch_headers = { x-reset = "2s" }
        end = "truncate"
        repeat = true
        [[upstream.b]]

        [config]
        heartbeat = "1s"
        [config.retry]
        max_retries = 0

        [provider]
        repair_opaque_400 = true

        [candidate.b]
        context_window = 8000
        provider.api_keys = ["sk-x-1", "sk-x-2"]

        [request]
        headers = { x-turn = "1" }
        body = { temperature = 0.5 }
        clients = 3
        stagger = "5ms"
        leave_after_events = 4
        leave_after = "1s"
        pause = "2s"
        pause_after_events = 3
        give_up = "12s"
        then = [{ wait = "1s", clients = 2, leave_after = "0s" }, { beside = true, headers = { x-turn = "2" }, body = { n = 1 } }]
        judge = "last"

        [expect]
        outcome = ["error", "cut"]
        prefer = "error"
        status = [402, 429]
        text_prefix_of = "Hello"
        attempts = { a = 2, b = [0, 1] }
        status_within = "1s"
        headers = { x-turn = 1 }
        body_contains = ["one", "two"]
        body_lacks = "three"
        requests = { a = [{ contains = "x" }, { lacks = ["y", "z"] }] }
        gap_at_least = { a = "1.9s", b = ["1s", 2] }
        verbatim_but_ours = true
        each = { complete = 3, gave-up = [0, 1] }
        served_by = "b"
        freed = "b"
        upstream_freed_within = "1s"
        peak_inflight_at_most = 2
        "#,
    )
    .unwrap();
    assert_eq!((scenario.dialect, scenario.stream), (Dialect::OpenAiResponses, false));
    assert_eq!(scenario.candidates(), ["a", "b", "c"]);
    assert_eq!((scenario.refuses("a"), scenario.refuses("b"), scenario.refuses("c")), (false, true, false));
    let [first, second] = scenario.upstream["a"].as_slice() else { panic!("two scripts") };
    assert_eq!((first.delay, first.hang), (Some(Duration::from_millis(10)), Duration::from_secs(2)));
    assert_eq!((second.end, second.repeat, second.headers["retry-after"].as_str()), (End::Truncate, true, "2"));
    assert_eq!(second.epoch_headers["x-reset"], Duration::from_secs(2));
    assert_eq!(scenario.config["retry"]["max_retries"].as_integer(), Some(0));
    assert_eq!(scenario.config["heartbeat"].as_str(), Some("1s"));
    assert_eq!(scenario.provider["repair_opaque_400"].as_bool(), Some(true));
    let candidate = &scenario.candidate["b"];
    assert_eq!((candidate.settings.len(), candidate.settings["context_window"].as_integer()), (1, Some(8000)));
    assert_eq!(candidate.provider["api_keys"].as_array().map(Vec::len), Some(2));
    let request = &scenario.request;
    assert_eq!((request.pause, request.pause_after_events), (Some(Duration::from_secs(2)), 3));
    assert_eq!((request.then[0].clients, request.then[0].leave_after), (2, Some(Duration::ZERO)));
    assert_eq!((request.then[1].clients, request.then[1].leave_after), (1, None));
    assert_eq!((request.then[0].beside, request.then[1].beside), (false, true));
    assert_eq!((request.clients, request.judge, request.then.len()), (3, Judged::Last, 2));
    assert_eq!((request.then[0].wait, &request.then[1].body["n"]), (Duration::from_secs(1), &1.into()));
    let expect = &scenario.expect;
    assert_eq!((expect.outcome.as_slice(), expect.prefer), (&[Outcome::Error, Outcome::Cut][..], Some(Outcome::Error)));
    assert_eq!((expect.status.as_slice(), expect.status_within), (&[402, 429][..], Some(Duration::from_secs(1))));
    assert_eq!(expect.gap_at_least["a"], [Duration::from_millis(1900)]);
    assert_eq!(expect.gap_at_least["b"], [Duration::from_secs(1), Duration::from_secs(2)]);
    assert_eq!((expect.headers["x-turn"].as_str(), expect.verbatim_but_ours), ("1", true));
    assert_eq!(
        (expect.body_contains.as_slice(), expect.body_lacks.as_slice()),
        (&["one", "two"].map(String::from)[..], &["three".to_owned()][..])
    );
    let [first, second] = expect.requests["a"].as_slice() else { panic!("two requests") };
    assert_eq!((first.contains.as_slice(), first.lacks.len()), (&["x".to_owned()][..], 0));
    assert_eq!((second.contains.len(), second.lacks.as_slice()), (0, &["y", "z"].map(String::from)[..]));
    assert_eq!(expect.attempts["b"], Count { least: 0, most: 1 });
    assert_eq!(expect.each[&Outcome::GaveUp], Count { least: 0, most: 1 });
}

#[test]
fn what_is_not_told_has_the_usual_meaning() {
    let scenario = Scenario::parse("x", "name = 'x'").unwrap();
    assert_eq!((scenario.dialect, scenario.stream), (Dialect::OpenAiChat, true));
    assert_eq!((scenario.request.clients, scenario.request.give_up), (1, Duration::from_secs(20)));
    assert_eq!(
        (scenario.expect.outcome.as_slice(), scenario.expect.served_by.as_str()),
        (&[Outcome::Complete][..], "a")
    );
}

#[test]
fn an_error_names_the_file_and_the_key() {
    for (text, told) in [
        ("", "missing field `name`"),
        ("name = 'x'\nnmae = 'y'", "unknown field `nmae`"),
        ("name = 'x'\ndialect = 'latin'", "dialect = 'latin'"),
        ("name = 'x'\n[[upstream.a]]\nstauts = 200", "unknown field `stauts`"),
        ("name = 'x'\n[[upstream.a]]\nend = 'middle'", "end = 'middle'"),
        ("name = 'x'\n[[upstream.a]]\ndelay = 'soon'", "delay = 'soon'"),
        ("name = 'x'\n[[upstream.a]]\nbody = [{ txt = 'x' }]", "unknown field `txt`"),
        ("name = 'x'\n[[upstream.a]]\nbody = [{ hex = 'x' }]", "`hex` wants pairs"),
        ("name = 'x'\n[[upstream.a]]\nheaders = { x = '\u{2713}' }", "`upstream.a[0].headers.x` is not Latin-1"),
        ("name = 'x'\nupstream.a = []", "`upstream.a` wants at least one script"),
        ("name = 'x'\nupstream.'a/b' = [{}]", "`upstream.a/b` wants letters"),
        ("name = 'x'\nconfig = 1", "config = 1"),
        ("name = 'x'\nprovider = 1", "provider = 1"),
        ("name = 'x'\n[request]\nleave_after_event = 1", "unknown field `leave_after_event`"),
        ("name = 'x'\n[request]\nthen = [{ wiat = '1s' }]", "unknown field `wiat`"),
        ("name = 'x'\n[expect]\noutcome = 'compleat'", "unknown variant `compleat`"),
        ("name = 'x'\n[expect]\noutcome = ['cut', 'compleat']", "unknown variant `compleat`"),
        ("name = 'x'\n[expect]\nattempts = { a = [2, 1] }", "[2, 1] allows nothing"),
        ("name = 'x'\n[expect]\nattempts = { a = [1, 2, 3] }", "attempts = { a = [1, 2, 3] }"),
        ("name = 'x'\n[expect]\nattempts = { a = -1 }", "attempts = { a = -1 }"),
        ("name = 'x'\n[expect]\neach = { compleat = 1 }", "unknown variant `compleat`"),
        ("name = 'x'\n[expect]\nverbatim = true\nserved_by = 'b'", "`expect.served_by` names no candidate"),
        ("name = 'x'\n[expect]\nverbatim_but_ours = true", "`expect.served_by` names no candidate"),
        ("name = 'x'\n[expect]\nrequests.a = [{ contain = 'x' }]", "unknown field `contain`"),
        ("name = 'x'\n[expect]\ngap_at_least = { a = ['1s', 'soon'] }", "'soon'"),
        ("name = 'x'\n[request]\nthen = [{ clients = -1 }]", "clients = -1"),
    ] {
        let error = Scenario::parse("s07", text).unwrap_err();
        assert_eq!(error.file(), "s07");
        let error = error.to_string();
        assert!(error.starts_with("s07: ") && error.contains(told), "{text}\n{error}");
    }
    let error = Scenario::load(folder().join("s00-not-there.toml")).unwrap_err().to_string();
    assert!(error.starts_with("s00-not-there.toml: cannot be read"), "{error}");
    let error = Scenario::parse("a b", "name = 'x'").unwrap_err().to_string();
    assert_eq!(error, "a b: `id` wants letters, digits, dots and dashes");
}

#[test]
fn two_files_of_one_id_are_told() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("same-id");
    std::fs::create_dir_all(&folder).unwrap();
    for file in ["s07-one.toml", "s07-two.toml", "notes.txt"] {
        std::fs::write(folder.join(file), "name = 'x'").unwrap();
    }
    let error = load_folder(&folder).unwrap_err().to_string();
    assert_eq!(error, "s07-two.toml: has the same id, s07, as s07-one.toml");
    assert_eq!(load_matching(&folder, "two").unwrap()[0].file, "s07-two.toml");
}
