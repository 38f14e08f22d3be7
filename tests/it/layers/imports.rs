//! Import directions as a table: checks every `crate::` path in code, tests, docs and comments, and every `super::` that reaches the crate
//! root.

use super::source::{Source, closing, identifier, inline_modules, words};

/// Returns the paths that lead from a module to one that its row does not name.
pub(super) fn imports(sources: &[Source], layers: &[(&str, &[&str])], doors: &[&str]) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in sources {
        let own = source.module()[0];
        if doors.contains(&own) {
            continue;
        }
        let Some((_, allowed)) = layers.iter().find(|(module, _)| *module == own) else {
            complaints
                .push(format!("{}:1: the module `{own}` has no row in the table of layers", source.path));
            continue;
        };
        for (offset, target) in climbs(source).into_iter().chain(absolute(&source.text)) {
            let is_module = layers.iter().any(|(module, _)| *module == target) || doors.contains(&target);
            // Tests may use the prelude, as users do.
            let is_user = source.is_tests() && target == "prelude";
            if is_module && target != own && !allowed.contains(&target) && !is_user {
                complaints.push(format!("{}: `{own}` must not import `{target}`", source.at(offset)));
            }
        }
    }
    complaints
}

/// Returns the text after each `crate::`, including groups; `$crate::` is for users and leads through an entry point.
fn absolute(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for offset in words(text, "crate::") {
        if !text[..offset].ends_with('$') {
            targets(text, offset + "crate::".len(), &mut found);
        }
    }
    found
}

/// Returns the text after each chain of `super::` that reaches the crate root.
fn climbs(source: &Source) -> Vec<(usize, &str)> {
    let code = source.code.as_str();
    let inline = inline_modules(code);
    let mut found = Vec::new();
    for offset in words(code, "super::") {
        if code[..offset].ends_with("::") {
            continue;
        }
        let steps = code[offset..].split("::").take_while(|step| *step == "super").count();
        let nested = inline.iter().filter(|(open, close)| (*open..*close).contains(&offset)).count();
        if steps >= source.module().len() + nested {
            targets(code, offset + steps * "super::".len(), &mut found);
        }
    }
    found
}

/// Collects the first names of a path or of a group of paths.
fn targets<'a>(text: &'a str, start: usize, found: &mut Vec<(usize, &'a str)>) {
    if !text[start..].starts_with('{') {
        found.push((start, identifier(&text[start..])));
        return;
    }
    let mut depth = 0_usize;
    let mut expected = false;
    for (offset, byte) in text.bytes().enumerate().take(closing(text, start)).skip(start) {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            b',' => {}
            byte if byte.is_ascii_whitespace() => continue,
            _ => {
                if expected {
                    found.push((offset, identifier(&text[offset..])));
                }
                expected = false;
                continue;
            }
        }
        expected = depth == 1 && byte != b'}';
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYERS: &[(&str, &[&str])] =
        &[("object", &[]), ("handler", &["object"]), ("engine", &["object", "handler"])];

    fn check(path: &str, text: &str) -> Vec<String> {
        imports(&[Source::new(path, text)], LAYERS, &["lib"])
    }

    #[test]
    fn what_points_upwards_is_named_with_its_line() {
        let bad = [
            ("use std::fmt;\nuse crate::engine::Queue;", 2),
            ("use crate::{\n    object::Body,\n    engine::{Queue, object},\n};", 3),
            ("//! Like [`crate::engine::Queue`].", 1),
            ("/// ```\n/// use crate::engine;\n/// ```\nfn f() {}", 2),
            ("use super::super::engine::Queue;", 1),
            ("mod tests {\n    use super::super::super::engine::Queue;\n}", 2),
        ];
        for (text, line) in bad {
            let expected = format!("src/handler/decl.rs:{line}: `handler` must not import `engine`");
            assert_eq!(check("src/handler/decl.rs", text), [expected], "{text}");
        }
    }

    #[test]
    fn what_points_downwards_or_stays_is_fine() {
        let good = [
            "use crate::object::Body;",
            "use crate::{handler::engine, object::{engine, Body}};",
            "use super::super::object::Body;",
            "use super::engine;",
            "mod tests { use super::*; use super::super::engine; }",
            "macro_rules! m { () => { $crate::engine::run() } }",
            "use crate::Body;",
        ];
        for text in good {
            assert!(
                check("src/handler/decl.rs", text).is_empty(),
                "{text}: {:?}",
                check("src/handler/decl.rs", text)
            );
        }
    }

    #[test]
    fn a_module_without_a_row_is_refused_and_a_door_may_everything() {
        assert_eq!(
            check("src/gadget.rs", ""),
            ["src/gadget.rs:1: the module `gadget` has no row in the table of layers"]
        );
        assert!(check("src/lib.rs", "pub use crate::engine::Queue;").is_empty());
    }

    #[test]
    fn only_tests_may_use_the_prelude() {
        let text = "use crate::prelude::*;";
        let check = |path| imports(&[Source::new(path, text)], LAYERS, &["lib", "prelude"]);
        assert_eq!(check("src/handler/decl.rs").len(), 1);
        assert!(check("src/handler/decl/tests.rs").is_empty());
    }
}
