//! Reads kubeconfigs by client-go's rules: which files count, which context is chosen, and which parts make up a connection.
//!
//! This module guarantees that a file that works with kubectl works here, with the same server and the same
//! credentials, and that an error names the file, the context and the remedy but no secret. It does not know how a
//! connection is made.

use std::path::PathBuf;

use crate::cluster::access::Access;
use crate::cluster::connect::error::{ConnectError, Origin, shown};
use crate::cluster::connect::kubeconfig::file::usable::Chosen;
use crate::cluster::connect::kubeconfig::file::{Context, File};

mod file;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;

/// The merged content of the files, and their paths.
pub(super) struct Kubeconfig {
    whole: File,
    /// The paths, for messages.
    label: String,
}

impl Kubeconfig {
    /// Reads and merges several files; the first file that has an entry wins.
    pub(super) fn read(paths: &[PathBuf], origin: Origin) -> Result<Self, ConnectError> {
        let mut whole = File::default();
        for path in paths {
            let bytes = std::fs::read(path).map_err(|error| ConnectError::Unreadable {
                path: shown(path),
                origin,
                reason: error.to_string(),
            })?;
            let folder = path.parent().map(std::path::absolute);
            let folder = folder.and_then(Result::ok).unwrap_or_default();
            let file = File::parse(&bytes, &folder).map_err(|reason| ConnectError::Malformed {
                path: shown(path),
                origin,
                reason,
            })?;
            add(&mut whole, file);
        }
        let paths: Vec<_> = paths.iter().map(|path| shown(path)).collect();
        let label = paths.join(", ");
        Ok(Self { whole, label })
    }

    pub(super) fn label(&self) -> &str {
        &self.label
    }

    /// Returns the parts of the given or the current context. `pod` is the namespace of the Pod that this process runs in.
    pub(super) fn access(&self, context: Option<&str>, pod: Option<&str>) -> Result<Access, ConnectError> {
        let wanted = context.unwrap_or(&self.whole.current_context);
        let chosen = self.chosen(wanted)?;
        let access = chosen.access(pod);
        access.map_err(|reason| ConnectError::Unusable {
            context: wanted.to_owned(),
            path: self.label.clone(),
            reason,
        })
    }

    fn chosen<'a>(&'a self, wanted: &'a str) -> Result<Chosen<'a>, ConnectError> {
        let path = || self.label.clone();
        let File { contexts, clusters, users, .. } = &self.whole;
        if contexts.is_empty() {
            return Err(ConnectError::NoContexts { path: path() });
        }
        let known = named(contexts.iter().map(|it| &it.name));
        if wanted.is_empty() {
            return Err(ConnectError::NoCurrentContext { path: path(), known });
        }
        let found = contexts.iter().find(|it| it.name == wanted);
        let Some(found) = found else {
            return Err(ConnectError::NoContext { wanted: wanted.to_owned(), path: path(), known });
        };
        let Context { cluster, user, .. } = &found.context;
        let servers = clusters.iter().find(|it| it.name == *cluster);
        let Some(server) = servers.filter(|it| !it.cluster.server.is_empty()) else {
            let names = named(clusters.iter().map(|it| &it.name));
            let reason = match (cluster.as_str(), servers) {
                ("", _) => format!("it names no cluster; expected one of {names}"),
                (name, Some(_)) => {
                    format!("its cluster \"{name}\" has no server; expected `server: https://HOST:PORT`")
                }
                (name, None) => {
                    format!("its cluster \"{name}\" is not in the file, which has {names}")
                }
            };
            return Err(ConnectError::Unusable { context: wanted.to_owned(), path: path(), reason });
        };
        // A user that is not in the file has no credentials.
        let shows = users.iter().find(|it| it.name == *user);
        Ok(Chosen {
            namespace: &found.context.namespace,
            cluster_name: cluster,
            cluster: &server.cluster,
            user_name: user,
            user: shows.map(|it| it.user.clone()).unwrap_or_default(),
        })
    }
}

/// Lists names for a message.
fn named<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<_> = names.map(|name| format!("\"{name}\"")).collect();
    if names.is_empty() {
        return "none".to_owned();
    }
    names.join(", ")
}

/// Adds the entries that `whole` lacks.
fn add(whole: &mut File, next: File) {
    let File { current_context, contexts, clusters, users, .. } = next;
    if whole.current_context.is_empty() {
        whole.current_context = current_context;
    }
    add_named(&mut whole.contexts, contexts, |it| &it.name);
    add_named(&mut whole.clusters, clusters, |it| &it.name);
    add_named(&mut whole.users, users, |it| &it.name);
}

fn add_named<T>(whole: &mut Vec<T>, next: Vec<T>, name: impl Fn(&T) -> &str) {
    for entry in next {
        if whole.iter().all(|it| name(it) != name(&entry)) {
            whole.push(entry);
        }
    }
}
