//! How large an expression may be: the parser and the evaluator call themselves for each level of it.
//!
//! Promise: what is let through fits on the stack of any thread. Must not know what expressions mean.

/// How deep brackets may be nested.
const LEVELS: usize = 50;
/// How many signs of operators there may be: each may be one level more.
const OPERATORS: usize = 500;

/// Why an expression is too large to be looked at, if it is.
pub(super) fn check(source: &str) -> Result<(), String> {
    let (mut levels, mut operators) = (0_usize, 0);
    let mut rest = source.chars();
    while let Some(letter) = rest.next() {
        match letter {
            '"' | '\'' => skip(&mut rest, letter),
            '(' | '[' | '{' => levels += 1,
            ')' | ']' | '}' => levels = levels.saturating_sub(1),
            '!' | '-' | '+' | '*' | '/' | '%' | '?' | '&' | '|' | '<' | '>' | '=' | '.' => {
                operators += 1;
            }
            _ => {}
        }
        if levels > LEVELS {
            return Err(format!(
                "the expression is nested deeper than {LEVELS} levels"
            ));
        }
        if operators > OPERATORS {
            return Err(format!(
                "the expression has more than {OPERATORS} operators"
            ));
        }
    }
    Ok(())
}

/// The rest of a string, as far as it has an end.
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
        assert_eq!(check(&format!("'{}\\''", "(".repeat(1000))), Ok(()));
        assert!(check(&format!("'{}", "(".repeat(1000))).is_err());
    }
}
