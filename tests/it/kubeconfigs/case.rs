//! A kubeconfig with its environment: files, variables and flags.
//!
//! `tests/kubeconfigs/README.md` describes the format. This module must not depend on the programs.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::servers::Servers;
use crate::cli::root;

/// One test case.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    pub(super) name: String,
    /// The fields of its cluster.
    #[serde(default = "cluster")]
    cluster: String,
    /// The fields of its user.
    #[serde(default = "user")]
    user: String,
    /// The whole text, instead of cluster and user.
    whole: Option<String>,
    /// Other files in the same folder.
    #[serde(default)]
    files: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) args: Vec<String>,
    /// A part of the operator's error; absent if the operator accepts the kubeconfig.
    pub(super) ours: Option<String>,
    /// The reason why operators differ from kubectl.
    pub(super) differs: Option<String>,
}

fn cluster() -> String {
    "server: 'https://127.0.0.1:%tls%', certificate-authority: ca.crt".to_owned()
}

fn user() -> String {
    "token: t".to_owned()
}

impl Case {
    pub(super) fn read_all(file: &str) -> Vec<Self> {
        let text = fs::read_to_string(root().join(file)).expect("the cases are readable");
        let cases = serde_saphyr::from_str(&text);
        cases.unwrap_or_else(|error| panic!("{file}: {error}"))
    }

    /// Writes the kubeconfig and the other files into a folder, and returns the path of the kubeconfig.
    pub(super) fn write(&self, folder: &Path, servers: &Servers) -> PathBuf {
        let parts = || {
            let (cluster, user) = (&self.cluster, &self.user);
            format!(
                "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
                 contexts:\n- {{name: c, context: {{cluster: c, user: u}}}}\n\
                 clusters:\n- {{name: c, cluster: {{{cluster}}}}}\n\
                 users:\n- {{name: u, user: {{{user}}}}}\n"
            )
        };
        let config = self.whole.clone().unwrap_or_else(parts);
        let config = [("config", config.as_str())].into_iter();
        let files = self.files.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        for (name, text) in servers.files().chain(config).chain(files) {
            let path = folder.join(name);
            fs::write(&path, servers.fill(text, folder)).expect("files can be written");
            if text.starts_with("#!") {
                let mode = fs::Permissions::from_mode(0o755);
                fs::set_permissions(&path, mode).expect("its mode can be set");
            }
        }
        folder.join("config")
    }
}
