//! Lines in files: in number, in order, whole, and never waited for.

use std::{
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, Sender, channel},
    },
    time::Duration,
};

use http::Response;
use stanchion_telemetry::{
    CallRecordSettings, CallRecords, TelemetryLayer,
    call_records::{RotatingFile, Storage},
};
use stanchion_testkit::{ScriptedBody, request};
use tower::{Layer, ServiceExt};

use crate::answering;

const LONG: Duration = Duration::from_secs(60);

/// A directory of the test's own, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("stanchion-records-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self) -> PathBuf {
        self.0.join("calls.jsonl")
    }

    /// All files by name, with their lines.
    fn files(&self) -> Vec<(String, Vec<String>)> {
        let mut files: Vec<_> = fs::read_dir(&self.0)
            .unwrap()
            .map(|file| {
                let path = file.unwrap().path();
                (path.file_name().unwrap().to_str().unwrap().to_owned(), lines(&path))
            })
            .collect();
        files.sort();
        files
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'));
    text.lines().map(ToOwned::to_owned).collect()
}

async fn ask(records: &CallRecords, times: usize) {
    let layer = TelemetryLayer::new().models(["gpt-x"]).sink(Arc::new(records.clone()));
    for _ in 0..times {
        layer.layer(answering([Ok(Response::new(ScriptedBody::new([])))])).oneshot(request()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn each_request_is_a_line_of_json_when_it_is_over() {
    let folder = Folder::new("lines");
    let records = CallRecords::open(CallRecordSettings::new(folder.path())).unwrap();
    ask(&records, 3).await;
    assert!(records.close(LONG));
    let lines = lines(&folder.path());
    assert_eq!(lines.len(), 3);
    for line in &lines {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!((&record["model"], &record["ending"]), (&"gpt-x".into(), &"complete".into()));
    }
    let status = records.status();
    assert_eq!((status.written, status.dropped, status.failing), (3, 0, false));
    // Who comes too late is not waited for, and not forgotten.
    ask(&records, 2).await;
    assert_eq!(records.status().dropped, 2);
    assert!(records.close(LONG));
}

#[tokio::test(start_paused = true)]
async fn they_go_to_another_file_and_within_other_limits_when_they_are_told_to() {
    let folder = Folder::new("elsewhere");
    let records = CallRecords::open(CallRecordSettings::new(folder.path())).unwrap();
    ask(&records, 1).await;
    let elsewhere = CallRecordSettings::new(folder.0.join("elsewhere.jsonl"));
    // Once the first is on the disk.
    while records.status().written < 1 {
        std::thread::yield_now();
    }
    records.reopen(elsewhere.clone()).unwrap();
    ask(&records, 2).await;
    while records.status().written < 3 {
        std::thread::yield_now();
    }
    let nowhere = CallRecordSettings::new(folder.0.join("no such folder").join("calls.jsonl"));
    assert_eq!(records.reopen(nowhere).unwrap_err().kind(), ErrorKind::NotFound);
    // Each line has a file of its own now.
    records.reopen(CallRecordSettings { max_bytes: 1, files: 2, ..elsewhere }).unwrap();
    ask(&records, 2).await;
    assert!(records.close(LONG));
    let files: Vec<_> = folder.files().into_iter().map(|(name, lines)| (name, lines.len())).collect();
    let expected = [("calls.jsonl", 1), ("elsewhere.jsonl", 1), ("elsewhere.jsonl.1", 1)];
    assert_eq!(files, expected.map(|(name, lines)| (name.to_owned(), lines)));
    assert_eq!((records.status().written, records.status().dropped), (5, 0));
}

#[tokio::test(start_paused = true)]
async fn files_are_bounded_in_size_and_number_and_the_newest_lines_stay() {
    for files in [1, 3] {
        let folder = Folder::new(&format!("rotation-{files}"));
        let mut file =
            RotatingFile::open(CallRecordSettings { max_bytes: 30, files, ..CallRecordSettings::new(folder.path()) })
                .unwrap();
        for number in 0..20 {
            file.append(format!("line {number:03}\n").as_bytes()).unwrap();
        }
        let shown = folder.files();
        assert_eq!(shown.len(), files as usize);
        // Three lines of nine bytes each.
        let newest_first: Vec<_> = shown.iter().map(|(_, lines)| lines.join(",")).collect();
        let expected = ["line 018,line 019", "line 015,line 016,line 017", "line 012,line 013,line 014"];
        assert_eq!(newest_first, expected[..files as usize]);
        assert_eq!(shown[0].0, "calls.jsonl");
        assert!(shown.get(2).is_none_or(|(name, _)| name == "calls.jsonl.2"));
        // One that is too large for any file has one of its own.
        file.append(format!("{}\n", "x".repeat(100)).as_bytes()).unwrap();
        assert_eq!(lines(&folder.path()).len(), 1);
    }
}

#[test]
fn a_file_that_is_there_goes_on_and_half_a_line_in_it_is_ended() {
    let folder = Folder::new("goes-on");
    for (before, after) in [("{\"a\":1}\n", 2), ("{\"a\":1}\n{\"half", 3)] {
        fs::write(folder.path(), before).unwrap();
        let mut file = RotatingFile::open(CallRecordSettings::new(folder.path())).unwrap();
        file.append(b"{}\n").unwrap();
        let lines = lines(&folder.path());
        assert_eq!((lines.len(), lines.last().map(String::as_str)), (after, Some("{}")));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_loses_lines_and_nothing_else_and_is_tried_again() {
    let folder = Folder::new("full");
    std::os::unix::fs::symlink("/dev/full", folder.path()).unwrap();
    let mut file = RotatingFile::open(CallRecordSettings::new(folder.path())).unwrap();
    for _ in 0..2 {
        assert_eq!(file.append(b"lost\n").unwrap_err().kind(), ErrorKind::StorageFull);
    }
    fs::remove_file(folder.path()).unwrap();
    file.append(b"kept\n").unwrap();
    assert_eq!(lines(&folder.path()), ["kept"]);
}

#[test]
fn a_file_that_cannot_be_opened_is_an_error_at_once() {
    let folder = Folder::new("missing");
    let error = CallRecords::open(CallRecordSettings::new(folder.0.join("no/such/folder"))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

/// A disk that takes a line when it is told to, and as it is told to.
struct Gated {
    entered: Sender<()>,
    gate: Receiver<io::Result<()>>,
    lines: Lines,
}

type Lines = Arc<Mutex<Vec<Vec<u8>>>>;

impl Storage for Gated {
    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let _ = self.entered.send(());
        self.gate.recv().map_err(io::Error::other)??;
        self.lines.lock().unwrap().push(line.to_owned());
        Ok(())
    }
}

fn gated(backlog: usize) -> (CallRecords, Sender<io::Result<()>>, Receiver<()>, Lines) {
    let (entered, enters) = channel();
    let (opens, gate) = channel();
    let lines = Arc::default();
    let storage = Gated { entered, gate, lines: Arc::clone(&lines) };
    (CallRecords::start(storage, backlog).unwrap(), opens, enters, lines)
}

#[tokio::test(start_paused = true)]
async fn a_slow_disk_loses_records_and_no_request_waits_for_it() {
    let (records, opens, enters, lines) = gated(2);
    ask(&records, 1).await;
    enters.recv().unwrap();
    // The disk has one, two wait, and this test would not end if the others waited.
    ask(&records, 10).await;
    let status = records.status();
    assert_eq!((status.written, status.dropped), (0, 8));
    assert!(!records.close(Duration::from_millis(1)), "the disk has not taken them");
    for _ in 0..3 {
        opens.send(Ok(())).unwrap();
    }
    assert!(records.close(LONG));
    let status = records.status();
    assert_eq!((status.written, status.dropped, lines.lock().unwrap().len()), (3, 8, 3));
}

/// What `tracing` is told, as text.
#[cfg(feature = "tracing")]
pub(crate) fn logged(run: impl FnOnce()) -> String {
    #[derive(Clone, Default)]
    struct Into(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Into {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    use tracing_subscriber::fmt::format::FmtSpan;
    let into = Into::default();
    let writer = into.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_span_events(FmtSpan::NEW | FmtSpan::CLOSE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, run);
    let text = into.0.lock().unwrap().clone();
    String::from_utf8(text).unwrap()
}

#[cfg(feature = "tracing")]
#[test]
fn a_failing_disk_is_told_once_and_its_recovery_once() {
    let log = logged(|| {
        let (told, layer) = crate::told();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let reply = layer.layer(answering([Ok(Response::new(ScriptedBody::new([])))])).oneshot(request());
        runtime.block_on(reply).unwrap();
        let record = crate::Told::record(&told);
        let (records, opens, enters, lines) = gated(1);
        let append = |outcome: io::Result<()>| {
            stanchion_telemetry::Sink::ended(&records, &record);
            enters.recv().unwrap();
            opens.send(outcome).unwrap();
        };
        let full = || Err(ErrorKind::StorageFull.into());
        for outcome in [Ok(()), full(), full(), full(), Ok(()), Ok(()), full()] {
            append(outcome);
        }
        assert!(records.close(LONG));
        let status = records.status();
        assert_eq!((status.written, status.dropped, status.failing), (3, 4, true));
        assert_eq!(lines.lock().unwrap().len(), 3);
    });
    let told: Vec<_> = log.lines().map(|line| line.contains("ERROR")).collect();
    assert_eq!(told, [true, false, true], "{log}");
    assert!(log.contains("call records are written again dropped=3"), "{log}");
}
