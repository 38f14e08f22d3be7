//! The text of chapters: the pages that they include, and the links of these.
//!
//! A chapter includes a page of the repository by `{{#include ../../running.md}}`. The page keeps the links that are valid where it lies;
//! here each becomes a link to the chapter that includes its target, else to the file in the repository's web pages. A page of an attribute
//! (`kopf-rs/docs`) is written for rustdoc: its headings begin at the first level below a title, its code is Rust unless it names another
//! language, and its links may name items. Includes of other files are left to mdBook.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use mdbook_driver::book::Book;
use mdbook_markdown::pulldown_cmark::{BrokenLink, CowStr, Event, LinkType, Options, Parser, Tag};

use crate::SOURCES;
use crate::items::Items;

/// The web pages of the repository.
const REPOSITORY: &str = "https://github.com/kopf-rs/kopf-rs";
/// The folder of the pages that rustdoc includes.
const RUSTDOC: &str = "kopf-rs/docs";
/// The folders whose pages all are in the book.
const COMPLETE: &[&str] = &["docs", RUSTDOC];
/// A page for maintainers, which is not in the book.
const FOR_MAINTAINERS: &str = "docs/releasing.md";
/// The item of a page of `RUSTDOC` that documents no attribute.
const ITEM_PAGE: (&str, &str) = ("crate::Children", "kopf-rs/docs/children.md");

/// The chapters of the book, and the pages that they include.
pub struct Chapters {
    root: PathBuf,
    items: Items,
    /// The chapter of each included page: paths below the repository, and below the folder of the chapters.
    includes: BTreeMap<PathBuf, PathBuf>,
}

/// A place in the text of a page, and the text to put there.
type Edit = (Range<usize>, String);

impl Chapters {
    /// Reads which pages the chapters include.
    pub fn of(root: &Path, book: &Book, items: Items) -> Result<Self> {
        let mut includes = BTreeMap::new();
        for chapter in book.chapters() {
            let Some(path) = &chapter.path else {
                continue;
            };
            for page in chapter.content.lines().filter_map(included) {
                let page = resolved(&Path::new(SOURCES).join(path), page);
                if let Some(other) = includes.insert(page.clone(), path.clone()) {
                    bail!(
                        "{SOURCES}/{}: expected each page in one chapter only, and {SOURCES}/{} includes {}, too: link to it instead",
                        path.display(),
                        other.display(),
                        page.display()
                    );
                }
            }
        }
        Ok(Self { root: root.to_owned(), items, includes })
    }

    /// Returns a complaint for each page that belongs into the book and is in no chapter.
    pub fn missing(&self) -> Result<Vec<String>> {
        let mut complaints = Vec::new();
        for folder in COMPLETE {
            for entry in fs::read_dir(self.root.join(folder)).with_context(|| (*folder).to_owned())? {
                let page = Path::new(folder).join(entry?.file_name());
                let is_known = self.includes.contains_key(&page) || page == Path::new(FOR_MAINTAINERS);
                if page.extension().is_some_and(|it| it == "md") && !is_known {
                    complaints.push(format!(
                        "{}: expected a chapter of the book that includes this page: add one to {SOURCES}/SUMMARY.md",
                        page.display()
                    ));
                }
            }
        }
        complaints.sort();
        Ok(complaints)
    }

    /// Names the files that an HTML file of the book is made of.
    pub fn sources_of(&self, html: &Path) -> String {
        let chapter = html.with_extension("md");
        let mut sources = format!("{SOURCES}/{}", chapter.display());
        for (page, _) in self.includes.iter().filter(|(_, it)| **it == chapter) {
            let _ = write!(sources, ", {}", page.display());
        }
        sources
    }

    /// Returns the text of a chapter for mdBook, and a complaint for each of its links that leads nowhere.
    pub fn expand(&self, chapter: &Path, text: &str) -> (String, Vec<String>) {
        let (mut expanded, mut complaints, mut own) = (String::new(), Vec::new(), String::new());
        let place = Path::new(SOURCES).join(chapter);
        for line in text.lines() {
            let Some(page) = included(line) else {
                own.extend([line, "\n"]);
                continue;
            };
            expanded += &self.linked(chapter, &place, &std::mem::take(&mut own), &mut complaints);
            let page = resolved(&place, page);
            match fs::read_to_string(self.root.join(&page)) {
                Ok(text) => {
                    let text = if page.starts_with(RUSTDOC) { from_rustdoc(&text) } else { text };
                    expanded += &self.linked(chapter, &page, &text, &mut complaints);
                }
                Err(error) => {
                    complaints.push(format!("{}: {line}: {error}: correct the path", place.display()));
                }
            }
        }
        expanded += &self.linked(chapter, &place, &own, &mut complaints);
        (expanded, complaints)
    }

    /// Returns the text of `page` with links that are valid in `chapter`.
    fn linked(&self, chapter: &Path, page: &Path, text: &str, complaints: &mut Vec<String>) -> String {
        let mut edits: Vec<Edit> = Vec::new();
        for (link, range) in links(text, page.starts_with(RUSTDOC)) {
            let edit = link.and_then(|link| {
                let target = self.address(chapter, page, &link.to)?;
                let form = link.form(&target);
                Ok((link.place, form))
            });
            match edit {
                Ok(edit) => edits.push(edit),
                Err(expected) => {
                    complaints.push(format!("{}: link {}: {expected}", page.display(), &text[range]));
                }
            }
        }
        let mut linked = text.to_owned();
        for (place, new) in edits.into_iter().rev() {
            linked.replace_range(place, &new);
        }
        linked
    }

    /// Returns the address in `chapter` of the target `to`, as a link in `page` names it.
    fn address(&self, chapter: &Path, page: &Path, to: &str) -> Result<String, String> {
        if to.contains("://") || to.starts_with("mailto:") || to.starts_with('#') {
            return Ok(to.to_owned());
        }
        if let Some(attribute) = to.strip_prefix("macro@crate::") {
            let page = Path::new(RUSTDOC).join(attribute).with_extension("md");
            let target = self.includes.get(&page).map(|target| relative(chapter, target));
            return target.ok_or_else(|| format!("expected the chapter of {}", page.display()));
        }
        let (item, item_page) = ITEM_PAGE;
        if to == item
            && let Some(target) = self.includes.get(Path::new(item_page))
        {
            return Ok(relative(chapter, target));
        }
        if to.contains("::") {
            let address = self.items.address(to);
            return address.ok_or_else(|| {
                format!("expected a public item, and kopf-rs/src declares no {to}: correct its name")
            });
        }
        let (file, anchor) = to.split_at(to.find('#').unwrap_or(to.len()));
        let target = resolved(page, file);
        if let Some(target) = self.includes.get(&target) {
            return Ok(relative(chapter, target) + anchor);
        }
        if let Ok(target) = target.strip_prefix(SOURCES) {
            return Ok(relative(chapter, target) + anchor);
        }
        let kind = match fs::metadata(self.root.join(&target)) {
            Ok(metadata) if metadata.is_dir() => "tree",
            Ok(_) => "blob",
            Err(_) => {
                return Err(format!(
                    "expected the file {} in the repository: correct the path",
                    target.display()
                ));
            }
        };
        Ok(format!("{REPOSITORY}/{kind}/main/{}{anchor}", shown(&target)))
    }
}

/// A link of a page: its target, and the part of the text to replace.
#[derive(Debug)]
struct Link {
    to: String,
    place: Range<usize>,
    /// The text before and after the new target.
    around: (String, &'static str),
}

impl Link {
    fn form(&self, target: &str) -> String {
        let (before, after) = &self.around;
        [before.as_str(), target, after].concat()
    }
}

/// Returns the links of a text, in their order, each with its place. In a page for rustdoc, `` [`Item`] `` is one as well.
fn links(text: &str, is_for_rustdoc: bool) -> Vec<(Result<Link, String>, Range<usize>)> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES | Options::ENABLE_STRIKETHROUGH;
    let item = |link: BrokenLink<'_>| {
        let name = link.reference.strip_prefix('`').and_then(|it| it.strip_suffix('`'));
        let name = name.filter(|_| is_for_rustdoc)?;
        Some((CowStr::from(format!("crate::{name}")), CowStr::from("")))
    };
    let parser = Parser::new_with_broken_link_callback(text, options, Some(item)).into_offset_iter();
    let mut links = Vec::new();
    for (event, range) in parser {
        let Event::Start(Tag::Link { link_type, dest_url, .. } | Tag::Image { link_type, dest_url, .. }) =
            event
        else {
            continue;
        };
        let written = &text[range.clone()];
        let link = match link_type {
            LinkType::Autolink | LinkType::Email => continue,
            LinkType::Inline => {
                let start = written.rfind("](").map(|it| range.start + it + 2);
                let place = start.map(|start| start..range.end - 1);
                let place = place.filter(|place| text[place.clone()] == *dest_url);
                let link =
                    place.map(|place| Link { to: dest_url.to_string(), place, around: (String::new(), "") });
                link.ok_or_else(|| "expected a link of the form [text](target), without a title".to_owned())
            }
            LinkType::ShortcutUnknown => {
                let around = (format!("{written}("), ")");
                Ok(Link { to: dest_url.to_string(), place: range.clone(), around })
            }
            _ => Err("expected a link of the form [text](target)".to_owned()),
        };
        links.push((link, range));
    }
    links
}

/// Returns the Markdown page that a line includes.
fn included(line: &str) -> Option<&str> {
    let page = line.trim().strip_prefix("{{#include ")?.strip_suffix("}}")?.trim();
    Path::new(page).extension().is_some_and(|it| it == "md").then_some(page)
}

/// Turns a page for rustdoc into a part of a chapter that has a title of its own.
fn from_rustdoc(text: &str) -> String {
    let (mut page, mut is_code) = (String::new(), false);
    for line in text.lines() {
        let is_fence = line.starts_with("```");
        page += match line {
            "```" if !is_code => "```rust",
            _ => line,
        };
        page.push('\n');
        is_code ^= is_fence;
    }
    let (mut lowered, mut is_code) = (String::new(), false);
    for line in page.lines() {
        is_code ^= line.starts_with("```");
        if line.starts_with('#') && !is_code {
            lowered.push('#');
        }
        lowered.extend([line, "\n"]);
    }
    lowered
}

/// Resolves a path that a file names, below the repository.
fn resolved(from: &Path, path: &str) -> PathBuf {
    let mut target = from.parent().map(Path::to_owned).unwrap_or_default();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => {
                target.pop();
            }
            Component::Normal(part) => target.push(part),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    target
}

/// Returns the path of one chapter as another one names it.
fn relative(from: &Path, to: &Path) -> String {
    let above = from.components().count() - 1;
    "../".repeat(above) + &shown(to)
}

/// Returns a path with slashes, as in addresses.
fn shown(path: &Path) -> String {
    let parts: Vec<_> = path.components().map(|part| part.as_os_str().to_string_lossy()).collect();
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use mdbook_driver::book::{BookItem, Chapter};

    use super::*;

    fn book(chapters: &[(&str, &str)]) -> Book {
        let chapter = |(path, text): &(&str, &str)| Chapter::new(path, (*text).to_owned(), *path, vec![]);
        Book::new_with_items(chapters.iter().map(chapter).map(BookItem::Chapter).collect())
    }

    /// The chapters of this repository's own pages.
    fn chapters() -> Chapters {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
        let items = Items::read(&root.join("kopf-rs/src")).unwrap();
        let book = book(&[
            ("how-to/running.md", "{{#include ../../../running.md}}"),
            ("attributes/timer.md", "# timer\n\n{{#include ../../../../kopf-rs/docs/timer.md}}"),
        ]);
        Chapters::of(&root, &book, items).unwrap()
    }

    #[test]
    fn a_link_leads_to_a_chapter_else_to_the_repository_or_the_documentation() {
        let chapters = chapters();
        let (chapter, page) = (Path::new("how-to/running.md"), Path::new("docs/running.md"));
        for (to, expected) in [
            ("https://example.com/x", "https://example.com/x"),
            ("#health", "#health"),
            ("running.md#health", "../how-to/running.md#health"),
            ("../kopf-rs/docs/timer.md", "../attributes/timer.md"),
            ("macro@crate::timer", "../attributes/timer.md"),
            ("../examples/kopf", "https://github.com/kopf-rs/kopf-rs/tree/main/examples/kopf"),
            (
                "../README.md#two-commands",
                "https://github.com/kopf-rs/kopf-rs/blob/main/README.md#two-commands",
            ),
            ("book/src/a.md#b", "../a.md#b"),
            ("crate::Patch", "https://docs.rs/kopf-rs/latest/kopf_rs/struct.Patch.html"),
        ] {
            assert_eq!(chapters.address(chapter, page, to).as_deref(), Ok(expected), "{to}");
        }
    }

    #[test]
    fn a_link_that_leads_nowhere_is_reported() {
        let chapters = chapters();
        let page = Path::new("docs/running.md");
        let mut complaints = Vec::new();
        let text = "[a](gone.md), [b](macro@crate::gone), [c](crate::Gone), [d][e], [f](running.md \"g\")\n\n[e]: x.md";
        chapters.linked(Path::new("x.md"), page, text, &mut complaints);
        let expected = [
            "docs/running.md: link [a](gone.md): expected the file docs/gone.md",
            "docs/running.md: link [b](macro@crate::gone): expected the chapter of kopf-rs/docs/gone.md",
            "docs/running.md: link [c](crate::Gone): expected a public item",
            "docs/running.md: link [d][e]: expected a link of the form",
            "docs/running.md: link [f](running.md \"g\"): expected a link of the form",
        ];
        assert_eq!(complaints.len(), expected.len(), "{complaints:?}");
        for (complaint, start) in complaints.iter().zip(expected) {
            assert!(complaint.starts_with(start), "{complaint}");
        }
    }

    #[test]
    fn a_page_for_rustdoc_becomes_a_part_of_a_chapter() {
        let page = "Text.\n\n```\n# hidden\n```\n\n# Heading\n\n```text\n# text\n```\n";
        let expected = "Text.\n\n```rust\n# hidden\n```\n\n## Heading\n\n```text\n# text\n```\n";
        assert_eq!(from_rustdoc(page), expected);
    }

    #[test]
    fn the_name_of_an_item_is_a_link_in_a_page_for_rustdoc_only() {
        let chapters = chapters();
        let (text, mut complaints) = ("| [`Patch::set`] | `[x]` |\n|---|---|\n| [y](#z) | |\n", Vec::new());
        let linked =
            chapters.linked(Path::new("a.md"), Path::new("kopf-rs/docs/timer.md"), text, &mut complaints);
        let address = "https://docs.rs/kopf-rs/latest/kopf_rs/struct.Patch.html#method.set";
        assert_eq!(linked, text.replace("[`Patch::set`]", &format!("[`Patch::set`]({address})")));
        assert_eq!(chapters.linked(Path::new("a.md"), Path::new("docs/x.md"), text, &mut complaints), text);
        assert_eq!(complaints, Vec::<String>::new());
    }

    #[test]
    fn a_page_is_in_one_chapter_only() {
        let items = Items::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap();
        let twice =
            book(&[("a.md", "{{#include ../../running.md}}"), ("b.md", "{{#include ../../running.md}}")]);
        let error = Chapters::of(Path::new(""), &twice, items).err().map(|error| error.to_string());
        let expected = "docs/book/src/b.md: expected each page in one chapter only";
        assert!(error.as_ref().is_some_and(|it| it.starts_with(expected)), "{error:?}");
    }
}
