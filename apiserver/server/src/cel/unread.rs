//! Rewrites the syntax errors of the `cel` crate in the words of the real server.
//!
//! Error positions stay unchanged. Independent of what expressions mean.

use super::parse::{self, Trouble};
use super::{Complaint, shown};

/// The tokens that can end an expression, which the real server lists where an operator may follow.
const ENDS: [&str; 3] = ["<EOF>", "')'", "':'"];

/// Returns all errors, ordered by their positions.
pub(super) fn told(source: &str, found: &str) -> String {
    let found = found.replace("\n| ", "\n | ");
    let blocks = found.split("ERROR: ").filter(|block| !block.is_empty());
    let mut told: Vec<(usize, String)> = Vec::new();
    for block in blocks {
        let block = block.trim_end_matches('\n');
        // The real server does not report errors that follow from others.
        if block.contains("Incomplete `ExprContext`") {
            continue;
        }
        let place = place(source, block);
        told.push((place, format!("ERROR: {}", shortened(block))));
        let unnamed = " expecting {IDENTIFIER, ESC_IDENTIFIER}";
        if block.contains("mismatched input") && block.contains(unnamed) {
            let why = "unsupported ident kind".to_owned();
            told.push((place, shown(source, &(place, why))));
        }
    }
    if let Err(Trouble::Unread(reserved)) = parse::parse(source) {
        let shown = |found: Complaint| (found.0, shown(source, &found));
        told.extend(reserved.into_iter().map(shown));
    }
    told.sort_by_key(|(place, _)| *place);
    let told: Vec<String> = told.into_iter().map(|(_, text)| text).collect();
    told.join("\n")
}

/// Returns the position that an error names as `<input>:LINE:COLUMN: `, in characters of the source.
fn place(source: &str, block: &str) -> usize {
    let mut words = block.split(':').skip(1);
    let mut number = || words.next().and_then(|word| word.parse::<usize>().ok());
    let (line, column) = (number().unwrap_or(1), number().unwrap_or(1));
    let before = source.split('\n').take(line.saturating_sub(1));
    let before: usize = before.map(|line| line.chars().count() + 1).sum();
    before + column.saturating_sub(1)
}

/// Shortens the list of expected tokens to that of the real server.
fn shortened(block: &str) -> String {
    let whole = || block.to_owned();
    let Some((before, rest)) = block.split_once(" expecting {") else {
        return whole();
    };
    let Some((listed, after)) = rest.split_once("}\n") else {
        return whole();
    };
    let words: Vec<&str> = listed.split(", ").collect();
    if !words.contains(&"'=='") {
        return whole();
    }
    let end = ENDS.into_iter().find(|end| words.contains(end));
    end.map_or_else(whole, |end| format!("{before} expecting {end}\n{after}"))
}
