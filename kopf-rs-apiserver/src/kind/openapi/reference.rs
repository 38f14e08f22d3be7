//! Schemas of the types that come with the server, as the real one describes them.
//!
//! Promise: the schemas are those of Kubernetes, word for word; most are passed on without being read. Must not know how the
//! pages are asked for.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::typed::Struct;

/// A schema per line: its name, and what it says.
const TABLE: &str = include_str!("../../../tables/schemas.txt");

/// How schemas refer to each other.
pub(super) const REFERENCE: &str = "#/components/schemas/";

/// The name of the schema of `/version`.
pub(super) const VERSION: &str = "io.k8s.apimachinery.pkg.version.Info";

/// Schemas by name, as they are written.
pub(super) type Texts = BTreeMap<&'static str, &'static RawValue>;

static TEXTS: LazyLock<Texts> = LazyLock::new(|| {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    let named = lines.filter_map(|line| line.split_once(' '));
    let read = named.map(|(name, text)| Some((name, serde_json::from_str(text).ok()?)));
    read.flatten().collect()
});

/// The name of a type's schema.
pub(super) fn name(of: &Struct) -> String {
    let (package, kind) = of.name.split_once('.').unwrap_or(("", of.name));
    let (group, version) = package.split_once('/').unwrap_or((package, ""));
    let home = match group {
        "meta" => return meta(kind),
        "apiextensions" => "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
        "apiregistration" => "io.k8s.kube-aggregator.pkg.apis.apiregistration",
        _ => return format!("io.k8s.api.{group}.{version}.{kind}"),
    };
    format!("{home}.{version}.{kind}")
}

/// The name of the schema of a type that all groups share.
pub(super) fn meta(kind: &str) -> String {
    format!("io.k8s.apimachinery.pkg.apis.meta.v1.{kind}")
}

/// Add a schema and all that it refers to.
pub(super) fn add(name: &str, into: &mut Texts) {
    let mut waiting = vec![name];
    while let Some(next) = waiting.pop() {
        let Some((&name, &text)) = TEXTS.get_key_value(next) else {
            continue;
        };
        if into.insert(name, text).is_none() {
            waiting.extend(references(text.get()));
        }
    }
}

/// A schema, read; null where there is none of that name.
pub(super) fn schema(name: &str) -> Value {
    TEXTS.get(name).copied().map(read).unwrap_or_default()
}

/// What a schema says.
pub(super) fn read(text: &RawValue) -> Value {
    serde_json::from_str(text.get()).unwrap_or_default()
}

fn references(text: &str) -> impl Iterator<Item = &str> {
    let tails = text.split(REFERENCE).skip(1);
    tails.filter_map(|tail| tail.split('"').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_schema_and_every_reference_leads_to_one() {
        let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
        assert_eq!(TEXTS.len(), lines.count());
        for (name, text) in TEXTS.iter() {
            assert!(read(text).is_object(), "{name}");
            for target in references(text.get()) {
                assert!(TEXTS.contains_key(target), "{name}: {target}");
            }
        }
    }

    #[test]
    fn a_schema_comes_with_what_it_is_made_of() {
        let mut all = Texts::new();
        add("io.k8s.api.apps.v1.Deployment", &mut all);
        let pod = read(all["io.k8s.api.core.v1.PodSpec"]);
        assert_eq!(pod["required"], serde_json::json!(["containers"]));
        let containers = &pod["properties"]["containers"];
        assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
        assert!(!all.contains_key("io.k8s.api.core.v1.Pod"));
    }
}
