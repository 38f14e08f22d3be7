//! Sends traces to an OpenTelemetry collector, configured by the standard environment variables.
//!
//! A separate thread sends OTLP in batches, over HTTP or gRPC ([`transport`]), so that a slow or unreachable collector loses spans but never
//! delays handling.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData};
use tracing::Metadata;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::{Layer, Registry};

use crate::cli::lines::is_of_library;
use crate::cli::traces::transport::{LastProblem, Route, Transport};

mod transport;

/// The time limit for sending the remaining spans at shutdown.
const PATIENCE: Duration = Duration::from_secs(2);
/// The standard's time limit for one request.
const LONGEST_REQUEST: Duration = Duration::from_secs(10);

/// Sends spans until it is shut down.
pub(crate) struct Traces(SdkTracerProvider);

/// The configuration from the environment.
#[derive(Debug, PartialEq, Eq)]
enum Wish {
    Nothing,
    /// Traces by this route; to this endpoint if no variable names one.
    Traces(Route, Option<&'static str>),
    /// The environment requests an unsupported option. Carries a message with the expected and the actual value.
    Impossible(String),
}

impl Traces {
    /// Starts tracing if the environment requests it. Returns a message about an unsupported configuration, to be
    /// logged once logging works.
    pub(crate) fn begin(service: &str) -> (Option<Self>, Option<String>) {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        match wish(&variable) {
            Wish::Nothing => (None, None),
            Wish::Impossible(why) => (None, Some(why)),
            Wish::Traces(route, default) => match exporter(route, default) {
                Ok(exporter) => (Some(Self::new(service, &variable, exporter)), None),
                Err(why) => (None, Some(format!("{FAILED}: {why}"))),
            },
        }
    }

    fn new(service: &str, variable: &impl Fn(&str) -> Option<String>, exporter: Told<SpanExporter>) -> Self {
        let is_named = variable("OTEL_SERVICE_NAME").is_some()
            || variable("OTEL_RESOURCE_ATTRIBUTES").is_some_and(|it| it.contains("service.name="));
        let resource = Resource::builder();
        let resource = if is_named { resource } else { resource.with_service_name(service.to_owned()) };
        let provider =
            SdkTracerProvider::builder().with_resource(resource.build()).with_batch_exporter(exporter);
        Self(provider.build())
    }

    /// Returns the layer for the spans of the framework and of users, with their log lines. Excludes libraries, and
    /// spans that only attribute lines to objects.
    pub(crate) fn layer(&self) -> impl Layer<Registry> + Send + Sync + use<> {
        let tracer = self.0.tracer("kopf-rs");
        let layer = tracing_opentelemetry::layer().with_tracer(tracer);
        layer.with_filter(filter_fn(is_traced))
    }

    /// Sends the remaining spans within two seconds.
    pub(crate) fn end(self) {
        // Failures to send were logged already.
        let _ = self.0.shutdown_with_timeout(PATIENCE);
    }
}

fn is_traced(metadata: &Metadata<'_>) -> bool {
    let target = metadata.target();
    let only_attributes = metadata.is_span() && target == "kopf.objects";
    !only_attributes && !is_of_library(target)
}

fn exporter(route: Route, default: Option<&str>) -> Result<Told<SpanExporter>, String> {
    let problem = LastProblem::default();
    let transport = Transport::new(route, problem.clone())?;
    let exporter = SpanExporter::builder().with_http().with_http_client(transport);
    let exporter = exporter.with_protocol(Protocol::HttpBinary);
    let exporter = match default {
        Some(endpoint) => exporter.with_endpoint(endpoint),
        None => exporter,
    };
    let exporter = exporter.build().map_err(|error| error.to_string())?;
    Ok(Told::new(exporter, problem))
}

const FAILED: &str = "Traces cannot be sent to the collector that the variables OTEL_* name";

/// Parses the standard's variables:
/// <https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/>.
fn wish(variable: &impl Fn(&str) -> Option<String>) -> Wish {
    if variable("OTEL_SDK_DISABLED").is_some_and(|it| it.eq_ignore_ascii_case("true")) {
        return Wish::Nothing;
    }
    let endpoint = |name: &'static str| variable(name).map(|url| (name, url));
    let endpoint =
        endpoint("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").or_else(|| endpoint("OTEL_EXPORTER_OTLP_ENDPOINT"));
    match (variable("OTEL_TRACES_EXPORTER").as_deref(), &endpoint) {
        (Some("none"), _) | (None, None) => return Wish::Nothing,
        (Some("otlp") | None, _) => {}
        (Some(other), _) => {
            return Wish::Impossible(format!(
                "{FAILED}: expected `otlp` or `none` in OTEL_TRACES_EXPORTER, found `{other}`"
            ));
        }
    }
    if let Some((name, url)) = &endpoint
        && !url.starts_with("http://")
        && !url.starts_with("https://")
    {
        return Wish::Impossible(format!(
            "{FAILED}: expected a URL like http://localhost:4318 or https://localhost:4318 in {name}, found `{url}`"
        ));
    }
    let of_traces = |name: &str| {
        let specific = format!("OTEL_EXPORTER_OTLP_TRACES_{name}");
        variable(&specific).or_else(|| variable(&format!("OTEL_EXPORTER_OTLP_{name}")))
    };
    if of_traces("CLIENT_CERTIFICATE").is_some() {
        return Wish::Impossible(format!(
            "{FAILED}: expected no OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE, because client certificates are not supported; send traces to a \
             collector beside the operator, which can pass them on"
        ));
    }
    let is_grpc = match of_traces("PROTOCOL").as_deref() {
        None | Some("http/protobuf") => false,
        Some("grpc") => true,
        Some(other) => {
            return Wish::Impossible(format!(
                "{FAILED}: expected `http/protobuf` or `grpc` in OTEL_EXPORTER_OTLP_PROTOCOL, found `{other}`"
            ));
        }
    };
    let milliseconds = of_traces("TIMEOUT").and_then(|it| it.parse().ok());
    let patience = milliseconds.map_or(LONGEST_REQUEST, Duration::from_millis);
    let route = Route { is_grpc, authorities: of_traces("CERTIFICATE"), patience };
    Wish::Traces(route, (is_grpc && endpoint.is_none()).then_some("http://localhost:4317"))
}

/// Logs once when spans cannot be sent, and once when they can be sent again.
#[derive(Debug)]
struct Told<E> {
    inner: E,
    is_failing: AtomicBool,
    problem: LastProblem,
}

impl<E> Told<E> {
    fn new(inner: E, problem: LastProblem) -> Self {
        Self { inner, is_failing: AtomicBool::new(false), problem }
    }

    fn report(&self, sent: &OTelSdkResult) {
        match sent {
            Ok(()) if self.is_failing.swap(false, Ordering::Relaxed) => {
                tracing::info!("Traces are sent again.");
            }
            Err(error) if !self.is_failing.swap(true, Ordering::Relaxed) => {
                let problem = self.problem.lock().clone().filter(|it| !it.is_empty());
                let problem = problem.map(|it| format!(" ({it})")).unwrap_or_default();
                tracing::warn!("{FAILED}: {error}{problem}. They are dropped until it can be reached.");
            }
            Ok(()) | Err(_) => {}
        }
    }
}

impl<E: opentelemetry_sdk::trace::SpanExporter> opentelemetry_sdk::trace::SpanExporter for Told<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let sent = self.inner.export(batch).await;
        self.report(&sent);
        sent
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wished(variables: &[(&str, &str)]) -> Wish {
        wish(&|name| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn traces_are_wanted_where_a_collector_is_named() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318");
        assert_eq!(wished(&[]), Wish::Nothing);
        let http = Route { is_grpc: false, authorities: None, patience: LONGEST_REQUEST };
        assert_eq!(wished(&[endpoint]), Wish::Traces(http.clone(), None));
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://x/v1/traces");
        assert_eq!(wished(&[own]), Wish::Traces(http.clone(), None));
        assert_eq!(wished(&[("OTEL_TRACES_EXPORTER", "otlp")]), Wish::Traces(http, None));
        let grpc = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
        let certificate = ("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "ca.pem");
        let limit = ("OTEL_EXPORTER_OTLP_TIMEOUT", "1500");
        let (authorities, patience) = (Some("ca.pem".to_owned()), Duration::from_millis(1500));
        let secured = Route { is_grpc: true, authorities, patience };
        assert_eq!(wished(&[endpoint, grpc, certificate, limit]), Wish::Traces(secured, None));
        let default = wished(&[("OTEL_TRACES_EXPORTER", "otlp"), grpc]);
        assert!(matches!(default, Wish::Traces(_, Some("http://localhost:4317"))), "{default:?}");
        let none = ("OTEL_TRACES_EXPORTER", "none");
        assert_eq!(wished(&[endpoint, none]), Wish::Nothing);
        let disabled = ("OTEL_SDK_DISABLED", "True");
        assert_eq!(wished(&[endpoint, disabled]), Wish::Nothing);
    }

    #[test]
    fn unsupported_configurations_are_reported() {
        for (variables, expected) in [
            (
                [("OTEL_TRACES_EXPORTER", "zipkin"), ("OTEL_SERVICE_NAME", "x")],
                "expected `otlp` or `none` in OTEL_TRACES_EXPORTER, found `zipkin`",
            ),
            (
                [("OTEL_EXPORTER_OTLP_ENDPOINT", "x:4318"), ("OTEL_SERVICE_NAME", "x")],
                "expected a URL like http://localhost:4318 or https://localhost:4318 in OTEL_EXPORTER_OTLP_ENDPOINT, found `x:4318`",
            ),
            (
                [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://x"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")],
                "expected `http/protobuf` or `grpc` in OTEL_EXPORTER_OTLP_PROTOCOL, found `http/json`",
            ),
            (
                [
                    ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://x"),
                    ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "c.pem"),
                ],
                "expected no OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
            ),
        ] {
            let wish = wished(&variables);
            let Wish::Impossible(why) = wish else { panic!("{wish:?}") };
            assert!(why.contains(expected), "{why}");
        }
    }
}
