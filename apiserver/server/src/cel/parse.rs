//! Parses an expression into a tree that records the position of each node.
//!
//! Rejects all that is not an expression; the reasons come from other modules, except for macros. Independent of types.

mod made;

use super::Complaint;
use super::expand;
use super::library;
use super::literal;
use super::tree::{Maker, Part, Tree};

/// The reason why parsing failed.
pub(super) enum Trouble {
    /// The source is not an expression; has the errors found up to that point.
    Unread(Vec<Complaint>),
    /// The source is an expression, but its macros have wrong arguments.
    Misused(Vec<Complaint>),
}

/// Returns the tree of an expression and the number of its nodes.
pub(super) fn parse(source: &str) -> Result<(Tree, usize), Trouble> {
    let mut reader = Reader {
        letters: source.chars().collect(),
        at: 0,
        depth: 0,
        maker: Maker::default(),
        complaints: Vec::new(),
        reserved: Vec::new(),
    };
    let tree = reader.ternary();
    reader.space();
    let Some(tree) = tree.filter(|_| reader.at == reader.letters.len()) else {
        return Err(Trouble::Unread(reader.reserved));
    };
    let complaints = [reader.reserved, reader.complaints].concat();
    if !complaints.is_empty() {
        return Err(Trouble::Misused(complaints));
    }
    Ok((tree, reader.maker.count()))
}

/// The greatest nesting depth.
const DEPTH: usize = 60;

struct Reader {
    letters: Vec<char>,
    at: usize,
    depth: usize,
    maker: Maker,
    complaints: Vec<Complaint>,
    /// Errors about reserved words used as names.
    reserved: Vec<Complaint>,
}

/// Binary operators from the loosest to the tightest; longer ones come first, as they may start with a shorter one.
const LEVELS: [&[(&str, &str)]; 5] = [
    &[("||", "_||_")],
    &[("&&", "_&&_")],
    &[
        ("<=", "_<=_"),
        (">=", "_>=_"),
        ("==", "_==_"),
        ("!=", "_!=_"),
        ("<", "_<_"),
        (">", "_>_"),
        ("in", "@in"),
    ],
    &[("+", "_+_"), ("-", "_-_")],
    &[("*", "_*_"), ("/", "_/_"), ("%", "_%_")],
];

/// The number of leading levels that are logical operators.
const JOINED: usize = 2;

/// Words that are reserved for future use.
pub(super) const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "namespace",
    "package",
    "return",
    "var",
    "void",
    "while",
];

pub(super) fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

// === impl Reader ===

impl Reader {
    fn space(&mut self) {
        while let Some(letter) = self.letters.get(self.at) {
            if letter.is_whitespace() {
                self.at += 1;
            } else if *letter == '/' && self.letters.get(self.at + 1) == Some(&'/') {
                while self
                    .letters
                    .get(self.at)
                    .is_some_and(|letter| *letter != '\n')
                {
                    self.at += 1;
                }
            } else {
                break;
            }
        }
    }

    fn peek(&self) -> Option<char> {
        self.letters.get(self.at).copied()
    }

    /// Consumes `sign` if it comes next.
    fn take(&mut self, sign: &str) -> bool {
        self.space();
        let signs: Vec<char> = sign.chars().collect();
        let end = self.at + signs.len();
        let found = self.letters.get(self.at..end) == Some(&signs[..]);
        let goes_on = self.letters.get(end).is_some_and(|next| is_word(*next));
        let whole = !signs[0].is_alphabetic() || !goes_on;
        if found && whole {
            self.at = end;
        }
        found && whole
    }

    fn ternary(&mut self) -> Option<Tree> {
        self.depth += 1;
        if self.depth > DEPTH {
            return None;
        }
        let condition = self.level(0)?;
        self.space();
        let place = self.at;
        let found = if self.take("?") {
            let yes = self.level(0)?;
            if !self.take(":") {
                return None;
            }
            let no = self.ternary()?;
            self.maker.call(place, "_?_:_", vec![condition, yes, no])
        } else {
            condition
        };
        self.depth -= 1;
        Some(found)
    }

    /// Parses operands joined by `||` or `&&` into a balanced tree, as the real parser does.
    fn joined(&mut self, level: usize) -> Option<Tree> {
        let (sign, name) = LEVELS[level][0];
        let mut terms = vec![self.level(level + 1)?];
        let mut places = Vec::new();
        loop {
            self.space();
            let place = self.at;
            if !self.take(sign) {
                break;
            }
            places.push(place);
            terms.push(self.level(level + 1)?);
        }
        let mut terms = terms.into_iter();
        self.balanced(name, &mut terms, &places)
    }

    fn balanced(
        &mut self,
        name: &str,
        terms: &mut std::vec::IntoIter<Tree>,
        places: &[usize],
    ) -> Option<Tree> {
        let Some(place) = places.get(places.len() / 2) else {
            return terms.next();
        };
        let (before, after) = places.split_at(places.len() / 2);
        let left = self.balanced(name, terms, before)?;
        let right = self.balanced(name, terms, &after[1..])?;
        Some(self.maker.call(*place, name, vec![left, right]))
    }

    fn level(&mut self, level: usize) -> Option<Tree> {
        let Some(signs) = LEVELS.get(level) else {
            return self.unary();
        };
        if level < JOINED {
            return self.joined(level);
        }
        let mut left = self.level(level + 1)?;
        loop {
            self.space();
            let place = self.at;
            let Some((_, name)) = signs.iter().find(|(sign, _)| self.take(sign)) else {
                return Some(left);
            };
            let right = self.level(level + 1)?;
            left = self.maker.call(place, name, vec![left, right]);
        }
    }

    fn unary(&mut self) -> Option<Tree> {
        self.space();
        let place = self.at;
        for (sign, name) in [("!", "!_"), ("-", "-_")] {
            if self.take(sign) {
                self.space();
                if sign == "-" && self.peek().is_some_and(|next| next.is_ascii_digit()) {
                    let mut number = self.member()?;
                    match &mut number.part {
                        Part::Int(value) => *value = value.wrapping_neg(),
                        Part::Double(value) => *value = -*value,
                        _ => {}
                    }
                    return Some(Tree { place, ..number });
                }
                let of = self.unary()?;
                return Some(self.maker.call(place, name, vec![of]));
            }
        }
        self.member()
    }

    fn member(&mut self) -> Option<Tree> {
        let mut of = self.primary()?;
        loop {
            self.space();
            let place = self.at;
            if self.take("[") {
                let optional = self.take("?");
                let index = self.ternary()?;
                if !self.take("]") {
                    return None;
                }
                let name = if optional { "_[?_]" } else { "_[_]" };
                of = self.maker.call(place, name, vec![of, index]);
            } else if self.take(".") {
                let optional = self.take("?");
                self.space();
                let field = self.word()?;
                self.space();
                let open = self.at;
                if !optional && self.take("(") {
                    let given = self.many(")")?;
                    let made = expand::method(&mut self.maker, open, &field, &of, &given);
                    of = match made {
                        Some(made) => self.expanded(open, made),
                        None => self.maker.method(open, &field, of, given),
                    };
                } else {
                    let select = Part::Select {
                        of: Box::new(of),
                        field,
                        optional,
                        test: false,
                    };
                    of = self.maker.make(place, select);
                }
            } else {
                return Some(of);
            }
        }
    }

    /// Returns the expansion of a macro; records an error and returns `null` for a macro with wrong arguments.
    fn expanded(&mut self, place: usize, made: Result<Tree, Complaint>) -> Tree {
        made.unwrap_or_else(|complaint| {
            self.complaints.push(complaint);
            self.maker.make(place, Part::Null)
        })
    }

    fn many(&mut self, end: &str) -> Option<Vec<Tree>> {
        let mut found = Vec::new();
        while !self.take(end) {
            found.push(self.ternary()?);
            if !self.take(",") {
                return self.take(end).then_some(found);
            }
        }
        Some(found)
    }

    fn word(&mut self) -> Option<String> {
        let start = self.at;
        let first = self.peek()?;
        if !first.is_ascii_alphabetic() && first != '_' {
            return None;
        }
        while self.peek().is_some_and(is_word) {
            self.at += 1;
        }
        Some(self.letters[start..self.at].iter().collect())
    }

    fn primary(&mut self) -> Option<Tree> {
        self.space();
        let place = self.at;
        if self.take("(") {
            let inner = self.ternary()?;
            return self.take(")").then_some(inner);
        }
        if self.take("[") {
            return self.list(place);
        }
        if self.take("{") {
            return self.map(place);
        }
        let first = self.peek()?;
        let follows = self.letters.get(self.at + 1);
        if first.is_ascii_digit() || first == '.' && follows.is_some_and(char::is_ascii_digit) {
            let (part, end) = literal::number(&self.letters, self.at);
            self.at = end;
            return Some(self.maker.make(place, part));
        }
        if let Some(found) = literal::quoted(&self.letters, self.at) {
            let (part, end) = found?;
            self.at = end;
            return Some(self.maker.make(place, part));
        }
        self.named(place)
    }

    /// Parses an expression that starts with a name.
    fn named(&mut self, start: usize) -> Option<Tree> {
        let dotted = self.take(".");
        self.space();
        let place = if dotted { self.at } else { start };
        let word = self.word()?;
        let word = if dotted { format!(".{word}") } else { word };
        if let Some(name) = self.message(&word) {
            return self.fields(name);
        }
        if RESERVED.contains(&word.trim_start_matches('.')) {
            let why = format!("reserved identifier: {}", word.trim_start_matches('.'));
            self.reserved.push((start, why));
            if self.take("(") {
                self.many(")")?;
            }
            return Some(self.maker.make(start, Part::Null));
        }
        let part = match word.as_str() {
            "true" | "false" => Part::Bool(word == "true"),
            "null" => Part::Null,
            "in" => return None,
            _ => {
                self.space();
                let open = self.at;
                if self.take("(") {
                    let given = self.many(")")?;
                    let made = (word == "has").then(|| expand::has(&mut self.maker, open, &given));
                    return Some(match made.flatten() {
                        Some(made) => self.expanded(open, made),
                        None => self.maker.call(open, function(&word), given),
                    });
                }
                Part::Name(word)
            }
        };
        Some(self.maker.make(place, part))
    }
}

/// Removes the leading dot of a known function.
fn function(name: &str) -> &str {
    let plain = name.strip_prefix('.');
    let known = plain.filter(|plain| library::overloads(plain).is_some());
    known.unwrap_or(name)
}
