//! The values of a Helm chart: their defaults, and the schema that rejects invalid ones.
//!
//! Pure. This module does not know the templates.

use serde_json::{Value, json};

use crate::operator::settings::configuration::schema;

/// The defaults.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Values<'a> {
    pub(in crate::cli) image: &'a str,
    pub(in crate::cli) replicas: u16,
    /// True if several Pods share a Lease.
    pub(in crate::cli) shares_lease: bool,
    /// The requests and limits of the container.
    pub(in crate::cli) resources: Value,
    /// The namespaces that the operator serves, where none stands for all; `None` if the chart fixes them.
    pub(in crate::cli) namespaces: Option<Vec<String>>,
    /// The contents of the settings file.
    pub(in crate::cli) settings: Value,
}

impl Values<'_> {
    /// Returns each value with its name, its explanation and its schema.
    fn all(&self) -> Vec<(&'static str, &'static str, Value, Value)> {
        let replicas = if self.shares_lease {
            "The number of Pods."
        } else {
            "The number of Pods: 1, or 0 to stop the operator."
        };
        let quantity = json!({"type": "object", "additionalProperties": {"type": ["string", "number"]}});
        let resources = json!({
            "type": "object", "additionalProperties": false, "properties": {"requests": quantity, "limits": quantity},
        });
        let name = json!({"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"});
        let namespaces = json!({"type": "array", "uniqueItems": true, "items": name});
        let install = json!({"type": "object", "additionalProperties": false, "properties": {"install": {"type": "boolean"}}});
        let mut all = vec![
            (
                "image",
                "The image of the operator.",
                self.image.into(),
                json!({"type": "string", "minLength": 1}),
            ),
            ("replicas", replicas, self.replicas.into(), json!({"type": "integer", "minimum": 0})),
            ("resources", "The requests and limits of each Pod.", self.resources.clone(), resources),
        ];
        if let Some(names) = &self.namespaces {
            let text = "The namespaces that the operator serves, with a Role in each; none stands for all, with a ClusterRole.";
            all.push(("namespaces", text, json!(names), namespaces));
        }
        let text = "The settings file, such as {queueing: {worker_limit: 10}}.";
        all.push(("settings", text, self.settings.clone(), schema()));
        let text = "Whether the chart contains the definitions of the custom resources. They stay when the chart is uninstalled.";
        all.push(("crds", text, json!({"install": true}), install));
        all
    }

    /// Returns the text of `values.yaml`.
    pub(super) fn file(&self) -> Result<String, serde_saphyr::ser::Error> {
        let values = self.all().into_iter().map(|(name, text, value, _)| {
            let value = serde_saphyr::to_string(&json!({name: value}));
            value.map(|value| format!("\n# {text}\n{value}"))
        });
        values.collect()
    }

    /// Returns the JSON schema, with this comment.
    pub(super) fn schema(&self, comment: &str) -> Value {
        let properties = self.all().into_iter().map(|(name, text, _, mut schema)| {
            schema["description"] = text.into();
            (name.to_owned(), schema)
        });
        // Helm adds the values of a parent chart.
        let global = ("global".to_owned(), json!({"type": "object"}));
        json!({
            "$comment": comment,
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": properties.chain([global]).collect::<serde_json::Map<_, _>>(),
            "additionalProperties": false,
        })
    }
}
