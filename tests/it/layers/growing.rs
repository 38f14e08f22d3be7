//! Public types with public parts, which may need to grow without a new major version.
//!
//! This module must not depend on the types.

use super::source::Source;

/// Returns the public types that users could construct or destructure, so that a new field or variant would break their code.
pub(super) fn growing(sources: &[Source], closed: &[(&str, &str)]) -> Vec<String> {
    let lists = sources.iter().filter(|source| source.module() == ["lib"]);
    let public: Vec<&str> = lists.flat_map(|list| reexported(&list.code)).collect();
    let mut complaints = Vec::new();
    for source in sources {
        let lines: Vec<&str> = source.text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let Some(name) = declared(line).filter(|name| public.contains(name)) else {
                continue;
            };
            let is_closed = closed.iter().any(|(it, _)| *it == name);
            if !is_closed && has_public_parts(&lines[at..]) && !is_marked(&lines[..at]) {
                complaints.push(format!(
                    "{}:{}: `{name}` is public and may grow: `#[non_exhaustive]`, or a row in `CLOSED`",
                    source.path,
                    at + 1
                ));
            }
        }
    }
    complaints
}

/// Returns the names of types in `pub use` lists.
fn reexported(code: &str) -> impl Iterator<Item = &str> {
    let lists = code.split("pub use ").skip(1);
    let lists = lists.filter_map(|rest| rest.split(';').next());
    let words = lists.flat_map(|list| list.split(|it: char| !it.is_alphanumeric() && it != '_'));
    words.filter(|word| word.starts_with(char::is_uppercase))
}

fn declared(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub struct ").or_else(|| line.strip_prefix("pub enum "))?;
    rest.split(|it: char| !it.is_alphanumeric() && it != '_').next()
}

fn has_public_parts(lines: &[&str]) -> bool {
    if !lines[0].ends_with('{') {
        return lines[0].contains("(pub ");
    }
    let mut body = lines.iter().take_while(|line| **line != "}");
    lines[0].starts_with("pub enum ") || body.any(|line| line.starts_with("    pub "))
}

fn is_marked(before: &[&str]) -> bool {
    let own = before.iter().rev().take_while(|line| !line.is_empty());
    own.into_iter().any(|line| *line == "#[non_exhaustive]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_grow_and_does_not_say_so_is_named() {
        let list = "pub use crate::a::{Both, Shut};\npub use crate::a::Way;\n";
        let types = "pub struct Both {\n    pub one: u8,\n}\n\n#[non_exhaustive]\npub enum Way {\n    Up,\n}\n\n\
                     pub struct Shut {\n    one: u8,\n}\n\npub struct Inner(pub u8);\n";
        let sources =
            |types: &str| [Source::new("kopf-rs/src/lib.rs", list), Source::new("kopf-rs/src/a.rs", types)];
        let complaints = growing(&sources(types), &[]);
        assert_eq!(complaints.len(), 1, "{complaints:?}");
        assert!(complaints[0].starts_with("kopf-rs/src/a.rs:1: `Both`"));
        assert!(growing(&sources(types), &[("Both", "two")]).is_empty());
        let bare = types.replace("#[non_exhaustive]\n", "");
        assert_eq!(growing(&sources(&bare), &[]).len(), 2);
    }
}
