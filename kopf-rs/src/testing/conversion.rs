//! Conversions between versions, without a cluster: of one object, and of many random ones there and back.
//!
//! Must not know how objects are converted.

use serde_json::{Map, Value};

use crate::conversion::definition::versions;
use crate::conversion::graph::{Conversions, ConvertedKind};
use crate::handler::registry::Registry;
use crate::testing::random::Random;
use crate::testing::schema::{random, shaped};

/// The object in another version of its kind, as an operator of these conversions shows it.
///
/// ```
/// use kopf_rs::prelude::*;
/// use kopf_rs::testing::converted;
/// use kopf_rs::Registry;
///
/// #[on_convert("things.example.com", from = "v1alpha1", to = "v1")]
/// fn up(spec: Value) -> Value {
///     json!({"host": spec["address"]})
/// }
///
/// #[on_convert("things.example.com", from = "v1", to = "v1alpha1")]
/// fn down(spec: Value) -> Value {
///     json!({"address": spec["host"]})
/// }
///
/// let old = json!({"apiVersion": "example.com/v1alpha1", "kind": "Thing", "metadata": {"name": "one"}, "spec": {"address": "a", "size": 1}});
/// let registry = Registry::collected().unwrap();
/// let new = converted(&registry, old.clone(), "v1");
/// assert_eq!(new["spec"], json!({"host": "a"}));
/// // Nothing is lost.
/// assert_eq!(converted(&registry, new, "v1alpha1"), old);
/// ```
///
/// # Panics
/// Where it cannot be converted, or where something is wrong with the conversions: why.
#[track_caller]
#[must_use]
pub fn converted(registry: &Registry, object: Value, version: &str) -> Value {
    let conversions = checked(registry);
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let of_group = conversions.kinds().iter().filter(|it| it.group == group);
    let kind = match of_group.collect::<Vec<_>>()[..] {
        [kind] => kind,
        [] => panic!("objects of {api_version} are not converted"),
        ref kinds => {
            let plural = format!("{}s.", object["kind"].as_str().unwrap_or_default());
            let is_it = |it: &&&ConvertedKind| it.name.starts_with(&plural.to_lowercase());
            let found = kinds.iter().find(is_it);
            found.unwrap_or_else(|| {
                panic!("none of several converted kinds has the plural {plural}")
            })
        }
    };
    let desired = format!("{group}/{version}");
    match kind.convert(object, &desired) {
        Ok(converted) => match converted.problem {
            None => converted.object,
            Some(problem) => panic!("the object cannot be converted to {version}: {problem}"),
        },
        Err(problem) => panic!("{problem}"),
    }
}

/// Convert many random objects of a kind between all versions that its definition serves, and back. Each has to be the same then, whatever was
/// changed of it in the other version has to be the same there again, and parts of objects have to be convertible, too.
///
/// ```
/// # const CRD: &str = "
/// # apiVersion: apiextensions.k8s.io/v1
/// # kind: CustomResourceDefinition
/// # metadata: {name: things.example.com}
/// # spec:
/// #   group: example.com
/// #   scope: Namespaced
/// #   names: {plural: things, singular: thing, kind: Thing}
/// #   versions:
/// #   - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {host: {type: string}}}}}}}
/// #   - {name: v1alpha1, served: true, storage: false, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {address: {type: string}}}}}}}
/// # ";
/// # mod it {
/// # use kopf_rs::prelude::*;
/// # #[on_convert("things.example.com", from = "v1alpha1", to = "v1")]
/// # fn up(spec: Value) -> Value { json!({"host": spec["address"]}) }
/// # #[on_convert("things.example.com", from = "v1", to = "v1alpha1")]
/// # fn down(spec: Value) -> Value { json!({"address": spec["host"]}) }
/// # }
/// use kopf_rs::Registry;
/// use kopf_rs::testing::round_trips;
///
/// // As a rule: include_str!("../crd.yaml").
/// round_trips(&Registry::collected().unwrap(), CRD);
/// ```
///
/// The objects are made from the schemas, with all that these allow, but for patterns and rules: fields with a `pattern` have their `default`, `example`,
/// or one of their `enum`.
///
/// # Panics
/// Where an object is not the same: with the object, and with what has become of it.
#[track_caller]
pub fn round_trips(registry: &Registry, definition: &str) {
    tried(registry, definition, 1000);
}

/// The same with so many objects for each pair of versions.
#[track_caller]
pub(super) fn tried(registry: &Registry, definition: &str, cases: u64) {
    let conversions = checked(registry);
    let parsed = serde_saphyr::from_multiple::<Value>(definition);
    let parsed = parsed.unwrap_or_else(|error| panic!("not YAML: {error}"));
    let names = |it: &&Value| it["kind"] == "CustomResourceDefinition";
    let definition = parsed.iter().find(names);
    let definition = definition.expect("there is a CustomResourceDefinition in the text");
    let name = definition["metadata"]["name"].as_str().unwrap_or_default();
    let kind = conversions.kinds().iter().find(|it| it.name == name);
    let kind = kind.unwrap_or_else(|| panic!("nothing converts objects of {name}"));
    let versions = versions(definition);
    if let Some(missing) = kind.missing_between(&versions) {
        panic!("{missing}");
    }
    for from in &versions {
        for to in versions.iter().filter(|it| *it != from) {
            let journey = Journey {
                kind,
                names: &definition["spec"]["names"]["kind"],
                from: Version::of(definition, from),
                to: Version::of(definition, to),
            };
            for seed in 0..cases {
                journey.make(seed);
            }
        }
    }
}

#[track_caller]
fn checked(registry: &Registry) -> Conversions {
    if let Err(error) = registry.check() {
        panic!("{error}");
    }
    let conversions = Conversions::of(registry.conversions());
    if let Some(problem) = conversions.problem() {
        panic!("{problem}");
    }
    conversions
}

struct Version<'a> {
    name: &'a str,
    schema: &'a Value,
}

impl<'a> Version<'a> {
    fn of(definition: &'a Value, name: &'a str) -> Self {
        let versions = definition["spec"]["versions"].as_array();
        let mut versions = versions.into_iter().flatten();
        let version = versions.find(|it| it["name"] == name);
        Self {
            name,
            schema: version.map_or(&Value::Null, |it| &it["schema"]["openAPIV3Schema"]),
        }
    }
}

/// From a version to another one.
struct Journey<'a> {
    kind: &'a ConvertedKind,
    names: &'a Value,
    from: Version<'a>,
    to: Version<'a>,
}

impl Journey<'_> {
    /// There and back with one object.
    #[track_caller]
    fn make(&self, seed: u64) {
        let mut dice = Random::seeded(seed);
        let start = self.object(&self.from, &mut dice);
        let there = self.converted(&start, &self.to, &start);
        let back = self.converted(&there, &self.from, &start);
        self.assert_same(&start, &back, &[&start, &there]);
        let edited = self.edited(&there, &mut dice);
        let back = self.converted(&edited, &self.from, &edited);
        let again = self.converted(&back, &self.to, &edited);
        self.assert_same(&edited, &again, &[&start, &edited, &back]);
        let mut piece = start.clone();
        thin(&mut piece, &mut dice);
        let api_version = format!("{}/{}", self.kind.group, self.to.name);
        if let Err(problem) = self.kind.convert(piece.clone(), &api_version) {
            panic!("a part of an object cannot be converted to {api_version}: {problem}\n{piece}");
        }
    }

    fn object(&self, version: &Version<'_>, dice: &mut Random) -> Value {
        let mut object = random(version.schema, dice);
        let Value::Object(members) = &mut object else {
            panic!("the schema of {} is of no object", version.name);
        };
        let api_version = format!("{}/{}", self.kind.group, version.name);
        members.insert("apiVersion".to_owned(), api_version.into());
        members.insert("kind".to_owned(), self.names.clone());
        let metadata = Map::from_iter([("name".to_owned(), "random".into())]);
        members.insert("metadata".to_owned(), metadata.into());
        shaped(version.schema, object)
    }

    /// As the API server shows it: with defaults, and without what the version does not know.
    #[track_caller]
    fn converted(&self, object: &Value, to: &Version<'_>, start: &Value) -> Value {
        let api_version = format!("{}/{}", self.kind.group, to.name);
        match self.kind.convert(object.clone(), &api_version) {
            Ok(converted) => {
                if let Some(problem) = converted.problem {
                    panic!(
                        "an object cannot be converted to {api_version}: {problem}\nbegan as {start}\nis       {object}"
                    );
                }
                shaped(to.schema, converted.object)
            }
            Err(problem) => {
                panic!("an object cannot be converted to {api_version}: {problem}\n{object}")
            }
        }
    }

    /// With one part of another object.
    fn edited(&self, object: &Value, dice: &mut Random) -> Value {
        let other = self.object(&self.to, dice);
        let mut edited = object.clone();
        let Some(spec) = other["spec"].as_object().filter(|it| !it.is_empty()) else {
            return edited;
        };
        let member = dice.below(spec.len());
        if let (Some((name, value)), Some(target)) =
            (spec.iter().nth(member), edited["spec"].as_object_mut())
        {
            target.insert(name.clone(), value.clone());
        }
        edited
    }

    #[track_caller]
    fn assert_same(&self, expected: &Value, found: &Value, story: &[&Value]) {
        let without_annotations = |object: &Value| {
            let mut object = object.clone();
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.remove("annotations");
            }
            object
        };
        let (one, other) = (without_annotations(expected), without_annotations(found));
        if one != other {
            let story: Vec<_> = story.iter().map(ToString::to_string).collect();
            panic!(
                "an object is not the same after {} and {} and back:\nwas {one}\nis  {other}\non the way:\n{}",
                self.from.name,
                self.to.name,
                story.join("\n")
            );
        }
    }
}

/// Leave out some members, as the API server does.
fn thin(value: &mut Value, dice: &mut Random) {
    match value {
        Value::Object(members) => {
            let identity = ["apiVersion", "kind", "metadata", "name"];
            members.retain(|name, _| identity.contains(&name.as_str()) || !dice.chance(3));
            for member in members.values_mut() {
                thin(member, dice);
            }
        }
        Value::Array(items) => {
            for item in items {
                thin(item, dice);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
