//! Compares the conversion settings in the definition of a kind with the desired ones.
//!
//! This module does not know how the definition is written.

use serde_json::{Value, json};

/// Returns the versions in which objects are served or stored. Each must be reachable from each other one.
pub(crate) fn versions(definition: &Value) -> Vec<&str> {
    let stored = definition["status"]["storedVersions"].as_array();
    let stored: Vec<_> = stored.into_iter().flatten().filter_map(Value::as_str).collect();
    let all = definition["spec"]["versions"].as_array();
    let versions = all.into_iter().flatten().filter_map(|version| {
        let name = version["name"].as_str()?;
        let counts = version["served"] == true || version["storage"] == true;
        (counts || stored.contains(&name)).then_some(name)
    });
    versions.collect()
}

/// The version in which objects are to be stored, while some may be stored in another one and must be rewritten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Migration {
    /// The identity of the definition: after a change of the definition, it is another migration.
    uid: String,
    generation: Option<i64>,
    pub(crate) version: String,
    /// The other versions.
    pub(crate) from: Vec<String>,
}

/// Returns the migration if objects must be rewritten.
pub(crate) fn migration(definition: &Value) -> Option<Migration> {
    let versions = definition["spec"]["versions"].as_array()?;
    let storage = versions.iter().find(|it| it["storage"] == true)?;
    let version = storage["name"].as_str()?;
    let stored = definition["status"]["storedVersions"].as_array()?;
    let others = stored.iter().filter_map(Value::as_str);
    let from: Vec<_> = others.filter(|it| *it != version).collect();
    let metadata = &definition["metadata"];
    (!from.is_empty()).then(|| Migration {
        uid: metadata["uid"].as_str().unwrap_or_default().to_owned(),
        generation: metadata["generation"].as_i64(),
        version: version.to_owned(),
        from: from.into_iter().map(str::to_owned).collect(),
    })
}

/// Returns true if the cluster itself is rewriting the objects.
pub(crate) fn migrates_by_itself(definition: &Value) -> bool {
    let conditions = definition["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|it| it["type"] == "StorageMigrating" && it["status"] == "True")
}

/// Returns the conversion settings for a webhook with this `clientConfig`.
pub(crate) fn conversion(client: &Value) -> Value {
    json!({
        "strategy": "Webhook",
        "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client},
    })
}

/// Returns true if a definition already has these settings.
pub(crate) fn says(definition: &Value, wanted: &Value) -> bool {
    let found = &definition["spec"]["conversion"];
    let (webhook, wanted) = (&found["webhook"], &wanted["webhook"]);
    let (client, wanted_client) = (&webhook["clientConfig"], &wanted["clientConfig"]);
    let mut service = client["service"].clone();
    if service.is_object() && service["port"].is_null() {
        service["port"] = json!(443);
    }
    found["strategy"] == "Webhook"
        && webhook["conversionReviewVersions"] == wanted["conversionReviewVersions"]
        && client["caBundle"] == wanted_client["caBundle"]
        && client["url"] == wanted_client["url"]
        && service == wanted_client["service"]
}

/// Returns the merge patch to the desired settings, bound to the version that was read.
pub(crate) fn merge(definition: &Value, wanted: &Value) -> Value {
    let mut wanted = wanted.clone();
    // Only one of the addresses may be present, so the others are removed.
    for name in ["url", "service", "caBundle"] {
        let client = &mut wanted["webhook"]["clientConfig"];
        if client[name].is_null() {
            client[name] = Value::Null;
        }
    }
    json!({
        "metadata": {
            "uid": definition["metadata"]["uid"],
            "resourceVersion": definition["metadata"]["resourceVersion"],
        },
        "spec": {"conversion": wanted},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_that_objects_may_be_in() {
        let definition = json!({
            "spec": {"versions": [
                {"name": "v1", "served": true, "storage": true},
                {"name": "v1beta1", "served": true, "storage": false},
                {"name": "v1alpha2", "served": false, "storage": false},
                {"name": "v1alpha1", "served": false, "storage": false},
            ]},
            "status": {"storedVersions": ["v1alpha1", "v1"]},
        });
        assert_eq!(versions(&definition), ["v1", "v1beta1", "v1alpha1"]);
        assert_eq!(versions(&json!({})), [""; 0]);
    }

    #[test]
    fn objects_are_written_again_where_some_may_be_in_another_version() {
        let definition = |stored: Value| {
            json!({
                "metadata": {"uid": "u", "generation": 3},
                "spec": {"versions": [{"name": "v1alpha1"}, {"name": "v1", "storage": true}]},
                "status": {"storedVersions": stored, "conditions": [{"type": "StorageMigrating", "status": "False"}]},
            })
        };
        let found = migration(&definition(json!(["v1alpha1", "v1"]))).unwrap();
        assert_eq!((found.version.as_str(), &found.from[..]), ("v1", &["v1alpha1".to_owned()][..]));
        assert_eq!(migration(&definition(json!(["v1"]))), None);
        assert_eq!(migration(&json!({})), None);
        let mut changed = definition(json!(["v1alpha1", "v1"]));
        assert!(!migrates_by_itself(&changed));
        changed["metadata"]["generation"] = json!(4);
        changed["status"]["conditions"][0]["status"] = json!("True");
        assert_ne!(migration(&changed), Some(found));
        assert!(migrates_by_itself(&changed));
    }

    #[test]
    fn a_definition_with_other_settings_is_written() {
        let service = |port: Value| json!({"namespace": "n", "name": "s", "path": "/p", "port": port});
        let wanted = conversion(&json!({"service": service(json!(443)), "caBundle": "QQ=="}));
        let saying = |conversion: Value| json!({"metadata": {"uid": "u", "resourceVersion": "7"}, "spec": {"conversion": conversion}});
        assert!(says(&saying(wanted.clone()), &wanted));
        let mut defaulted = wanted.clone();
        defaulted["webhook"]["clientConfig"]["service"] = service(Value::Null);
        assert!(says(&saying(defaulted), &wanted));
        for other in [
            json!({"strategy": "None"}),
            Value::Null,
            conversion(&json!({"service": service(json!(443)), "caBundle": "QUE="})),
            conversion(&json!({"service": service(json!(8443)), "caBundle": "QQ=="})),
            conversion(&json!({"url": "https://a", "caBundle": "QQ=="})),
        ] {
            let found = saying(other);
            assert!(!says(&found, &wanted), "{found}");
            let merge = merge(&found, &wanted);
            assert_eq!(merge["metadata"]["resourceVersion"], "7");
            let client = &merge["spec"]["conversion"]["webhook"]["clientConfig"];
            assert_eq!(client.get("url"), Some(&Value::Null));
        }
    }
}
