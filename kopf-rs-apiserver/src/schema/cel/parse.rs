//! From the text of an expression to its tree, with the place of every part.
//!
//! Promise: what cannot be read is no tree; what is wrong with it is for others to say. Must not know what parts are.

/// A part of an expression.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    /// Where it is, in letters: of what has an operator, the operator.
    pub(super) place: usize,
    pub(super) part: Part,
}

/// What a part of an expression does.
#[derive(Clone, Debug)]
pub(super) enum Part {
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Bytes,
    Text(String),
    Name(String),
    Select {
        of: Box<Tree>,
        field: String,
        optional: bool,
    },
    Call {
        name: String,
        target: Option<Box<Tree>>,
        given: Vec<Tree>,
    },
    List(Vec<Tree>),
    Map(Vec<(Tree, Tree)>),
}

/// The tree of an expression, if it is one.
pub(super) fn parse(source: &str) -> Option<Tree> {
    let mut reader = Reader {
        letters: source.chars().collect(),
        at: 0,
        depth: 0,
    };
    let tree = reader.ternary()?;
    reader.space();
    (reader.at == reader.letters.len()).then_some(tree)
}

/// How deep expressions may be nested.
const DEPTH: usize = 60;

struct Reader {
    letters: Vec<char>,
    at: usize,
    depth: usize,
}

/// Operators from the loosest to the tightest; longer ones come first.
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

fn tree(place: usize, part: Part) -> Tree {
    Tree { place, part }
}

fn call(place: usize, name: &str, given: Vec<Tree>) -> Tree {
    let name = name.to_owned();
    tree(
        place,
        Part::Call {
            name,
            target: None,
            given,
        },
    )
}

fn is_word(letter: char) -> bool {
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

    /// Take a sign, if it comes next.
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
            call(place, "_?_:_", vec![condition, yes, no])
        } else {
            condition
        };
        self.depth -= 1;
        Some(found)
    }

    fn level(&mut self, level: usize) -> Option<Tree> {
        let Some(signs) = LEVELS.get(level) else {
            return self.unary();
        };
        let mut left = self.level(level + 1)?;
        loop {
            self.space();
            let place = self.at;
            let Some((_, name)) = signs.iter().find(|(sign, _)| self.take(sign)) else {
                return Some(left);
            };
            let right = self.level(level + 1)?;
            left = call(place, name, vec![left, right]);
        }
    }

    fn unary(&mut self) -> Option<Tree> {
        self.space();
        let place = self.at;
        for (sign, name) in [("!", "!_"), ("-", "-_")] {
            if self.take(sign) {
                self.space();
                if sign == "-" && self.peek().is_some_and(|next| next.is_ascii_digit()) {
                    let number = self.member()?;
                    return Some(Tree { place, ..number });
                }
                let of = self.unary()?;
                return Some(call(place, name, vec![of]));
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
                of = call(place, name, vec![of, index]);
            } else if self.take(".") {
                let optional = self.take("?");
                self.space();
                let field = self.word()?;
                self.space();
                let open = self.at;
                if !optional && self.take("(") {
                    let given = self.many(")")?;
                    let call = Part::Call {
                        name: field,
                        target: Some(Box::new(of)),
                        given,
                    };
                    of = tree(open, call);
                } else {
                    let select = Part::Select {
                        of: Box::new(of),
                        field,
                        optional,
                    };
                    of = tree(place, select);
                }
            } else {
                return Some(of);
            }
        }
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
            let items = self.many("]")?;
            return Some(tree(place, Part::List(items)));
        }
        if self.take("{") {
            return self.map(place);
        }
        let first = self.peek()?;
        if first.is_ascii_digit() {
            return Some(tree(place, self.number()));
        }
        if let Some(text) = self.quoted() {
            return Some(tree(place, text?));
        }
        let word = self.word()?;
        let part = match word.as_str() {
            "true" | "false" => Part::Bool,
            "null" => Part::Null,
            "in" => return None,
            _ => {
                self.space();
                let open = self.at;
                if self.take("(") {
                    let given = self.many(")")?;
                    return Some(call(open, &word, given));
                }
                Part::Name(word)
            }
        };
        Some(tree(place, part))
    }

    fn map(&mut self, place: usize) -> Option<Tree> {
        let mut entries = Vec::new();
        while !self.take("}") {
            let key = self.ternary()?;
            if !self.take(":") {
                return None;
            }
            entries.push((key, self.ternary()?));
            if !self.take(",") {
                return self.take("}").then(|| tree(place, Part::Map(entries)));
            }
        }
        Some(tree(place, Part::Map(entries)))
    }

    fn number(&mut self) -> Part {
        let start = self.at;
        while let Some(letter) = self.peek() {
            let sign = matches!(letter, '+' | '-')
                && self.at > start
                && matches!(self.letters[self.at - 1], 'e' | 'E')
                && !self.letters[start..self.at].contains(&'x');
            let point = letter == '.'
                && self
                    .letters
                    .get(self.at + 1)
                    .is_some_and(char::is_ascii_digit);
            if !letter.is_ascii_alphanumeric() && !point && !sign {
                break;
            }
            self.at += 1;
        }
        let text: String = self.letters[start..self.at].iter().collect();
        if text.ends_with(['u', 'U']) {
            Part::Uint
        } else if !text.starts_with("0x") && text.contains(['.', 'e', 'E']) {
            Part::Double
        } else {
            Part::Int
        }
    }

    /// A text or bytes, if one comes next; nothing within it if it does not end.
    #[expect(clippy::option_option, reason = "not there, or there and not right")]
    fn quoted(&mut self) -> Option<Option<Part>> {
        let (mut at, mut raw, mut bytes) = (self.at, false, false);
        while let Some(letter @ ('r' | 'R' | 'b' | 'B')) = self.letters.get(at).copied() {
            raw |= letter.eq_ignore_ascii_case(&'r');
            bytes |= letter.eq_ignore_ascii_case(&'b');
            at += 1;
        }
        let quote = *self
            .letters
            .get(at)
            .filter(|letter| matches!(letter, '"' | '\''))?;
        let three = self.letters.get(at..at + 3) == Some(&[quote; 3][..]);
        let width = if three { 3 } else { 1 };
        at += width;
        let mut text = String::new();
        loop {
            let Some(letter) = self.letters.get(at).copied() else {
                return Some(None);
            };
            if letter == '\\' && !raw {
                text.extend(self.letters.get(at..at + 2).into_iter().flatten());
                at += 2;
            } else if self.letters.get(at..at + width) == Some(&vec![quote; width][..]) {
                self.at = at + width;
                break;
            } else {
                text.push(letter);
                at += 1;
            }
        }
        Some(Some(if bytes {
            Part::Bytes
        } else {
            Part::Text(if raw {
                text
            } else {
                text.replace("\\\\", "\\")
            })
        }))
    }
}
