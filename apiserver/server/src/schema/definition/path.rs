//! Resolves paths into a schema, such as `.spec.names['a']`.
//!
//! Errors match the real server. Independent of values.

use serde_json::Value;

/// Returns the normalized path and the schema that it leads to, or the reason why it leads nowhere.
pub(crate) fn find<'a>(
    path: &str,
    schema: &'a Value,
    in_brackets: bool,
) -> Result<(String, &'a Value), String> {
    let mut tokens = tokens(path).into_iter();
    let (mut found, mut normal) = (schema, String::new());
    let ended = || "unexpected end of JSON path".to_owned();
    while let Some(token) = tokens.next() {
        let name = match token.as_str() {
            "." => tokens.next().ok_or_else(ended)?,
            "[" if !in_brackets => return Err("array notation is not allowed".to_owned()),
            "[" => quoted(&tokens.next().ok_or_else(ended)?)?,
            other => return Err(format!("expected [ or . but got: {other}")),
        };
        found = step(found, &name, &mut normal)?;
        if token == "[" {
            match tokens.next().ok_or_else(ended)?.as_str() {
                "]" => {}
                other => return Err(format!("expected ] but got {other}")),
            }
        }
    }
    Ok((normal, found))
}

fn step<'a>(schema: &'a Value, name: &str, normal: &mut String) -> Result<&'a Value, String> {
    let nowhere = || "does not refer to a valid field".to_owned();
    let properties = schema.get("properties").and_then(Value::as_object);
    if let Some(properties) = properties.filter(|found| !found.is_empty()) {
        if !normal.is_empty() {
            normal.push('.');
        }
        normal.push_str(name);
        return properties.get(name).ok_or_else(nowhere);
    }
    normal.extend(["[", name, "]"]);
    schema
        .get("additionalProperties")
        .filter(|extra| extra.is_object())
        .ok_or_else(nowhere)
}

fn quoted(token: &str) -> Result<String, String> {
    let inner = token
        .strip_prefix('\'')
        .and_then(|token| token.strip_suffix('\''));
    let inner = inner.ok_or_else(|| format!("expected single quoted string but got {token}"))?;
    Ok(inner.replace("\\'", "'").replace("\\\\", "\\"))
}

/// Splits a path into dots, brackets and the names between them; quotes protect dots and brackets.
fn tokens(path: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut in_quotes = false;
    for letter in path.chars() {
        let ends_quotes = in_quotes && letter == '\'' && !word.ends_with('\\');
        if word.is_empty() && letter == '\'' {
            in_quotes = true;
        }
        if in_quotes || !matches!(letter, '.' | '[' | ']') {
            word.push(letter);
        } else {
            tokens.extend(Some(std::mem::take(&mut word)).filter(|word| !word.is_empty()));
            tokens.push(letter.to_string());
        }
        if ends_quotes {
            in_quotes = false;
            tokens.push(std::mem::take(&mut word));
        }
    }
    tokens.extend(Some(word).filter(|word| !word.is_empty()));
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_by_table() {
        let schema = json!({"properties": {"spec": {"properties": {
            "a": {"type": "string"}, "m": {"additionalProperties": {"type": "integer"}},
        }}}});
        for (path, expected) in [
            (".spec.a", Ok("spec.a")),
            (".spec['a']", Ok("spec.a")),
            (".spec.m['k.l']", Ok("spec.m[k.l]")),
            (".spec.z", Err("does not refer to a valid field")),
            ("spec.a", Err("expected [ or . but got: spec")),
            (".", Err("unexpected end of JSON path")),
            (".spec[0]", Err("expected single quoted string but got 0")),
        ] {
            let found = find(path, &schema, true).map(|(normal, _)| normal);
            assert_eq!(
                found,
                expected.map(str::to_owned).map_err(str::to_owned),
                "{path}"
            );
        }
    }
}
