//! Words of shell commands, for commands that a user copies.

use std::path::Path;

/// Returns a path as a word of a shell command.
#[must_use]
pub fn shell_word(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_plain = |letter: char| letter.is_alphanumeric() || "-_./~+,=@%".contains(letter);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}
