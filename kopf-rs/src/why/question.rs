//! The question to explain: the object, and a hypothetical change.

use serde_json::{Map, Value};

use crate::object::path::FieldPath;

/// A question about one object: why the operator does not handle it, or which event the object waits for.
///
/// ```
/// use kopf_rs::WhyQuestion;
///
/// let question = WhyQuestion::parse("widgets/mine")?.namespace("team").if_changed("spec.size=3")?;
/// # Ok::<(), kopf_rs::BadQuestion>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct WhyQuestion {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
    pub(crate) changes: Vec<(FieldPath, Value)>,
    /// The liveness endpoint of the running operator.
    pub(crate) endpoint: Option<String>,
}

/// An invalid question; the text describes the expected form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadQuestion(String);

impl WhyQuestion {
    /// Asks about an object in kubectl's notation: `KIND/NAME`, such as `widgets/mine` or `widgets.example.com/mine`,
    /// or with its namespace, `KIND/NAMESPACE/NAME`.
    ///
    /// # Errors
    /// Returns an error if the text has another form.
    pub fn parse(object: &str) -> Result<Self, BadQuestion> {
        let parts: Vec<&str> = object.split('/').collect();
        let (kind, namespace, name) = match parts[..] {
            [kind, name] => (kind, None, name),
            [kind, namespace, name] => (kind, Some(namespace), name),
            _ => ("", None, ""),
        };
        if [kind, name].contains(&"") || namespace == Some("") {
            return Err(BadQuestion(format!(
                "`{object}` is no object: expected KIND/NAME, such as widgets/mine, or KIND/NAMESPACE/NAME"
            )));
        }
        Ok(Self {
            kind: kind.to_owned(),
            name: name.to_owned(),
            namespace: namespace.map(str::to_owned),
            changes: Vec::new(),
            endpoint: None,
        })
    }

    /// Sets the namespace of the object.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Also asks the running operator: sets the URL of its liveness endpoint as reachable from this machine, such as
    /// `http://127.0.0.1:8080/healthz`. The operator answers only requests from its own machine or through
    /// `kubectl port-forward`. By default, it is not asked.
    #[must_use]
    pub fn endpoint(mut self, url: impl Into<String>) -> Self {
        self.endpoint = Some(url.into());
        self
    }

    /// Asks which handlers a change would call: `FIELD=VALUE`, where the value is JSON or text. Call it again for
    /// further changes.
    ///
    /// # Errors
    /// Returns an error if the text has another form.
    pub fn if_changed(mut self, change: &str) -> Result<Self, BadQuestion> {
        let Some((path, value)) = change.split_once('=').filter(|(path, _)| !path.is_empty()) else {
            return Err(BadQuestion(format!(
                "`{change}` is no change: expected FIELD=VALUE, such as spec.size=3"
            )));
        };
        let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
        self.changes.push((FieldPath::parse(path), value));
        Ok(self)
    }

    /// Returns the object with all changes.
    pub(crate) fn changed(&self, object: &Value) -> Value {
        let mut changed = object.clone();
        for (path, value) in &self.changes {
            put(&mut changed, path.parts(), value);
        }
        changed
    }
}

fn put(at: &mut Value, path: &[String], value: &Value) {
    let Some((first, rest)) = path.split_first() else {
        *at = value.clone();
        return;
    };
    if !at.is_object() {
        *at = Value::Object(Map::new());
    }
    if let Some(object) = at.as_object_mut() {
        put(object.entry(first.clone()).or_insert(Value::Null), rest, value);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_and_changes_are_read() {
        let question = WhyQuestion::parse("widgets.example.com/mine").unwrap();
        assert_eq!((&*question.kind, &*question.name), ("widgets.example.com", "mine"));
        let question = question.if_changed("spec.size=3").unwrap();
        let question = question.if_changed("metadata.labels.a=b").unwrap();
        let changed = question.changed(&json!({"spec": {"size": 1, "x": 1}, "metadata": 1}));
        let expected = json!({"spec": {"size": 3, "x": 1}, "metadata": {"labels": {"a": "b"}}});
        assert_eq!(changed, expected);
        let with_namespace = WhyQuestion::parse("widgets/team/mine").unwrap();
        assert_eq!((with_namespace.namespace.as_deref(), &*with_namespace.name), (Some("team"), "mine"));
        for wrong in ["widgets", "/a", "a/", "a//c", "a/b/c/d", ""] {
            assert!(WhyQuestion::parse(wrong).is_err(), "{wrong}");
        }
        assert!(question.clone().if_changed("spec.size").is_err());
        assert!(question.if_changed("=3").is_err());
    }
}
