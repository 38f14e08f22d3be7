//! The other house rules, each a function from sources to complaints.

use super::source::{Source, identifier, words};

const FILE_LINES: usize = 700;

/// Only the module `cluster` may use `kube`, so that all other modules use the project's own types.
pub(super) fn kube_outside_cluster(sources: &[Source]) -> Vec<String> {
    let elsewhere = sources.iter().filter(|source| source.module()[0] != "cluster");
    forbidden(
        elsewhere,
        &["kube::", "use kube", "kube_client", "kube_core", "kube_runtime"],
        "belongs in `cluster`",
    )
}

/// The pure modules decide and have no effects: time and randomness are arguments. Their tests may call users' async functions.
pub(super) fn purity(sources: &[Source]) -> Vec<String> {
    let pure = ["object", "handler", "state", "happening", "reaction", "admission", "conversion"];
    let effects = [
        "tokio",
        "tokio_util",
        "Instant::now",
        "SystemTime::now",
        "Timestamp::now",
        "Zoned::now",
        "std::fs",
        "std::net",
        "std::env",
        "std::thread",
        "std::process",
    ];
    let mut complaints = forbidden(within(sources, &pure), &effects, "has no place in the pure middle");
    // The module `handler` wraps users' functions into boxed futures, so it may contain `async` blocks.
    let silent = within(sources, &["object", "state", "happening", "reaction", "admission", "conversion"]);
    complaints.extend(forbidden(silent, &["async", ".await"], "has no place in the pure middle"));
    complaints
}

fn within<'a>(sources: &'a [Source], modules: &'a [&str]) -> impl Iterator<Item = &'a Source> {
    sources.iter().filter(|source| !source.is_tests() && modules.contains(&source.module()[0]))
}

/// Events are rows in `happening`, and `engine/report.rs` writes their lines. So no other file writes a log line, except for the files in
/// `known`, each of which must still do so.
pub(super) fn log_lines(sources: &[Source], known: &[(&str, &str)]) -> Vec<String> {
    let silent = ["object", "state", "happening", "reaction", "cluster", "engine", "health", "operator"];
    let writes = [
        "tracing::error",
        "tracing::warn",
        "tracing::info",
        "tracing::debug",
        "tracing::trace",
        "tracing::event",
        ".log(",
        ".print(",
    ];
    let is_of = |source: &Source, file: &str| source.path.ends_with(&format!("src/{file}"));
    let is_known = |source: &&Source| known.iter().any(|(file, _)| is_of(source, file));
    let lines_in = |source: &Source| {
        let one = std::iter::once(source);
        forbidden(one, &writes, "gives no value of what has happened")
    };
    let (listed, others): (Vec<_>, Vec<_>) = within(sources, &silent).partition(is_known);
    let mut complaints: Vec<_> = others.into_iter().flat_map(lines_in).collect();
    for (file, _) in known {
        let mut found = listed.iter().filter(|source| is_of(source, file));
        if !found.any(|source| !lines_in(source).is_empty()) {
            complaints.push(format!("{file}: writes no log line any more: drop its row"));
        }
    }
    complaints
}

/// Returns long files. Clippy limits functions.
pub(super) fn long_files(sources: &[Source]) -> Vec<String> {
    let lines = |source: &Source| source.text.lines().count();
    let long = sources.iter().filter(|source| lines(source) > FILE_LINES);
    long.map(|source| {
        let (path, lines) = (&source.path, lines(source));
        format!("{path}:1: {lines} lines, more than {FILE_LINES}")
    })
    .collect()
}

/// Every module starts with a description; test modules of a parent need none.
pub(super) fn headers(sources: &[Source]) -> Vec<String> {
    let bare = sources.iter().filter(|source| !source.is_tests() && !source.text.starts_with("//! "));
    bare.map(|source| format!("{}:1: the module does not open with `//!`", source.path)).collect()
}

/// There is one public list: a module re-exports its own parts only, never those of another.
pub(super) fn reexports(sources: &[Source], doors: &[&str]) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in sources {
        let module = source.module();
        if doors.contains(&module[0]) {
            continue;
        }
        for offset in words(&source.code, "use") {
            let before = source.code[..offset].trim_end();
            let path = source.code[offset + 3..].trim_start();
            let shared = before.ends_with("pub") || before.ends_with(')');
            let foreign = path.strip_prefix("crate::").is_some_and(|rest| identifier(rest) != module[0]);
            if shared && foreign {
                complaints.push(format!("{}: only `lib.rs` re-exports across modules", source.at(offset)));
            }
        }
    }
    complaints
}

/// Returns meaningless module names, and the file layout with `mod.rs`, which hides names.
pub(super) fn names(sources: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in sources {
        let refused = |name: &&str| ["utils", "util", "common", "helpers", "types", "mod"].contains(name);
        for name in source.path.trim_end_matches(".rs").split('/').filter(refused) {
            complaints.push(format!("{}:1: `{name}` names no subject", source.path));
        }
    }
    complaints
}

/// Tests must not be ignored.
pub(super) fn ignored_tests(sources: &[Source]) -> Vec<String> {
    forbidden(sources.iter(), &["#[ignore"], "hides a test: install or build what it needs")
}

/// Only generated code may use the hidden entry point.
pub(super) fn doors(sources: &[Source]) -> Vec<String> {
    forbidden(sources.iter(), &["__private"], "is for generated code only")
}

/// The API server must not use the framework, so that it cannot share its mistakes.
pub(super) fn framework_named_by_server(sources: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in sources {
        let in_manifest = source
            .path
            .ends_with("Cargo.toml")
            .then(|| source.text.lines().map(dependency))
            .into_iter()
            .flatten();
        if in_manifest.into_iter().any(|name| name == "kopf-rs" || name == "kopf-rs-macros") {
            complaints.push(format!("{}:1: depends on the framework", source.path));
        }
        for name in ["kopf_rs", "kopf_rs_macros"] {
            let named =
                words(&source.text, name).map(|offset| format!("{}: names `{name}`", source.at(offset)));
            complaints.extend(named);
        }
    }
    complaints
}

/// Returns table rows that an empty line separates from their head, because they are rendered as text.
pub(super) fn torn_tables(path: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let (mut is_code, mut in_table) = (false, false);
    let lines: Vec<&str> = text.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        is_code ^= line.trim_start().starts_with("```");
        let is_row = !is_code && line.starts_with('|');
        let is_head = || lines.get(at + 1).is_some_and(|next| next.starts_with("|-"));
        if is_row && !in_table && !is_head() {
            let number = at + 1;
            complaints.push(format!("{path}:{number}: this row belongs to no table"));
        }
        in_table = is_row;
    }
    complaints
}

/// Returns the key of a manifest line.
fn dependency(line: &str) -> &str {
    line.split(['=', '.', ' ']).next().unwrap_or_default()
}

fn forbidden<'a>(sources: impl Iterator<Item = &'a Source>, needles: &[&str], why: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in sources {
        for needle in needles {
            let found =
                words(&source.code, needle).map(|offset| format!("{}: `{needle}` {why}", source.at(offset)));
            complaints.extend(found);
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(path: &str, text: &str) -> [Source; 1] {
        [Source::new(path, text)]
    }

    #[test]
    fn kube_is_noticed_outside_cluster_and_in_code_only() {
        let text = "// kube::Client\nfn f(client: kube::Client) {}\nlet s = \"kube::\";";
        assert_eq!(
            kube_outside_cluster(&one("src/engine.rs", text)),
            ["src/engine.rs:2: `kube::` belongs in `cluster`"]
        );
        assert!(kube_outside_cluster(&one("src/cluster/watch.rs", text)).is_empty());
    }

    #[test]
    fn effects_are_noticed_in_the_middle() {
        for text in
            ["use tokio::sync::mpsc;", "fn f() { Instant::now() }", "async fn f() {}", "fn f() { g().await }"]
        {
            assert_eq!(purity(&one("src/reaction/plan.rs", text)).len(), 1, "{text}");
            assert!(purity(&one("src/engine/worker.rs", text)).is_empty(), "{text}");
        }
        assert!(purity(&one("src/handler/call.rs", "Box::pin(async move { f().await })")).is_empty());
        assert_eq!(purity(&one("src/handler/call.rs", "tokio::spawn(f)")).len(), 1);
    }

    #[test]
    fn log_lines_are_noticed_where_they_are_not_known() {
        let text = "fn f() { tracing::warn!(\"no\"); let span = tracing::error_span!(\"x\"); }";
        assert_eq!(
            log_lines(&one("src/engine/worker.rs", text), &[]),
            ["src/engine/worker.rs:1: `tracing::warn` gives no value of what has happened"]
        );
        let known = [("engine/worker.rs", "why")];
        assert!(log_lines(&one("src/engine/worker.rs", text), &known).is_empty());
        assert_eq!(
            log_lines(&one("src/engine/worker.rs", ""), &known),
            ["engine/worker.rs: writes no log line any more: drop its row"]
        );
        assert!(log_lines(&one("src/cli.rs", text), &[]).is_empty());
    }

    #[test]
    fn long_files_are_noticed() {
        let lines = |count| long_files(&one("src/a.rs", &"\n".repeat(count)));
        assert_eq!(lines(701), ["src/a.rs:1: 701 lines, more than 700"]);
        assert!(lines(700).is_empty());
    }

    #[test]
    fn headers_names_and_ignored_tests_are_noticed() {
        assert_eq!(headers(&one("src/a.rs", "use std::fmt;")).len(), 1);
        assert!(headers(&one("src/a.rs", "//! What it is.\n")).is_empty());
        assert!(headers(&one("src/a/tests.rs", "use super::*;\n")).is_empty());
        for path in ["src/utils.rs", "src/engine/types.rs", "src/engine/mod.rs", "src/common/queue.rs"] {
            assert_eq!(names(&one(path, "")).len(), 1, "{path}");
        }
        assert!(names(&one("src/engine/queue.rs", "")).is_empty());
        assert_eq!(ignored_tests(&one("src/a.rs", "#[test]\n#[ignore = \"slow\"]\nfn t() {}")).len(), 1);
        assert_eq!(doors(&one("tests/it/a.rs", "use kopf_rs::__private::Declared;")).len(), 1);
    }

    #[test]
    fn reexports_of_others_are_noticed() {
        let across = "pub use crate::object::Body;\npub(crate) use crate::state::Progress;";
        assert_eq!(reexports(&one("src/handler.rs", across), &["lib"]).len(), 2);
        assert!(reexports(&one("src/lib.rs", across), &["lib"]).is_empty());
        let own = "pub use decl::Decl;\npub use crate::handler::decl::Decl;\nuse crate::object::Body;";
        assert!(reexports(&one("src/handler.rs", own), &["lib"]).is_empty());
    }

    #[test]
    fn rows_that_are_cut_off_are_noticed() {
        let whole = "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n\n```\n| code |\n```\n";
        assert_eq!(torn_tables("a.md", whole), [""; 0]);
        let torn = whole.replace("\n| 3", "\n\n| 3");
        let complaints = torn_tables("a.md", &torn);
        assert_eq!(complaints, ["a.md:5: this row belongs to no table"]);
    }

    #[test]
    fn the_framework_is_noticed_in_the_api_server() {
        assert_eq!(framework_named_by_server(&one("src/a.rs", "/// use kopf_rs::prelude::*;")).len(), 1);
        assert_eq!(
            framework_named_by_server(&one(
                "Cargo.toml",
                "name = \"kopf-rs-apiserver\"\nkopf-rs.workspace = true"
            ))
            .len(),
            1
        );
        assert!(framework_named_by_server(&one("src/a.rs", "use kopf_rs_apiserver::ApiServer;")).is_empty());
    }
}
