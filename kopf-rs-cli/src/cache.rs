//! The folder in the user's cache for what is built once. It may be deleted at any time.

use std::env;
use std::path::PathBuf;

/// `$XDG_CACHE_HOME/kopf-rs`, else `~/.cache/kopf-rs`; `None` where neither is known.
pub(crate) fn cache() -> Option<PathBuf> {
    let given = env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    let base = given.or_else(|| env::home_dir().map(|home| home.join(".cache")));
    base.map(|base| base.join("kopf-rs"))
}
