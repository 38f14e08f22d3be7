//! Removes the objects that an operator leaves for the API server after its uninstallation: webhook configurations, policies with their
//! bindings, and the conversion stanzas of definitions.
//!
//! Identifies them by the annotation that lists the instances, and policies by their label. Guarantees that objects of other operators stay
//! untouched, that no listed instance that may still run loses the conversion of its objects, and that a second removal finds nothing.
//! Instances that do not manage their definitions (`admission.managed` is not set) are on no list and remain unknown. Must not know the
//! caller, nor the output.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::admission::instances::{Instances, annotation};
use crate::admission::rules::{GROUP, label};
use crate::cluster::Cluster;
use crate::cluster::child::Propagation;
use crate::cluster::error::ClusterError;
use crate::conversion::graph::PATH;
use crate::object::resource::Resource;
use crate::operator::admission::managed_object::{KeptObject, explained};
use crate::operator::admission::policies::kinds;
use crate::operator::run::OperatorError;
use crate::state::naming;

/// One operator, and the marks of its objects.
pub(crate) struct Cleaning {
    annotation: String,
    label: String,
}

/// One object that the operator has left.
pub(crate) struct Remains {
    /// The description for people.
    pub(crate) what: String,
    /// The fate of the object: words after `is`.
    pub(crate) end: String,
    /// The instances that are registered in it.
    pub(crate) instances: Vec<String>,
    object: KeptObject,
    /// For definitions only.
    conversion: Option<Conversion>,
}

/// The fate of a definition's conversion stanza.
enum Conversion {
    /// The conversion is removed.
    Ends,
    /// The conversion does not use a webhook, or this operator has never been the converter.
    None,
    /// These operators have registered since, by their annotations: the webhook may belong to one of them.
    Moved(String),
    /// These instances have not deregistered: they and all readers of their objects would get objects that are not converted.
    Needed(String),
}

/// The number of attempts after write conflicts.
const ATTEMPTS: usize = 5;
/// The suffix of the annotations of all operators.
const OF_ALL: &str = "/instances";

impl Cleaning {
    /// Creates the cleaning of the operator of this name, if the name is valid.
    pub(crate) fn of(operator: &str) -> Result<Self, OperatorError> {
        let name = operator.to_lowercase().replace('_', "-");
        if !naming::is_valid_prefix(&name) {
            return Err(OperatorError::Name(operator.to_owned()));
        }
        let domain = naming::prefix(&name);
        Ok(Self { annotation: annotation(&domain), label: label(&domain) })
    }

    /// Returns all remaining objects in the order of removal, and the errors that prevented a search.
    pub(crate) async fn find(&self, cluster: &Cluster) -> (Vec<Remains>, Vec<String>) {
        let (mut found, mut failures) = (Vec::new(), Vec::new());
        let configurations = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]
            .map(|kind| Arc::new(Resource::built_in(GROUP, kind, false)));
        let definition = KeptObject::definition("").resource;
        // Bindings before policies, because a binding without its policy is meaningless.
        let [policies, bindings] = kinds(None);
        let [old_policies, old_bindings] = kinds(Some("v1beta1"));
        let with_older = [(bindings, old_bindings), (policies, old_policies)];
        for kind in configurations {
            match cluster.list_kept(&kind, "").await {
                Ok(all) => found.extend(self.own(&kind, &all)),
                Err(error) => failures.push(explained(&error)),
            }
        }
        for (kind, old) in with_older {
            let mut listed = (cluster.list_kept(&kind, &self.label).await, kind);
            if let Err(ClusterError::NotFound(_)) = listed.0 {
                listed = (cluster.list_kept(&old, &self.label).await, old);
            }
            match listed {
                (Ok(all), kind) => found.extend(self.own(&kind, &all)),
                (Err(ClusterError::NotFound(_)), _) => {}
                (Err(error), _) => failures.push(explained(&error)),
            }
        }
        match cluster.list_kept(&definition, "").await {
            Ok(all) => found.extend(self.own(&definition, &all)),
            Err(error) => failures.push(explained(&error)),
        }
        (found, failures)
    }

    /// Returns the objects of the operator among these.
    fn own(&self, kind: &Arc<Resource>, all: &[Value]) -> Vec<Remains> {
        let own = all.iter().filter(|it| self.is_own(it));
        own.map(|it| self.remains(kind, it)).collect()
    }

    fn remains(&self, kind: &Arc<Resource>, object: &Value) -> Remains {
        let is_definition = kind.plural == "customresourcedefinitions";
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let instances = self.instances(object);
        let shown = format!("{} {name}", kind.kind);
        let conversion = is_definition.then(|| self.conversion(object));
        let (what, end) = match &conversion {
            None => (shown, "removed".to_owned()),
            Some(Conversion::Ends) => {
                (format!("What the {shown} says of who converts its objects"), "removed".to_owned())
            }
            Some(Conversion::None) => (format!("The mark on the {shown}"), "removed".to_owned()),
            Some(Conversion::Moved(by)) => (
                format!("The mark on the {shown}"),
                format!(
                    "removed, and what that says of who converts its objects is kept, since it has the mark of others: {by}"
                ),
            ),
            Some(Conversion::Needed(by)) => (
                format!("What the {shown} says of who converts its objects"),
                format!("kept, since instances are registered: {by}"),
            ),
        };
        Remains {
            what,
            end,
            instances: instances.names().map(str::to_owned).collect(),
            conversion,
            object: KeptObject::of(kind.clone(), name),
        }
    }

    fn conversion(&self, definition: &Value) -> Conversion {
        let client = &definition["spec"]["conversion"]["webhook"]["clientConfig"];
        let paths = [&client["service"]["path"], &client["url"]];
        let mut paths = paths.iter().filter_map(|it| it.as_str());
        if !paths.any(|it| it.contains(PATH)) {
            return Conversion::None;
        }
        let annotations = definition["metadata"]["annotations"].as_object();
        let names = annotations.into_iter().flat_map(|all| all.keys());
        let others = names.filter(|it| it.ends_with(OF_ALL) && **it != self.annotation);
        let others: Vec<_> = others.map(|it| it.trim_end_matches(OF_ALL)).collect();
        if !others.is_empty() {
            return Conversion::Moved(others.join(", "));
        }
        let instances = self.instances(definition);
        let text = definition["metadata"]["annotations"][&self.annotation].as_str();
        match text {
            _ if !instances.is_empty() => {
                let names: Vec<_> = instances.names().collect();
                Conversion::Needed(names.join(", "))
            }
            Some(text) if text.trim() != "{}" => {
                Conversion::Needed(format!("their list cannot be read, which is `{text}`"))
            }
            _ => Conversion::Ends,
        }
    }

    /// Returns all listed instances, however far the local clock is behind.
    fn instances(&self, object: &Value) -> Instances {
        Instances::of(object, &self.annotation, i64::MAX)
    }

    fn is_own(&self, object: &Value) -> bool {
        let metadata = &object["metadata"];
        !metadata["annotations"][&self.annotation].is_null() || metadata["labels"][&self.label] == "true"
    }

    /// Removes the object, unless it is gone or belongs to another operator by now. Returns a sentence about the result; the error is a
    /// sentence, too.
    pub(crate) async fn remove(&self, cluster: &Cluster, remains: &Remains) -> Result<String, String> {
        let mut attempt = 1;
        loop {
            match self.remove_once(cluster, remains).await {
                // An instance has written in the meantime.
                Err(ClusterError::Conflict(_)) if attempt < ATTEMPTS => attempt += 1,
                Ok(Some(found)) => {
                    return match &found.conversion {
                        Some(Conversion::Needed(by)) => Err(self.refusal(&found, by)),
                        _ => Ok(format!("{} is {}.", found.what, found.end)),
                    };
                }
                Ok(None) | Err(ClusterError::NotFound(_)) => {
                    return Ok(format!("{} is gone.", remains.what));
                }
                Err(error) => {
                    return Err(format!("{} is not removed: {}", remains.what, explained(&error)));
                }
            }
        }
    }

    fn refusal(&self, remains: &Remains, instances: &str) -> String {
        let (what, annotation, name) = (&remains.what, &self.annotation, &remains.object.name);
        format!(
            "{what} is not removed, since instances of the operator are registered: {instances}. While one of them runs, its objects would be read in \
             versions that they are not converted to. End them first, then repeat this command. If all of them were killed, say so by `kubectl annotate \
             --overwrite customresourcedefinition {name} {annotation}={{}}` before"
        )
    }

    /// Returns the object as found. It is removed unless an instance needs it.
    async fn remove_once(
        &self,
        cluster: &Cluster,
        remains: &Remains,
    ) -> Result<Option<Remains>, ClusterError> {
        let object = remains.object.path();
        let found = cluster.look_at(object, false).await?;
        if !self.is_own(&found) {
            return Ok(None);
        }
        let text = |field: &str| found["metadata"][field].as_str().unwrap_or_default();
        let (uid, version) = (text("uid"), text("resourceVersion"));
        let remains = self.remains(&remains.object.resource, &found);
        let Some(conversion) = &remains.conversion else {
            cluster.delete(object, uid, version, Propagation::Background).await?;
            return Ok(Some(remains));
        };
        let annotations = json!({self.annotation.as_str(): null});
        let mut merge = json!({"metadata": {"resourceVersion": version, "annotations": annotations}});
        match conversion {
            Conversion::Needed(_) => return Ok(Some(remains)),
            Conversion::Ends => {
                merge["spec"]["conversion"] = json!({"strategy": "None", "webhook": null});
            }
            Conversion::None | Conversion::Moved(_) => {}
        }
        cluster.merge_kept(object, &merge).await?;
        Ok(Some(remains))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_end_only_where_a_list_says_that_nobody_is_left() {
        let cleaning = Cleaning::of("op").expect("a good name");
        let kind = KeptObject::definition("").resource;
        let end = |list: &str| {
            let url = format!("https://a.io{PATH}/things.example.com");
            let definition = json!({
                "metadata": {"name": "things.example.com", "annotations": {"op.kopf.rs/instances": list}},
                "spec": {"conversion": {"webhook": {"clientConfig": {"url": url}}}},
            });
            cleaning.remains(&kind, &definition).end
        };
        assert_eq!(end("{}"), "removed");
        // The local clock is far behind.
        let later = i64::MAX - 1;
        let needed = "kept, since instances are registered: a";
        assert_eq!(end(&format!(r#"{{"a":[{later},1]}}"#)), needed);
        for unreadable in ["", "{", r#"{"a":1}"#] {
            assert!(end(unreadable).contains("cannot be read"), "{unreadable}");
        }
    }
}
