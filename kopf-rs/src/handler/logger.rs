//! A logger that knows its object, so that every line can start with `[namespace/name]`.
//!
//! The prefix itself is made where lines are printed: here the object travels as fields.

use std::fmt;
use std::sync::Arc;

use crate::handler::event_sink::{EventSink, OperatorSink, PostingLevel};
use crate::handler::subject::Activity;
use crate::object::posted_event::{EventKind, PostedEvent, Regarding};
use crate::object::reference::Reference;

/// Logs on behalf of one object, or of one activity, also from tasks and threads that a handler starts: `info!(logger, "...")` and its siblings.
///
/// In a handler itself `info!("...")` is enough.
///
/// Works without any setup, so that handlers can be called in unit tests with `Logger::new()`.
#[derive(Clone, Debug, Default)]
pub struct Logger {
    about: Option<Arc<Reference>>,
    activity: Option<Activity>,
    /// Where lines are posted as Events, too.
    posting: Option<LinePosting>,
}

/// How lines about an object are posted as Kubernetes Events.
#[derive(Clone, Debug)]
struct LinePosting {
    sink: Arc<dyn EventSink>,
    /// The handler that writes them.
    action: Option<Arc<str>>,
    resource_version: Option<Arc<str>>,
}

/// One event. The target and the level of a callsite are constant: so there is one for each.
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
    /// A logger for lines about `reference`.
    #[must_use]
    pub fn of(reference: Arc<Reference>) -> Self {
        Self {
            about: Some(reference),
            activity: None,
            posting: None,
        }
    }
    /// A logger for lines about no object, as in unit tests of handlers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
    /// A logger for lines about an activity.
    pub(crate) fn of_activity(activity: Activity) -> Self {
        Self {
            about: None,
            activity: Some(activity),
            posting: None,
        }
    }
    /// The object that it logs about.
    pub(crate) fn about(&self) -> Option<&Reference> {
        self.about.as_deref()
    }
    /// The same, whose lines are also posted as Events where the operator posts lines.
    pub(crate) fn posting_to(mut self, sink: Option<&OperatorSink>) -> Self {
        let sink = sink.filter(|sink| sink.0.takes_lines());
        self.posting = sink.map(|sink| LinePosting {
            sink: sink.0.clone(),
            action: None,
            resource_version: None,
        });
        self
    }
    /// The same for a call of a handler for a version of the object.
    pub(crate) fn for_call(mut self, handler: &Arc<str>, version: &str) -> Self {
        if let Some(posting) = &mut self.posting {
            posting.action = Some(handler.clone());
            posting.resource_version = Some(version.into());
        }
        self
    }
    /// Whether lines are posted.
    pub(crate) fn posts_lines(&self) -> bool {
        self.posting.is_some()
    }
    /// Write one line.
    ///
    /// Its target is `kopf.objects`, its fields are `namespace name kind api_version uid` where there is an object. In activities
    /// the target is `kopf.activities.startup`, or that of another activity.
    ///
    /// With [`Posting::loggers`](crate::Posting::loggers) it is posted as a Kubernetes Event about the object, too.
    pub fn log(&self, level: tracing::Level, line: fmt::Arguments<'_>) {
        self.print(level, line);
        self.post_line(level, line);
    }
    /// Post one line, where lines are posted.
    pub(crate) fn post_line(&self, level: tracing::Level, line: fmt::Arguments<'_>) {
        self.post(level, None, "Logging", line);
    }
    /// Post an Event, where lines are posted.
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
        let kind = if level >= PostingLevel::Warning {
            EventKind::Warning
        } else {
            EventKind::Normal
        };
        let regarding = Regarding {
            object: about.clone(),
            resource_version: posting.resource_version.clone(),
        };
        let action = action.or(posting.action.as_deref()).unwrap_or_default();
        let note = note.to_string();
        let event = PostedEvent::new(regarding, kind, (action, reason), &note);
        posting.sink.post(event);
    }
    /// Write one line, and post nothing.
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

/// One line at a level: as a macro of `tracing` takes it, or behind a [`Logger`]. What begins with a name or an expression and a comma has a logger:
/// of all that `tracing` takes, only a field that is nothing but the name of a variable is written out here, `count = count`. Where
/// lines are posted as Events, text is.
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

/// Log a line for developers: `debug!("found {n} pods")`.
///
/// Within a handler the line tells which object it is about, as do those of `tracing`'s own macros, which this one stands for. A first argument
/// that is a [`Logger`] does the same in tasks and threads that the handler starts: `debug!(logger, "..")`.
#[macro_export]
macro_rules! debug {
    ($($line:tt)+) => {
        $crate::__kopf_line!(debug DEBUG: $($line)+)
    };
}

/// Log a line on the normal course of things: `info!("pod {name} created")`.
///
/// Within a handler, the line names the object that it is about, as lines of `tracing`'s own macros do. In tasks and threads that the handler
/// starts, the line needs a [`Logger`] as the first argument: `info!(logger, "..")`.
#[macro_export]
macro_rules! info {
    ($($line:tt)+) => {
        $crate::__kopf_line!(info INFO: $($line)+)
    };
}

/// Log a line on something odd: `warn!("no image given, using {image}")`.
///
/// Within a handler the line tells which object it is about, as do those of `tracing`'s own macros, which this one stands for. A first argument
/// that is a [`Logger`] does the same in tasks and threads that the handler starts: `warn!(logger, "..")`.
#[macro_export]
macro_rules! warn {
    ($($line:tt)+) => {
        $crate::__kopf_line!(warn WARN: $($line)+)
    };
}

/// Log a line on a failure: `error!("cannot create the pod: {error}")`.
///
/// Within a handler the line tells which object it is about, as do those of `tracing`'s own macros, which this one stands for. A first argument
/// that is a [`Logger`] does the same in tasks and threads that the handler starts: `error!(logger, "..")`.
#[macro_export]
macro_rules! error {
    ($($line:tt)+) => {
        $crate::__kopf_line!(error ERROR: $($line)+)
    };
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::sync::Mutex;

    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use super::*;

    /// Writes every event as one line.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<String>>>);

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
            self.0.lock().unwrap().push(line);
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
            *lines.0.lock().unwrap(),
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
        let mut lines = lines.0.lock().unwrap().clone();
        assert_eq!(lines.remove(3), "INFO mine message=pods count=5");
        wanted.remove(3);
        let wanted: Vec<_> = wanted
            .iter()
            .map(|it| format!("INFO {target} {it}"))
            .collect();
        assert_eq!(lines, wanted);
    }

    #[test]
    fn nothing_is_needed_to_log_in_unit_tests() {
        crate::warn!(Logger::new(), "nobody listens");
    }
}
