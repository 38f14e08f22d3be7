//! Marks the values that must differ between two servers: uids, versions, times, generated names, ages, tokens.
//!
//! Leaves the rest of an answer unchanged. Must not know the meaning of answers beyond that.

use serde_json::{Map, Value};

/// Enclose a generated value. Two such values are matched instead of compared.
pub(super) const MARKS: [char; 2] = ['\u{2}', '\u{3}'];

/// Encloses generated values in [`MARKS`]; `generated` is the `generateName` prefix of the request, if any.
pub(super) fn marked(value: &Value, generated: Option<&str>) -> Value {
    Marker { generated }.value(value)
}

/// Does the same as [`marked`] for a text.
pub(super) fn marked_text(text: &str, generated: Option<&str>) -> String {
    Marker { generated }.text(text)
}

struct Marker<'a> {
    generated: Option<&'a str>,
}

/// Replaces a node port, which servers choose at random.
fn node_port(port: &serde_json::Number) -> Value {
    match port.as_i64() {
        Some(30_000..) => "<port>".into(),
        _ => port.clone().into(),
    }
}

/// Replaces the uid in a key; managed fields of owner references have such keys.
fn without_uid(key: &str) -> String {
    let start = key.find("\"uid\":\"").map(|at| at + 7);
    let uid = start.and_then(|at| Some((at, key.get(at..at + 36)?)));
    match uid.filter(|(_, uid)| is_uid(uid)) {
        Some((at, _)) => format!("{}<uid>{}", &key[..at], &key[at + 36..]),
        None => key.to_owned(),
    }
}

/// Replaces the address that a server allocated for a Service.
fn cluster_address(text: &str) -> String {
    match text {
        "" | "None" => text.to_owned(),
        _ => "<cluster address>".to_owned(),
    }
}

fn mark(kind: &str, text: &str) -> String {
    let [start, end] = MARKS;
    format!("{start}{kind} {text}{end}")
}

// === impl Marker ===

impl Marker<'_> {
    fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.text(text).into(),
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(map) => ordered(self.map(map)).into(),
            other => other.clone(),
        }
    }

    fn map(&self, map: &Map<String, Value>) -> Map<String, Value> {
        let is_list = map.contains_key("items") || map.contains_key("rows");
        let mut normal = Map::new();
        for (key, value) in map {
            let value = match (key.as_str(), value) {
                ("metadata", Value::Object(meta)) if is_list => list_meta(meta).into(),
                ("metadata", Value::Object(meta)) => self.meta(meta).into(),
                ("storageVersionHash", _) => "<hash>".into(),
                ("serverAddress", Value::String(text)) => mark("address", text).into(),
                ("clusterIP", Value::String(text)) => cluster_address(text).into(),
                ("clusterIPs", Value::Array(items)) => items
                    .iter()
                    .map(|item| {
                        item.as_str()
                            .map_or_else(|| item.clone(), |text| cluster_address(text).into())
                    })
                    .collect(),
                ("nodePort" | "healthCheckNodePort", Value::Number(port)) => node_port(port),
                ("cells", Value::Array(cells)) => {
                    cells.iter().map(|cell| self.cell(cell)).collect()
                }
                // A real server evaluates its role bindings in random order.
                ("resourceRules" | "nonResourceRules", Value::Array(rules)) => {
                    let mut rules = rules.clone();
                    rules.sort_by_key(Value::to_string);
                    rules.into()
                }
                // Servers order these by time in whole seconds, and two servers may cross a second at different writes.
                ("managedFields", Value::Array(entries)) => {
                    let mut entries: Vec<_> =
                        entries.iter().map(|entry| self.value(entry)).collect();
                    entries.sort_by_key(|entry| {
                        let part = |key: &str| entry[key].to_string();
                        ["manager", "operation", "subresource", "apiVersion"].map(part)
                    });
                    entries.into()
                }
                (_, value) => self.value(value),
            };
            normal.insert(without_uid(key), value);
        }
        normal
    }

    fn meta(&self, meta: &Map<String, Value>) -> Map<String, Value> {
        let generated = meta.get("generateName").and_then(Value::as_str);
        let mut normal = Marker {
            generated: generated.or(self.generated),
        }
        .map(meta);
        if let Some(version) = meta.get("resourceVersion").and_then(Value::as_str) {
            let is_bookmark = !meta.contains_key("uid");
            let name = if is_bookmark {
                "<version>".to_owned()
            } else {
                mark("version", version)
            };
            normal.insert("resourceVersion".to_owned(), name.into());
        }
        normal
    }

    fn cell(&self, cell: &Value) -> Value {
        match cell.as_str() {
            Some(text) if is_age(text) => "<age>".into(),
            _ => self.value(cell),
        }
    }

    fn text(&self, text: &str) -> String {
        if text.starts_with("Timeout: Too large resource version")
            || text.starts_with("too old resource version")
        {
            return digits_hidden(text);
        }
        if is_token(text) {
            return mark("token", text);
        }
        let mut normal = String::with_capacity(text.len());
        let mut rest = text;
        if let Some((start, version, end)) = precondition(text) {
            let mark = mark("version", version);
            return format!("{}{mark}{}", self.text(start), self.text(end));
        }
        while let Some(first) = rest.chars().next() {
            let (length, shown) = self
                .made_up(rest)
                .unwrap_or_else(|| (first.len_utf8(), first.to_string()));
            normal.push_str(&shown);
            rest = &rest[length..];
        }
        normal
    }

    /// Returns the length of a generated value at the start of a text, and its replacement.
    fn made_up(&self, rest: &str) -> Option<(usize, String)> {
        if let Some(uid) = rest.get(..36).filter(|found| is_uid(found)) {
            return Some((36, mark("uid", uid)));
        }
        // The server derives the name of this type from the current time.
        if let Some(number) = rest.strip_prefix("selfType") {
            let digits = number.find(|c: char| !c.is_ascii_digit());
            let length = "selfType".len() + digits.unwrap_or(number.len());
            return Some((length, "selfType<n>".to_owned()));
        }
        if let Some((name, version)) = printed_version(rest) {
            let shown = mark("version", version);
            return Some((name.len() + version.len(), format!("{name}{shown}")));
        }
        if let Some(length) = recent_time(rest) {
            return Some((length, "<time>".to_owned()));
        }
        let start = self.generated.filter(|start| !start.is_empty())?;
        let end = rest.strip_prefix(start)?.get(..5)?;
        let is_random = end
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        is_random.then(|| (start.len() + 5, mark("name", &rest[..start.len() + 5])))
    }
}

/// Splits a precondition error into the version and the text around it.
fn precondition(text: &str) -> Option<(&str, &str, &str)> {
    let words = [
        "ResourceVersion in the precondition (",
        "ResourceVersion in record (",
    ];
    let start = words
        .iter()
        .filter_map(|words| Some(text.find(words)? + words.len()))
        .min()?;
    let end = start + text[start..].find(')')?;
    Some((&text[..start], &text[start..end], &text[end..]))
}

/// Splits a `resourceVersion` key, escaped or not, and its number from a text that contains JSON.
fn printed_version(rest: &str) -> Option<(&str, &str)> {
    let tail = rest.strip_prefix("resourceVersion")?;
    let marks = tail.find(|c: char| !matches!(c, '\\' | '"' | ':'))?;
    let (name, version) = rest.split_at("resourceVersion".len() + marks);
    let digits = version.find(|c: char| !c.is_ascii_digit())?;
    (marks > 2 && digits > 0).then(|| (name, &version[..digits]))
}

/// Sorts the causes of a refusal by text and removes duplicates. The real server walks maps in random order and reports some causes several
/// times.
fn ordered(mut map: Map<String, Value>) -> Map<String, Value> {
    let Some(Value::Array(causes)) = map
        .get_mut("details")
        .and_then(|details| details.get_mut("causes"))
    else {
        return map;
    };
    if causes.len() < 2 {
        return map;
    }
    let mut lines: Vec<String> = Vec::new();
    for cause in &*causes {
        let text = |name: &str| cause[name].as_str().unwrap_or_default().to_owned();
        let line = format!("{}: {}", text("field"), text("message"));
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    causes.sort_by_key(Value::to_string);
    causes.dedup();
    let told = match lines.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    };
    if let Some(Value::String(message)) = map.get_mut("message")
        && let Some(start) = message.strip_suffix(&told)
    {
        *message = format!("{start}<the causes>");
    }
    map
}

fn list_meta(meta: &Map<String, Value>) -> Map<String, Value> {
    let hide = |(key, value): (&String, &Value)| match key.as_str() {
        "resourceVersion" | "continue" if value != "" => (key.clone(), format!("<{key}>").into()),
        _ => (key.clone(), value.clone()),
    };
    meta.iter().map(hide).collect()
}

fn digits_hidden(text: &str) -> String {
    let mut hidden = String::new();
    for c in text.chars() {
        match c {
            '0'..='9' if hidden.ends_with('#') => {}
            '0'..='9' => hidden.push('#'),
            other => hidden.push(other),
        }
    }
    hidden
}

/// Returns whether a text is a signed token of a service account.
fn is_token(text: &str) -> bool {
    text.starts_with("eyJ") && text.matches('.').count() == 2 && !text.contains(' ')
}

fn is_age(text: &str) -> bool {
    let Some(number) = text.strip_suffix(['s', 'm']) else {
        return false;
    };
    !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
}

fn is_uid(text: &str) -> bool {
    text.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        14 => byte == b'4',
        _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
    })
}

/// Returns the length of a recent timestamp at the start of a text; older timestamps are test data.
fn recent_time(text: &str) -> Option<usize> {
    let day = text.get(..10)?;
    if !day.starts_with("20") || text.as_bytes()[4] != b'-' {
        return None;
    }
    let end = text.get(..40).unwrap_or(text).find('Z')? + 1;
    let time: jiff::Timestamp = text[..end].parse().ok()?;
    let distance = jiff::Timestamp::now().duration_since(time);
    (distance.abs().as_hours() < 24).then_some(end)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_servers_make_up_is_marked() {
        let uid = "0b2f9b54-1a52-4c2e-9d9e-0a3c2f1b7a11";
        let now = jiff::Timestamp::now().to_string();
        let object = json!({
            "metadata": {"uid": uid, "resourceVersion": "7", "generateName": "a-", "name": "a-x7k2p", "creationTimestamp": now},
            "text": format!("uid {uid}, at 2020-01-01T00:00:00Z"),
            "quoted": r#"{\"resourceVersion\":\"12\"}"#,
        });
        let expected = json!({
            "metadata": {
                "uid": mark("uid", uid), "resourceVersion": mark("version", "7"), "generateName": "a-",
                "name": mark("name", "a-x7k2p"), "creationTimestamp": "<time>",
            },
            "text": format!("uid {}, at 2020-01-01T00:00:00Z", mark("uid", uid)),
            "quoted": format!(r#"{{\"resourceVersion\":\"{}\"}}"#, mark("version", "12")),
        });
        assert_eq!(marked(&object, None), expected);
    }
}
