//! The formatting clauses of a `format` string, such as `%s` and `%.2f`.
//!
//! Error messages match cel-go. Independent of values.

/// A clause: the verb letter and the precision, if given.
pub(super) type Clause = (char, Option<usize>);

/// Builds the error for a `format` call: `told` adds a prefix to an inner error.
pub(super) trait Told {
    fn told(before: &str, why: Self) -> Self;
    fn plain(why: String) -> Self;
}

impl Told for String {
    fn told(before: &str, why: Self) -> Self {
        format!("{before}{why}")
    }

    fn plain(why: String) -> Self {
        why
    }
}

/// Fills in the clauses of a string; `show` formats the value with the given index.
pub(super) fn filled<E: Told>(
    text: &str,
    count: usize,
    mut show: impl FnMut(usize, Clause) -> Result<String, E>,
) -> Result<String, E> {
    let mut made = String::new();
    let mut rest = text;
    let mut place = 0;
    while let Some(at) = rest.find('%') {
        made.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(tail) = rest.strip_prefix('%') {
            made.push('%');
            rest = tail;
            continue;
        }
        if rest.is_empty() {
            return Err(E::plain("unexpected end of string".to_owned()));
        }
        if place >= count {
            return Err(E::plain(format!("index {place} out of range")));
        }
        let read = clause(rest);
        let (clause, tail) =
            read.map_err(|why| E::plain(format!("could not parse formatting clause: {why}")))?;
        let shown = show(place, clause).map_err(|why| E::told("error during formatting: ", why))?;
        made.push_str(&shown);
        rest = tail;
        place += 1;
    }
    made.push_str(rest);
    Ok(made)
}

fn clause(text: &str) -> Result<(Clause, &str), String> {
    let (precision, rest) = match text.strip_prefix('.') {
        None => (None, text),
        Some(tail) => {
            let end = tail.find(|letter: char| !letter.is_ascii_digit());
            let Some(end) = end else {
                let why =
                    "error while parsing precision: could not find end of precision specifier";
                return Err(why.to_owned());
            };
            let (digits, tail) = tail.split_at(end);
            let number = digits.parse().map_err(|_| {
                format!(
                    "error while parsing precision: error while converting precision to integer: strconv.Atoi: parsing {digits:?}: invalid syntax"
                )
            })?;
            // A float never needs more digits, so a larger precision would only waste memory.
            (Some(std::cmp::min(number, 1100)), tail)
        }
    };
    let mut letters = rest.chars();
    match letters.next() {
        Some(letter) if "sdfebxXo".contains(letter) => Ok(((letter, precision), letters.as_str())),
        other => Err(format!(
            "unrecognized formatting clause \"{}\"",
            other.unwrap_or_default()
        )),
    }
}

/// Returns the error for a value that does not fit this clause.
pub(super) fn refusal(clause: char, given: &str) -> String {
    let what = match clause {
        'd' => "decimal clause can only be used on integers",
        'f' => "fixed-point clause can only be used on doubles",
        'e' => "scientific clause can only be used on doubles",
        'b' => "only integers and bools can be formatted as binary",
        'o' => "octal clause can only be used on integers",
        's' => {
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
        }
        _ => "only integers, byte buffers, and strings can be formatted as hex",
    };
    format!("{what}, was given {given}")
}
