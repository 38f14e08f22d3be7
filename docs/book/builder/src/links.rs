//! Checks the links of the built book: each internal one leads to a file, and to an anchor in it if it names one.
//!
//! Reads HTML files only, so that it also sees links that mdBook or a page's own HTML creates.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, Result};
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{
    BufferQueue, StartTag, TagToken, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};

/// The anchors and the links of one HTML file.
#[derive(Debug, Default)]
struct Page {
    anchors: BTreeSet<String>,
    links: Vec<String>,
}

/// The files of a built book, by their paths below its folder.
pub struct Site {
    pages: BTreeMap<PathBuf, Page>,
    files: BTreeSet<PathBuf>,
}

/// Collects anchors and links while html5ever reads a file.
#[derive(Default)]
struct Collector(RefCell<Page>);

impl TokenSink for Collector {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let TagToken(tag) = token else {
            return TokenSinkResult::Continue;
        };
        if tag.kind != StartTag {
            return TokenSinkResult::Continue;
        }
        let mut page = self.0.borrow_mut();
        for attribute in tag.attrs {
            match &*attribute.name.local {
                "id" => {
                    page.anchors.insert(attribute.value.to_string());
                }
                "href" | "src" => page.links.push(attribute.value.to_string()),
                _ => {}
            }
        }
        TokenSinkResult::Continue
    }
}

impl Page {
    fn read(html: &str) -> Self {
        let input = BufferQueue::default();
        input.push_back(StrTendril::from(html));
        let tokenizer = Tokenizer::new(Collector::default(), TokenizerOpts::default());
        let _ = tokenizer.feed(&input);
        tokenizer.end();
        tokenizer.sink.0.into_inner()
    }
}

impl Site {
    /// Reads all files below a folder.
    pub fn read(folder: &Path) -> Result<Self> {
        let mut site = Self { pages: BTreeMap::new(), files: BTreeSet::new() };
        site.read_folder(folder, Path::new(""))
            .with_context(|| format!("the files of {}", folder.display()))?;
        Ok(site)
    }

    fn read_folder(&mut self, root: &Path, below: &Path) -> Result<()> {
        for entry in fs::read_dir(root.join(below))? {
            let path = below.join(entry?.file_name());
            let file = root.join(&path);
            if file.is_dir() {
                self.read_folder(root, &path)?;
                continue;
            }
            if path.extension().is_some_and(|it| it == "html") {
                self.pages.insert(path.clone(), Page::read(&fs::read_to_string(&file)?));
            }
            self.files.insert(path);
        }
        Ok(())
    }

    /// Returns the number of HTML files.
    pub fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Returns the number of checked links, and a complaint for each broken one. `sources` names the files that an HTML file is made of.
    pub fn check(&self, sources: impl Fn(&Path) -> String) -> (usize, Vec<String>) {
        let mut complaints = BTreeSet::new();
        let mut count = 0;
        for (path, page) in &self.pages {
            for link in page.links.iter().filter(|link| is_internal(link)) {
                count += 1;
                if let Err(expected) = self.follow(path, link) {
                    complaints.insert(format!("{}: link {link}: {expected}", sources(path)));
                }
            }
        }
        (count, complaints.into_iter().collect())
    }

    /// Follows a link of a page.
    fn follow(&self, from: &Path, link: &str) -> Result<(), String> {
        let (link, anchor) = link.split_once('#').map_or((link, None), |(link, it)| (link, Some(it)));
        let file = decoded(link.split('?').next().unwrap_or_default());
        let target = if file.is_empty() { from.to_owned() } else { joined(from, Path::new(&file)) };
        let target = if file.ends_with('/') { target.join("index.html") } else { target };
        if !self.files.contains(&target) {
            return Err(format!(
                "expected the file {}, which the book does not have: correct the path, or add the page to docs/book/src/SUMMARY.md",
                target.display()
            ));
        }
        let Some(anchor) = anchor.map(decoded).filter(|anchor| !anchor.is_empty()) else {
            return Ok(());
        };
        let Some(page) = self.pages.get(&target) else {
            return Ok(());
        };
        if page.anchors.contains(&anchor) {
            return Ok(());
        }
        let nearest = page.anchors.iter().max_by_key(|it| common(it, &anchor));
        let nearest = nearest.map_or_else(String::new, |it| format!(", such as #{it}"));
        Err(format!(
            "expected the anchor #{anchor} in {}: name the anchor of a heading that is there{nearest}",
            target.display()
        ))
    }
}

/// Returns whether a link leads to a file of the book.
fn is_internal(link: &str) -> bool {
    let scheme = link.split(['/', '#', '?']).next().unwrap_or_default();
    !(scheme.contains(':') || link.starts_with("//"))
}

/// Resolves a relative path against the file that names it.
fn joined(from: &Path, path: &Path) -> PathBuf {
    let mut target = from.parent().map(Path::to_owned).unwrap_or_default();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                // A path above the root stays visible in the complaint.
                if !target.pop() {
                    target.push("..");
                }
            }
            Component::Normal(part) => target.push(part),
            Component::RootDir => target.push("/"),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
    target
}

/// Decodes `%20` and the like; other text stays as it is.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let code = after.get(..2).and_then(|it| std::str::from_utf8(it).ok());
        let code = code.and_then(|it| u8::from_str_radix(it, 16).ok());
        if let (b'%', Some(code)) = (first, code) {
            bytes.push(code);
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the length of the longest common start.
fn common(one: &str, other: &str) -> usize {
    one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(pages: &[(&str, &str)]) -> Site {
        let read = |(path, html): &(&str, &str)| (PathBuf::from(path), Page::read(html));
        let pages: BTreeMap<_, _> = pages.iter().map(read).collect();
        let mut files: BTreeSet<PathBuf> = pages.keys().cloned().collect();
        files.insert("a b.svg".into());
        Site { pages, files }
    }

    #[test]
    fn valid_links_are_followed() {
        let site = site(&[
            (
                "index.html",
                r##"<a href="how/to.html#two%20words">x</a><img src="a%20b.svg"><a href="#top" id=top>x</a>"##,
            ),
            (
                "how/to.html",
                r#"<h2 id="two words">x</h2><a href="../index.html?q=1#top">x</a><a href="https://x.example/y">x</a>"#,
            ),
        ]);
        let (count, complaints) = site.check(|page| page.display().to_string());
        assert_eq!((count, complaints), (4, vec![]));
    }

    #[test]
    fn each_broken_link_is_reported_with_its_remedy() {
        let site = site(&[
            (
                "index.html",
                r#"<a href="gone.html">x</a><a href="how/to.html#hedding">x</a><a href="../up.html">x</a>"#,
            ),
            ("how/to.html", r#"<h2 id="heading">x</h2><h2 id="other">x</h2><script src="x.js"></script>"#),
        ]);
        let (count, complaints) = site.check(|page| page.display().to_string());
        assert_eq!(count, 4);
        let expected = [
            ("how/to.html: link x.js", "expected the file how/x.js"),
            ("index.html: link ../up.html", "expected the file ../up.html"),
            ("index.html: link gone.html", "add the page to docs/book/src/SUMMARY.md"),
            ("index.html: link how/to.html#hedding", "such as #heading"),
        ];
        assert_eq!(complaints.len(), expected.len(), "{complaints:?}");
        for (complaint, (start, part)) in complaints.iter().zip(expected) {
            assert!(complaint.starts_with(start) && complaint.contains(part), "{complaint}");
        }
    }

    #[test]
    fn links_to_other_sites_are_not_followed() {
        for link in
            ["https://example.com", "mailto:a@example.com", "//example.com/x", "data:image/png;base64,x"]
        {
            assert!(!is_internal(link), "{link}");
        }
        for link in ["x.html", "#a:b", "x.html?a:b", "./a:b.html"] {
            assert!(is_internal(link), "{link}");
        }
    }
}
