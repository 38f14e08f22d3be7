//! A logger that is bound to an object, so that every line can start with `[namespace/name]`.
//!
//! The logger attaches the object as fields. The formatter turns them into the prefix.

use std::fmt;
use std::sync::Arc;

use crate::handler::event_sink::{EventSink, OperatorSink, PostingLevel};
use crate::handler::subject::Activity;
use crate::object::posted_event::{EventKind, PostedEvent, Regarding};
use crate::object::reference::Reference;

/// Logs about one object or one activity, also from tasks and threads that a handler starts: `info!(logger, "...")`
/// and its siblings. In a handler itself, `info!("...")` is enough.
///
/// Needs no setup, so unit tests can call handlers with `Logger::new()`.
#[derive(Clone, Debug, Default)]
pub struct Logger {
    about: Option<Arc<Reference>>,
    activity: Option<Activity>,
    /// Set if the operator also posts log lines as Events.
    posting: Option<LinePosting>,
}

/// How to post lines about an object as Kubernetes Events.
#[derive(Clone, Debug)]
struct LinePosting {
    sink: Arc<dyn EventSink>,
    /// The handler that writes the lines.
    action: Option<Arc<str>>,
    resource_version: Option<Arc<str>>,
}

/// Emits one event. The target and the level of a `tracing` callsite are constants, so each combination needs its own
/// callsite.
macro_rules! at_level {
    ($level:expr, $target:literal, $($fields:tt)+) => {
        match $level {
            tracing::Level::ERROR => tracing::event!(target: $target, tracing::Level::ERROR, $($fields)+),
            tracing::Level::WARN => tracing::event!(target: $target, tracing::Level::WARN, $($fields)+),
            tracing::Level::INFO => tracing::event!(target: $target, tracing::Level::INFO, $($fields)+),
            tracing::Level::DEBUG => tracing::event!(target: $target, tracing::Level::DEBUG, $($fields)+),
            tracing::Level::TRACE => tracing::event!(target: $target, tracing::Level::TRACE, $($fields)+),
        }
    };
}

impl Logger {
    /// Creates a logger for lines about `reference`.
    #[must_use]
    pub fn of(reference: Arc<Reference>) -> Self {
        Self { about: Some(reference), activity: None, posting: None }
    }
    /// Creates a logger for lines about no object, for unit tests of handlers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
    /// Creates a logger for lines about an activity.
    pub(crate) fn of_activity(activity: Activity) -> Self {
        Self { about: None, activity: Some(activity), posting: None }
    }
    /// Returns the object that the logger is bound to.
    pub(crate) fn about(&self) -> Option<&Reference> {
        self.about.as_deref()
    }
    /// Also posts the lines as Events if the operator posts log lines.
    pub(crate) fn posting_to(mut self, sink: Option<&OperatorSink>) -> Self {
        let sink = sink.filter(|sink| sink.0.gates().is_some_and(|gates| gates.lines));
        self.posting =
            sink.map(|sink| LinePosting { sink: sink.0.clone(), action: None, resource_version: None });
        self
    }
    /// Binds the logger to a call of a handler for one version of the object.
    pub(crate) fn for_call(mut self, handler: &Arc<str>, version: &str) -> Self {
        if let Some(posting) = &mut self.posting {
            posting.action = Some(handler.clone());
            posting.resource_version = Some(version.into());
        }
        self
    }
    /// Returns whether log lines are posted as Events.
    pub(crate) fn posts_lines(&self) -> bool {
        self.posting.is_some()
    }
    /// Writes one log line.
    ///
    /// The target is `kopf.objects`, with the fields `namespace name kind api_version uid`, if there is an object.
    /// For activities, the target is `kopf.activities.startup`, or that of another activity.
    ///
    /// With [`Posting::loggers`](crate::Posting::loggers), the line is also posted as a Kubernetes Event about the
    /// object.
    pub fn log(&self, level: tracing::Level, line: fmt::Arguments<'_>) {
        self.print(level, line);
        self.post_line(level, line);
    }
    /// Posts one line if log lines are posted as Events.
    pub(crate) fn post_line(&self, level: tracing::Level, line: fmt::Arguments<'_>) {
        self.post(level, None, "Logging", line);
    }
    /// Posts an Event if log lines are posted as Events.
    pub(crate) fn post(
        &self,
        level: tracing::Level,
        action: Option<&str>,
        reason: &str,
        note: fmt::Arguments<'_>,
    ) {
        let level = PostingLevel::from(level);
        let (Some(posting), Some(about)) = (&self.posting, &self.about) else {
            return;
        };
        if !posting.sink.takes(level) {
            return;
        }
        let kind = if level >= PostingLevel::Warning { EventKind::Warning } else { EventKind::Normal };
        let regarding =
            Regarding { object: about.clone(), resource_version: posting.resource_version.clone() };
        let action = action.or(posting.action.as_deref()).unwrap_or_default();
        let note = note.to_string();
        let event = PostedEvent::new(regarding, kind, (action, reason), &note);
        posting.sink.post(event);
    }
    /// Writes one log line without posting it.
    pub(crate) fn print(&self, level: tracing::Level, line: fmt::Arguments<'_>) {
        match self.activity {
            None => self.log_about_object(level, line),
            Some(Activity::Startup) => at_level!(level, "kopf.activities.startup", "{line}"),
            Some(Activity::Cleanup) => at_level!(level, "kopf.activities.cleanup", "{line}"),
            Some(Activity::Login) => {
                at_level!(level, "kopf.activities.authentication", "{line}");
            }
            Some(Activity::Probe) => at_level!(level, "kopf.activities.probe", "{line}"),
        }
    }
    fn log_about_object(&self, level: tracing::Level, line: fmt::Arguments<'_>) {
        let about = self.about.as_deref();
        at_level!(
            level,
            "kopf.objects",
            namespace = about.and_then(|object| object.namespace.as_deref()),
            name = about.map(|object| object.name.as_str()),
            kind = about.map(|object| object.kind.as_str()),
            api_version = about.map(|object| object.api_version.as_str()),
            uid = about.map(|object| object.uid.as_str()),
            "{line}"
        );
    }
}

/// Logs one line with the syntax of the `tracing` macros, or through a [`Logger`] if the first argument is an
/// expression followed by a comma. One form of `tracing` is therefore not available: the shorthand field `count` must
/// be written as `count = count`. Only lines that begin with a format string are posted as Events.
#[doc(hidden)]
#[macro_export]
macro_rules! __kopf_line {
    ($name:ident $level:ident: $field:literal = $($rest:tt)+) => {
        $crate::__private::tracing::$name!($field = $($rest)+)
    };
    ($name:ident $level:ident: $line:literal $($rest:tt)*) => {
        if $crate::__private::posts_lines() {
            match ::core::format_args!($line $($rest)*) {
                line => {
                    $crate::__private::tracing::$name!("{}", line);
                    $crate::__private::post_line($crate::__private::Level::$level, line);
                }
            }
        } else {
            $crate::__private::tracing::$name!($line $($rest)*);
        }
    };
    ($name:ident $level:ident: $option:ident: $($rest:tt)+) => {
        $crate::__private::tracing::$name!($option: $($rest)+)
    };
    ($name:ident $level:ident: $($field:ident).+ = $($rest:tt)+) => {
        $crate::__private::tracing::$name!($($field).+ = $($rest)+)
    };
    ($name:ident $level:ident: { $($fields:tt)* }, $($rest:tt)+) => {
        $crate::__private::tracing::$name!({ $($fields)* }, $($rest)+)
    };
    ($name:ident $level:ident: % $($rest:tt)+) => {
        $crate::__private::tracing::$name!(% $($rest)+)
    };
    ($name:ident $level:ident: ? $($rest:tt)+) => {
        $crate::__private::tracing::$name!(? $($rest)+)
    };
    ($name:ident $level:ident: $logger:expr, $($line:tt)+) => {
        $logger.log($crate::__private::Level::$level, ::core::format_args!($($line)+))
    };
}

/// Logs a line for developers: `debug!("found {n} pods")`.
///
/// Replaces `tracing::debug!`. Within a handler, the line names the handled object, as lines of `tracing`'s own
/// macros do. In tasks and threads that the handler starts, pass a [`Logger`] as the first argument:
/// `debug!(logger, "..")`.
#[macro_export]
macro_rules! debug {
    ($($line:tt)+) => {
        $crate::__kopf_line!(debug DEBUG: $($line)+)
    };
}

/// Logs a line about normal operation: `info!("pod {name} created")`.
///
/// Replaces `tracing::info!`. Within a handler, the line names the handled object, as lines of `tracing`'s own macros
/// do. In tasks and threads that the handler starts, pass a [`Logger`] as the first argument: `info!(logger, "..")`.
#[macro_export]
macro_rules! info {
    ($($line:tt)+) => {
        $crate::__kopf_line!(info INFO: $($line)+)
    };
}

/// Logs a line about something unexpected: `warn!("no image given, using {image}")`.
///
/// Replaces `tracing::warn!`. Within a handler, the line names the handled object, as lines of `tracing`'s own macros
/// do. In tasks and threads that the handler starts, pass a [`Logger`] as the first argument: `warn!(logger, "..")`.
#[macro_export]
macro_rules! warn {
    ($($line:tt)+) => {
        $crate::__kopf_line!(warn WARN: $($line)+)
    };
}

/// Logs a line about a failure: `error!("cannot create the pod: {error}")`.
///
/// Replaces `tracing::error!`. Within a handler, the line names the handled object, as lines of `tracing`'s own
/// macros do. In tasks and threads that the handler starts, pass a [`Logger`] as the first argument:
/// `error!(logger, "..")`.
#[macro_export]
macro_rules! error {
    ($($line:tt)+) => {
        $crate::__kopf_line!(error ERROR: $($line)+)
    };
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fmt::Write;

    use parking_lot::Mutex;
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use super::*;

    /// Writes every event as one line.
    #[derive(Clone, Default)]
    pub(crate) struct Lines(pub(crate) Arc<Mutex<Vec<String>>>);

    struct Fields<'a>(&'a mut String);

    impl Visit for Fields<'_> {
        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            let written = write!(self.0, " {field}={value:?}");
            written.expect("text takes everything");
        }
    }

    impl Subscriber for Lines {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, event: &Event<'_>) {
            let metadata = event.metadata();
            let mut line = format!("{} {}", metadata.level(), metadata.target());
            event.record(&mut Fields(&mut line));
            self.0.lock().push(line);
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn lines_carry_their_object() {
        let lines = Lines::default();
        let logger = Logger::of(Arc::new(Reference {
            api_version: "v1".into(),
            kind: "Pod".into(),
            name: "one".into(),
            namespace: None,
            uid: "u".into(),
        }));
        tracing::subscriber::with_default(lines.clone(), || {
            let n = 5;
            crate::info!(logger, "pod {n} {}", "created");
            crate::error!(&Logger::new(), "nothing");
            crate::debug!(Logger::of_activity(Activity::Cleanup), "swept");
        });
        assert_eq!(
            *lines.0.lock(),
            [
                "INFO kopf.objects message=pod 5 created name=\"one\" kind=\"Pod\" api_version=\"v1\" uid=\"u\"",
                "ERROR kopf.objects message=nothing",
                "DEBUG kopf.activities.cleanup message=swept",
            ]
        );
    }

    #[test]
    fn lines_are_written_as_tracing_takes_them() {
        let lines = Lines::default();
        tracing::subscriber::with_default(lines.clone(), || {
            let (n, text) = (5, "x");
            crate::info!("{n} pods");
            crate::info!(count = n, "pods");
            crate::info!(pod.count = n, pod.name = %text, "pods");
            crate::info!(target: "mine", count = n, "pods");
            crate::info!({ count = n }, "pods {text}");
            crate::info!(%text);
            crate::info!(?text, "quoted");
            crate::info!("a name" = n, "pods");
        });
        let target = module_path!();
        let mut wanted = vec![
            "message=5 pods",
            "message=pods count=5",
            "message=pods pod.count=5 pod.name=x",
            "message=pods count=5",
            "message=pods x count=5",
            "text=x",
            "message=quoted text=\"x\"",
            "message=pods a name=5",
        ];
        let mut lines = lines.0.lock().clone();
        assert_eq!(lines.remove(3), "INFO mine message=pods count=5");
        wanted.remove(3);
        let wanted: Vec<_> = wanted.iter().map(|it| format!("INFO {target} {it}")).collect();
        assert_eq!(lines, wanted);
    }

    #[test]
    fn unit_tests_can_log_without_setup() {
        crate::warn!(Logger::new(), "nobody listens");
    }
}
