//! Unites the definitions of the versions of each kind.
//!
//! Pure. Must not know where the definitions come from.

use serde_json::Value;

use crate::operator::run::OperatorError;

/// Returns the definition of each kind with all of its versions. The input names the Rust type of each definition; the first version of a
/// kind is its storage version.
///
/// # Errors
///
/// Returns an error if two types define the same version of a kind differently, because only one of them could be installed.
pub(crate) fn united(
    definitions: impl Iterator<Item = (&'static str, Value)>,
) -> Result<Vec<Value>, OperatorError> {
    let mut single: Vec<(&str, Value)> = Vec::new();
    let mut all: Vec<Value> = Vec::new();
    for (of, definition) in definitions {
        let version = |it: &Value| it["spec"]["versions"][0]["name"].clone();
        let is_same_version =
            |it: &Value| is_of_one_kind(it, &definition) && version(it) == version(&definition);
        if let Some((other, known)) = single.iter().find(|(_, it)| is_same_version(it)) {
            if *known == definition {
                continue;
            }
            let name = &definition["metadata"]["name"];
            return Err(OperatorError::Manifests(format!(
                "the types {other} and {of} define the version {} of {name} differently: expected one type, which all handlers of the kind name",
                version(&definition)
            )));
        }
        match all.iter_mut().find(|it| is_of_one_kind(it, &definition)) {
            Some(known) => add_versions(known, &definition),
            None => all.push(definition.clone()),
        }
        single.push((of, definition));
    }
    Ok(all)
}

/// Returns whether these are definitions of the same kind, maybe with other versions.
fn is_of_one_kind(one: &Value, other: &Value) -> bool {
    let kind = |it: &Value| it["spec"]["names"]["kind"].clone();
    one["metadata"]["name"] == other["metadata"]["name"] && kind(one) == kind(other)
}

/// Returns an error if definitions of two kinds have the same name.
pub(crate) fn check_names(definitions: &[Value]) -> Result<(), OperatorError> {
    for (at, one) in definitions.iter().enumerate() {
        let is_same = |it: &&Value| it["metadata"]["name"] == one["metadata"]["name"];
        let mut others = definitions[at + 1..].iter().filter(is_same);
        if let Some(other) = others.find(|it| !is_of_one_kind(one, it)) {
            let [name, kind, other] =
                [&one["metadata"]["name"], &one["spec"]["names"]["kind"], &other["spec"]["names"]["kind"]];
            return Err(OperatorError::Manifests(format!(
                "the kinds {kind} and {other} are both called {name}: expected different plurals, such as `#[kube(plural = \"others\")]`"
            )));
        }
    }
    Ok(())
}

/// Adds the versions of another definition.
fn add_versions(known: &mut Value, other: &Value) {
    let versions = other["spec"]["versions"].as_array().into_iter().flatten();
    let Some(all) = known["spec"]["versions"].as_array_mut() else {
        return;
    };
    for version in versions {
        let mut version = version.clone();
        version["storage"] = false.into();
        all.push(version);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(kind: &str, version: &str, field: &str) -> Value {
        json!({
            "metadata": {"name": "votes.example.com"},
            "spec": {"names": {"kind": kind}, "versions": [{"name": version, "storage": true, "schema": field}]},
        })
    }

    #[test]
    fn two_kinds_need_two_names() {
        assert!(check_names(&[definition("Vote", "v1", "a"), definition("Vote", "v2", "a")]).is_ok());
        let refused =
            check_names(&[definition("Vote", "v1", "a"), definition("Voting", "v1", "a")]).unwrap_err();
        let expected = "the kinds \"Vote\" and \"Voting\" are both called \"votes.example.com\"";
        assert!(refused.to_string().contains(expected), "{refused}");
    }

    #[test]
    fn a_version_has_one_definition() {
        let v1 = || ("crate::Vote", definition("Vote", "v1", "a"));
        let all = united([v1(), ("v2::Vote", definition("Vote", "v2", "b")), v1()].into_iter()).unwrap();
        let stored =
            all[0]["spec"]["versions"].as_array().unwrap().iter().map(|it| (&it["name"], &it["storage"]));
        let expected = [(&json!("v1"), &json!(true)), (&json!("v2"), &json!(false))];
        assert_eq!((all.len(), stored.collect::<Vec<_>>()), (1, expected.to_vec()));
        let refused = united([v1(), ("old::Vote", definition("Vote", "v1", "b"))].into_iter()).unwrap_err();
        let expected = "the types crate::Vote and old::Vote define the version \"v1\" of \"votes.example.com\" differently";
        assert!(refused.to_string().contains(expected), "{refused}");
    }
}
