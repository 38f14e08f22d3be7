//! The programs and libraries that cargo has built from this workspace.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use kopf_rs_apiserver_tests::{built_library as library_of, built_programs};

/// Returns the path of the program `kopf-rs`.
///
/// # Panics
///
/// Panics if cargo fails to build it.
#[must_use]
pub fn kopf_rs_binary() -> &'static Path {
    built_program("kopf-rs")
}

/// Returns the path of a program of this workspace, or of an operator under `tests/programs`. The first call in each test process builds all
/// of them.
///
/// # Panics
///
/// Panics if cargo fails to build them.
#[must_use]
pub fn built_program(name: &str) -> &'static Path {
    static ALL: LazyLock<BTreeMap<String, PathBuf>> = LazyLock::new(|| built_programs(workspace()));
    let program = ALL.get(name).map(PathBuf::as_path);
    program.unwrap_or_else(|| panic!("cargo has not told where {name} is"))
}

/// Returns the path of a library of this workspace by its cargo name, such as `kopf_rs`. Its dependencies lie in the same folder.
///
/// # Panics
///
/// Panics if cargo fails to build it.
#[must_use]
pub fn built_library(name: &str) -> PathBuf {
    library_of(workspace(), name)
}

fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}
