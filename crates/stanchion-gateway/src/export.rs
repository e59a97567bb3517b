//! Traces and metrics to a collector, from the start of the process to its end.

use std::{fmt, sync::Arc, time::Duration};

use stanchion::telemetry::{Metrics, Sink};
use tokio::{sync::oneshot, task::JoinHandle, time::timeout};

use crate::config::TelemetrySettings;

/// How long the last messages may take.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// What is to be sent; nothing, unless it is configured.
#[derive(Debug, Default)]
pub struct Export {
    #[cfg(feature = "otlp")]
    otlp: Option<otlp::Ready>,
}

/// Sends as long as the process serves.
pub struct Exporting(Option<(oneshot::Sender<()>, JoinHandle<()>)>);

impl Export {
    /// As it is configured.
    #[cfg_attr(not(feature = "otlp"), expect(unused_variables, reason = "nothing can be sent"))]
    pub fn new(settings: &TelemetrySettings) -> Self {
        Self {
            #[cfg(feature = "otlp")]
            otlp: settings.otlp.as_ref().map(otlp::Ready::new),
        }
    }

    /// Whether metrics are sent.
    pub fn wants_metrics(&self) -> bool {
        #[cfg(feature = "otlp")]
        return self.otlp.as_ref().is_some_and(|otlp| otlp.metrics);
        #[cfg(not(feature = "otlp"))]
        false
    }

    /// Who is to be told of requests.
    pub fn sink(&self) -> Option<Arc<dyn Sink>> {
        #[cfg(feature = "otlp")]
        return self.otlp.as_ref().filter(|otlp| otlp.traces).map(|otlp| Arc::new(otlp.sink.clone()) as Arc<dyn Sink>);
        #[cfg(not(feature = "otlp"))]
        None
    }

    /// Sends from now on, in a task of its own.
    #[cfg_attr(not(feature = "otlp"), expect(unused_variables, reason = "nothing can be sent"))]
    pub fn begin(self, metrics: Option<&Metrics>) -> Exporting {
        #[cfg(feature = "otlp")]
        if let Some(otlp) = self.otlp {
            return Exporting(Some(otlp.begin(metrics)));
        }
        Exporting(None)
    }
}

impl Exporting {
    /// Sends what is left, within a limit.
    pub async fn end(self) {
        let Some((end, task)) = self.0 else { return };
        let _ = end.send(());
        if timeout(LAST_WORDS, task).await.is_err() {
            tracing::warn!("the last telemetry is not sent: the collector is too slow");
        }
    }
}

impl fmt::Debug for Exporting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Exporting").field(&self.0.is_some()).finish()
    }
}

#[cfg(feature = "otlp")]
mod otlp {
    use stanchion::{
        telemetry::{Metrics, Otlp, OtlpExporter, OtlpSettings},
        upstream::Transport,
    };
    use tokio::{sync::oneshot, task::JoinHandle};

    use super::Duration;
    use crate::config;

    #[derive(Debug)]
    pub(super) struct Ready {
        pub(super) sink: Otlp,
        exporter: OtlpExporter,
        pub(super) traces: bool,
        pub(super) metrics: bool,
    }

    impl Ready {
        pub(super) fn new(configured: &config::OtlpSettings) -> Self {
            let mut settings = OtlpSettings::new(configured.endpoint.as_str());
            settings.headers = configured.headers.clone();
            settings.metrics_every = configured.metrics_every;
            let instance = format!("{:016x}", fastrand::u64(..));
            let own = [
                ("service.name", "stanchion".to_owned()),
                ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
                ("service.instance.id", instance),
            ];
            let is_set = |key: &str| configured.resource.iter().any(|(set, _)| set == key);
            let own = own.into_iter().filter(|(key, _)| !is_set(key)).map(|(key, value)| (key.to_owned(), value));
            settings.resource = own.chain(configured.resource.iter().cloned()).collect();
            let (sink, exporter) = Otlp::new(settings);
            Self { sink, exporter, traces: configured.traces, metrics: configured.metrics }
        }

        pub(super) fn begin(self, metrics: Option<&Metrics>) -> (oneshot::Sender<()>, JoinHandle<()>) {
            let Self { sink, mut exporter, metrics: wanted, .. } = self;
            if let Some(metrics) = metrics {
                // Whoever scrapes sees how it goes with the spans.
                metrics.pull(move |pulled| sink.pull(pulled));
                if wanted {
                    exporter = exporter.metrics(metrics.clone());
                }
            }
            let transport = Transport::builder().connect_timeout(Duration::from_secs(5)).build();
            let (end, ended) = oneshot::channel();
            let task = tokio::spawn(exporter.run(transport, async move {
                let _ = ended.await;
            }));
            (end, task)
        }
    }
}
