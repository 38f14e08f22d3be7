//! The twin of `condition` in builds without the feature `cel`: a webhook with conditions fails as one that cannot be evaluated.

use serde_json::Value;

/// Whether an expression holds for a request.
pub(super) fn holds(_expression: &str, _request: &Value) -> Result<bool, String> {
    Err("this server was built without the feature cel".to_owned())
}

/// Whether an expression can be read at all.
pub(super) fn flaw(_expression: &str) -> Option<String> {
    None
}
