//! "Did you mean": what a misspelt word was probably meant to be.

use strsim::damerau_levenshtein;

/// The nearest of `known`, if it is near enough to be a slip of the hand.
pub(crate) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let distance = |known: &&&str| damerau_levenshtein(word, known);
    let nearest = known.iter().min_by_key(distance)?;
    let allowed = match nearest.len() {
        0..=6 => 1,
        _ => 2,
    };
    (distance(&nearest) <= allowed).then_some(*nearest)
}

/// As [`nearest`], but careful: the name of an argument may well be the user's own invention, such as `id` or `now`.
pub(crate) fn slip_of<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let nearest = nearest(name, known)?;
    let letters = |text: &str| {
        let mut letters = text.as_bytes().to_vec();
        letters.sort_unstable();
        letters
    };
    (nearest.len() > 3 || letters(name) == letters(nearest)).then_some(nearest)
}

/// Words that people write for an option of another name.
const OTHER_WORDS: [(&str, &str); 18] = [
    ("annotation", "annotations"),
    ("attempts", "retries"),
    ("condition", "when"),
    ("delay", "backoff"),
    ("error", "errors"),
    ("fields", "field"),
    ("filter", "when"),
    ("handler_id", "id"),
    ("if", "when"),
    ("label", "labels"),
    ("max_retries", "retries"),
    ("name", "id"),
    ("on_error", "errors"),
    ("path", "field"),
    ("resource", "plural"),
    ("retry", "retries"),
    ("short_name", "shortcut"),
    ("where", "when"),
];

/// "; did you mean `retries`?", or nothing.
pub(crate) fn did_you_mean(word: &str, known: &[&str]) -> String {
    let other = OTHER_WORDS.iter().find(|(other, _)| *other == word);
    let other = other.map(|(_, option)| *option);
    let meant = other.filter(|option| known.contains(option));
    let meant = meant.or_else(|| nearest(word, known));
    meant.map_or_else(String::new, |known| format!("; did you mean `{known}`?"))
}
