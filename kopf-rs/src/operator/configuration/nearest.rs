//! Suggests the intended name for a misspelt one.

use strsim::damerau_levenshtein;

use crate::operator::configuration::table::PREFIX;

/// Returns the known word that is nearest to `word`, if it is near enough.
pub(super) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distances = known.into_iter().map(|it| (damerau_levenshtein(word, it), it));
    let (distance, nearest) = distances.min_by_key(|(distance, _)| *distance)?;
    // A third of the letters, as in messages about attributes; but only a few for long words.
    let limit = (nearest.trim_start_matches(PREFIX).len() / 3).clamp(1, 4);
    (distance <= limit).then_some(nearest)
}
