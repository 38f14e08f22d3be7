//! The reason why there is no client, in one line: where the configuration was searched, the result, and how to fix it.

use std::fmt;
use std::path::Path;

/// The reason why there is no client. Displays as one line that says how to fix it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error(
        "no cluster is configured: {kubeconfig}, {home}, and this process runs in no Pod with a service account ({token} does not exist); name a kubeconfig by --kubeconfig or $KUBECONFIG, or use the API server of --embedded"
    )]
    Nowhere { kubeconfig: String, home: String, token: String },
    #[error("kubeconfig {path} ({origin}) cannot be read: {reason}")]
    Unreadable { path: String, origin: Origin, reason: String },
    #[error("kubeconfig {path} ({origin}) is not valid: {reason}")]
    Malformed { path: String, origin: Origin, reason: String },
    #[error(
        "context \"{wanted}\" is not in kubeconfig {path}, which has {known}; choose one of them with --context"
    )]
    NoContext { wanted: String, path: String, known: String },
    #[error("kubeconfig {path} has no current-context, but {known}; choose one with --context")]
    NoCurrentContext { path: String, known: String },
    #[error(
        "kubeconfig {path} has no contexts: is it a kubeconfig? (expected `contexts:` and `current-context:`)"
    )]
    NoContexts { path: String },
    #[error(
        "--context {0} chooses in a kubeconfig, but there is none: the service account of this Pod would be used"
    )]
    ContextInPod(String),
    #[error("context \"{context}\" of kubeconfig {path} cannot be used: {reason}")]
    Unusable { context: String, path: String, reason: String },
    #[error("the service account of this Pod cannot be used: {0}")]
    ServiceAccount(String),
    #[error("a client for {server} cannot be made of {label}: {reason}")]
    Client { server: String, label: String, reason: String },
}

/// The source that named the kubeconfig.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// `--kubeconfig`
    Flag,
    /// `$KUBECONFIG`
    Environment,
    /// `~/.kube/config`
    Home,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flag => "from --kubeconfig",
            Self::Environment => "from $KUBECONFIG",
            Self::Home => "the default",
        })
    }
}

/// Returns a path as messages show it.
pub(super) fn shown(path: &Path) -> String {
    path.display().to_string()
}
