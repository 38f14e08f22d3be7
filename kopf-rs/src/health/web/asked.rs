//! The object that a request asks about, from the query of its URL.

/// The maximum length of each part of an object's name.
pub(super) const LONGEST: usize = 253;

/// The object that a request asks about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AskedObject {
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

impl AskedObject {
    pub(super) fn parse(query: &str) -> Self {
        let mut asked = Self::default();
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            let value = value.trim().to_owned();
            match &*key {
                "kind" => asked.kind = value,
                "namespace" => asked.namespace = value,
                "name" => asked.name = value,
                _ => {}
            }
        }
        asked
    }

    /// Returns the object in kubectl's notation.
    pub(super) fn notation(&self) -> Result<String, &'static str> {
        let Self { kind, namespace, name } = self;
        if kind.is_empty() || name.is_empty() {
            return Err("expected a kind and a name, such as `pods` and `my-pod`");
        }
        let is_of_a_name = |it: char| it.is_ascii_alphanumeric() || "-._:".contains(it);
        let is_step = |it: &String| it == "." || it == "..";
        let is_name = |it: &String| it.len() <= LONGEST && it.chars().all(is_of_a_name) && !is_step(it);
        if ![kind, namespace, name].into_iter().all(is_name) {
            return Err(
                "expected letters, digits, dashes, points and colons in the kind, the namespace and the name",
            );
        }
        Ok(if namespace.is_empty() { format!("{kind}/{name}") } else { format!("{kind}/{namespace}/{name}") })
    }
}
