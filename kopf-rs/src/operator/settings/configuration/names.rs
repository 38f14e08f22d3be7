//! Names of settings in messages: the prefix of variables, and the intended name for a misspelt one.

use strsim::damerau_levenshtein;

/// The prefix of the variables of all settings.
pub(super) const PREFIX: &str = "KOPF_RS_";

/// The message for settings that neither a file nor a variable can set.
pub(super) const IN_CODE_ONLY: &str =
    "`persistence` is set in code only, since it is made of storages (see docs/settings.md)";

/// Returns the known word that is nearest to `word`, if it is near enough.
pub(super) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distances = known.into_iter().map(|it| (damerau_levenshtein(word, it), it));
    let (distance, nearest) = distances.min_by_key(|(distance, _)| *distance)?;
    // A third of the letters, as in messages about attributes; but only a few for long words.
    let limit = (nearest.trim_start_matches(PREFIX).len() / 3).clamp(1, 4);
    (distance <= limit).then_some(nearest)
}
