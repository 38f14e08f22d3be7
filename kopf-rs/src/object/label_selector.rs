//! Validates label and field selectors by the server's syntax, so that mistakes show before a request is sent.
//!
//! This module must not depend on the objects.

use crate::object::labels::Labels;

/// A label selector, such as `app=web,tier in (a, b),!test`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LabelSelector(Vec<Requirement>);

/// One condition on a label.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    condition: Condition,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Condition {
    Present,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
    Above(i64),
    Below(i64),
}

impl LabelSelector {
    /// Parses the server's notation. An empty text selects everything, as on the server.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Self(Vec::new()));
        }
        let parsed = requirements(text)?.into_iter().map(|it| Requirement::parse(it.trim()));
        parsed.collect::<Result<_, _>>().map(Self)
    }

    /// Returns whether an object with these labels is selected.
    pub(crate) fn selects(&self, labels: &Labels) -> bool {
        self.0.iter().all(|it| it.condition.accepts(labels.get(&it.key)))
    }
}

impl Condition {
    fn accepts(&self, value: Option<&str>) -> bool {
        let is_one_of = |values: &[String]| value.is_some_and(|value| values.iter().any(|it| it == value));
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::Present => value.is_some(),
            Self::Absent => value.is_none(),
            Self::In(values) => is_one_of(values),
            Self::NotIn(values) => !is_one_of(values),
            Self::Above(bound) => number().is_some_and(|number| number > *bound),
            Self::Below(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

/// Checks a label selector, such as `app=web,tier in (a, b),!test`, which must select by something.
pub(crate) fn check_label_selector(text: &str) -> Result<(), String> {
    if LabelSelector::parse(text)?.0.is_empty() {
        return Err("it is empty: expected a label selector, such as `app=web`".to_owned());
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

impl Requirement {
    fn parse(text: &str) -> Result<Self, String> {
        if let Some(key) = text.strip_prefix('!') {
            return Self::of(key, Condition::Absent);
        }
        if let Some((before, values)) = text.split_once('(') {
            let values = values.strip_suffix(')');
            let values = values.ok_or_else(|| {
                format!("`{text}` has text after the closing parenthesis: expected `key in (a, b)`")
            })?;
            let words: Vec<&str> = before.split_whitespace().collect();
            let [key, operator @ ("in" | "notin")] = words[..] else {
                return Err(format!(
                    "`{before}` cannot stand before parentheses: expected `key in (a, b)` or `key notin (a, b)`"
                ));
            };
            check_key(key)?;
            let values = values.split(',').map(checked_value).collect::<Result<_, _>>()?;
            let is_in = operator == "in";
            return Self::of(key, if is_in { Condition::In(values) } else { Condition::NotIn(values) });
        }
        for operator in ["!=", "==", "="] {
            if let Some((key, value)) = text.split_once(operator) {
                check_key(key.trim())?;
                let values = vec![checked_value(value)?];
                let is_not = operator == "!=";
                return Self::of(key, if is_not { Condition::NotIn(values) } else { Condition::In(values) });
            }
        }
        for (operator, condition) in
            [('>', Condition::Above as fn(i64) -> Condition), ('<', Condition::Below)]
        {
            if let Some((key, value)) = text.split_once(operator) {
                check_key(key.trim())?;
                let bound = value.trim().parse();
                let bound = bound.map_err(|_| format!("`{}` is not a whole number", value.trim()))?;
                return Self::of(key, condition(bound));
            }
        }
        Self::of(text, Condition::Present)
    }

    fn of(key: &str, condition: Condition) -> Result<Self, String> {
        let key = key.trim();
        check_key(key)?;
        Ok(Self { key: key.to_owned(), condition })
    }
}

fn check_key(key: &str) -> Result<(), String> {
    if is_label_key(key) {
        return Ok(());
    }
    Err(format!("`{key}` is not the name of a label, such as `app` or `example.com/app`"))
}

fn checked_value(value: &str) -> Result<String, String> {
    let value = value.trim();
    if is_label_value(value) {
        return Ok(value.to_owned());
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
            ("", "it is empty"),
            ("app=web,", "`` is not the name of a label"),
            ("app=(x", "a bracket is not closed"),
            ("app)", "not opened"),
            ("app in (a))", "not opened"),
            ("app within (a)", "expected `key in (a, b)`"),
            ("app in (a) b", "has text after the closing parenthesis"),
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
    fn label_selectors_select_as_on_the_server() {
        let labels = Labels::from([("app", "web"), ("age", "7"), ("tier", "a")]);
        for (selector, expected) in [
            ("app", true),
            ("!app", false),
            ("!test", true),
            ("app=web,tier==a", true),
            ("app=web,tier=b", false),
            ("app!=web", false),
            // A label that is absent has another value.
            ("test!=a,test notin (a, b)", true),
            ("test in (a, b)", false),
            ("tier in (a, b)", true),
            ("tier notin (a, b)", false),
            ("age>6,age<8", true),
            ("age>7", false),
            ("app>1", false),
        ] {
            let parsed = LabelSelector::parse(selector).unwrap();
            assert_eq!(parsed.selects(&labels), expected, "{selector}");
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
