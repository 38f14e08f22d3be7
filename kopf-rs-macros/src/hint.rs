//! "Did you mean" suggestions for misspelt words.

use strsim::damerau_levenshtein;

/// Returns the nearest of `known` if it is near enough to be the intended word.
pub(crate) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let distance = |known: &&&str| damerau_levenshtein(word, known);
    let nearest = known.iter().min_by_key(distance)?;
    let allowed = match nearest.len() {
        0..=6 => 1,
        _ => 2,
    };
    (distance(&nearest) <= allowed).then_some(*nearest)
}

/// Like [`nearest`], but stricter: an argument may well have a name of the user's own, such as `id` or `now`.
pub(crate) fn slip_of<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let nearest = nearest(name, known)?;
    let letters = |text: &str| {
        let mut letters = text.as_bytes().to_vec();
        letters.sort_unstable();
        letters
    };
    (nearest.len() > 3 || letters(name) == letters(nearest)).then_some(nearest)
}

/// Words that users write for an option with a different name.
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

/// Returns "; did you mean `retries`?", or `otherwise` if no known word is near.
pub(crate) fn did_you_mean_or(otherwise: &str, word: &str, known: &[&str]) -> String {
    let hint = did_you_mean(word, known);
    if hint.is_empty() {
        return otherwise.to_owned();
    }
    hint
}

/// Returns "; did you mean `retries`?", or an empty text.
pub(crate) fn did_you_mean(word: &str, known: &[&str]) -> String {
    let other = OTHER_WORDS.iter().find(|(other, _)| *other == word);
    let other = other.map(|(_, option)| *option);
    let meant = other.filter(|option| known.contains(option));
    let meant = meant.or_else(|| nearest(word, known));
    meant.map_or_else(String::new, |known| format!("; did you mean `{known}`?"))
}
