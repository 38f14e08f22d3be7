//! Kubernetes operators from annotated async functions: Kopf for Rust.
//!
//! ```
//! use kopf_rs::prelude::*;
//!
//! #[on_create("kopfexamples")]
//! async fn create_fn(#[from(spec.size)] size: u64, name: &str, patch: &mut Patch) -> HandlerResult {
//!     if size > 100 {
//!         fail!("spec.size is {size}: expected at most 100");
//!     }
//!     patch.set("status.size", size);
//!     info!("{name} is of size {size}");
//!     Ok(())
//! }
//! ```
//!
//! - [`on_create`](macro@on_create) documents the common parts of all attributes: selectors, options, arguments and
//!   return values.
//! - `kopf-rs run PATH` runs annotated functions from a single file or a library crate; `kopf_rs::main!()` makes a
//!   program of them; [`Operator`] runs them inside your own program.
//! - [`TemporaryError`] and [`PermanentError`] decide whether a failed handler is retried. [`Patch`] collects changes
//!   of the object, [`Memo`] keeps values in memory, and [`State`] passes values of your program to the functions.
//! - [`Registry`] takes closures in place of annotated functions. [`Settings`] change timings and limits.
//!
//! # Cargo features
//!
//! | feature | default | effect |
//! |---|---|---|
//! | `inventory` | yes | collects annotated functions by constructors that run before `main` |
//! | `linkme` | | collects them in the linker, without code before `main`; takes precedence over `inventory` |
//! | `k8s-latest` | yes | selects the newest version for `k8s-openapi`; disable it to choose a version yourself |
//! | `certificates` | | generates certificates for admission webhooks; without it, pass them as files |
//! | `cli` | | `kopf_rs::main!()`, the flags, the log lines |
//! | `embedded` | | the API server behind `--embedded`; enables `cli` and `certificates` |
//! | `testing` | | `kopf_rs::testing`: operators in tests, with an in-memory API server; for `[dev-dependencies]`; enables `embedded` |
//! | `metrics` | | Prometheus metrics: `Operator::metrics`, `--metrics`, and your own `Metrics` |
//! | `otel` | | traces for an OpenTelemetry collector, configured by the variables `OTEL_*` |
//! | `mimalloc` | | `kopf_rs::main!()` makes mimalloc the program's allocator, which returns memory after a burst; enables `cli` |
//! | `schemars` | | [`Condition`] as a part of types with `#[derive(JsonSchema)]`, for CRDs generated from Rust |
//!
//! A library of handlers, and a program around an [`Operator`], need none of `certificates`, `cli`, `embedded`,
//! `metrics`, `testing`, `mimalloc` and `web`: `kopf-rs run` enables them in its builds. A program with `kopf_rs::main!()`
//! needs `cli`, and should enable `metrics`, `mimalloc` and `web`; add `certificates` for admission handlers, and `embedded`
//! during development.

// The complete public API of the framework: all items that are not re-exported here are internal.

// `linkme` statics of this crate's own tests count as unsafe code.
#![cfg_attr(not(feature = "linkme"), forbid(unsafe_code))]

// Expansions of attributes name the framework by its full path, also in its own unit tests.
#[cfg(test)]
extern crate self as kopf_rs;

#[doc(hidden)]
pub mod __private;
pub(crate) mod admission;
#[cfg(feature = "cli")]
pub mod cli;
pub(crate) mod cluster;
pub(crate) mod conversion;
pub(crate) mod engine;
pub(crate) mod handler;
pub(crate) mod happening;
pub(crate) mod health;
#[cfg(feature = "metrics")]
pub(crate) mod metrics;
pub(crate) mod object;
pub(crate) mod operator;
pub mod prelude;
pub(crate) mod reaction;
pub(crate) mod rt;
pub(crate) mod state;
#[cfg(feature = "testing")]
pub mod testing;
pub(crate) mod why;

pub use crate::cluster::Client;
pub use crate::cluster::credentials::ConnectionInfo;
pub use crate::engine::failures::Failure;
pub use crate::handler::again::{Again, IntoAgain};
pub use crate::handler::cause::{Attempt, Cause};
pub use crate::handler::children::{AppliedChild, Children};
pub use crate::handler::conversion::{Conversion, conversion};
pub use crate::handler::definition::ErrorsMode;
pub use crate::handler::denial::{AdmissionError, AdmissionErrors, FieldError};
pub use crate::handler::error::{HandlerError, HandlerResult, PermanentError, TemporaryError};
pub use crate::handler::event_sink::PostingLevel;
pub use crate::handler::events::Events;
pub use crate::handler::extract::{FromCause, State};
pub use crate::handler::filter::{ABSENT, Criterion, PRESENT};
pub use crate::handler::index::returned::{IndexEntries, IndexReturn};
pub use crate::handler::index::{Index, IndexValues, IndexValuesIter};
pub use crate::handler::indexer::{indexer, indexer_async};
pub use crate::handler::lifecycle::{CustomLifecycle, DueHandler, Lifecycle};
pub use crate::handler::lister::Lister;
pub use crate::handler::live::Live;
pub use crate::handler::logger::Logger;
pub use crate::handler::memo::Memo;
pub use crate::handler::operation::Operation;
pub use crate::handler::options::Callback;
pub use crate::handler::owner::{
    Dependents, Owner, adjust_namespace, adopt, append_owner_reference, harmonize_naming, label,
    remove_owner_reference,
};
pub use crate::handler::registry::callback::{Context, handler, handler_blocking, handler_with};
pub use crate::handler::registry::selectors::IntoSelector;
pub use crate::handler::registry::{Registry, RegistryError};
pub use crate::handler::review::{UserInfo, Warnings};
pub use crate::handler::seconds::Seconds;
pub use crate::handler::status::{Conditions, Status};
pub use crate::handler::stopped::{StopReason, Stopped};
pub use crate::handler::subhandlers::Subhandlers;
pub use crate::handler::subject::Reason;
pub use crate::handler::target::{IntoOwners, OwnerName};
pub use crate::handler::test_cause::TestCause;
pub use crate::handler::timing::{IntoPause, Pause};
pub use crate::handler::trigger::Trigger;
pub use crate::handler::validation_rule::ValidationRule;
pub use crate::health::address::BadLiveness;
#[cfg(feature = "metrics")]
pub use crate::health::address::BadMetricsAddress;
#[cfg(feature = "metrics")]
pub use crate::metrics::own::{Counter, Gauge, Histogram, MetricError, Metrics};
pub use crate::object::body::Body;
pub use crate::object::conditions::{Condition, ConditionStatus};
pub use crate::object::diff::{Diff, DiffItem, DiffOp};
pub use crate::object::event::EventType;
pub use crate::object::labels::Labels;
pub use crate::object::patch::Patch;
pub use crate::object::path::FieldPath;
pub use crate::object::posted_event::EventKind;
pub use crate::object::reference::Reference;
pub use crate::object::resource::Resource;
pub use crate::object::selector::{ResourcePredicate, Selector, SelectorError, SelectorName};
pub use crate::object::typed::HasKind;
pub use crate::operator::clock::Clock;
pub use crate::operator::definition::register_crd;
pub use crate::operator::run::{Operator, OperatorError, Report};
pub use crate::operator::scope::BadPattern;
pub use crate::operator::selection_map::SelectorMap;
pub use crate::operator::settings::admission::AdmissionServer;
pub use crate::operator::settings::log_level::LogLevel;
pub use crate::operator::settings::{
    Admission, Background, Execution, Health, LeaseSettings, Logging, MetricsSettings, Networking, Peering,
    Posting, Queueing, Scanning, Settings, StartupSettings, StatusSettings, Watching,
};
pub use crate::rt::tls::TlsVersion;
pub use crate::state::{BadPersistence, Persistence};
pub use crate::why::explanation::Explanation;
pub use crate::why::question::{BadQuestion, WhyQuestion};

/// Storages for [`Persistence`]: Kopf's storages, and the traits for your own.
pub mod storage {
    pub use crate::state::kopf::annotations::{AnnotationsDiffBaseStorage, AnnotationsProgressStorage};
    pub use crate::state::kopf::multi::{MultiDiffBaseStorage, MultiProgressStorage, SmartProgressStorage};
    pub use crate::state::kopf::status::{StatusDiffBaseStorage, StatusProgressStorage};
    pub use crate::state::storage::{DiffBaseStorage, ProgressRecord, ProgressStorage, StorageError};
}

/// Not public API either: traits that compiler messages about arguments name. Hidden with the documentation only,
/// because the compiler prints the full path of items that are not reachable.
#[cfg_attr(doc, doc(hidden))]
pub mod __arguments {
    pub use crate::handler::extract::{GivenAs, LentAs, arg};
    pub use crate::handler::status::StatusArgument;
}

/// Compiles the Rust code in README.md as doctests.
#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../../README.md")]
struct Readme;

/// Compiles the tour as doctests.
#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../../docs/first-operator.md")]
struct FirstOperator;

/// Compiles the page on running operators as doctests.
#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../../docs/running.md")]
struct Running;

/// Compiles the page on metrics as doctests.
#[cfg(all(doctest, feature = "metrics"))]
#[doc = include_str!("../../docs/metrics.md")]
struct MetricsPage;

/// Compiles the page on traces as doctests.
#[cfg(all(doctest, feature = "otel"))]
#[doc = include_str!("../../docs/traces.md")]
struct TracesPage;

/// Compiles the page on tests as doctests.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../docs/testing.md")]
struct Testing;

/// Compiles the page on external resources as doctests.
#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../../docs/external-resources.md")]
struct ExternalResources;

/// Compiles the guide for Kopf's users as doctests.
#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../../docs/coming-from-kopf.md")]
struct ComingFromKopf;

/// Compiles the guide for kubebuilder's users as doctests.
#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../../docs/coming-from-kubebuilder.md")]
struct ComingFromKubebuilder;

/// Compiles the guide for kube-rs' users as doctests.
#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../../docs/coming-from-kube-rs.md")]
struct ComingFromKubeRs;

// The attributes, documented here because their examples need the framework.
#[doc = include_str!("../docs/daemon.md")]
pub use kopf_rs_macros::daemon;
#[doc = include_str!("../docs/finalize.md")]
pub use kopf_rs_macros::finalize;
#[doc = include_str!("../docs/index.md")]
pub use kopf_rs_macros::index;
#[doc = include_str!("../docs/on_cleanup.md")]
pub use kopf_rs_macros::on_cleanup;
#[doc = include_str!("../docs/on_convert.md")]
pub use kopf_rs_macros::on_convert;
#[doc = include_str!("../docs/on_create.md")]
pub use kopf_rs_macros::on_create;
#[doc = include_str!("../docs/on_delete.md")]
pub use kopf_rs_macros::on_delete;
#[doc = include_str!("../docs/on_event.md")]
pub use kopf_rs_macros::on_event;
#[doc = include_str!("../docs/on_field.md")]
pub use kopf_rs_macros::on_field;
#[doc = include_str!("../docs/on_login.md")]
pub use kopf_rs_macros::on_login;
#[doc = include_str!("../docs/on_mutate.md")]
pub use kopf_rs_macros::on_mutate;
#[doc = include_str!("../docs/on_probe.md")]
pub use kopf_rs_macros::on_probe;
#[doc = include_str!("../docs/on_resume.md")]
pub use kopf_rs_macros::on_resume;
#[doc = include_str!("../docs/on_startup.md")]
pub use kopf_rs_macros::on_startup;
#[doc = include_str!("../docs/on_update.md")]
pub use kopf_rs_macros::on_update;
#[doc = include_str!("../docs/on_validate.md")]
pub use kopf_rs_macros::on_validate;
#[doc = include_str!("../docs/reconcile.md")]
pub use kopf_rs_macros::reconcile;
#[doc = include_str!("../docs/subhandler.md")]
pub use kopf_rs_macros::subhandler;
#[doc = include_str!("../docs/timer.md")]
pub use kopf_rs_macros::timer;
#[doc = include_str!("../docs/validation_rule.md")]
pub use kopf_rs_macros::validation_rule;
