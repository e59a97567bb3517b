//! What is kept of requests beyond the process.

use std::{path::Path, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue};
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
    /// What is sent to a collector, if there is one.
    pub otlp: Option<OtlpSettings>,
}

/// What is sent to a collector by OTLP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtlpSettings {
    /// Where the collector is.
    pub endpoint: String,
    /// Headers of each message. Sensitive: `Debug` does not show them.
    pub headers: HeaderMap,
    /// Whether traces are sent.
    pub traces: bool,
    /// Whether metrics are sent.
    pub metrics: bool,
    /// How often metrics are sent.
    pub metrics_every: Duration,
    /// What tells this process from others.
    pub resource: Vec<(String, String)>,
}

/// The smallest file of call records: some dozens of lines.
const LEAST: usize = 64 * 1024;

impl Checker<'_> {
    pub(super) fn telemetry(&mut self, telemetry: &file::Telemetry) -> TelemetrySettings {
        let otlp = telemetry.otlp.as_ref().map(|otlp| self.otlp(otlp));
        let sends_traces = otlp.as_ref().is_some_and(|otlp| otlp.traces);
        TelemetrySettings {
            records: telemetry.records.as_ref().map(|records| self.records(records)),
            start_traces: telemetry.traces.start.unwrap_or(sends_traces),
            log_spans: telemetry.traces.log.unwrap_or(false),
            otlp,
        }
    }

    fn otlp(&mut self, otlp: &Spanned<file::Otlp>) -> OtlpSettings {
        if cfg!(not(feature = "otlp")) {
            self.complain(otlp.span(), "this program was built without OTLP: build it with the feature `otlp`");
        }
        let otlp = otlp.get_ref();
        let endpoint = otlp.endpoint.as_ref().map_or("http://127.0.0.1:4318", |endpoint| endpoint.get_ref());
        let is_one = |url: &url::Url| matches!(url.scheme(), "http" | "https") && url.has_host();
        match url::Url::parse(endpoint).ok().filter(is_one) {
            None => {
                let text = "is no URL: write one such as \"http://127.0.0.1:4318\"";
                self.complain(span_of(otlp.endpoint.as_ref()), text);
            }
            Some(url) if !url.username().is_empty() || url.password().is_some() => {
                self.complain(span_of(otlp.endpoint.as_ref()), "a URL holds no credentials: set headers_env instead");
            }
            Some(_) => {}
        }
        let second_to_hour = Duration::from_secs(1)..=Duration::from_secs(3600);
        OtlpSettings {
            endpoint: endpoint.to_owned(),
            headers: otlp.headers_env.as_ref().map_or_else(HeaderMap::new, |variable| self.headers(variable)),
            traces: otlp.traces.unwrap_or(true),
            metrics: otlp.metrics.unwrap_or(true),
            metrics_every: self.within(
                otlp.metrics_every.as_ref(),
                Duration::from_secs(60),
                second_to_hour,
                "1s to 1h",
            ),
            resource: otlp.resource.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
        }
    }

    /// Headers as a variable has them; what is wrong with them is told without them.
    fn headers(&mut self, variable: &Spanned<String>) -> HeaderMap {
        let name = variable.get_ref();
        let Some(text) = (self.environment)(name).filter(|text| !text.trim().is_empty()) else {
            self.complain(variable.span(), format!("the environment variable {name} is not set"));
            return HeaderMap::new();
        };
        let read = |pair: &str| {
            let (name, value) = pair.split_once('=')?;
            let value = percent_encoding::percent_decode_str(value.trim()).decode_utf8().ok()?;
            let mut value = HeaderValue::from_str(&value).ok()?;
            value.set_sensitive(true);
            Some((name.trim().parse::<HeaderName>().ok()?, value))
        };
        let pairs = text.split(',').filter(|pair| !pair.trim().is_empty());
        pairs.map(read).collect::<Option<HeaderMap>>().unwrap_or_else(|| {
            self.complain(variable.span(), format!("what {name} holds are no headers: write name=value,name=value"));
            HeaderMap::new()
        })
    }

    fn records(&mut self, records: &file::Records) -> CallRecordSettings {
        let mut settings = CallRecordSettings::new(self.sources.path(records.path.get_ref()));
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

fn span_of<T>(value: Option<&Spanned<T>>) -> std::ops::Range<usize> {
    value.map_or(0..0, Spanned::span)
}
