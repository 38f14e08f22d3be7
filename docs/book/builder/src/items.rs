//! Addresses of the documentation of public items, for links in the syntax of rustdoc.
//!
//! The address of an item has its kind (`struct.Patch.html`), which its declaration shows: the first line of that form in the sources of
//! the framework. This module reads lines and does not parse Rust; `cargo doc` checks that the links themselves are correct.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

/// The published documentation.
const DOCUMENTATION: &str = "https://docs.rs/kopf-rs/latest/kopf_rs";

/// Items of other crates, by the paths that pages use.
const FOREIGN: &[(&str, &str)] = &[
    ("crate::Client", "https://docs.rs/kube/latest/kube/struct.Client.html"),
    ("std::sync::Arc", "https://doc.rust-lang.org/std/sync/struct.Arc.html"),
];

/// The words that declare an item, and its kind in addresses.
const DECLARATIONS: &[(&str, &str)] = &[
    ("pub struct ", "struct"),
    ("pub enum ", "enum"),
    ("pub trait ", "trait"),
    ("pub type ", "type"),
    ("pub fn ", "fn"),
    ("pub async fn ", "fn"),
    ("pub const ", "constant"),
    ("macro_rules! ", "macro"),
];

/// The kind of a group of settings: a struct whose members are fields.
const SETTINGS: &str = "settings";

/// The kinds of public items, by their names.
pub struct Items(BTreeMap<String, &'static str>);

impl Items {
    /// Reads the declarations below a folder.
    pub fn read(folder: &Path) -> Result<Self> {
        let mut items = Self(BTreeMap::new());
        items.read_folder(folder).with_context(|| format!("the sources in {}", folder.display()))?;
        Ok(items)
    }

    fn read_folder(&mut self, folder: &Path) -> Result<()> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                self.read_folder(&path)?;
            } else if path.extension().is_some_and(|it| it == "rs") {
                self.read_text(&fs::read_to_string(&path)?);
            }
        }
        Ok(())
    }

    fn read_text(&mut self, text: &str) {
        for line in text.lines() {
            if let Some((name, kind)) = declaration(line) {
                self.0.entry(name.to_owned()).or_insert(kind);
            }
        }
    }

    /// Returns the address of `crate::Item`, `crate::Item::member` or a foreign path, or `None` if there is no such item.
    pub fn address(&self, path: &str) -> Option<String> {
        if let Some((_, address)) = FOREIGN.iter().find(|(name, _)| *name == path) {
            return Some((*address).to_owned());
        }
        let path = path.strip_prefix("crate::")?;
        let (name, member) = path.split_once("::").map_or((path, None), |(name, it)| (name, Some(it)));
        let kind = *self.0.get(name)?;
        let shown = if kind == SETTINGS { "struct" } else { kind };
        let page = format!("{DOCUMENTATION}/{shown}.{name}.html");
        let Some(member) = member else {
            return Some(page);
        };
        let part = match kind {
            SETTINGS => "structfield",
            "trait" => "tymethod",
            "enum" if member.starts_with(char::is_uppercase) => "variant",
            _ => "method",
        };
        Some(format!("{page}#{part}.{member}"))
    }
}

/// Returns the name and the kind of the item that a line declares. Settings are declared as `    Queueing as queueing {`.
fn declaration(line: &str) -> Option<(&str, &'static str)> {
    let group = line.trim_start().strip_suffix(" {").and_then(|it| it.split_once(" as "));
    if let Some((name, _)) = group.filter(|(name, _)| is_name(name)) {
        return Some((name, SETTINGS));
    }
    let (words, kind) = DECLARATIONS.iter().find(|(words, _)| line.starts_with(words))?;
    let rest = &line[words.len()..];
    let end = rest.find(|it: char| !(it.is_alphanumeric() || it == '_')).unwrap_or(rest.len());
    Some((&rest[..end], kind))
}

fn is_name(word: &str) -> bool {
    word.starts_with(char::is_uppercase) && word.chars().all(char::is_alphanumeric)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_the_kind_of_the_item() {
        let mut items = Items(BTreeMap::new());
        items.read_text(
            "pub struct Patch {\n    pub enum Hidden {}\npub enum Entries<K> {\npub async fn register(\n    Queueing as queueing {\n\
             macro_rules! fail {\npub trait FromCause<'a>: Sized {",
        );
        let below = |rest: &str| Some(format!("{DOCUMENTATION}/{rest}"));
        for (path, expected) in [
            ("crate::Patch", below("struct.Patch.html")),
            ("crate::Patch::set", below("struct.Patch.html#method.set")),
            ("crate::Entries::Unchanged", below("enum.Entries.html#variant.Unchanged")),
            ("crate::register", below("fn.register.html")),
            ("crate::Queueing::worker_limit", below("struct.Queueing.html#structfield.worker_limit")),
            ("crate::fail", below("macro.fail.html")),
            ("crate::FromCause", below("trait.FromCause.html")),
            ("crate::Hidden", None),
            ("crate::Missing", None),
            ("crate::Client", Some("https://docs.rs/kube/latest/kube/struct.Client.html".to_owned())),
        ] {
            assert_eq!(items.address(path), expected, "{path}");
        }
    }
}
