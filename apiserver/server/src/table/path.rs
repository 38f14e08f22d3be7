//! JSON paths of printer columns.
//!
//! A path selects the same values as client-go's jsonpath, and none if that fails. Independent of tables.

use serde_json::Value;

/// The most values that a path may select, as wildcards can multiply them.
const MOST: usize = 10_000;

/// One step of a path.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    Wildcard,
    Recursive,
    Slice(Slice),
    /// The path that must exist, and optionally the comparison with another path.
    Filter(Vec<Step>, Option<(String, Vec<Step>)>),
    Union(Vec<Vec<Step>>),
    Literal(Value),
}

/// A slice or an index of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Slice {
    from: Option<i64>,
    to: Option<i64>,
    /// An index rather than a range.
    single: bool,
    step: Option<i64>,
}

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Path(Vec<Step>);

/// The unparsed rest of a path.
struct Reader<'a> {
    rest: &'a str,
}

// === impl Path ===

impl Path {
    pub(super) fn read(text: &str) -> Option<Self> {
        Reader { rest: text }.steps().map(Self)
    }

    /// Returns the first value that the path selects.
    pub(super) fn first<'a>(&'a self, root: &'a Value) -> Option<&'a Value> {
        walk(&self.0, vec![root])?.first().copied()
    }
}

// === impl Reader ===

impl<'a> Reader<'a> {
    fn skip(&mut self, start: &str) -> bool {
        let rest = self.rest.strip_prefix(start);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Consumes the next `length` bytes.
    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    fn steps(mut self) -> Option<Vec<Step>> {
        let mut steps = Vec::new();
        while let Some(first) = self.rest.chars().next() {
            if self.skip("[?(") {
                steps.push(self.filter()?);
            } else if self.skip("..") {
                if steps.last() == Some(&Step::Recursive) {
                    return None;
                }
                steps.push(Step::Recursive);
                let next = self.rest.chars().next();
                if next.is_some_and(|next| next == '_' || next.is_alphanumeric()) {
                    steps.push(self.field());
                }
            } else if self.skip("[") {
                self.brackets(&mut steps)?;
            } else if self.skip(".") {
                steps.push(self.field());
            } else if [" ", "@", "$"].into_iter().any(|start| self.skip(start)) {
            } else {
                steps.push(self.literal(first)?);
            }
        }
        Some(steps)
    }

    fn field(&mut self) -> Step {
        let mut escaped = false;
        let ends = |letter: char| {
            let was_escaped = escaped;
            escaped = letter == '\\' && !was_escaped;
            !was_escaped && " \t\r\n.,[]$@{}".contains(letter)
        };
        let end = self.rest.find(ends).unwrap_or(self.rest.len());
        match self.take(end) {
            "*" => Step::Wildcard,
            name => Step::Field(name.replace('\\', "")),
        }
    }

    fn brackets(&mut self, steps: &mut Vec<Step>) -> Option<()> {
        let text = self.take(self.rest.find(']')?);
        self.rest = &self.rest[1..];
        if text.contains(',') {
            let parts = text.split(',').map(|part| {
                let text = format!("[{}]", part.trim_matches(' '));
                Reader { rest: &text }.steps()
            });
            steps.push(Step::Union(parts.collect::<Option<_>>()?));
            return Some(());
        }
        let key = text
            .strip_prefix('\'')
            .and_then(|text| text.strip_suffix('\''));
        if let Some(key) = key.filter(|key| !key.contains('\'')) {
            let text = format!(".{key}");
            steps.extend(Reader { rest: &text }.steps()?);
            return Some(());
        }
        steps.push(Step::Slice(slice(text)?));
        Some(())
    }

    fn filter(&mut self) -> Option<Step> {
        let mut quote = None;
        let mut closed = false;
        let mut before = ' ';
        let end = self.rest.find(|letter: char| {
            let escaped = std::mem::replace(&mut before, letter) == '\\';
            match (letter, quote) {
                ('"' | '\'', None) => quote = Some(letter),
                (_, Some(pair)) if letter == pair && !escaped => closed = true,
                (')', _) => return quote.is_some() == closed,
                _ => {}
            }
            false
        })?;
        let text = self.take(end);
        if !self.skip(")]") {
            return None;
        }
        let read = |text| Reader { rest: text }.steps();
        let is_operator = |letter: char| "!<>=".contains(letter);
        let Some(start) = text.find(is_operator) else {
            return Some(Step::Filter(read(text)?, None));
        };
        let (left, rest) = text.split_at(start);
        let right = rest.trim_start_matches(is_operator);
        let operator = rest[..rest.len() - right.len()].to_owned();
        Some(Step::Filter(read(left)?, Some((operator, read(right)?))))
    }

    /// Reads the literal operand of a comparison.
    fn literal(&mut self, first: char) -> Option<Step> {
        if matches!(first, '"' | '\'') {
            let mut escaped = true;
            let ends = |letter: char| {
                let was_escaped = std::mem::replace(&mut escaped, letter == '\\');
                letter == first && !was_escaped
            };
            let text = self.take(self.rest.find(ends)? + 1);
            let inner = &text[1..text.len() - 1];
            let text = inner.replace(&format!("\\{first}"), &first.to_string());
            return Some(Step::Literal(text.into()));
        }
        if matches!(first, '+' | '-') || first.is_ascii_digit() {
            let inside = |letter: char| letter == '.' || letter.is_ascii_digit();
            let tail = self.rest[1..].trim_start_matches(inside);
            let text = self.take(self.rest.len() - tail.len());
            let number = text.parse::<i64>().map(Value::from).ok();
            return number
                .or_else(|| text.parse::<f64>().ok().map(Value::from))
                .map(Step::Literal);
        }
        let truth = [("true", true), ("false", false)];
        truth
            .into_iter()
            .find(|(word, _)| self.skip(word))
            .map(|(_, truth)| Step::Literal(truth.into()))
    }
}

fn slice(text: &str) -> Option<Slice> {
    if text == "*" {
        return Some(Slice::default());
    }
    let number = |text: &str| match text {
        "" => Some(None),
        text => text.parse::<i64>().ok().map(Some),
    };
    let mut parts = text.split(':');
    let from = number(parts.next()?)?;
    let (to, step, more) = (parts.next(), parts.next(), parts.next());
    if more.is_some() {
        return None;
    }
    let Some(to) = to else {
        return Some(Slice {
            from,
            to: from.unwrap_or_default().checked_add(1),
            single: true,
            step: None,
        });
    };
    Some(Slice {
        from,
        to: number(to)?,
        single: false,
        step: number(step.unwrap_or_default())?,
    })
}

/// Returns all values that the steps select, or `None` if a step fails.
fn walk<'a>(steps: &'a [Step], mut values: Vec<&'a Value>) -> Option<Vec<&'a Value>> {
    for step in steps {
        let mut found = Vec::new();
        if let Step::Union(parts) = step {
            for part in parts {
                found.extend(walk(part, values.clone())?);
            }
        } else {
            for value in values {
                take(step, value, &mut found)?;
            }
        }
        if found.len() > MOST {
            return None;
        }
        values = found;
    }
    Some(values)
}

fn take<'a>(step: &'a Step, value: &'a Value, found: &mut Vec<&'a Value>) -> Option<()> {
    match (step, value) {
        (Step::Literal(literal), _) => found.push(literal),
        (Step::Field(name), _) => found.extend(value.get(name)),
        (Step::Wildcard, _) => found.extend(children(value)),
        (Step::Recursive, _) => descend(value, found)?,
        (Step::Slice(_), Value::Null) => {}
        (Step::Slice(slice), Value::Array(items)) => found.extend(slice.of(items)?),
        (Step::Filter(left, compared), Value::Array(items)) => {
            for item in items {
                if passes(left, compared.as_ref(), item)? {
                    found.push(item);
                }
            }
        }
        _ => return None,
    }
    Some(())
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(map) => map.values().collect(),
        _ => Vec::new(),
    }
}

/// Collects the value and all values within it, except for empty ones.
fn descend<'a>(value: &'a Value, found: &mut Vec<&'a Value>) -> Option<()> {
    let children = children(value);
    if !children.is_empty() || value.as_str().is_some_and(|text| !text.is_empty()) {
        found.push(value);
    }
    if found.len() > MOST {
        return None;
    }
    children
        .into_iter()
        .try_for_each(|child| descend(child, found))
}

fn passes<'a>(
    left: &'a [Step],
    compared: Option<&'a (String, Vec<Step>)>,
    item: &'a Value,
) -> Option<bool> {
    let lefts = walk(left, vec![item]);
    let Some((operator, right)) = compared else {
        return Some(lefts.is_some_and(|found| !found.is_empty()));
    };
    let (lefts, rights) = (lefts?, walk(right, vec![item])?);
    match (&*lefts, &*rights) {
        ([], _) | (_, []) => Some(false),
        ([left], [right]) => compare(operator, left, right),
        _ => None,
    }
}

fn compare(operator: &str, left: &Value, right: &Value) -> Option<bool> {
    let order = match (left, right) {
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Number(left), Value::Number(right)) if left.is_f64() == right.is_f64() => {
            match (left.as_i64(), right.as_i64()) {
                (Some(left), Some(right)) => left.cmp(&right),
                _ => left.as_f64()?.partial_cmp(&right.as_f64()?)?,
            }
        }
        (Value::Bool(left), Value::Bool(right)) if matches!(operator, "==" | "!=") => {
            left.cmp(right)
        }
        _ => return None,
    };
    Some(match operator {
        "<" => order.is_lt(),
        ">" => order.is_gt(),
        "==" => order.is_eq(),
        "!=" => order.is_ne(),
        "<=" => order.is_le(),
        ">=" => order.is_ge(),
        _ => return None,
    })
}

// === impl Slice ===

impl Slice {
    /// Returns the selected items, or `None` if an index is out of range.
    fn of(self, items: &[Value]) -> Option<impl Iterator<Item = &Value>> {
        let length = i64::try_from(items.len()).ok()?;
        let mut from = self.from.unwrap_or_default();
        if from < 0 {
            from += length;
        }
        let mut to = self.to.unwrap_or(length);
        if to < 0 || (to == 0 && self.single) {
            to += length;
        }
        let step = usize::try_from(self.step.unwrap_or(1)).ok()?;
        let part = if from == to {
            &[]
        } else {
            let (from, to) = (usize::try_from(from).ok()?, usize::try_from(to).ok()?);
            items.get(from..to)?
        };
        (step > 0).then(|| part.iter().step_by(step))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_by_table() {
        let root = json!({
            "m": {"l": {"x.y/z": "L"}}, "s": {"l": [{"n": "a", "m": 1}, {"n": "b", "m": 2}], "e": [], "nul": null},
            "o": {"deep": "d"},
        });
        for (path, expected) in [
            (r".m.l.x\.y/z", json!("L")),
            (r".m.l['x\.y/z']", json!("L")),
            (".m.l['x.y/z']", json!(["absent"])),
            (".s.l[-1].n", json!("b")),
            (".s.l[0:1].n", json!("a")),
            (".s.l[1:].n", json!("b")),
            (".s.l[::2].n", json!("a")),
            (".s.l[*].n", json!("a")),
            (".s.l[1,0].n", json!("b")),
            (".s.l[2].n", json!(["absent"])),
            (".s.e[0]", json!(["absent"])),
            ("..deep", json!("d")),
            (".o.*", json!("d")),
            (".s.l[?(@.m>1)].n", json!("b")),
            (".s.l[?(@.m > 1.5)].n", json!(["absent"])),
            (r#".s.l[?(@.n == "b")].m"#, json!(2)),
            (".s.l[?(@.n=='b')].m", json!(2)),
            (".s.l[?(@.n)].m", json!(1)),
            (".s.l[?(@.o)].m", json!(["absent"])),
            (".s.nul", Value::Null),
            (".s.nul.x", json!(["absent"])),
            ("..", root.clone()),
            ("...x", json!(["absent"])),
        ] {
            let read = Path::read(path);
            let found = read.as_ref().and_then(|read| read.first(&root));
            assert_eq!(
                found,
                Some(&expected).filter(|it| **it != json!(["absent"])),
                "{path}"
            );
        }
    }
}
