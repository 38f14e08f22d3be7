//! Rust sources for the rules: the text, and the text with comments and literals blanked out.
//!
//! Both have the same lines. There is no parser, because the rules check only names and braces.

use std::path::Path;

/// One file.
#[derive(Debug)]
pub(super) struct Source {
    /// The path relative to the repository.
    pub(super) path: String,
    pub(super) text: String,
    /// The text with comments and the contents of literals replaced by spaces.
    pub(super) code: String,
}

impl Source {
    pub(super) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned(), code: blanked(text) }
    }

    /// Returns all `.rs` files in the folders, sorted, without build output; skips missing folders.
    pub(super) fn read(root: &Path, folders: &[&str]) -> Vec<Self> {
        let mut found = Vec::new();
        let mut open: Vec<_> = folders.iter().map(|folder| root.join(folder)).collect();
        while let Some(folder) = open.pop() {
            let Ok(entries) = std::fs::read_dir(&folder) else {
                continue;
            };
            for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
                if path.is_dir() && !path.ends_with("target") {
                    open.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let text = std::fs::read_to_string(&path).expect("sources are readable");
                    let relative = path.strip_prefix(root).expect("sources lie in the repository");
                    found.push(Self::new(&relative.to_string_lossy(), &text));
                }
            }
        }
        found.sort_by(|one, two| one.path.cmp(&two.path));
        found
    }

    /// Returns the module path within the crate: `["object", "body"]` for `kopf-rs/src/object/body.rs`, `["lib"]` for the root.
    pub(super) fn module(&self) -> Vec<&str> {
        let inner = self.path.rsplit_once("src/").map_or(self.path.as_str(), |(_, inner)| inner);
        inner.trim_end_matches(".rs").split('/').collect()
    }

    /// Returns whether this file belongs to the tests of a module: `src/foo/tests.rs` or below it.
    pub(super) fn is_tests(&self) -> bool {
        self.path.contains("src/") && self.module().contains(&"tests")
    }

    /// Returns `file:line` for a byte offset.
    pub(super) fn at(&self, offset: usize) -> String {
        format!("{}:{}", self.path, self.text[..offset].matches('\n').count() + 1)
    }
}

/// Returns the offsets of a word in a text that are not part of a longer identifier.
pub(super) fn words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let continues = |character: char| character.is_alphanumeric() || character == '_';
    text.match_indices(word).map(|(offset, _)| offset).filter(move |offset| {
        let starts_inside = word.starts_with(continues) && text[..*offset].ends_with(continues);
        let ends_inside = word.ends_with(continues) && text[offset + word.len()..].starts_with(continues);
        !starts_inside && !ends_inside
    })
}

/// Returns the identifier at the start of a text.
pub(super) fn identifier(text: &str) -> &str {
    let end =
        text.find(|character: char| !character.is_alphanumeric() && character != '_').unwrap_or(text.len());
    &text[..end]
}

/// Returns the offset after the bracket that closes the one at `open`.
pub(super) fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (offset, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 {
            return offset + 1;
        }
    }
    code.len()
}

/// Returns the extents of `mod name { .. }` blocks.
pub(super) fn inline_modules(code: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for offset in words(code, "mod") {
        let rest = code[offset + 3..].trim_start();
        let after = rest[identifier(rest).len()..].trim_start();
        if after.starts_with('{') {
            let open = code.len() - after.len();
            found.push((open, closing(code, open)));
        }
    }
    found
}

/// Returns the offset of the brace or semicolon after a signature; skips those inside its brackets.
pub(super) fn signature_end(code: &str, start: usize) -> usize {
    let mut offset = start;
    while let Some(step) = code[offset..].find(['{', ';', '(', '[']) {
        offset += step;
        if code[offset..].starts_with(['{', ';']) {
            return offset;
        }
        offset = closing(code, offset);
    }
    code.len()
}

/// Blanks comments and the contents of string and character literals, byte by byte.
fn blanked(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (kept, length) = token(rest, out.chars().next_back());
        let (token, after) = rest.split_at(length.max(first.len_utf8()));
        if kept {
            out.push_str(token);
        } else {
            out.extend(token.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
        }
        rest = after;
    }
    out
}

/// Returns whether to keep the next token, and its length; zero means one character.
fn token(rest: &str, before: Option<char>) -> (bool, usize) {
    if rest.starts_with("//") {
        return (false, rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return (false, block_comment(rest));
    }
    let in_word = before.is_some_and(|character| character.is_alphanumeric() || character == '_');
    if !in_word && let Some(length) = raw_string(rest) {
        return (false, length);
    }
    if rest.starts_with('"') {
        return (false, quoted(rest, '"'));
    }
    if rest.starts_with('\'') && is_character(rest) {
        return (false, quoted(rest, '\''));
    }
    (true, 0)
}

fn block_comment(rest: &str) -> usize {
    let (mut depth, mut offset) = (0_usize, 0);
    while offset < rest.len() {
        let (step, change) = match rest.as_bytes()[offset..] {
            [b'/', b'*', ..] => (2, 1),
            [b'*', b'/', ..] => (2, -1),
            _ => (1, 0),
        };
        offset += step;
        depth = depth.saturating_add_signed(change);
        if depth == 0 {
            break;
        }
    }
    offset
}

fn raw_string(rest: &str) -> Option<usize> {
    let start = ["r", "br", "cr"].into_iter().find_map(|prefix| rest.strip_prefix(prefix))?;
    let hashes = start.len() - start.trim_start_matches('#').len();
    let body = start[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let length = body.find(&end).map_or(body.len(), |found| found + end.len());
    Some(rest.len() - body.len() + length)
}

fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (offset, character) in rest.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if character == '\\' {
            escaped = true;
        } else if character == quote {
            return offset + quote.len_utf8();
        }
    }
    rest.len()
}

/// Distinguishes `'x'` and `'\n'` from a lifetime.
fn is_character(rest: &str) -> bool {
    let mut characters = rest.chars().skip(1);
    match characters.next() {
        Some('\\') => true,
        Some(_) => characters.next() == Some('\''),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blank_and_lines_stay() {
        let text = "let a = \"x \\\" {\"; // {\nlet b: &'a str = r#\"{\"\n\"#; /* { /* { */ */ let c = ['{', '\\''];\nfor r in b {}\n";
        let code = blanked(text);
        assert_eq!(code.len(), text.len());
        assert_eq!(code.matches('\n').count(), text.matches('\n').count());
        assert_eq!(code.matches('{').count(), 1, "{code}");
        for kept in ["let a =", "let b: &'a str =", "let c = [", "for r in b {}"] {
            assert!(code.contains(kept), "{kept} in {code}");
        }
    }

    #[test]
    fn words_are_whole() {
        assert_eq!(words("kube:: mykube:: kube::", "kube::").collect::<Vec<_>>(), [0, 16]);
        assert_eq!(words("async_fn async", "async").collect::<Vec<_>>(), [9]);
    }
}
