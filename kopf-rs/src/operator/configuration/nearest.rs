//! What a misspelt name was probably meant to be.

use strsim::damerau_levenshtein;

use crate::operator::configuration::table::PREFIX;

/// The word that was meant, if one is near.
pub(super) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distances = known
        .into_iter()
        .map(|it| (damerau_levenshtein(word, it), it));
    let (distance, nearest) = distances.min_by_key(|(distance, _)| *distance)?;
    // A third of the letters, as in messages on attributes; of long words, not more than a few.
    let limit = (nearest.trim_start_matches(PREFIX).len() / 3).clamp(1, 4);
    (distance <= limit).then_some(nearest)
}
