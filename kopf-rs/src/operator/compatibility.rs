//! Finds changes of a definition that break stored objects: objects that were valid become invalid, lose fields, or cannot be read.
//!
//! Pure: compares two definitions. Must not know where they come from.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value, json};

/// A change that breaks stored objects. Displays as `demos.example.com: spec.versions[v1].schema spec.size: PROBLEM; REMEDY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Breakage {
    definition: String,
    path: String,
    problem: String,
    remedy: &'static str,
}

const KEEP_FIELD: &str = "keep the field, or add a new version without it and a conversion";
const ALLOW: &str = "allow the former values, or add a new version with the restriction and a conversion";
const GIVE_DEFAULT: &str = "give it a default (such as `#[serde(default)]`), or make it optional";
const KEEP_VERSION: &str = "keep the version, with `served: false`, until no object is stored in it: the setting \
                            `admission.storage_migration` rewrites them, and then `status.storedVersions` no longer lists it";
const KEEP_SCOPE: &str = "keep the scope, or define a new kind: the API server refuses another scope";

/// Returns the changes from the old to the new definition that break stored objects.
pub(crate) fn breakages(old: &Value, new: &Value) -> Vec<Breakage> {
    let definition = new["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let mut found = Vec::new();
    let mut add = |path: String, problem: String, remedy| {
        found.push(Breakage { definition: definition.clone(), path, problem, remedy });
    };
    let (was, is) = (&old["spec"]["scope"], &new["spec"]["scope"]);
    if was != is {
        add("spec.scope".to_owned(), format!("it is {is}, and was {was}"), KEEP_SCOPE);
    }
    let [converted, converts] = [old, new].map(|it| it["spec"]["conversion"]["strategy"] == "Webhook");
    let new_versions = versions(new);
    let stored = stored_versions(old);
    for (name, version) in versions(old) {
        let Some((_, same)) = new_versions.iter().find(|(it, _)| *it == name) else {
            if stored.contains(name) {
                add(
                    format!("spec.versions[{name}]"),
                    "the version is removed, although objects may be stored in it".to_owned(),
                    KEEP_VERSION,
                );
            }
            continue;
        };
        compare_versions((version, *same), &format!("spec.versions[{name}].schema"), &mut add);
        // Without a conversion, an object is read in another version as it is.
        let is_new = |it: &str| versions(old).iter().all(|(known, _)| *known != it);
        let others = new_versions.iter().filter(|(it, _)| is_new(it) || converted && *it != name);
        for (other, read) in others.filter(|_| stored.contains(name) && !converts) {
            let place = format!("spec.versions[{other}].schema (without a conversion from {name})");
            compare_versions((version, *read), &place, &mut add);
        }
    }
    found
}

/// Returns the versions by name.
fn versions(definition: &Value) -> Vec<(&str, &Value)> {
    let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    versions.filter_map(|it| Some((it["name"].as_str()?, it))).collect()
}

/// Returns the names of versions in which objects may be stored.
fn stored_versions(definition: &Value) -> BTreeSet<&str> {
    let listed = definition["status"]["storedVersions"].as_array().into_iter().flatten();
    let current = versions(definition).into_iter().filter(|(_, it)| it["storage"] == true);
    listed.filter_map(Value::as_str).chain(current.map(|(name, _)| name)).collect()
}

fn compare_versions(
    (old, new): (&Value, &Value),
    place: &str,
    add: &mut impl FnMut(String, String, &'static str),
) {
    let mut comparison = Comparison::default();
    let schema = "/schema/openAPIV3Schema";
    if let (Some(old), Some(new)) = (old.pointer(schema), new.pointer(schema)) {
        comparison.schema(old, new, "");
    }
    for (path, problem, remedy) in comparison.0 {
        add(format!("{place} {path}").trim_end().to_owned(), problem, remedy);
    }
}

/// Collects the changes of a schema.
#[derive(Default)]
struct Comparison(Vec<(String, String, &'static str)>);

/// A bound, and whether a larger number is stricter.
const BOUNDS: [(&str, bool); 8] = [
    ("minimum", true),
    ("maximum", false),
    ("minLength", true),
    ("maxLength", false),
    ("minItems", true),
    ("maxItems", false),
    ("minProperties", true),
    ("maxProperties", false),
];

/// Keywords that forbid something if they are present. This function does not decide which of two values is stricter.
const CONDITIONS: [&str; 9] = [
    "pattern",
    "format",
    "multipleOf",
    "allOf",
    "oneOf",
    "anyOf",
    "not",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-embedded-resource",
];

/// Formats of numbers that the API server does not check.
const UNCHECKED_FORMATS: [&str; 9] =
    ["int8", "int16", "int64", "uint8", "uint16", "uint", "uint32", "uint64", "double"];

/// The fields of all objects, which the API server adds to the schema.
const COMMON: [&str; 3] = ["apiVersion", "kind", "metadata"];

const UNKNOWN: &str = "x-kubernetes-preserve-unknown-fields";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
const RULES: &str = "x-kubernetes-validations";

impl Comparison {
    fn add(&mut self, path: &str, problem: String, remedy: &'static str) {
        self.0.push((path.to_owned(), problem, remedy));
    }

    fn schema(&mut self, old: &Value, new: &Value, path: &str) {
        if let Some(problem) = narrowed_type(old, new) {
            // Other schemas cannot be compared.
            return self.add(path, problem, ALLOW);
        }
        for problem in [narrowed_enum(old, new)].into_iter().flatten().chain(narrowed_bounds(old, new)) {
            self.add(path, problem, ALLOW);
        }
        self.fields(old, new, path);
        if let (Some(old), Some(new)) = (old.get("items"), new.get("items")) {
            self.schema(old, new, &format!("{path}[]"));
        }
    }

    /// Compares the fields of an object.
    fn fields(&mut self, old: &Value, new: &Value, path: &str) {
        let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        let (former, current) = (properties(old), properties(new));
        let others = &new["additionalProperties"];
        let takes_others = new[UNKNOWN] == true || *others == true;
        for (name, former) in &former {
            match current.iter().find(|(it, _)| *it == *name) {
                Some((_, current)) => self.schema(former, current, &below(name)),
                None if others.is_object() => self.schema(former, others, &below(name)),
                None if takes_others || path.is_empty() && COMMON.contains(name) => {}
                None => self.add(
                    &below(name),
                    "the field is removed, and its values are lost".to_owned(),
                    KEEP_FIELD,
                ),
            }
        }
        match &old["additionalProperties"] {
            former if former.is_object() && others.is_object() => self.schema(former, others, &below("*")),
            former
                if (former.is_object() || *former == true || old[UNKNOWN] == true)
                    && !takes_others
                    && !others.is_object()
                    && (new["type"] == "object" || old[UNKNOWN] == true) =>
            {
                let problem = "fields of other names were kept, and are lost now".to_owned();
                self.add(path, problem, KEEP_FIELD);
            }
            _ => {}
        }
        let required = |schema: &Value| -> BTreeSet<String> {
            let names = schema["required"].as_array().into_iter().flatten();
            names.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let before = required(old);
        for name in required(new).into_iter().filter(|it| !before.contains(it)) {
            if new["properties"][&name].get("default").is_none() {
                let problem = "the field is required now, and stored objects may lack it".to_owned();
                self.add(&below(&name), problem, GIVE_DEFAULT);
            }
        }
    }
}

fn properties(schema: &Value) -> Vec<(&str, &Value)> {
    let fields = schema["properties"].as_object().into_iter().flat_map(Map::iter);
    fields.map(|(name, schema)| (name.as_str(), schema)).collect()
}

fn narrowed_type(old: &Value, new: &Value) -> Option<String> {
    let name = |schema: &Value| match schema["type"].as_str() {
        _ if schema[INT_OR_STRING] == true => Some("integer or string".to_owned()),
        name => name.map(str::to_owned),
    };
    let (was, is) = (name(old), name(new));
    let is_wider = match (was.as_deref(), is.as_deref()) {
        (_, None)
        | (Some("integer"), Some("number"))
        | (Some("integer" | "string"), Some("integer or string")) => true,
        (was, is) => was == is,
    };
    if !is_wider {
        let was = was.unwrap_or_else(|| "any".to_owned());
        return Some(format!("the type is {}, and was {was}", is.unwrap_or_default()));
    }
    (old["nullable"] == true && new["nullable"] != true).then(|| "null is no longer allowed".to_owned())
}

fn narrowed_enum(old: &Value, new: &Value) -> Option<String> {
    let allowed = new["enum"].as_array()?;
    let Some(before) = old["enum"].as_array() else {
        return Some(format!("only {} is allowed now, and any value was", listed(allowed.iter())));
    };
    let lost: Vec<&Value> = before.iter().filter(|it| !allowed.contains(it)).collect();
    (!lost.is_empty()).then(|| format!("{} is no longer allowed", listed(lost.into_iter())))
}

fn listed<'a>(values: impl Iterator<Item = &'a Value>) -> String {
    values.map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn narrowed_bounds(old: &Value, new: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let was = |value: &Value| if value.is_null() { "absent".to_owned() } else { value.to_string() };
    for (bound, is_lower) in BOUNDS {
        let (before, now) = (&old[bound], &new[bound]);
        let Some(limit) = now.as_f64() else {
            continue;
        };
        let is_void = is_lower && limit <= 0.0 && bound != "minimum";
        let is_stricter =
            before.as_f64().is_none_or(|before| if is_lower { limit > before } else { limit < before });
        let exclusive = if is_lower { "exclusiveMinimum" } else { "exclusiveMaximum" };
        let excludes = before == now && new[exclusive] == true && old[exclusive] != true;
        if excludes {
            found.push(format!("the value {now} itself is no longer allowed ({bound} is exclusive now)"));
        } else if is_stricter && !is_void {
            found.push(format!("{bound} is {now}, and was {}", was(before)));
        }
    }
    for keyword in CONDITIONS {
        let (before, now) = (&old[keyword], &new[keyword]);
        let forbids = match keyword {
            "format" => narrows_format(before, now),
            "anyOf" => !only_adds(before, now, |_| true),
            // A stored object matches none of the added alternatives, because it has no such field.
            "oneOf" => !only_adds(before, now, |it| {
                let name = &it["required"][0];
                *it == json!({"required": [name]}) && properties(old).iter().all(|(known, _)| name != known)
            }),
            _ => true,
        };
        if !now.is_null() && *now != false && before != now && forbids {
            found.push(format!("{keyword} is {now}, and was {}", was(before)));
        }
    }
    let list = "x-kubernetes-list-type";
    let is_set = new[list] == "set" || new[list] == "map";
    if is_set && old[list] != new[list] || new["uniqueItems"] == true && old["uniqueItems"] != true {
        found.push("equal items are no longer allowed".to_owned());
    }
    let before: Vec<&str> = rules(old).collect();
    // A rule about changes does not apply to the stored object.
    let added = rules(new).filter(|it| !before.contains(it) && !it.contains("oldSelf"));
    found.extend(added.map(|it| format!("the rule `{it}` is new")));
    found
}

/// Returns the rules in CEL.
fn rules(schema: &Value) -> impl Iterator<Item = &str> {
    let rules = schema[RULES].as_array().into_iter().flatten();
    rules.filter_map(|it| it["rule"].as_str())
}

/// Returns whether the new format refuses values of the old one. Of the formats of numbers, the API server checks `int32` and `float`.
fn narrows_format(old: &Value, new: &Value) -> bool {
    let old = old.as_str().unwrap_or_default();
    match new.as_str().unwrap_or_default() {
        "int32" => ["", "int64", "uint", "uint32", "uint64"].contains(&old),
        "float" => ["", "double"].contains(&old),
        new => !UNCHECKED_FORMATS.contains(&new),
    }
}

/// Returns whether the new list has all items of the old one, and beside them only allowed ones.
fn only_adds(old: &Value, new: &Value, is_allowed: impl Fn(&Value) -> bool) -> bool {
    let (Some(old), Some(new)) = (old.as_array(), new.as_array()) else {
        return false;
    };
    old.iter().all(|it| new.contains(it)) && new.iter().all(|it| old.contains(it) || is_allowed(it))
}

impl fmt::Display for Breakage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { definition, path, problem, remedy } = self;
        write!(f, "{definition}: {path}: {problem}; {remedy}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(versions: &Value) -> Value {
        json!({"metadata": {"name": "demos.example.com"}, "spec": {"scope": "Namespaced", "versions": versions}})
    }

    fn version(name: &str, size: &Value) -> Value {
        let schema = json!({"type": "object", "properties": {"size": size}});
        json!({"name": name, "served": true, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}})
    }

    /// Returns the paths and problems of a change of the field `size`.
    fn problems(old: &Value, new: &Value) -> Vec<String> {
        let [old, new] = [old, new].map(|it| definition(&json!([version("v1", it)])));
        let found = breakages(&old, &new).into_iter();
        let begins = "spec.versions[v1].schema ";
        found.map(|it| format!("{}: {}", it.path.strip_prefix(begins).unwrap(), it.problem)).collect()
    }

    #[test]
    fn changes_that_break_stored_objects_are_found() {
        let integer = || json!({"type": "integer"});
        let text = || json!({"type": "string"});
        let object = |fields: Value| json!({"type": "object", "properties": fields});
        for (old, new, expected) in [
            (integer(), text(), "size: the type is string, and was integer"),
            (json!({INT_OR_STRING: true}), integer(), "size: the type is integer, and was integer or string"),
            (json!({"type": "string", "nullable": true}), text(), "size: null is no longer allowed"),
            (
                json!({"type": "string", "enum": ["a", "b"]}),
                json!({"type": "string", "enum": ["a", "c"]}),
                "size: \"b\" is no longer allowed",
            ),
            (
                text(),
                json!({"type": "string", "enum": ["a"]}),
                "size: only \"a\" is allowed now, and any value was",
            ),
            (integer(), json!({"type": "integer", "minimum": 0}), "size: minimum is 0, and was absent"),
            (
                json!({"minimum": 0}),
                json!({"minimum": 0, "exclusiveMinimum": true}),
                "size: the value 0 itself is no longer allowed (minimum is exclusive now)",
            ),
            (json!({"maxLength": 9}), json!({"maxLength": 8}), "size: maxLength is 8, and was 9"),
            (json!({"pattern": "^a"}), json!({"pattern": "^b"}), "size: pattern is \"^b\", and was \"^a\""),
            (
                object(json!({"a": {}})),
                object(json!({})),
                "size.a: the field is removed, and its values are lost",
            ),
            (
                json!({"type": "object", UNKNOWN: true}),
                object(json!({})),
                "size: fields of other names were kept, and are lost now",
            ),
            (
                json!({"type": "array", "items": object(json!({"a": integer()}))}),
                json!({"type": "array", "items": object(json!({"a": text()}))}),
                "size[].a: the type is string, and was integer",
            ),
            (
                json!({"additionalProperties": integer()}),
                json!({"additionalProperties": text()}),
                "size.*: the type is string, and was integer",
            ),
            (
                object(json!({})),
                json!({"type": "object", "properties": {"a": {}}, "required": ["a"]}),
                "size.a: the field is required now, and stored objects may lack it",
            ),
            (
                json!({"type": "array"}),
                json!({"type": "array", "x-kubernetes-list-type": "set"}),
                "size: equal items are no longer allowed",
            ),
        ] {
            assert_eq!(problems(&old, &new), [expected], "{old} -> {new}");
        }
    }

    #[test]
    fn formats_rules_and_alternatives_that_forbid_more_are_found() {
        for (old, new, expected) in [
            (
                json!({"type": "integer", "format": "int64"}),
                json!({"type": "integer", "format": "int32"}),
                "size: format is \"int32\", and was \"int64\"",
            ),
            (
                json!({"type": "number"}),
                json!({"type": "number", "format": "float"}),
                "size: format is \"float\", and was absent",
            ),
            (
                json!({RULES: [{"rule": "self > 0"}]}),
                json!({RULES: [{"rule": "self > 1", "message": "m"}, {"rule": "self > 0"}]}),
                "size: the rule `self > 1` is new",
            ),
            (
                json!({"oneOf": [{"required": ["a"]}], "properties": {"a": {}, "b": {}}}),
                json!({"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {"a": {}, "b": {}}}),
                "size: oneOf is [{\"required\":[\"a\"]},{\"required\":[\"b\"]}], and was [{\"required\":[\"a\"]}]",
            ),
        ] {
            assert_eq!(problems(&old, &new), [expected], "{old} -> {new}");
        }
    }

    #[test]
    fn other_changes_are_allowed() {
        let with = |fields: Value| json!({"type": "object", "properties": fields});
        for (old, new) in [
            (json!({"type": "integer"}), json!({"type": "number", "format": "double"})),
            (json!({"type": "string"}), json!({INT_OR_STRING: true})),
            (
                json!({"type": "string", "enum": ["a"]}),
                json!({"type": "string", "enum": ["a", "b"], "minLength": 0}),
            ),
            (json!({"minimum": 1, "maximum": 3, "pattern": "a"}), json!({"minimum": 0})),
            (with(json!({})), with(json!({"a": {"type": "string"}}))),
            (with(json!({"a": {}})), json!({"type": "object", UNKNOWN: true})),
            (
                with(json!({})),
                json!({"type": "object", "properties": {"a": {"default": 1}}, "required": ["a"]}),
            ),
            (json!({"anyOf": [1]}), json!({"anyOf": [1, 2]})),
            // Another variant with data.
            (
                json!({"oneOf": [{"required": ["a"]}], "properties": {"a": {}}}),
                json!({"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {"a": {}, "b": {}}}),
            ),
            (json!({"format": "int32"}), json!({"format": "int64"})),
            (json!({"format": "uint8"}), json!({"format": "int32"})),
            (json!({"format": "float"}), json!({"format": "double"})),
            (json!({RULES: [{"rule": "self > 0"}]}), json!({RULES: [{"rule": "self > 0", "message": "m"}]})),
            // Applies to changes only.
            (json!({}), json!({RULES: [{"rule": "self == oldSelf"}]})),
        ] {
            assert_eq!(problems(&old, &new), [""; 0], "{old} -> {new}");
        }
    }

    #[test]
    fn versions_and_scope_are_compared() {
        let found = |old: &Value, new: &Value| {
            let found = breakages(old, new).into_iter();
            found.map(|it| format!("{}: {}", it.path, it.problem)).collect::<Vec<_>>()
        };
        let integer = json!({"type": "integer"});
        let [v1, v2] = ["v1", "v2"].map(|it| version(it, &integer));
        let old = definition(&json!([v1]));
        assert_eq!(
            found(&old, &definition(&json!([v2]))),
            ["spec.versions[v1]: the version is removed, although objects may be stored in it"]
        );
        assert_eq!(found(&definition(&json!([v1, v2])), &old), [""; 0]);
        let mut listed = definition(&json!([v1, v2]));
        listed["status"] = json!({"storedVersions": ["v1", "v2"]});
        assert_eq!(
            found(&listed, &old),
            ["spec.versions[v2]: the version is removed, although objects may be stored in it"]
        );
        let mut more = definition(&json!([v1, version("v2", &json!({"type": "string"}))]));
        let problem = "spec.versions[v2].schema (without a conversion from v1) size: the type is string, and was integer";
        assert_eq!(found(&old, &more), [problem]);
        more["spec"]["conversion"] = json!({"strategy": "Webhook"});
        assert_eq!(found(&old, &more), [""; 0]);
        let converted = more.clone();
        more["spec"]["conversion"] = json!({"strategy": "None"});
        let problems = ["v1", "v2"].map(|stored| {
            let mut former = converted.clone();
            former["status"] = json!({"storedVersions": [stored]});
            former["spec"]["versions"][0]["storage"] = false.into();
            found(&former, &more)
        });
        let other = "spec.versions[v1].schema (without a conversion from v2) size: the type is integer, and was string";
        assert_eq!(problems, [[problem], [other]]);
        // controller-gen writes the common fields.
        let mut generated = old.clone();
        for common in ["apiVersion", "kind", "metadata"] {
            let schema = &mut generated["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            schema["properties"][common] = json!({"type": "string"});
        }
        assert_eq!(found(&generated, &old), [""; 0]);
        let mut cluster = old.clone();
        cluster["spec"]["scope"] = "Cluster".into();
        let [found] = breakages(&old, &cluster).try_into().unwrap();
        let expected =
            format!("demos.example.com: spec.scope: it is \"Cluster\", and was \"Namespaced\"; {KEEP_SCOPE}");
        assert_eq!(found.to_string(), expected);
    }
}
