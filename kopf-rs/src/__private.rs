//! The door for generated code: nobody's API, re-exports only.
