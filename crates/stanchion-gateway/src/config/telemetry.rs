//! What is kept of requests beyond the process.

use std::path::Path;

use stanchion::telemetry::CallRecordSettings;

use super::{check::Checker, file, value::Spanned};

/// What is kept of requests beyond the process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TelemetrySettings {
    /// Where a line for each request is written, if anywhere.
    pub records: Option<CallRecordSettings>,
    /// Whether a request that stands in no trace begins one.
    pub start_traces: bool,
    /// Whether the log has a line for each span.
    pub log_spans: bool,
}

/// The smallest file of call records: some dozens of lines.
const LEAST: usize = 64 * 1024;

impl Checker<'_> {
    pub(super) fn telemetry(&mut self, telemetry: &file::Telemetry) -> TelemetrySettings {
        TelemetrySettings {
            records: telemetry.records.as_ref().map(|records| self.records(records)),
            start_traces: telemetry.traces.start.unwrap_or(false),
            log_spans: telemetry.traces.log.unwrap_or(false),
        }
    }

    fn records(&mut self, records: &file::Records) -> CallRecordSettings {
        let mut settings = CallRecordSettings::new(records.path.get_ref());
        if settings.path.file_name().is_none() || settings.path.is_dir() {
            self.complain(records.path.span(), "is no file: write one such as \"/var/log/stanchion/calls.jsonl\"");
        } else if let Some(folder) =
            settings.path.parent().filter(|folder| *folder != Path::new("") && !folder.is_dir())
        {
            let text = format!("there is no directory {}: make it, or name another file", folder.display());
            self.complain(records.path.span(), text);
        }
        if let Some(bytes) = &records.max_bytes {
            if bytes.get_ref().0 < LEAST {
                self.complain(bytes.span(), "a file of a few lines is put aside all the time: set at least \"64KiB\"");
            }
            settings.max_bytes = bytes.get_ref().0 as u64;
        }
        if let Some(files) = records.files.as_ref().map(Spanned::get_ref) {
            settings.files = *files;
        }
        settings
    }
}
