//! Writes log lines in Kopf's formats (plain, full or JSON) to standard error.
//!
//! An event is about an object if the event, or its nearest span, has the fields `api_version`, `kind` and `name`. So
//! lines of the `Logger` and plain `tracing::info!` lines inside a handler both start with `[namespace/name]`. This
//! module does not know who logs.

use std::fmt::{self, Write as _};
use std::io::Write as _;

use jiff::{Timestamp, Zoned};
use kopf_rs_flags::{LogFlags, LogFormat};
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Registry;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::object::reference::Reference;
use crate::operator::settings::log_level::LogLevel;

/// Libraries whose details are logged only with `--debug`.
const LIBRARIES: [&str; 8] = ["h2", "hyper", "hyper_util", "kube", "kube_client", "mio", "rustls", "tower"];

/// Writes every event as one line.
struct Lines {
    shape: Shape,
    write: Box<dyn Fn(&str) + Send + Sync>,
}

/// The format of a line.
struct Shape {
    format: LogFormat,
    prefixed: bool,
    refkey: String,
    /// True if full lines start with the time.
    timed: bool,
}

/// The parsed fields of an event or a span.
#[derive(Debug)]
struct Fields {
    /// True if the fields refer to an object. Elsewhere, fields such as `name` have a different meaning.
    refer: bool,
    message: String,
    about: Reference,
    others: Map<String, Value>,
}

/// Changes the level of the installed logging.
pub(crate) struct Verbosity {
    /// The levels that the flags or `RUST_LOG` select.
    chosen: Targets,
    apply: Box<dyn Fn(Targets) + Send + Sync>,
}

impl Verbosity {
    /// Logs from this level on; without one, as the flags or `RUST_LOG` select.
    pub(crate) fn set(&self, level: Option<LogLevel>) {
        (self.apply)(level.map_or_else(|| self.chosen.clone(), at));
    }

    #[cfg(test)]
    pub(super) fn told_to(flags: &LogFlags, apply: impl Fn(Targets) + Send + Sync + 'static) -> Self {
        Self { chosen: targets(flags), apply: Box::new(apply) }
    }
}

/// Installs the logging, unless a subscriber exists already. `traces` is an additional layer for spans.
pub(crate) fn install(
    flags: &LogFlags,
    traces: Option<impl Layer<Registry> + Send + Sync + 'static>,
) -> Verbosity {
    let lines = Lines {
        shape: Shape {
            format: flags.log_format,
            prefixed: flags.prefixed(),
            refkey: flags.log_refkey.clone(),
            timed: true,
        },
        write: Box::new(to_stderr),
    };
    let variable = std::env::var("RUST_LOG").ok();
    let (targets, trouble) = chosen(variable.as_deref(), flags);
    // Fails only if a subscriber exists already, which is then the user's choice.
    let levels = Levels { targets: targets.clone(), spans: traces.is_some() };
    let (levels, handle) = reload::Layer::new(levels);
    let _ = tracing_subscriber::registry().with(traces).with(levels).with(lines).try_init();
    if let Some(trouble) = trouble {
        tracing::warn!("{trouble}");
    }
    let apply = move |targets| {
        // Fails only if the logging was not installed.
        let _ = handle.modify(|levels| levels.targets = targets);
    };
    Verbosity { chosen: targets, apply: Box::new(apply) }
}

/// Creates a subscriber that writes lines in the `--verbose` format without timestamps to `write`.
#[cfg(feature = "testing")]
pub(crate) fn without_times(write: impl Fn(&str) + Send + Sync + 'static) -> impl Subscriber + Send + Sync {
    let lines = Lines {
        shape: Shape { format: LogFormat::Full, prefixed: true, refkey: String::new(), timed: false },
        write: Box::new(write),
    };
    let verbose = LogFlags { verbose: true, ..LogFlags::default() };
    let levels = Levels { targets: targets(&verbose), spans: false };
    tracing_subscriber::registry().with(levels).with(lines)
}

/// Enables the selected lines, and always the spans of handlers, since they identify the object of a line. With
/// traces, enables all spans except details and those of libraries.
struct Levels {
    targets: Targets,
    spans: bool,
}

impl Levels {
    fn is_wanted_span(&self, metadata: &Metadata<'_>) -> bool {
        let target = metadata.target();
        let is_of_handler = || target == "kopf.objects";
        let is_of_trace =
            || target == "kopf_rs::trace" || *metadata.level() <= Level::INFO && !is_of_library(target);
        metadata.is_span() && (is_of_handler() || self.spans && is_of_trace())
    }
}

/// Returns whether the target belongs to a library whose details are logged only with `--debug`.
pub(super) fn is_of_library(target: &str) -> bool {
    let name = target.split("::").next().unwrap_or(target);
    LIBRARIES.contains(&name) || name.starts_with("opentelemetry")
}

impl<S: Subscriber> Layer<S> for Levels {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.is_wanted_span(metadata) {
            return Interest::always();
        }
        Layer::<S>::register_callsite(&self.targets, metadata)
    }

    fn enabled(&self, metadata: &Metadata<'_>, context: Context<'_, S>) -> bool {
        self.is_wanted_span(metadata) || self.targets.enabled(metadata, context)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let chosen = Layer::<S>::max_level_hint(&self.targets);
        let spans = if self.spans { LevelFilter::TRACE } else { LevelFilter::ERROR };
        chosen.map(|it| it.max(spans))
    }
}

fn to_stderr(line: &str) {
    // Errors of standard error cannot be reported anywhere.
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

/// Returns the levels that the variable `RUST_LOG` selects, or else the flags; and the problem with an invalid variable.
fn chosen(variable: Option<&str>, flags: &LogFlags) -> (Targets, Option<String>) {
    let Some(text) = variable else {
        return (targets(flags), None);
    };
    match text.parse() {
        Ok(chosen) => (chosen, None),
        Err(error) => (
            targets(flags),
            Some(format!(
                "RUST_LOG={text:?} is ignored: {error}. Expected levels or targets with levels, such as `debug` or `kopf_rs=debug,kube=info`."
            )),
        ),
    }
}

fn targets(flags: &LogFlags) -> Targets {
    let (ours, theirs) = match flags {
        LogFlags { debug: true, .. } => (LevelFilter::DEBUG, LevelFilter::DEBUG),
        LogFlags { verbose: true, .. } => (LevelFilter::DEBUG, LevelFilter::WARN),
        LogFlags { quiet: true, .. } => (LevelFilter::WARN, LevelFilter::WARN),
        _ => (LevelFilter::INFO, LevelFilter::WARN),
    };
    of_levels(ours, theirs)
}

/// Returns the levels of the program and of libraries for this setting.
fn at(level: LogLevel) -> Targets {
    match level {
        LogLevel::Trace => of_levels(LevelFilter::TRACE, LevelFilter::DEBUG),
        LogLevel::Debug => of_levels(LevelFilter::DEBUG, LevelFilter::WARN),
        LogLevel::Info => of_levels(LevelFilter::INFO, LevelFilter::WARN),
        LogLevel::Warning => of_levels(LevelFilter::WARN, LevelFilter::WARN),
        LogLevel::Error => of_levels(LevelFilter::ERROR, LevelFilter::ERROR),
    }
}

fn of_levels(ours: LevelFilter, theirs: LevelFilter) -> Targets {
    let libraries = LIBRARIES.map(|library| (library, theirs));
    // Repeats on each connection a warning that is already logged at startup.
    let per_connection = if theirs >= LevelFilter::DEBUG { theirs } else { LevelFilter::ERROR };
    Targets::new()
        .with_default(ours)
        .with_targets(libraries)
        .with_target("kube_client::client::tls", per_connection)
}

// === impl Lines ===

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lines {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::of(attributes.metadata());
        attributes.record(&mut fields);
        if let (Some(about), Some(span)) = (fields.about(), context.span(id)) {
            span.extensions_mut().insert(about);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::of(event.metadata());
        event.record(&mut fields);
        let about = fields.about().or_else(|| {
            let mut spans = context.event_scope(event)?;
            spans.find_map(|span| span.extensions().get::<Reference>().cloned())
        });
        #[cfg(feature = "otel")]
        if self.shape.format == LogFormat::Json {
            fields.others.extend(trace_of(event, &context));
        }
        let metadata = event.metadata();
        let mut line =
            self.shape.line(*metadata.level(), metadata.target(), about.as_ref(), fields, Timestamp::now());
        line.push('\n');
        (self.write)(&line);
    }
}

/// Returns the trace of a line, with the standard field names for JSON lines.
#[cfg(feature = "otel")]
fn trace_of<S: Subscriber + for<'a> LookupSpan<'a>>(
    event: &Event<'_>,
    context: &Context<'_, S>,
) -> Vec<(String, Value)> {
    use opentelemetry::trace::TraceContextExt as _;
    let dispatch = tracing::dispatcher::get_default(Clone::clone);
    let scope = context.event_scope(event);
    let known = scope.into_iter().flatten().find_map(|span| {
        let context = tracing_opentelemetry::get_otel_context(&span.id(), &dispatch)?;
        let context = context.span().span_context().clone();
        context.is_valid().then_some(context)
    });
    let Some(known) = known else {
        return Vec::new();
    };
    let parts = [
        ("trace_id", known.trace_id().to_string()),
        ("span_id", known.span_id().to_string()),
        ("trace_flags", format!("{:02x}", known.trace_flags())),
    ];
    let named = parts.map(|(name, value)| (name.to_owned(), value.into()));
    named.into()
}

// === impl Shape ===

impl Shape {
    fn line(
        &self,
        level: Level,
        target: &str,
        about: Option<&Reference>,
        fields: Fields,
        now: Timestamp,
    ) -> String {
        let prefix = about.filter(|_| self.prefixed);
        let prefix = prefix.map(|about| format!("[{about}] ")).unwrap_or_default();
        match self.format {
            LogFormat::Json => self.json(level, &prefix, about, fields, now),
            LogFormat::Plain => format!("{prefix}{}{}", fields.message, shown(&fields.others)),
            LogFormat::Full => format!(
                "{}{target:<20.20} [{:<8}] {prefix}{}{}",
                self.time(now),
                title(level),
                fields.message,
                shown(&fields.others),
            ),
        }
    }

    /// Returns the first column of full lines.
    fn time(&self, now: Timestamp) -> String {
        if !self.timed {
            return String::new();
        }
        let now = Zoned::new(now, jiff::tz::TimeZone::system());
        format!("[{}] ", now.strftime("%Y-%m-%d %H:%M:%S,%3f"))
    }

    fn json(
        &self,
        level: Level,
        prefix: &str,
        about: Option<&Reference>,
        fields: Fields,
        now: Timestamp,
    ) -> String {
        let mut line = fields.others;
        if let Some(about) = about {
            line.insert(self.refkey.clone(), reference(about));
        }
        line.insert("message".into(), format!("{prefix}{}", fields.message).into());
        line.insert("severity".into(), severity(level).into());
        line.insert("timestamp".into(), format!("{now:.6}").into());
        Value::Object(line).to_string()
    }
}

/// Returns the level name in the full format.
fn title(level: Level) -> &'static str {
    match level {
        Level::WARN => "WARNING",
        other => other.as_str(),
    }
}

/// Returns the level name in the JSON format.
fn severity(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        _ => "debug",
    }
}

fn shown(others: &Map<String, Value>) -> String {
    let mut text = String::new();
    for (key, value) in others {
        let _ = match value {
            Value::String(value) => write!(text, " {key}={value}"),
            value => write!(text, " {key}={value}"),
        };
    }
    text
}

/// Returns the object as a field of JSON lines.
fn reference(about: &Reference) -> Value {
    let parts = [
        ("apiVersion", Some(&about.api_version)),
        ("kind", Some(&about.kind)),
        ("name", Some(&about.name)),
        ("uid", Some(&about.uid).filter(|uid| !uid.is_empty())),
        ("namespace", about.namespace.as_ref()),
    ];
    let parts = parts.into_iter();
    parts.filter_map(|(key, value)| Some((key.to_owned(), Value::from(value?.as_str())))).collect()
}

// === impl Fields ===

impl Fields {
    fn of(metadata: &Metadata<'_>) -> Self {
        Self {
            refer: metadata.fields().field("api_version").is_some(),
            message: String::new(),
            about: Reference::default(),
            others: Map::new(),
        }
    }

    /// Takes the object reference out of the fields, if it is complete.
    fn about(&mut self) -> Option<Reference> {
        let about = std::mem::take(&mut self.about);
        let complete = ![&about.api_version, &about.kind, &about.name].contains(&&String::new());
        complete.then_some(about)
    }

    /// Returns the part of the object reference that a field sets, if the event or span is about an object.
    fn part(&mut self, field: &Field) -> Option<&mut String> {
        if !self.refer {
            return None;
        }
        match field.name() {
            "api_version" => Some(&mut self.about.api_version),
            "kind" => Some(&mut self.about.kind),
            "name" => Some(&mut self.about.name),
            "uid" => Some(&mut self.about.uid),
            "namespace" => Some(self.about.namespace.get_or_insert_default()),
            _ => None,
        }
    }

    fn put(&mut self, field: &Field, value: Value) {
        self.others.insert(field.name().to_owned(), value);
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        } else {
            self.record_str(field, &format!("{value:?}"));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            value.clone_into(&mut self.message);
        } else if let Some(part) = self.part(field) {
            value.clone_into(part);
        } else {
            self.put(field, value.into());
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;
    use serde_json::json;

    use super::*;

    /// Returns the output of `logging` in this format.
    fn written(format: LogFormat, logging: impl FnOnce()) -> Vec<String> {
        written_of(Targets::new().with_default(LevelFilter::TRACE), format, logging)
    }

    fn written_of(targets: Targets, format: LogFormat, logging: impl FnOnce()) -> Vec<String> {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let sink = kept.clone();
        let lines = Lines {
            shape: Shape { format, prefixed: format != LogFormat::Json, refkey: "k".into(), timed: true },
            write: Box::new(move |line| sink.lock().push(line.to_owned())),
        };
        let subscriber = tracing_subscriber::registry().with(Levels { targets, spans: false }).with(lines);
        tracing::subscriber::with_default(subscriber, logging);
        let kept = kept.lock();
        kept.clone()
    }

    macro_rules! about {
        ($message:literal) => {
            tracing::info!(target: "kopf.objects", namespace = Some("default"), name = "app", kind = "MyApp",
                api_version = "example.com/v1", uid = "u", $message)
        };
    }

    #[test]
    fn plain_lines_have_the_prefix_and_extras() {
        let lines = written(LogFormat::Plain, || {
            about!("hello 🚀");
            tracing::warn!(count = 3, name = "mine", "alone");
        });
        assert_eq!(lines, ["[default/app] hello 🚀\n", "alone count=3 name=mine\n"]);
    }

    #[test]
    fn lines_within_the_span_of_a_handler_have_the_prefix() {
        let lines = written(LogFormat::Plain, || {
            let span = tracing::error_span!(
                "call",
                namespace = None::<&str>,
                name = "app",
                kind = "MyApp",
                api_version = "v1",
                uid = "u"
            );
            let _entered = span.enter();
            let _inner = tracing::info_span!("users own").entered();
            tracing::info!("inside");
        });
        assert_eq!(lines, ["[app] inside\n"]);
    }

    #[test]
    fn the_prefix_does_not_depend_on_the_lines_that_are_chosen() {
        let targets: Targets = "my_operator=info".parse().unwrap();
        let lines = written_of(targets, LogFormat::Plain, || {
            let span = tracing::error_span!(
                target: "kopf.objects",
                "handler",
                name = "app",
                kind = "MyApp",
                api_version = "v1"
            );
            let _entered = span.enter();
            tracing::info!(target: "my_operator", "mine");
            tracing::info!(target: "others", "theirs");
            tracing::error!(target: "kopf.objects", "of the framework");
        });
        assert_eq!(lines, ["[app] mine\n"]);
    }

    #[test]
    fn full_lines_have_columns() {
        let lines = written(LogFormat::Full, || {
            about!("x");
            tracing::warn!(target: "a_very_long::target_of_a_library", "y");
        });
        let after_time = |line: &String| line.split_once("] ").unwrap().1.to_owned();
        assert_eq!(after_time(&lines[0]), "kopf.objects         [INFO    ] [default/app] x\n");
        assert_eq!(after_time(&lines[1]), "a_very_long::target_ [WARNING ] y\n");
        assert_eq!(lines[0].find(']'), Some("[2026-11-21 12:00:00,123".len()));
    }

    #[test]
    fn json_lines_carry_the_reference_and_extras() {
        let lines = written(LogFormat::Json, || {
            about!("x");
            tracing::error!(count = 3, "y");
        });
        let line = |at: usize| serde_json::from_str::<Value>(&lines[at]).unwrap();
        let object = json!({
            "apiVersion": "example.com/v1", "kind": "MyApp", "name": "app", "namespace": "default", "uid": "u"
        });
        assert_eq!(line(0)["k"], object);
        assert_eq!(line(0)["severity"], "info");
        assert_eq!(line(0)["message"], "x");
        assert!(line(0)["timestamp"].as_str().unwrap().ends_with('Z'));
        assert_eq!(line(1)["count"], 3);
        assert_eq!(line(1)["severity"], "error");
        assert_eq!(line(1).get("k"), None);
    }

    #[test]
    fn an_invalid_variable_is_reported_and_the_flags_apply() {
        let verbose = LogFlags { verbose: true, ..LogFlags::default() };
        assert_eq!(chosen(None, &verbose), (targets(&verbose), None));
        let (ours, trouble) = chosen(Some("my=info"), &verbose);
        assert_eq!((ours.to_string(), trouble), ("my=info".to_owned(), None));
        let (flags, trouble) = chosen(Some("my=loud"), &verbose);
        assert_eq!(flags, targets(&verbose));
        let trouble = trouble.unwrap();
        assert!(trouble.starts_with("RUST_LOG=\"my=loud\" is ignored: "), "{trouble}");
    }

    #[test]
    fn verbosity_chooses_levels() {
        let level = |flags: &LogFlags, target| {
            let targets = targets(flags);
            [Level::DEBUG, Level::INFO, Level::WARN]
                .into_iter()
                .find(|level| targets.would_enable(target, level))
        };
        let verbose = LogFlags { verbose: true, quiet: true, ..LogFlags::default() };
        let quiet = LogFlags { quiet: true, ..LogFlags::default() };
        assert_eq!(level(&LogFlags::default(), "my"), Some(Level::INFO));
        assert_eq!(level(&verbose, "my"), Some(Level::DEBUG));
        assert_eq!(level(&verbose, "kube_client::client"), Some(Level::WARN));
        assert_eq!(level(&quiet, "my"), Some(Level::WARN));
    }
}
