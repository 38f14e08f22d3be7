//! The source location of a handler's declaration.

use std::fmt;
use std::panic::Location;

/// The position of a function's name in the sources. All attributes of one function share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceLocation {
    /// `CARGO_PKG_NAME` of the crate.
    pub package: &'static str,
    /// `file!()`
    pub file: &'static str,
    /// The line of the function's name, from 1.
    pub line: u32,
    /// The column of the function's name, from 1.
    pub column: u32,
    /// `module_path!()`
    pub module: &'static str,
}

/// The source location of a handler's declaration. Two handlers with the same location are the same function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeclaredAt {
    Function(SourceLocation),
    Closure(&'static Location<'static>),
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

impl fmt::Display for DeclaredAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Function(location) => location.fmt(f),
            Self::Closure(location) => location.fmt(f),
        }
    }
}

impl DeclaredAt {
    /// Returns the package of the annotated function; `None` for a closure.
    pub(crate) fn package(self) -> Option<&'static str> {
        match self {
            Self::Function(location) => Some(location.package),
            Self::Closure(_) => None,
        }
    }
}
