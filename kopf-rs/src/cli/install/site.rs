//! The cluster of an installation, and the requests to it with messages that name the object.
//!
//! This module does not know the order of the requests.

use std::error::Error;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::cluster::child::ApplyRequest;
use crate::cluster::error::ClusterError;
use crate::cluster::request::ObjectPath;
use crate::cluster::{Client, Cluster};
use crate::object::resource::Resource;
use crate::operator::installation::{MANAGER, Need, Target, labels};

/// The result of a step: an error is a message for people.
pub(super) type Done<T = ()> = Result<T, Box<dyn Error>>;

/// The pause between two looks at a state that is waited for.
const PAUSE: Duration = Duration::from_millis(500);

/// The number of permissions that are asked about at the same time.
const QUESTIONS: usize = 8;

/// The cluster, and the person who waits.
pub(super) struct Site<'a> {
    pub(super) cluster: Cluster,
    /// All resources that the server serves.
    pub(super) resources: Vec<Resource>,
    /// Prints a line of progress.
    pub(super) say: &'a dyn Fn(&str),
    /// The time limit of each wait; zero sets none.
    patience: Duration,
}

impl<'a> Site<'a> {
    pub(super) async fn new(client: Client, say: &'a dyn Fn(&str), patience: Duration) -> Done<Self> {
        let cluster = Cluster::new(client);
        let resources = cluster.discover().await;
        let resources =
            resources.map_err(|error| format!("the server does not list its kinds (discovery): {error}"))?;
        Ok(Self { cluster, resources, say, patience })
    }

    /// Waits until `look` returns `None`; until then, it returns what to wait for, which is printed at each change. At the time limit, fails
    /// with the remedy, or goes on if there is none.
    pub(super) async fn wait(
        &self,
        remedy: Option<String>,
        mut look: impl AsyncFnMut() -> Done<Option<String>>,
    ) -> Done {
        let limit = Some(self.patience).filter(|it| !it.is_zero());
        let deadline = limit.and_then(|it| Instant::now().checked_add(it));
        let mut told = String::new();
        while let Some(subject) = look().await? {
            if subject != told {
                (self.say)(&format!("waiting for {subject}"));
                told = subject;
            }
            if deadline.is_some_and(|it| Instant::now() >= it) {
                let seconds = self.patience.as_secs();
                let failure = format!("still waiting after {seconds} seconds (--timeout) for {told}");
                let Some(remedy) = remedy else {
                    (self.say)(&failure);
                    return Ok(());
                };
                return Err(format!("{failure}\n{remedy}").into());
            }
            sleep(PAUSE).await;
        }
        Ok(())
    }

    /// Returns the object with its address.
    pub(super) fn target(&self, object: Value) -> Done<Target> {
        let [version, kind] = ["apiVersion", "kind"].map(|it| object[it].as_str().unwrap_or_default());
        let found = self.resources.iter().find(|it| it.kind == kind && it.api_version() == version);
        let Some(resource) = found else {
            return Err(format!(
                "the server does not serve {kind} in {version}, which the operator needs: expected a server with this kind. Install what \
                 defines it, or choose settings that do not need it. Nothing has been changed"
            )
            .into());
        };
        Ok(Target::of(resource, object))
    }

    /// Fails with all permissions that the caller lacks.
    pub(super) async fn check(&self, mut needs: Vec<Need>) -> Done {
        needs.sort();
        needs.dedup();
        let asked = needs.iter().map(|need| async {
            let permitted = self.cluster.is_permitted(&need.review()).await;
            let permitted =
                permitted.map_err(|error| format!("the server does not say what you may do: {error}"))?;
            Ok::<_, String>((!permitted).then(|| need.shown()))
        });
        // Collected before, because the closure of a buffered stream must not borrow.
        let asked: Vec<_> = asked.collect();
        let missing: Vec<Option<String>> = stream::iter(asked).buffered(QUESTIONS).try_collect().await?;
        let missing: Vec<String> = missing.into_iter().flatten().collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(format!(
            "you lack permissions, so nothing has been changed: expected the right to\n  {}\nAsk an administrator to grant them, or to run this \
             command",
            missing.join("\n  ")
        )
        .into())
    }

    /// Lists the objects of these kinds with the labels, or only their metadata.
    pub(super) async fn list(
        &self,
        kinds: &[Resource],
        labels: &str,
        metadata_only: bool,
    ) -> Done<Vec<Target>> {
        let mut found = Vec::new();
        for kind in kinds {
            let listed = self.cluster.list_pages(kind, None, labels, metadata_only).await;
            let listed = listed.map_err(|error| failed(&format!("{kind} cannot be listed"), &error))?;
            found.extend(listed.into_iter().map(|it| Target::found(kind, it)));
        }
        Ok(found)
    }

    /// Reads an object; `None` if it does not exist.
    pub(super) async fn read(&self, target: &Target) -> Done<Option<Value>> {
        let read = self.cluster.read_whole(path(target)).await;
        Ok(read.map_err(|error| failed(&format!("{} cannot be read", target.shown("")), &error))?)
    }

    /// Applies an object; with `is_dry`, only returns the object that would result.
    pub(super) async fn put(&self, target: &Target, is_dry: bool) -> Result<Value, ClusterError> {
        // Forces the values of all these fields, including those that someone else has changed meanwhile. Each operator is a manager
        // of its own for a definition, because one manager of a shared definition would remove the label of the other operator.
        let own = labels(&target.object).next().filter(|_| target.is_kept_by_default());
        let request = ApplyRequest {
            object: path(target),
            manager: own.unwrap_or(MANAGER),
            force: true,
            dry_run: is_dry,
            body: &target.object,
        };
        self.cluster.put(request).await
    }

    /// Reads the object again; `None` if it is gone.
    pub(super) async fn read_again(&self, target: &Target) -> Done<Option<Value>> {
        Ok(self.read(target).await?.filter(|it| it["metadata"]["uid"] == target.uid()))
    }

    /// Merges a change into an object. Returns false if the object is gone, or is not in the version that the change names.
    pub(super) async fn merge(&self, target: &Target, change: &Value) -> Done<bool> {
        let merged = self.cluster.merge_if_there(path(target), MANAGER, change).await;
        Ok(merged.map_err(|error| failed(&format!("{} cannot be changed", target.shown("")), &error))?)
    }

    /// Deletes an object that exists.
    pub(super) async fn delete(&self, target: &Target, home: &str) -> Done {
        let shown = target.shown(home);
        let deleted = self.cluster.delete_if_there(path(target), target.uid()).await;
        if deleted.map_err(|error| failed(&format!("{shown} cannot be deleted"), &error))? {
            (self.say)(&format!("{shown} deleted"));
        }
        Ok(())
    }
}

fn path(target: &Target) -> ObjectPath<'_> {
    ObjectPath { resource: &target.resource, namespace: target.namespace(), name: target.name() }
}

/// Returns the message for a failed request, with the rule that would permit it.
pub(super) fn failed(what: &str, error: &ClusterError) -> String {
    let again = "Repeat the command to continue";
    match error {
        ClusterError::Denied { rule, .. } if !rule.is_empty() => {
            format!("{what}: {error}\nTo permit it, add {}\n{again}", rule.replace("this operator", "you"))
        }
        error => format!("{what}: {error}. {again}"),
    }
}
