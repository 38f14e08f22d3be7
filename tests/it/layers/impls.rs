//! Inherent impls belong to the module of their type: the file that declares it, or a file in the folder of that module.
//!
//! A method needs no import where it is called. An impl in another file would therefore let a type depend on files above it, which the
//! layers and the search for import cycles cannot see.

use std::collections::{BTreeMap, BTreeSet};

use super::cycles::split_tests;
use super::source::{Source, closing, identifier, words};

/// A type with inherent impls in other files, these files, and the reason.
pub(super) type Elsewhere<'a> = (&'a str, &'a [&'a str], &'a str);

/// Returns the inherent impls outside of their type's module, and the rows of `known` that are no longer needed.
pub(super) fn foreign_impls(sources: &[Source], known: &[Elsewhere<'_>]) -> Vec<String> {
    let sources: Vec<_> = sources.iter().filter(|source| !source.is_tests()).collect();
    let mut declared: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for source in &sources {
        for name in types(&source.code) {
            declared.entry(name).or_default().insert(&source.path);
        }
    }
    let mut complaints = Vec::new();
    let mut used = BTreeSet::new();
    for source in &sources {
        let (code, _) = split_tests(&source.code);
        for (offset, name) in impls(&code) {
            let owners = declared.get(name).into_iter().flatten();
            let mut folders = owners.map(|owner| owner.trim_end_matches(".rs"));
            let is_own = |folder: &str| {
                let rest = source.path.strip_prefix(folder);
                rest.is_some_and(|rest| rest.starts_with('/') || rest == ".rs")
            };
            if folders.any(is_own) {
                continue;
            }
            let file = source.path.rsplit_once("src/").map_or(&*source.path, |(_, file)| file);
            let row = known.iter().find(|(ty, files, _)| *ty == name && files.contains(&file));
            if let Some((ty, ..)) = row {
                used.insert((*ty, file));
            } else {
                complaints
                    .push(format!("{}: `impl {name}` is outside of the type's module", source.at(offset)));
            }
        }
    }
    let rows = known.iter().flat_map(|(ty, files, why)| files.iter().map(move |file| (*ty, *file, why)));
    let unused = rows.filter(|(ty, file, _)| !used.contains(&(*ty, *file)));
    complaints.extend(unused.map(|(ty, file, why)| {
        format!("{file}: has no `impl {ty}` any more: delete it from the known ones ({why})")
    }));
    complaints
}

/// Returns the types that a file declares, by itself or by a macro in whose block at the top level they stand.
fn types(code: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for keyword in ["struct", "enum", "union", "trait", "type"] {
        found.extend(words(code, keyword).map(|at| identifier(code[at + keyword.len()..].trim_start())));
    }
    for (at, _) in code.match_indices("! {") {
        let line = code[..at].rfind('\n').map_or(0, |end| end + 1);
        if identifier(&code[line..at]).len() == at - line {
            let block = &code[at..closing(code, at + 2)];
            let names = block.split(|it: char| !it.is_alphanumeric() && it != '_');
            found.extend(names.filter(|name| name.starts_with(char::is_uppercase)));
        }
    }
    found
}

/// Returns the inherent impls, each as its offset and the name of its type.
fn impls(code: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for offset in words(code, "impl") {
        // In other places, `impl` stands for the type of a value.
        if !code[..offset].lines().next_back().is_none_or(|line| line.trim().is_empty()) {
            continue;
        }
        let header = &code[offset + 4..];
        let Some(end) = header.find('{') else { continue };
        let header = without_generics(header[..end].trim_start());
        let is_of_trait = words(header, "for").any(|at| !header[at + 3..].starts_with('<'));
        let ty = header.trim_start().trim_start_matches("dyn ");
        let path = ty.split(|it: char| !it.is_alphanumeric() && it != '_' && it != ':').next();
        let name = path.unwrap_or_default().rsplit("::").next().unwrap_or_default();
        if !is_of_trait && !name.is_empty() {
            found.push((offset, name));
        }
    }
    found
}

/// Returns the header of an impl after its parameters.
fn without_generics(header: &str) -> &str {
    let mut depth = 0_usize;
    for (offset, byte) in header.bytes().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' if !header[..offset].ends_with('-') => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return if offset == 0 { header } else { &header[offset + 1..] };
        }
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(path: &str, text: &str, known: &[Elsewhere<'_>]) -> Vec<String> {
        let owner = "struct Worker<T>(T);\ntrait Sink {}\nsettings! {\n    Times as times {}\n}";
        let sources = [Source::new("src/engine/worker.rs", owner), Source::new(path, text)];
        foreign_impls(&sources, known)
    }

    #[test]
    fn an_impl_outside_of_the_types_module_is_noticed() {
        let elsewhere = "src/engine/write.rs";
        for text in [
            "impl Worker<u8> {}",
            "impl<T: Fn() -> u8> Worker<T> {}",
            "impl super::worker::Worker<u8> {}",
            "impl Worker<for<'a> fn(&'a u8)> {}",
            "impl dyn Sink {}",
            "impl Times {}",
            "impl u8 {}",
        ] {
            assert_eq!(complaints(elsewhere, text, &[]).len(), 1, "{text}");
        }
        let text = "impl Worker<u8> {}";
        for inside in ["src/engine/worker.rs", "src/engine/worker/write.rs", "src/engine/worker/a/b.rs"] {
            assert_eq!(complaints(inside, &format!("{text} struct Worker;"), &[]), [""; 0], "{inside}");
        }
        for outside in ["src/engine/worker_calls.rs", "src/worker/write.rs", "src/engine.rs"] {
            assert_eq!(complaints(outside, text, &[]).len(), 1, "{outside}");
        }
    }

    #[test]
    fn impls_of_traits_arguments_and_tests_are_left_alone() {
        for text in [
            "impl Clone for Worker<u8> {}",
            "impl<T> From<T> for Worker<T> {}",
            "fn f(of: impl Fn()) -> impl Sized {}",
            "#[cfg(test)]\nmod tests {\n    impl Worker<u8> {}\n}",
            "struct Own;\nimpl Own {}",
        ] {
            assert_eq!(complaints("src/engine/write.rs", text, &[]), [""; 0], "{text}");
        }
    }

    #[test]
    fn a_known_impl_that_is_gone_is_noticed() {
        let known: &[Elsewhere<'_>] = &[("Worker", &["engine/write.rs"], "why")];
        assert_eq!(complaints("src/engine/write.rs", "impl Worker<u8> {}", known), [""; 0]);
        assert_eq!(
            complaints("src/engine/write.rs", "", known),
            ["engine/write.rs: has no `impl Worker` any more: delete it from the known ones (why)"]
        );
    }
}
