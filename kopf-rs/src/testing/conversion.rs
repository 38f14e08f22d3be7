//! Tests conversions between versions without a cluster: of one object, or of many random objects in both directions.
//!
//! This module does not depend on the implementation of conversions.

use serde_json::{Map, Value};

use crate::cluster::typed::plural_of;
use crate::conversion::definition::versions;
use crate::conversion::graph::{Conversions, ConvertedKind};
use crate::conversion::rules::Rules;
use crate::handler::registry::Registry;
use crate::testing::random::Random;
use crate::testing::schema::{random, shaped};

/// Converts the object to another version of its kind, as an operator with these conversions does.
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
/// Panics with the reason if the object cannot be converted, or if the conversions are invalid.
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
            let plural = plural_of(object["kind"].as_str().unwrap_or_default());
            let is_it = |it: &&&ConvertedKind| it.name == format!("{plural}.{group}");
            let found = kinds.iter().find(is_it);
            found.unwrap_or_else(|| panic!("none of several converted kinds has the plural {plural}"))
        }
    };
    let desired = format!("{group}/{version}");
    match kind.convert(object, &desired, &Rules::Trusting) {
        Ok(converted) => match converted.problem {
            None => converted.object,
            Some(problem) => panic!("the object cannot be converted to {version}: {problem}"),
        },
        Err(problem) => panic!("{problem}"),
    }
}

/// Converts many random objects of a kind between all served versions, and back. Checks that the object is unchanged,
/// that a change in the other version survives the round trip, and that incomplete objects convert, too.
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
/// The objects are generated from the schemas, except for patterns and rules: a field with a `pattern` gets its
/// `default`, its `example`, or one of its `enum` values.
///
/// # Panics
/// Panics with the original and the converted object if they differ.
#[track_caller]
pub fn round_trips(registry: &Registry, definition: &str) {
    tried(registry, definition, 1000);
}

/// Same as above, with this number of objects per pair of versions.
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
    let rules = Rules::of(definition);
    let versions = versions(definition);
    if let Some(missing) = kind.missing_between(&versions) {
        panic!("{missing}");
    }
    for from in &versions {
        for to in versions.iter().filter(|it| *it != from) {
            let journey = Journey {
                kind,
                rules: &rules,
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
        Self { name, schema: version.map_or(&Value::Null, |it| &it["schema"]["openAPIV3Schema"]) }
    }
}

/// A conversion from one version to another.
struct Journey<'a> {
    kind: &'a ConvertedKind,
    rules: &'a Rules,
    names: &'a Value,
    from: Version<'a>,
    to: Version<'a>,
}

impl Journey<'_> {
    /// Converts one object there and back.
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
        if let Err(problem) = self.kind.convert(piece.clone(), &api_version, self.rules) {
            panic!("a part of an object cannot be converted to {api_version}: {problem}\n{piece}");
        }
    }

    fn object(&self, version: &Version<'_>, dice: &mut Random) -> Value {
        let mut object = random(version.schema, dice);
        let Value::Object(members) = &mut object else {
            panic!("the schema of {} does not describe an object", version.name);
        };
        let api_version = format!("{}/{}", self.kind.group, version.name);
        members.insert("apiVersion".to_owned(), api_version.into());
        members.insert("kind".to_owned(), self.names.clone());
        let metadata = Map::from_iter([("name".to_owned(), "random".into())]);
        members.insert("metadata".to_owned(), metadata.into());
        shaped(version.schema, object)
    }

    /// Returns the object as the API server shows it: with defaults, and without fields that the version does not
    /// have.
    #[track_caller]
    fn converted(&self, object: &Value, to: &Version<'_>, start: &Value) -> Value {
        let api_version = format!("{}/{}", self.kind.group, to.name);
        match self.kind.convert(object.clone(), &api_version, self.rules) {
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

    /// Replaces one part of the object by that of another random object.
    fn edited(&self, object: &Value, dice: &mut Random) -> Value {
        let other = self.object(&self.to, dice);
        let mut edited = object.clone();
        let Some(spec) = other["spec"].as_object().filter(|it| !it.is_empty()) else {
            return edited;
        };
        let member = dice.below(spec.len());
        if let (Some((name, value)), Some(target)) = (spec.iter().nth(member), edited["spec"].as_object_mut())
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
                "an object has changed after a conversion from {} to {} and back:\nwas {one}\nis  {other}\non the way:\n{}",
                self.from.name,
                self.to.name,
                story.join("\n")
            );
        }
    }
}

/// Removes fields at random, since the API server also converts incomplete objects.
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
