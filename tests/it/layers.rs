//! The house rules, checked against the sources: import directions, the use of `kube`, size limits.
//!
//! Each rule is a function from sources to complaints (`file:line: what`). Each is also tested with a small bad input, so that no rule can
//! silently stop complaining. A change of the architecture is a change of [`LAYERS`], with its reason.

mod cycles;
mod growing;
mod impls;
mod imports;
mod rules;
mod source;

use std::path::Path;
use std::sync::LazyLock;

use cycles::cycles;
use growing::growing;
use impls::{Elsewhere, foreign_impls};
use imports::imports;
use rules::{
    doors, framework_named_by_server, headers, ignored_tests, kube_outside_cluster, log_lines, long_files,
    names, purity, reexports, torn_tables,
};
use source::Source;

/// The top-level modules of `kopf-rs/src`, bottom to top, each with the modules that it may import.
const LAYERS: &[(&str, &[&str])] = &[
    ("object", &[]),
    ("handler", &["object"]),
    ("state", &["object", "handler"]),
    ("happening", &["object", "handler", "state"]),
    ("reaction", &["object", "handler", "state", "happening"]),
    // Examines an object in the same way as a plan, and describes the result.
    ("why", &["object", "handler", "reaction"]),
    // The requests and responses of webhooks, and their configuration in the API server.
    ("admission", &["object", "handler"]),
    // Counts happenings, and writes the metrics.
    ("metrics", &["object", "happening"]),
    // Converts objects between the versions of their kind, without loss.
    ("conversion", &["object", "handler"]),
    ("rt", &[]),
    // A watch backs off and reads the clock, so `rt` lies below every module that waits. Requests are reported for metrics.
    ("cluster", &["object", "happening", "rt"]),
    (
        "engine",
        &["object", "handler", "state", "happening", "reaction", "admission", "conversion", "cluster", "rt"],
    ),
    // The health endpoint gets facts from the engine and the watches.
    ("health", &["object", "handler", "happening", "metrics", "cluster", "rt", "engine"]),
    (
        "operator",
        &[
            "object",
            "handler",
            "state",
            "happening",
            "reaction",
            "why",
            "admission",
            "metrics",
            "conversion",
            "cluster",
            "rt",
            "engine",
            "health",
        ],
    ),
    // The command line connects through `cluster` and creates objects. A flag selects the storages in `state`. Traces go over TLS of `rt`.
    ("cli", &["object", "handler", "state", "why", "cluster", "rt", "operator"]),
    // A test starts operators with clients of its server, reads a program's output, and calls admission handlers like a server.
    ("testing", &["handler", "admission", "conversion", "cluster", "operator", "cli"]),
];

/// The public list and the entry points of generated code re-export from all modules, and contain no code themselves.
const DOORS: &[&str] = &["lib", "prelude", "__private"];

/// Modules whose files still import each other, each with the change that removes the cycle. A row that is no longer needed is a complaint.
const KNOWN_CYCLES: &[(&str, &str)] = &[];

/// Types with inherent impls outside of their module, each with these files and the reason. A row that is no longer needed is a complaint.
const IMPLS_ELSEWHERE: &[Elsewhere<'_>] = &[
    (
        "Cause",
        &[
            "handler/children.rs",
            "handler/events.rs",
            "handler/extract/background.rs",
            "handler/indexer.rs",
            "handler/lister.rs",
            "handler/owner.rs",
            "handler/subhandlers.rs",
            "handler/test_cause.rs",
            "operator/given.rs",
        ],
        "an accessor stands beside the argument that it returns",
    ),
    (
        "ByType",
        &[
            "handler/attempt.rs",
            "handler/extract/background.rs",
            "handler/lister.rs",
            "handler/subhandlers.rs",
        ],
        "only an inherent function takes precedence over that of the trait; each stands beside its argument",
    ),
    ("Callback", &["handler/lister.rs"], "the option of closures stands beside the argument that needs it"),
    ("Selector", &["cluster/typed.rs"], "names a type by a trait of kube"),
    ("Stopped", &["engine/stopped.rs"], "sleeps by the clock of tokio"),
    ("Registry", &["operator/definition.rs"], "adds the rules of webhooks to a definition"),
];

/// Public types that will not grow, each with the reason.
const CLOSED: &[(&str, &str)] = &[
    ("ConditionStatus", "the API has these three"),
    ("DiffItem", "Kopf's four parts, which are taken apart"),
    ("DiffOp", "two states differ in one of three ways"),
];

/// Files that write log lines themselves, each with the reason.
const LOG_LINES: &[(&str, &str)] = &[
    ("engine/report.rs", "the one place where happenings become lines"),
    ("engine/noted_calls.rs", "about its own file, and about no object"),
    ("operator/run.rs", "the operator's own start and end"),
    ("cluster/connect.rs", "before there is an operator, and when a kubeconfig is read again"),
    ("cluster/stack.rs", "before there is an operator, at DEBUG only"),
    ("cluster/stack/tls.rs", "authorities that cannot be read again, of a client that stays in use"),
    ("cluster/discover.rs", "APIs that are broken, between discoveries"),
    ("cluster/request.rs", "quick tries, at DEBUG only"),
    ("cluster/watch.rs", "how a watch goes on, at DEBUG only"),
    ("cluster/watch/stream.rs", "a line that no server known sends"),
];

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests lie in the repository")
}

fn framework() -> &'static [Source] {
    static FRAMEWORK: LazyLock<Vec<Source>> = LazyLock::new(|| Source::read(repository(), &["kopf-rs/src"]));
    &FRAMEWORK
}

fn everything() -> &'static [Source] {
    static EVERYTHING: LazyLock<Vec<Source>> = LazyLock::new(|| {
        let folders = [
            "kopf-rs",
            "kopf-rs-flags",
            "kopf-rs-macros",
            "kopf-rs-schedule",
            "kopf-rs-cli",
            "docs/book/builder",
            "apiserver/server",
            "apiserver/fuzz",
            "apiserver/tests/src",
            "apiserver/tests/it",
            "examples",
            "tests/src",
            "tests/it",
            "tests/programs",
        ];
        let mut sources = Source::read(repository(), &folders);
        // The fixtures for the compiler are test data, not modules.
        sources.retain(|source| !source.path.contains("/ui/") && !source.path.contains("/expand/"));
        sources
    });
    &EVERYTHING
}

#[track_caller]
fn complain(complaints: &[String]) {
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
}

#[test]
fn modules_import_only_what_their_layer_may() {
    let sources = framework();
    assert!(!sources.is_empty());
    complain(&imports(sources, LAYERS, DOORS));
}

#[test]
fn files_of_a_layer_import_each_other_in_one_direction() {
    complain(&cycles(framework(), KNOWN_CYCLES));
}

#[test]
fn methods_stand_in_the_module_of_their_type() {
    complain(&foreign_impls(framework(), IMPLS_ELSEWHERE));
}

#[test]
fn kube_is_written_only_in_cluster() {
    complain(&kube_outside_cluster(framework()));
}

#[test]
fn the_middle_is_pure() {
    complain(&purity(framework()));
}

#[test]
fn what_happens_is_a_value_before_it_is_a_line() {
    complain(&log_lines(framework(), LOG_LINES));
}

#[test]
fn files_are_short() {
    complain(&long_files(everything()));
}

#[test]
fn modules_open_with_what_they_are() {
    complain(&headers(everything()));
}

#[test]
fn only_the_public_list_reexports_across_modules() {
    complain(&reexports(framework(), DOORS));
}

#[test]
fn public_types_say_that_they_may_grow() {
    complain(&growing(framework(), CLOSED));
}

#[test]
fn modules_are_named_by_subject() {
    complain(&names(everything()));
}

#[test]
fn no_test_is_ignored() {
    complain(&ignored_tests(everything()));
}

#[test]
fn tests_and_examples_use_public_names_only() {
    let mut sources = Source::read(repository(), &["examples", "tests/src", "tests/it", "tests/programs"]);
    sources.retain(|source| !source.path.starts_with("tests/it/layers"));
    complain(&doors(&sources));
}

#[test]
fn the_api_server_does_not_know_the_framework() {
    let mut sources = Source::read(repository(), &["apiserver"]);
    for package in ["server", "fuzz", "tests", "bench"] {
        let manifest = format!("apiserver/{package}/Cargo.toml");
        let text = std::fs::read_to_string(repository().join(&manifest));
        sources.push(Source::new(&manifest, &text.expect("there is a manifest")));
    }
    complain(&framework_named_by_server(&sources));
}

#[test]
fn tables_of_the_documentation_are_in_one_piece() {
    let mut complaints = Vec::new();
    let book = ["tutorial", "how-to", "semantics", "reference"].map(|part| format!("docs/book/src/{part}"));
    let folders = book.iter().map(String::as_str).chain(["docs"]);
    let pages = folders.flat_map(|it| std::fs::read_dir(repository().join(it)).expect("there are pages"));
    let pages = pages.map(|page| page.expect("it can be read").path());
    let pages = pages.filter(|page| page.extension().is_some_and(|it| it == "md"));
    let own = ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"];
    for page in own.map(|name| repository().join(name)).into_iter().chain(pages) {
        let text = std::fs::read_to_string(&page).expect("it can be read");
        complaints.extend(torn_tables(&page.display().to_string(), &text));
    }
    complain(&complaints);
}
