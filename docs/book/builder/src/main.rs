//! Builds the book into `target/book`, and checks every link between its pages.
//!
//! mdBook renders the book. Before that, [`chapters`] replaces each `{{#include}}` of a page by the page, with links that are valid in the
//! book; afterwards, [`links`] reads the HTML files and reports each link that leads nowhere. The program needs no network: it checks no
//! links to other sites. It must not depend on the framework, so that it builds in seconds.

mod chapters;
mod items;
mod links;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use mdbook_driver::MDBook;

use chapters::Chapters;
use items::Items;

/// The folder of the book in the repository.
const BOOK: &str = "docs/book";
/// The folder of its chapters.
const SOURCES: &str = "docs/book/src";

/// The result of a run: the folder of the HTML files, the number of checked links, and the complaints.
struct Built {
    folder: PathBuf,
    pages: usize,
    links: usize,
    complaints: Vec<String>,
}

fn main() -> ExitCode {
    match build(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")) {
        Ok(Built { folder, pages, links, complaints }) if complaints.is_empty() => {
            println!("{}: {pages} pages, {links} links, all valid", folder.join("index.html").display());
            ExitCode::SUCCESS
        }
        Ok(Built { complaints, .. }) => {
            for complaint in &complaints {
                eprintln!("{complaint}");
            }
            eprintln!("{} complaints", complaints.len());
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn build(repository: &Path) -> Result<Built> {
    let root = repository.canonicalize().context("the folder of the repository")?;
    let mut book = MDBook::load(root.join(BOOK))?;
    let chapters = Chapters::of(&root, &book.book, Items::read(&root.join("kopf-rs/src"))?)?;
    let mut complaints = chapters.missing()?;
    book.book.for_each_chapter_mut(|chapter| {
        let Some(path) = chapter.path.clone() else {
            return;
        };
        let (text, mut wrong) = chapters.expand(&path, &chapter.content);
        chapter.content = text;
        complaints.append(&mut wrong);
    });
    book.build()?;
    let folder = book.root.join(&book.config.build.build_dir);
    let folder = folder.canonicalize().context("the folder of the built book")?;
    let site = links::Site::read(&folder)?;
    let (count, wrong) = site.check(|page| chapters.sources_of(page));
    complaints.extend(wrong);
    Ok(Built { folder, pages: site.pages(), links: count, complaints })
}
