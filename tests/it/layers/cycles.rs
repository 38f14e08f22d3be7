//! Import cycles within a layer: the files of one top-level module must import each other in one direction only.
//!
//! An import is a path that names another file of the same top-level module: `crate::engine::queue`, `super::queue`, a group of such paths,
//! or `queue::Queue` in the file that declares `mod queue`. Tests, documentation, and the mere declaration of a module do not count. A file
//! that declares a module and uses it imports it, even by a re-export. If that module imports the file in turn, the two form a cycle, and
//! neither can be understood before the other. Code that both need belongs in a separate file.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::source::{Source, closing, identifier, inline_modules, signature_end, words};

/// Files by their module path, each with the files it imports and the first line that does.
type Graph = BTreeMap<String, BTreeMap<String, String>>;

/// Returns the cycles among the files of each top-level module, and the known cycles that no longer exist. A known cycle is named by the
/// module that contains it.
pub(super) fn cycles(sources: &[Source], known: &[(&str, &str)]) -> Vec<String> {
    let graph = graph(&production(sources));
    let found = shortest_cycles(&graph);
    let is_in = |set: &[String], module: &str| {
        let below = format!("{module}::");
        set.iter().all(|file| file == module || file.starts_with(&below))
    };
    let new = found.iter().filter(|(set, _)| !known.iter().any(|(module, _)| is_in(set, module)));
    let mut complaints: Vec<_> = new.map(|(set, cycle)| told(&graph, cycle, set.len())).collect();
    let gone = known.iter().filter(|(module, _)| !found.iter().any(|(set, _)| is_in(set, module)));
    complaints.extend(gone.map(|(module, why)| {
        format!("no cycle is left in `{module}`: delete its row from the known cycles ({why})")
    }));
    complaints
}

/// Describes the cycle link by link, each with the line that creates it.
fn told(graph: &Graph, cycle: &[String], size: usize) -> String {
    let next = cycle.iter().cycle().skip(1);
    let links = cycle.iter().zip(next);
    let links = links.map(|(from, to)| format!("{} imports `{to}`", graph[from][to]));
    format!(
        "an import cycle of {} files (of {size} that import each other): {}",
        cycle.len(),
        links.collect::<Vec<_>>().join(", ")
    )
}

/// Returns the files without tests and other code that is compiled for tests only.
fn production(sources: &[Source]) -> Vec<(Source, BTreeSet<String>)> {
    let mut files = Vec::new();
    let mut for_tests = BTreeSet::new();
    for source in sources.iter().filter(|source| !source.is_tests()) {
        let (code, test_code) = split_tests(&source.code);
        let own = source.module().join("::");
        let below = |code: &str| -> BTreeSet<String> {
            let names = declared(code).into_iter();
            names.map(|name| format!("{own}::{name}")).collect()
        };
        for_tests.extend(below(&test_code));
        let children = below(&code);
        let source = Source { path: source.path.clone(), text: source.text.clone(), code };
        files.push((source, children));
    }
    files.retain(|(source, _)| !for_tests.contains(&source.module().join("::")));
    files
}

/// Splits the code into the part outside of `#[cfg(test)]` and the part inside; both keep their lines.
pub(super) fn split_tests(code: &str) -> (String, String) {
    let blank = |text: &str| -> String {
        let kept = |byte| if byte == b'\n' { '\n' } else { ' ' };
        text.bytes().map(kept).collect()
    };
    let (mut plain, mut tests) = (String::new(), String::new());
    let mut done = 0;
    for (start, attribute) in code.match_indices("#[cfg(test)]") {
        if start < done {
            continue;
        }
        let mut end = signature_end(code, start + attribute.len());
        end = if code[end..].starts_with('{') { closing(code, end) } else { (end + 1).min(code.len()) };
        plain += &code[done..start];
        plain += &blank(&code[start..end]);
        tests += &blank(&code[done..start]);
        tests += &code[start..end];
        done = end;
    }
    (plain + &code[done..], tests)
}

/// Returns the names in `mod name;`.
fn declared(code: &str) -> Vec<&str> {
    let names = words(code, "mod").map(|offset| code[offset + 3..].trim_start());
    names.filter(|rest| rest[identifier(rest).len()..].starts_with(';')).map(identifier).collect()
}

fn graph(files: &[(Source, BTreeSet<String>)]) -> Graph {
    let modules: BTreeSet<String> = files.iter().map(|(it, _)| it.module().join("::")).collect();
    let mut graph = Graph::new();
    for (source, children) in files {
        let own = source.module().join("::");
        let mut imports = BTreeMap::new();
        for (offset, path) in paths(source, children) {
            let target = (1..=path.len())
                .rev()
                .map(|length| path[..length].join("::"))
                .find(|module| modules.contains(module));
            let Some(target) = target.filter(|target| *target != own) else {
                continue;
            };
            if path[0] == source.module()[0] {
                imports.entry(target).or_insert_with(|| source.at(offset));
            }
        }
        graph.insert(own, imports);
    }
    graph
}

/// Returns every whole path in the code that starts at the crate, a parent, the file itself or a module that it declares.
fn paths<'a>(source: &'a Source, children: &BTreeSet<String>) -> Vec<(usize, Vec<&'a str>)> {
    let code = source.code.as_str();
    let inline = inline_modules(code);
    let own = source.module();
    let mut found = Vec::new();
    for (offset, _) in code.match_indices("::") {
        let start = offset - tail(&code[..offset]).len();
        let first = &code[start..offset];
        let before = code[..start].trim_end();
        // A segment that continues a path or stands in a group belongs to a path that was read already; `pub(in ..)` imports nothing.
        let is_whole = !before.ends_with("::") && !before.ends_with('$') && !before.ends_with("(in");
        if !is_whole || is_in_group(code, start) {
            continue;
        }
        let nested = inline.iter().filter(|(open, close)| (*open..*close).contains(&start));
        let nested = nested.count();
        let base = match first {
            "crate" => Vec::new(),
            // Inline modules are part of the file.
            "super" if nested > 0 => continue,
            "super" => own[..own.len() - 1].to_vec(),
            "self" => own.clone(),
            child if nested == 0 && children.contains(&format!("{}::{child}", own.join("::"))) => {
                own.iter().copied().chain([child]).collect()
            }
            _ => continue,
        };
        expand(code, offset + 2, base, &mut found);
    }
    found
}

/// Returns the identifier at the end of a text.
fn tail(text: &str) -> &str {
    let continues = |character: char| character.is_alphanumeric() || character == '_';
    &text[text.trim_end_matches(continues).len()..]
}

/// Returns whether a group of a path, `a::{..}`, is open at this offset.
fn is_in_group(code: &str, at: usize) -> bool {
    let statement = code[..at].rfind(';').map_or(0, |end| end + 1);
    let groups = code[statement..at].match_indices("::{");
    let mut opens = groups.map(|(offset, _)| statement + offset + 2);
    opens.any(|open| closing(code, open) > at)
}

/// Follows a path from `start`, into each of its groups.
fn expand<'a>(code: &'a str, start: usize, mut path: Vec<&'a str>, found: &mut Vec<(usize, Vec<&'a str>)>) {
    let mut at = start;
    loop {
        at += code[at..].len() - code[at..].trim_start().len();
        if code[at..].starts_with('{') {
            let end = closing(code, at) - 1;
            let mut member = at + 1;
            while member < end {
                expand(code, member, path.clone(), found);
                member = member_end(code, member, end) + 1;
            }
            return;
        }
        let name = identifier(&code[at..]);
        match name {
            "super" => drop(path.pop()),
            "" | "self" => {}
            name => path.push(name),
        }
        if name.is_empty() || !code[at + name.len()..].starts_with("::") {
            break;
        }
        at += name.len() + 2;
    }
    if !path.is_empty() {
        found.push((at, path));
    }
}

/// Returns the offset of the comma after a member of a group, or of the group's end.
fn member_end(code: &str, start: usize, end: usize) -> usize {
    let mut at = start;
    while let Some(step) = code[at..end].find([',', '{']) {
        at += step;
        if code[at..].starts_with(',') {
            return at;
        }
        at = closing(code, at);
    }
    end
}

/// Returns each set of files that import each other, with one shortest cycle in it.
fn shortest_cycles(graph: &Graph) -> Vec<(Vec<String>, Vec<String>)> {
    let reach: BTreeMap<&String, BTreeSet<&String>> =
        graph.keys().map(|from| (from, reachable(graph, from))).collect();
    let mut told = BTreeSet::new();
    let mut found = Vec::new();
    for file in graph.keys().filter(|file| reach[*file].contains(file)) {
        let tied = |other: &&String| reach[file].contains(*other) && reach[*other].contains(file);
        let set: Vec<&String> = graph.keys().filter(tied).collect();
        if told.contains(file) {
            continue;
        }
        told.extend(set.iter().copied());
        let shortest = set.iter().filter_map(|file| shortest_back(graph, file));
        if let Some(cycle) = shortest.min_by_key(Vec::len) {
            found.push((set.into_iter().cloned().collect(), cycle));
        }
    }
    found
}

fn reachable<'a>(graph: &'a Graph, from: &String) -> BTreeSet<&'a String> {
    let mut seen = BTreeSet::new();
    let mut open: Vec<&String> = graph[from].keys().collect();
    while let Some(file) = open.pop() {
        if seen.insert(file) {
            open.extend(graph[file].keys());
        }
    }
    seen
}

/// Returns the shortest path from a file back to itself, without its last element.
fn shortest_back(graph: &Graph, start: &String) -> Option<Vec<String>> {
    let mut seen = BTreeSet::new();
    let mut open = VecDeque::from([vec![start]]);
    while let Some(way) = open.pop_front() {
        for next in graph[way[way.len() - 1]].keys() {
            if next == start {
                return Some(way.into_iter().cloned().collect());
            }
            if seen.insert(next) {
                open.push_back(way.iter().copied().chain([next]).collect());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<_> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
        cycles(&sources, &[])
    }

    /// Returns the complaints about the file `a.rs` of the module `m` with this text; `b.rs` imports `a`.
    fn beside(text: &str) -> Vec<String> {
        check(&[
            ("src/m.rs", "mod a;\nmod b;\n"),
            ("src/m/a.rs", text),
            ("src/m/b.rs", "\nuse crate::m::a::A;"),
        ])
    }

    #[test]
    fn two_files_that_import_each_other_are_named_with_their_lines() {
        let bad = [
            ("use std::fmt;\nuse crate::m::b::B;", 2),
            ("use super::b;", 1),
            ("use super::{\n    b::B,\n};", 2),
            ("use crate::m::{\n    c::{C, D},\n    b::{self, B},\n};", 3),
            ("use crate::{\n    m::b::B,\n};", 2),
            ("fn f() {\n    super::b::f::<u8>();\n}", 2),
            ("use self::super::b::B;", 1),
            ("pub(crate) use super::b::B as C;", 1),
            ("#[cfg(test)]\nmod tests {}\nfn f(b: super::b::B) {}", 3),
            ("#[cfg(not(test))]\nuse super::b::B;", 2),
        ];
        for (text, line) in bad {
            let expected = format!(
                "an import cycle of 2 files (of 2 that import each other): src/m/a.rs:{line} imports `m::b`, src/m/b.rs:2 imports `m::a`"
            );
            assert_eq!(beside(text), [expected], "{text}");
        }
    }

    #[test]
    fn tests_words_and_other_modules_tie_nothing() {
        let good = [
            "use crate::n::b::B;",
            "use super::B;",
            "//! As [`super::b::B`], see `crate::m::b`.",
            "fn f() -> &'static str { \"super::b::B\" }",
            "#[cfg(test)]\nmod tests {\n    use super::super::b::B;\n    use crate::m::b;\n}",
            "#[cfg(test)]\nuse super::b::B;",
            "#[cfg(test)]\nfn f(b: super::b::B) -> [u8; 2] { b }",
            "mod inner { use super::A; }\npub(in crate::m) struct A;",
            "use other::{b::B, m::b};",
        ];
        for text in good {
            assert!(beside(text).is_empty(), "{text}: {:?}", beside(text));
        }
    }

    #[test]
    fn a_parent_that_uses_its_child_is_above_it_and_one_that_declares_it_may_be_below() {
        let both = |parent, child| check(&[("src/m.rs", parent), ("src/m/a.rs", child)]);
        let uses = [
            "mod a;\nuse a::A;",
            "mod a;\npub use self::a::A;",
            "mod a;\nfn f() { a::f() }",
            "mod a;\nuse crate::m::a;",
        ];
        let climbs = ["use super::M;", "use crate::m::M;", "fn f() { super::f() }"];
        for parent in uses {
            assert!(both(parent, "use std::fmt;").is_empty(), "{parent}");
            for child in climbs {
                let complaints = both(parent, child);
                assert_eq!(complaints.len(), 1, "{parent} {child}");
                assert!(complaints[0].contains("src/m/a.rs:1 imports `m`"), "{complaints:?}");
                assert!(both("mod a;\npub struct M;", child).is_empty(), "{child}");
            }
        }
    }

    #[test]
    fn the_shortest_of_several_cycles_is_named_once_per_set() {
        let complaints = check(&[
            ("src/m/a.rs", "use super::b::B;"),
            ("src/m/b.rs", "use super::c::C;"),
            ("src/m/c.rs", "use super::{a::A, d::D};"),
            ("src/m/d.rs", "use super::c::C;"),
            ("src/m/e.rs", "use super::a::A;"),
            ("src/n/x.rs", "use super::y::Y;"),
            ("src/n/y.rs", "use super::z::Z;"),
            ("src/n/z.rs", "use super::x::X;"),
        ]);
        assert_eq!(
            complaints,
            [
                "an import cycle of 2 files (of 4 that import each other): src/m/c.rs:1 imports `m::d`, src/m/d.rs:1 imports `m::c`",
                "an import cycle of 3 files (of 3 that import each other): src/n/x.rs:1 imports `n::y`, src/n/y.rs:1 imports `n::z`, src/n/z.rs:1 imports `n::x`",
            ]
        );
    }

    #[test]
    fn modules_for_tests_are_left_out() {
        let complaints = check(&[
            ("src/m.rs", "#[cfg(test)]\nmod fake;\nmod a;"),
            ("src/m/fake.rs", "use super::a::A;"),
            ("src/m/a.rs", "use super::fake::Fake;"),
            ("src/m/a/tests.rs", "use super::super::fake::Fake;"),
        ]);
        assert!(complaints.is_empty(), "{complaints:?}");
    }

    #[test]
    fn a_known_cycle_is_no_complaint_and_one_that_is_gone_is() {
        let tied =
            [Source::new("src/m/a.rs", "use super::b::B;"), Source::new("src/m/b.rs", "use super::a::A;")];
        let known = [("m", "for good reason")];
        assert!(cycles(&tied, &known).is_empty());
        assert_eq!(
            cycles(&tied[..1], &known),
            ["no cycle is left in `m`: delete its row from the known cycles (for good reason)"]
        );
        assert_eq!(cycles(&tied, &[("n", "x"), ("m", "y")]).len(), 1);
        // A row covers a cycle within its module, and no set of files that extends beyond it.
        assert_eq!(cycles(&tied, &[("m::a", "too narrow")]).len(), 2);
    }
}
