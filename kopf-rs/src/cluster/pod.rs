//! The data that a Pod provides to its processes: its namespace and its service account.
//!
//! This module must not depend on clusters.

use std::path::Path;

/// The files of the service account.
#[cfg(feature = "cli")]
pub(super) const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";
#[cfg(feature = "cli")]
pub(super) const AUTHORITIES: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";
const NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Returns the namespace of the Pod that this process runs in, as client-go does: `$POD_NAMESPACE`, or else that of the service account.
/// Returns `None` outside of a cluster.
pub(super) fn namespace() -> Option<String> {
    let variable = std::env::var("POD_NAMESPACE").ok();
    namespace_of(variable, Path::new(NAMESPACE))
}

fn namespace_of(variable: Option<String>, file: &Path) -> Option<String> {
    let file = || std::fs::read_to_string(file).ok();
    let filled = |text: String| Some(text.trim().to_owned()).filter(|it| !it.is_empty());
    variable.and_then(filled).or_else(|| file().and_then(filled))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_wins_and_outside_of_a_pod_there_is_none() {
        let file = std::env::temp_dir().join(format!("kopf-rs-pod-{}", std::process::id()));
        std::fs::write(&file, "team\n").unwrap();
        let of = |variable: Option<&str>, file: &Path| namespace_of(variable.map(str::to_owned), file);
        assert_eq!(of(None, &file).as_deref(), Some("team"));
        assert_eq!(of(Some(""), &file).as_deref(), Some("team"));
        assert_eq!(of(Some("other"), &file).as_deref(), Some("other"));
        assert_eq!(of(None, Path::new("/no/such/file")), None);
        std::fs::remove_file(&file).unwrap();
    }
}
