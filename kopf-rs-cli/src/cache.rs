//! The cache folder of the user for artifacts that are built once. Deleting it at any time is safe.

use std::env;
use std::path::PathBuf;

/// Returns `$XDG_CACHE_HOME/kopf-rs`, or else `~/.cache/kopf-rs`; `None` if neither is known.
pub(crate) fn cache() -> Option<PathBuf> {
    let given = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let base = given.or_else(|| env::home_dir().map(|home| home.join(".cache")));
    base.map(|base| base.join("kopf-rs"))
}
