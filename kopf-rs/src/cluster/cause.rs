//! Finds out why a request failed, from its chain of errors.
//!
//! This module must not depend on requests.

/// Returns true if the request failed because no trusted authority has signed the server's certificate.
pub(super) fn is_distrust(error: &(dyn std::error::Error + 'static)) -> bool {
    let is_of_certificate = error.to_string().contains("invalid peer certificate");
    is_of_certificate || error.source().is_some_and(is_distrust)
}

/// Returns the chain of causes in one line, outermost first.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !line.contains(&words) {
            line = format!("{line}: {words}");
        }
        cause = error.source();
    }
    line
}
