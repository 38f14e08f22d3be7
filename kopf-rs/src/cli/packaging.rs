//! Arranges the objects that install an operator in files: for `kubectl apply -f` and for `kubectl apply -k`.
//!
//! Pure: objects become texts. This module does not know which objects an operator needs, nor where files are stored.

pub(super) mod chart;
pub(super) mod folder;
pub(super) mod values;

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// The mark by which a file is recognised as generated.
pub(super) const MARK: &str = "Printed by `kopf-rs manifests`";

/// The annotation in which `kubectl apply` stores an object, together with all others, has at most this size.
const LARGEST_ANNOTATIONS: usize = 262_144;

/// A generated file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct File {
    /// The path in the output folder, with slashes.
    pub(super) path: String,
    pub(super) text: String,
}

/// A group of objects that share a file. The order of groups is that of their installation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Definition(String),
    Permissions,
    Webhooks,
    Operator,
}

/// Returns the objects as one text.
pub(super) fn text(objects: &[Value]) -> Result<String, serde_saphyr::ser::Error> {
    serde_saphyr::to_string_multiple(objects)
}

/// Returns files that `kubectl apply -f` applies in the order of their names.
pub(super) fn yaml(objects: &[Value]) -> Result<Vec<File>, serde_saphyr::ser::Error> {
    let groups = grouped(objects);
    let files = groups.into_iter().map(|(group, objects)| {
        let path = format!("{}-{}.yaml", group.order(), group.name());
        let text = serde_saphyr::to_string_multiple(&objects);
        text.map(|text| File::new(&path, &text))
    });
    files.collect()
}

/// Returns the same files, and a `kustomization.yaml`.
pub(super) fn kustomize(objects: &[Value]) -> Result<Vec<File>, serde_saphyr::ser::Error> {
    let mut files = yaml(objects)?;
    let resources: Vec<&str> = files.iter().map(|it| it.path.as_str()).collect();
    let mut kustomization = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": resources,
    });
    if let Some(namespace) = movable(objects) {
        kustomization["namespace"] = namespace.into();
    }
    if let Some(deployment) = objects.iter().find(|it| it["kind"] == "Deployment") {
        let image = deployment.pointer("/spec/template/spec/containers/0/image").and_then(Value::as_str);
        kustomization["images"] = image.map(image_of).into_iter().collect();
        kustomization["replicas"] =
            json!([{"name": deployment["metadata"]["name"], "count": deployment["spec"]["replicas"]}]);
    }
    files.push(File::new("kustomization.yaml", &serde_saphyr::to_string(&kustomization)?));
    Ok(files)
}

/// Returns the names of definitions that are too large for `kubectl apply` without `--server-side`, with their sizes.
pub(super) fn too_large(objects: &[Value]) -> Vec<(String, usize)> {
    let definitions = objects.iter().filter(|it| it["kind"] == "CustomResourceDefinition");
    let sized = definitions.map(|it| (name_of(it), it.to_string().len()));
    sized.filter(|(_, size)| *size >= LARGEST_ANNOTATIONS).collect()
}

/// Returns the namespace of the operator if kustomize may replace it: if all objects in namespaces are in this one, and no object names it
/// where kustomize does not know of it.
fn movable(objects: &[Value]) -> Option<&str> {
    let namespace = |it: &'_ Value| it["metadata"]["namespace"].as_str().map(str::to_owned);
    let deployment = objects.iter().find(|it| it["kind"] == "Deployment")?;
    let own = deployment["metadata"]["namespace"].as_str()?;
    let is_elsewhere = |it: &Value| namespace(it).is_some_and(|it| it != own);
    // A flow schema names the account; a variable, the settings file or a certificate names the Service of webhooks.
    let names_it = |it: &Value| it["kind"] == "FlowSchema" || it["kind"] == "Service";
    let is_fixed = objects.iter().any(|it| is_elsewhere(it) || names_it(it));
    (!is_fixed).then_some(own)
}

/// Returns the entry of `images` for an image.
fn image_of(image: &str) -> Value {
    if let Some((name, digest)) = image.split_once('@') {
        return json!({"name": name, "digest": digest});
    }
    match image.rsplit_once(':') {
        // A port is followed by a path.
        Some((name, tag)) if !tag.contains('/') => json!({"name": name, "newTag": tag}),
        _ => json!({"name": image, "newName": image}),
    }
}

fn grouped(objects: &[Value]) -> BTreeMap<Group, Vec<&Value>> {
    let mut groups: BTreeMap<Group, Vec<&Value>> = BTreeMap::new();
    for object in objects {
        groups.entry(Group::of(object)).or_default().push(object);
    }
    groups
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

// === impl File ===

impl File {
    /// Marks a text whose comments begin with `#`.
    fn new(path: &str, text: &str) -> Self {
        let text = format!("# {MARK}. Change the code or the flags, and print it again.\n{text}");
        Self { path: path.to_owned(), text }
    }
}

// === impl Group ===

impl Group {
    fn of(object: &Value) -> Self {
        match object["kind"].as_str().unwrap_or_default() {
            "CustomResourceDefinition" => Self::Definition(name_of(object)),
            "Namespace" | "ServiceAccount" | "ClusterRole" | "ClusterRoleBinding" | "Role"
            | "RoleBinding" => Self::Permissions,
            "Issuer" | "Certificate" => Self::Webhooks,
            _ if object["apiVersion"].as_str().is_some_and(|it| it.starts_with("admissionregistration.")) => {
                Self::Webhooks
            }
            _ => Self::Operator,
        }
    }

    fn order(&self) -> u8 {
        match self {
            Self::Definition(_) => 1,
            Self::Permissions => 2,
            Self::Webhooks => 3,
            Self::Operator => 4,
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Definition(name) => format!("crd-{name}"),
            Self::Permissions => "permissions".to_owned(),
            Self::Webhooks => "webhooks".to_owned(),
            Self::Operator => "operator".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(kind: &str, namespace: Option<&str>) -> Value {
        json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "op", "namespace": namespace}})
    }

    fn deployment() -> Value {
        let mut deployment = object("Deployment", Some("op"));
        let containers = json!([{"image": "a.example:5000/op:1", "env": []}]);
        deployment["spec"] = json!({"replicas": 2, "template": {"spec": {"containers": containers}}});
        deployment
    }

    #[test]
    fn files_are_in_the_order_of_their_installation() {
        let mut policy = object("ValidatingAdmissionPolicy", None);
        policy["apiVersion"] = "admissionregistration.k8s.io/v1".into();
        let objects =
            [object("CustomResourceDefinition", None), object("Namespace", None), policy, deployment()];
        let files = kustomize(&objects).unwrap();
        let paths: Vec<_> = files.iter().map(|it| it.path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "1-crd-op.yaml",
                "2-permissions.yaml",
                "3-webhooks.yaml",
                "4-operator.yaml",
                "kustomization.yaml"
            ]
        );
        let kustomization: Value = serde_saphyr::from_str(&files[4].text).unwrap();
        assert_eq!(kustomization["resources"], json!(paths[..4]));
        assert_eq!(kustomization["images"], json!([{"name": "a.example:5000/op", "newTag": "1"}]));
        assert_eq!(kustomization["replicas"], json!([{"name": "op", "count": 2}]));
        assert_eq!(kustomization["namespace"], "op");
    }

    #[test]
    fn a_namespace_that_others_name_cannot_be_replaced() {
        for (objects, expected) in [
            (vec![deployment()], Some("op")),
            (vec![deployment(), object("Role", Some("team"))], None),
            (vec![deployment(), object("FlowSchema", None)], None),
            (vec![deployment(), object("Service", Some("op"))], None),
        ] {
            assert_eq!(movable(&objects), expected, "{objects:?}");
        }
    }

    #[test]
    fn images_are_taken_apart() {
        for (image, expected) in [
            ("op", json!({"name": "op", "newName": "op"})),
            ("a:5000/op", json!({"name": "a:5000/op", "newName": "a:5000/op"})),
            ("op@sha256:ab", json!({"name": "op", "digest": "sha256:ab"})),
        ] {
            assert_eq!(image_of(image), expected);
        }
    }

    #[test]
    fn large_definitions_are_named() {
        let mut large = object("CustomResourceDefinition", None);
        large["spec"] = "a".repeat(LARGEST_ANNOTATIONS).into();
        let named: Vec<_> = too_large(&[large, deployment()]).into_iter().map(|(name, _)| name).collect();
        assert_eq!(named, ["op"]);
    }
}
