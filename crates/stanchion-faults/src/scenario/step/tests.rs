use std::time::Duration;

use super::{Content, Step};

#[derive(Debug, serde::Deserialize)]
struct File {
    step: Step,
}

fn step(text: &str) -> Result<Step, String> {
    toml::from_str::<File>(&format!("step = {{ {text} }}")).map(|file| file.step).map_err(|error| error.to_string())
}

#[test]
fn each_kind_of_content_writes_its_bytes() {
    let table: [(&str, &[u8]); 8] = [
        ("sse = '{\"a\":1}'", b"data: {\"a\":1}\n\n"),
        ("event = 'ping', data = '{}'", b"event: ping\ndata: {}\n\n"),
        ("text = \": hi\\r\\n\"", b": hi\r\n"),
        ("text = '\u{2713}'", b"\xe2\x9c\x93"),
        ("hex = 'ff 00\t0A'", b"\xff\x00\x0a"),
        ("fill = 3", b"xxx"),
        ("text = ''", b""),
        ("wait = '1s'", b""),
    ];
    for (text, bytes) in table {
        assert_eq!(step(text).unwrap().bytes(), bytes, "{text}");
    }
}

#[test]
fn a_step_may_wait_repeat_and_split() {
    let read = step("sse = 'x', wait = '300ms', times = 60, split = 7").unwrap();
    assert_eq!(read, Step::sse("x").after(Duration::from_millis(300)).times(60).split(7));
    assert_eq!(step("wait = '20ms'").unwrap().content, Content::Nothing);
    assert_eq!(step("fill = 1, split = 0").unwrap().split, None);
}

#[test]
fn pieces_join_to_the_whole() {
    let lengths = |step: Step| step.pieces().map(|piece| piece.len()).collect::<Vec<_>>();
    assert_eq!(lengths(Step::new(Content::Fill(7)).split(3)), [3, 3, 1]);
    assert_eq!(lengths(Step::new(Content::Fill(6)).split(3)), [3, 3]);
    assert_eq!(lengths(Step::new(Content::Fill(6))), [6]);
    assert_eq!(lengths(Step::text("").split(3)), [0; 0]);
    assert_eq!(Step::text("abcd").split(3).pieces().collect::<Vec<_>>().concat(), b"abcd");
}

#[test]
fn a_slip_of_the_pen_is_told() {
    for (text, told) in [
        ("sse = 'x', text = 'y'", "writes one of"),
        ("times = 2", "or waits"),
        ("event = 'ping'", "go together"),
        ("data = '{}'", "go together"),
        ("hex = 'abc'", "pairs"),
        ("hex = 'zz'", "pairs"),
        ("txt = 'x'", "unknown field `txt`"),
        ("fill = -1", "-1"),
        ("sse = 'x', wait = 'soon'", "length of time"),
    ] {
        let error = step(text).unwrap_err();
        assert!(error.contains(told), "{text}: {error}");
    }
}
