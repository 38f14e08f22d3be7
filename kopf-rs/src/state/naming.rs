//! Annotation names: prefixes, handler ids as valid keys (core.md 7.4).
