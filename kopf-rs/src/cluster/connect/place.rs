//! Chooses the kubeconfig: a pure function of the process environment.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::cluster::connect::error::{ConnectError, Origin, shown};
use crate::cluster::pod::TOKEN;
use crate::rt::tls::TlsVersion;

/// The location of the configuration.
#[derive(Debug, PartialEq)]
pub(super) enum Place {
    Files(Vec<PathBuf>, Origin),
    /// The service account of this Pod.
    Pod,
}

/// The user's options for the cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectOptions {
    /// The kubeconfig to use instead of all default locations.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context to use instead of the current one.
    pub(crate) context: Option<String>,
    pub(crate) minimum_tls: TlsVersion,
}

/// The environment of the process, as far as it configures a cluster.
#[derive(Debug, Default)]
pub(super) struct Surroundings {
    /// `$KUBECONFIG`
    pub(super) kubeconfig: Option<OsString>,
    pub(super) home: Option<PathBuf>,
    /// True if `$KUBERNETES_SERVICE_HOST` and a token exist.
    pub(super) pod: bool,
}

impl Surroundings {
    pub(super) fn here() -> Self {
        Self {
            kubeconfig: std::env::var_os("KUBECONFIG"),
            home: std::env::home_dir(),
            pod: std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() && PathBuf::from(TOKEN).exists(),
        }
    }
}

/// Finds the first of: the given path, `$KUBECONFIG`, `~/.kube/config`, the Pod. Some of several files in `$KUBECONFIG` may be missing.
pub(super) fn find(options: &ConnectOptions, around: &Surroundings) -> Result<Place, ConnectError> {
    if let Some(path) = &options.kubeconfig {
        return existing(std::slice::from_ref(path), Origin::Flag);
    }
    let listed = around.kubeconfig.as_ref().filter(|list| !list.is_empty());
    if let Some(list) = listed {
        let paths = std::env::split_paths(list).filter(|path| !path.as_os_str().is_empty());
        let paths: Vec<_> = paths.collect();
        return existing(&paths, Origin::Environment);
    }
    let home = around.home.as_ref().map(|home| home.join(".kube/config"));
    if let Some(path) = home.clone().filter(|path| path.exists()) {
        return Ok(Place::Files(vec![path], Origin::Home));
    }
    if around.pod {
        return Ok(Place::Pod);
    }
    Err(ConnectError::Nowhere {
        kubeconfig: "$KUBECONFIG is not set".to_owned(),
        home: match home {
            Some(path) => format!("{} is not there", shown(&path)),
            None => "there is no home directory".to_owned(),
        },
        token: TOKEN.to_owned(),
    })
}

fn existing(paths: &[PathBuf], origin: Origin) -> Result<Place, ConnectError> {
    let found: Vec<PathBuf> = paths.iter().filter(|path| path.exists()).cloned().collect();
    if found.is_empty() {
        let names: Vec<String> = paths.iter().map(|path: &PathBuf| shown(path)).collect();
        return Err(ConnectError::Unreadable {
            path: names.join(", "),
            origin,
            reason: "there is no such file".to_owned(),
        });
    }
    Ok(Place::Files(found, origin))
}
