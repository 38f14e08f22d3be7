//! Finds the last writer of the object in its `managedFields`.

use std::fmt;

use serde_json::Value;

/// The last write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LastWrite {
    pub(crate) manager: String,
    /// With a resolution of one second, as the server stores it.
    pub(crate) time: String,
    pub(crate) subresource: Option<String>,
}

/// Returns the last write by a field manager other than `own`. If several writes fall within the same second, the last in the
/// list wins.
pub(crate) fn last_write(managed: &Value, own: &str) -> Option<LastWrite> {
    let entries = managed.as_array()?;
    let of_others = entries.iter().filter(|it| it["manager"] != own);
    let text = |entry: &Value, key: &str| entry[key].as_str().map(str::to_owned);
    let writes = of_others.filter_map(|entry| {
        Some(LastWrite {
            manager: text(entry, "manager")?,
            time: text(entry, "time")?,
            subresource: text(entry, "subresource").filter(|it| !it.is_empty()),
        })
    });
    writes.max_by(|a, b| a.time.cmp(&b.time))
}

impl fmt::Display for LastWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { manager, time, .. } = self;
        match &self.subresource {
            Some(part) => write!(f, "{manager} has written its {part} at {time}"),
            None => write!(f, "{manager} has written it at {time}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_foreign_write_counts() {
        let managed = json!([
            {"manager": "kubectl", "time": "2026-01-01T00:00:01Z"},
            {"manager": "scaler", "time": "2026-01-01T00:00:03Z", "subresource": "status"},
            {"manager": "op", "time": "2026-01-01T00:00:09Z"},
        ]);
        let write = last_write(&managed, "op").unwrap();
        assert_eq!(write.to_string(), "scaler has written its status at 2026-01-01T00:00:03Z");
        assert_eq!(last_write(&Value::Null, "op"), None);
    }
}
