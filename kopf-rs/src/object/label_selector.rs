//! Validates label and field selectors by the server's syntax, so that mistakes show before a request is sent.
//!
//! This module must not depend on the objects.

/// Checks a label selector, such as `app=web,tier in (a, b),!test`.
pub(crate) fn check_label_selector(text: &str) -> Result<(), String> {
    for requirement in requirements(text)? {
        check_requirement(requirement.trim())?;
    }
    Ok(())
}

/// Checks a field selector, such as `metadata.namespace!=kube-system,spec.nodeName=a`.
pub(crate) fn check_field_selector(text: &str) -> Result<(), String> {
    for term in text.split(',') {
        let (path, _) = term.split_once('=').ok_or_else(|| {
            format!("`{term}` has no `=`: expected `field.path=value` or `field.path!=value`")
        })?;
        let path = path.trim_end_matches('!').trim();
        let is_part = |part: &str| !part.is_empty() && !part.contains(char::is_whitespace);
        if !path.split('.').all(is_part) {
            return Err(format!("`{path}` is not the path of a field, such as `metadata.name`"));
        }
    }
    Ok(())
}

/// Returns true for a valid label name: `name` or `example.com/name`.
pub(crate) fn is_label_key(key: &str) -> bool {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(it, name)| (Some(it), name));
    let is_prefix = |prefix: &str| {
        let is_part = |part: &str| {
            let is_letter = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-';
            part.bytes().all(is_letter) && has_word_ends(part)
        };
        prefix.len() <= 253 && prefix.split('.').all(is_part)
    };
    prefix.is_none_or(is_prefix) && !name.is_empty() && is_label_value(name)
}

/// Returns true for a valid label value.
pub(crate) fn is_label_value(value: &str) -> bool {
    let is_letter = |it: u8| it.is_ascii_alphanumeric() || b"-_.".contains(&it);
    value.is_empty() || value.len() <= 63 && value.bytes().all(is_letter) && has_word_ends(value)
}

fn has_word_ends(text: &str) -> bool {
    let is_word = |it: Option<&u8>| it.is_some_and(u8::is_ascii_alphanumeric);
    is_word(text.as_bytes().first()) && is_word(text.as_bytes().last())
}

/// Splits the text at commas outside of brackets.
fn requirements(text: &str) -> Result<Vec<&str>, String> {
    let (mut parts, mut start, mut is_within) = (Vec::new(), 0, false);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' if is_within => return Err("there is a bracket within brackets".to_owned()),
            '(' => is_within = true,
            ')' if !is_within => return Err("a bracket is closed that was not opened".to_owned()),
            ')' => is_within = false,
            ',' if !is_within => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if is_within {
        return Err("a bracket is not closed".to_owned());
    }
    parts.push(&text[start..]);
    Ok(parts)
}

fn check_requirement(text: &str) -> Result<(), String> {
    if let Some(key) = text.strip_prefix('!') {
        return check_key(key.trim());
    }
    if let Some((before, values)) = text.split_once('(') {
        let values = values.strip_suffix(')');
        let values = values.ok_or_else(|| format!("`{text}` goes on after its brackets"))?;
        let words: Vec<&str> = before.split_whitespace().collect();
        let [key, "in" | "notin"] = words[..] else {
            return Err(format!(
                "`{before}` is not followed by values in brackets: expected `key in (a, b)` or `key notin (a, b)`"
            ));
        };
        check_key(key)?;
        return values.split(',').try_for_each(|value| check_value(value.trim()));
    }
    for operator in ["!=", "==", "="] {
        if let Some((key, value)) = text.split_once(operator) {
            check_key(key.trim())?;
            return check_value(value.trim());
        }
    }
    for operator in ['>', '<'] {
        if let Some((key, value)) = text.split_once(operator) {
            check_key(key.trim())?;
            let is_number = value.trim().parse::<i64>().is_ok();
            return is_number
                .then_some(())
                .ok_or_else(|| format!("`{}` is not a whole number", value.trim()));
        }
    }
    check_key(text)
}

fn check_key(key: &str) -> Result<(), String> {
    if is_label_key(key) {
        return Ok(());
    }
    Err(format!("`{key}` is not the name of a label, such as `app` or `example.com/app`"))
}

fn check_value(value: &str) -> Result<(), String> {
    if is_label_value(value) {
        return Ok(());
    }
    Err(format!(
        "`{value}` is not the value of a label: expected at most 63 letters, digits, dashes, underscores and dots"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_selectors_that_servers_take() {
        for selector in [
            "app",
            "!app",
            "app=web",
            "app==web",
            "app != web",
            "app=",
            "example.com/app in (a, b),tier notin (x),!test",
            "age>5",
            "a.b-c_d=E.F",
        ] {
            assert_eq!(check_label_selector(selector), Ok(()), "{selector}");
        }
    }

    #[test]
    fn label_selectors_that_servers_refuse() {
        for (selector, part) in [
            ("", "`` is not the name of a label"),
            ("app=web,", "`` is not the name of a label"),
            ("app=(x", "a bracket is not closed"),
            ("app)", "not opened"),
            ("app in (a))", "not opened"),
            ("app within (a)", "expected `key in (a, b)`"),
            ("app in (a) b", "goes on after its brackets"),
            ("app=a b", "`a b` is not the value of a label"),
            ("-app=a", "`-app` is not the name of a label"),
            ("Example.com/app", "is not the name of a label"),
            ("age>old", "`old` is not a whole number"),
        ] {
            let refused = check_label_selector(selector).unwrap_err();
            assert!(refused.contains(part), "{selector}: {refused}");
        }
    }

    #[test]
    fn field_selectors() {
        assert_eq!(check_field_selector("metadata.name=x,status.phase!=Running"), Ok(()));
        for wrong in ["", "metadata.name", "=x", "a..b=c", "a b=c"] {
            assert!(check_field_selector(wrong).is_err(), "{wrong}");
        }
    }
}
