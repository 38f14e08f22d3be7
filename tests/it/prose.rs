//! The style of comments and pages: sentences name who does what. Counts two habits that hide it, because a reader who did not write the code
//! has to read such sentences twice.

use std::path::Path;
use std::process::Command;

/// Sentences that open with a noun clause or a bare quantity instead of their subject. Questions are allowed.
const OPENINGS: &[&str] = &[
    "What ",
    "Who ",
    "Whom ",
    "Whose ",
    "Whoever ",
    "Whatever ",
    "Whether ",
    "Those ",
    "How many ",
    "How much ",
    "How long ",
    "How often ",
    "So many ",
    "So much ",
    "So far ",
    "So long ",
    "Among ",
    "Nobody ",
    "Nothing ",
    "Neither ",
    "None of ",
];

/// Words that hide the actor, or an idiom that a dictionary does not explain.
const RIDDLES: &[&str] = &[
    "whoever",
    "whom ",
    "somebody",
    "anybody",
    "all the same",
    "for good",
    "no good",
    "lest ",
    "be rid of",
    "comes to nothing",
    "is told",
    "are told",
    "was told",
    "be told",
    "tells of",
    "told of",
    "says so",
    "what there is",
    "who has ",
    "who is ",
    "who wants ",
];

/// The share of lines that may have one of them, in tenths of a percent.
const MOST: usize = 5;

/// Returns the prose of a file, line by line: comments, or a page without its code blocks.
fn prose<'a>(path: &str, text: &'a str) -> Vec<&'a str> {
    let lines = text.lines().map(str::trim_start);
    if Path::new(path).extension().is_some_and(|it| it == "rs") {
        let comments = lines.filter_map(|line| line.strip_prefix("//"));
        return comments.map(|it| it.trim_start_matches(['/', '!', ' '])).collect();
    }
    let mut is_code = false;
    let is_prose = |line: &&str| {
        let fence = line.starts_with("```");
        is_code ^= fence;
        !(is_code || fence || line.is_empty())
    };
    lines.filter(is_prose).collect()
}

fn opens_without_subject(line: &str) -> bool {
    let sentences = line.split_inclusive(". ").flat_map(|it| it.split_inclusive(": "));
    sentences
        .into_iter()
        .any(|it| !it.trim_end().ends_with('?') && OPENINGS.iter().any(|word| it.starts_with(word)))
}

fn hides_the_actor(line: &str) -> bool {
    RIDDLES.iter().any(|words| line.contains(words))
}

#[test]
fn sentences_name_who_does_what() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests lie in the repository");
    let listed = Command::new("git").args(["ls-files", "*.rs", "*.md"]).current_dir(root).output();
    let listed = String::from_utf8(listed.expect("git is installed").stdout).expect("paths are text");
    let (mut lines, mut openings, mut riddles) = (0, Vec::new(), Vec::new());
    // This file names the words.
    for path in listed.lines().filter(|path| !path.ends_with("/prose.rs")) {
        let Ok(text) = std::fs::read_to_string(root.join(path)) else {
            continue;
        };
        for line in prose(path, &text) {
            lines += 1;
            let shown = || format!("{path}: {line}");
            openings.extend(opens_without_subject(line).then(shown));
            riddles.extend(hides_the_actor(line).then(shown));
        }
    }
    assert!(lines > 10_000, "{lines} lines are few for this repository");
    for (what, found) in [("open without their subject", openings), ("hide who acts", riddles)] {
        assert!(
            found.len() * 1000 <= lines * MOST,
            "{} of {lines} lines {what}, expected at most {MOST} of 1000:\n{}",
            found.len(),
            found.join("\n")
        );
    }
}

#[test]
fn the_habits_are_found() {
    for line in
        ["What is awaited is looked for.", "It ends. Whether it does is open.", "The rule: Nobody knows."]
    {
        assert!(opens_without_subject(line), "{line}");
    }
    for line in ["What is a worker?", "Returns what is left.", "The worker waits."] {
        assert!(!opens_without_subject(line), "{line}");
    }
    assert!(hides_the_actor("The worker is told to end."));
    let page = "Text.\n```\nWhat is code\n```\nMore.";
    assert_eq!(prose("a.md", page), ["Text.", "More."]);
    assert_eq!(prose("a.rs", "let a = 1;\n/// Text.\n//! More."), ["Text.", "More."]);
}
