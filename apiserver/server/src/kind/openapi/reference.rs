//! Schemas of built-in types, as the real server publishes them.
//!
//! The schemas equal those of Kubernetes word for word; most are passed on without being parsed. Independent of requests.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::typed::Struct;

/// One schema per line: the name and the JSON.
const TABLE: &str = include_str!("../../../tables/schemas.txt");

/// The prefix of references between schemas.
pub(super) const REFERENCE: &str = "#/components/schemas/";

/// The name of the schema of `/version`.
pub(super) const VERSION: &str = "io.k8s.apimachinery.pkg.version.Info";

/// Verbatim schemas by name.
pub(super) type Texts = BTreeMap<&'static str, &'static RawValue>;

static TEXTS: LazyLock<Texts> = LazyLock::new(|| {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    let named = lines.filter_map(|line| line.split_once(' '));
    let read = named.map(|(name, text)| Some((name, serde_json::from_str(text).ok()?)));
    read.flatten().collect()
});

/// Returns the schema name of a type.
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

/// Returns the schema name of a type that all groups share.
pub(super) fn meta(kind: &str) -> String {
    format!("io.k8s.apimachinery.pkg.apis.meta.v1.{kind}")
}

/// Adds a schema and all schemas that it references.
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

/// Returns a parsed schema, or null if the name is unknown.
pub(super) fn schema(name: &str) -> Value {
    TEXTS.get(name).copied().map(read).unwrap_or_default()
}

/// Parses a schema.
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
