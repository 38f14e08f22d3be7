//! Happenings: events of an object or of the operator that are logged, posted or counted.
//!
//! Each event is declared once, as a row of a [`happenings!`] enum in a submodule. To add a log line, add a row:
//!
//! ```text
//! happenings! {
//!     /// The family, and what its events are about.
//!     #[derive(Clone, Debug)]
//!     enum Handling {
//!         /// When this happens; details of its fields.
//!         Cancelled { handler: Arc<Handler> }              // the data that the pure code and the engine provide
//!             => WARN,                                     // the level, an expression of the fields
//!             "{handler} is cancelled.",                   // the text of the log line; format arguments may follow
//!             => event of_handler(handler, "Cancelled");   // optional: the Kubernetes Event about the object
//!     }
//! }
//! ```
//!
//! The macro makes an enum with one variant per row. [`Display`] writes the log line, and [`Happening`] returns the
//! level and the Event. Metrics count an enum whose name is followed by `counted by` and a method; only
//! reporters that are given a meter accept it. Texts and levels are those of Kopf wherever Kopf has such a line. The pure code and the
//! engine create the values; `engine::report` writes them. This module knows neither loggers nor who reads the lines.

pub(crate) mod calls;
pub(crate) mod handling;
pub(crate) mod meter;
pub(crate) mod operating;
pub(crate) mod serving;
pub(crate) mod spans;
pub(crate) mod webhooks;
pub(crate) mod working;

use std::fmt::Display;

use tracing::Level;

use crate::handler::definition::Handler;
use crate::happening::meter::Meter;

const DEBUG: Level = Level::DEBUG;
const INFO: Level = Level::INFO;
const WARN: Level = Level::WARN;
const ERROR: Level = Level::ERROR;

/// An event. Its `Display` text is the log line, which is formatted only when it is displayed.
pub(crate) trait Happening: Display {
    /// Returns the level of the log line.
    fn level(&self) -> Level;
    /// Returns the Kubernetes Event about the object. It is posted if the operator posts log lines.
    fn event(&self) -> Option<ObjectEvent<'_>>;
    /// Counts the event.
    fn count(&self, _meter: &dyn Meter) {}
}

/// An event that no metric counts, so that it may be reported without a meter.
pub(crate) trait Uncounted: Happening {}

/// The Kubernetes Event that accompanies a log line.
pub(crate) struct ObjectEvent<'a> {
    /// A handler, or the reason of the cycle.
    pub(crate) action: &'a str,
    pub(crate) reason: &'static str,
    /// The text, if it differs from the log line. It omits parts that vary between attempts, such as delays, so that
    /// repeated events are counted as one series.
    pub(crate) text: Option<String>,
}

/// Returns an Event about a handler, if the handler permits Events.
fn of_handler<'a>(handler: &'a Handler, reason: &'static str) -> Option<ObjectEvent<'a>> {
    handler.posts_lines().then_some(ObjectEvent { action: &handler.id, reason, text: None })
}

/// Declares events; see the documentation of this module.
macro_rules! happenings {
    (@event) => { None };
    (@event $event:expr) => { $event.into() };
    (@uncounted $name:ident) => { impl $crate::happening::Uncounted for $name {} };
    (@uncounted $name:ident $count:path) => {};
    ($(#[$on_enum:meta])* enum $name:ident $(counted by $count:path)? { $(
        $(#[$on_row:meta])* $row:ident $({ $($field:ident: $type:ty),+ })?
            => $level:expr, $text:literal $(, $arg:expr)* $(=> event $event:expr)?;
    )+ }) => {
        $(#[$on_enum])*
        pub(crate) enum $name { $(
            $(#[$on_row])* $row $({ $($field: $type),+ })?
        ),+ }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self { $(Self::$row $({ $($field),+ })? => {
                    $($(let _ = $field;)+)?
                    write!(f, $text $(, $arg)*)
                })+ }
            }
        }

        impl $crate::happening::Happening for $name {
            fn level(&self) -> tracing::Level {
                match self { $(Self::$row $({ $($field),+ })? => {
                    $($(let _ = $field;)+)?
                    $level
                })+ }
            }

            fn event(&self) -> Option<$crate::happening::ObjectEvent<'_>> {
                match self { $(Self::$row $({ $($field),+ })? => {
                    $($(let _ = $field;)+)?
                    $crate::happening::happenings!(@event $($event)?)
                })+ }
            }

            $(fn count(&self, meter: &dyn $crate::happening::meter::Meter) {
                $count(self, meter);
            })?
        }

        $crate::happening::happenings!(@uncounted $name $($count)?);
    };
}
use happenings;

/// Returns the items with commas between them.
fn listed<T: Display>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
    items.join(", ")
}

/// Returns the handler ids in quotation marks.
fn quoted<T: Display>(ids: &[T]) -> String {
    let ids: Vec<String> = ids.iter().map(|id| format!("'{id}'")).collect();
    ids.join(", ")
}

/// Returns `1 object` or `N objects`.
fn objects(count: usize) -> String {
    match count {
        1 => "1 object".to_owned(),
        count => format!("{count} objects"),
    }
}

/// Returns the end of a line about a request: the RBAC rule that would permit it, if one is missing.
fn to_permit(rule: &str) -> String {
    match rule {
        "" => String::new(),
        rule => format!("\nTo permit it, add {rule}"),
    }
}
