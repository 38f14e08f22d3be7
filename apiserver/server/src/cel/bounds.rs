//! Limits on the size of an expression: the parser and the evaluator recurse once per nesting level.
//!
//! Our parser and evaluator process every expression within the limits on the stack of any thread. Independent of what expressions mean.

use super::parse::is_word;

/// The greatest nesting depth of brackets.
const LEVELS: usize = 50;
/// The most operators in one operand of a condition, one list item or one function argument, as each operator may add one level.
/// The number of operands, items and arguments is not limited, because they do not nest.
const OPERATORS: usize = 500;

/// The operators within a pair of brackets, including those of inner brackets.
#[derive(Clone, Copy, Default)]
struct Within {
    part: usize,
    most: usize,
}

/// Returns an error if the expression exceeds the limits.
pub(super) fn check(source: &str) -> Result<(), String> {
    let mut open = vec![Within::default()];
    let mut rest = source.chars();
    let mut before = ' ';
    while let Some(letter) = rest.next() {
        let next = rest.clone().next();
        let closed = matches!(letter, ')' | ']' | '}')
            .then(|| open.pop())
            .flatten();
        if open.is_empty() {
            open.push(Within::default());
        }
        let here = open.last_mut().expect("one is open");
        match letter {
            '"' | '\'' => skip(&mut rest, letter),
            '(' | '[' | '{' => open.push(Within::default()),
            ')' | ']' | '}' => here.part += closed.unwrap_or_default().end_part().most,
            ',' => *here = here.end_part(),
            '&' | '|' if next == Some(letter) => {
                rest.next();
                *here = here.end_part();
            }
            '=' if matches!(before, '=' | '!' | '<' | '>') => {}
            '!' | '-' | '+' | '*' | '/' | '%' | '?' | '<' | '>' | '=' | '.' => here.part += 1,
            // The operator `in`.
            'i' if next == Some('n') && !is_word(before) && !goes_on(&rest) => here.part += 1,
            _ => {}
        }
        before = letter;
        if open.len() > LEVELS + 1 {
            return Err(format!(
                "the expression is nested deeper than {LEVELS} levels"
            ));
        }
        if open.iter().map(|within| within.part).sum::<usize>() > OPERATORS {
            return Err(format!(
                "a part of the expression has more than {OPERATORS} operators"
            ));
        }
    }
    Ok(())
}

/// Returns true if the word has more than two letters; `rest` starts after the first one.
fn goes_on(rest: &std::str::Chars<'_>) -> bool {
    rest.clone().nth(1).is_some_and(is_word)
}

impl Within {
    fn end_part(self) -> Self {
        Self {
            part: 0,
            most: self.most.max(self.part),
        }
    }
}

/// Skips the rest of a quoted string, if it has an end.
fn skip(rest: &mut std::str::Chars<'_>, quote: char) {
    let mut ahead = rest.clone();
    while let Some(letter) = ahead.next() {
        match letter {
            '\\' => {
                ahead.next();
            }
            letter if letter == quote => {
                *rest = ahead;
                return;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_is_counted_outside_of_strings() {
        let deep = |levels: usize| format!("{}1{}", "(".repeat(levels), ")".repeat(levels));
        assert_eq!(check(&deep(LEVELS)), Ok(()));
        assert!(check(&deep(LEVELS + 1)).is_err());
        assert!(check(&"!".repeat(OPERATORS + 1)).is_err());
        assert!(check(&"-1 ".repeat(OPERATORS + 1)).is_err());
        assert!(check(&" in a".repeat(OPERATORS + 1)).is_err());
        let inner = format!("(a{})", ".b".repeat(OPERATORS));
        assert_eq!(check(&inner), Ok(()));
        assert!(check(&format!("{inner}.c")).is_err(), "levels add up");
        assert!(check(&format!("{inner} || {inner} == {inner}")).is_err());
        let many = |sign: &str| vec![inner.as_str(); 100].join(sign);
        for sign in [" || ", " && ", ", "] {
            assert_eq!(check(&many(sign)), Ok(()), "{sign}");
        }
        assert_eq!(check(&"a == b || ".repeat(1000)), Ok(()));
        assert_eq!(check(&format!("'{}\\''", "(".repeat(1000))), Ok(()));
        assert!(check(&format!("'{}", "(".repeat(1000))).is_err());
    }
}
