//! Email addresses, parsed as Go's `net/mail` does.
//!
//! Accepts one address with an optional name and comments, or a group with one member. Independent of schemas.

/// Returns true if the string is exactly one address.
pub(super) fn is_email(text: &str) -> bool {
    let mut reader = Reader(text);
    reader.address(true) == Some(1) && reader.comments() && reader.0.is_empty()
}

struct Reader<'a>(&'a str);

// === impl Reader ===

impl Reader<'_> {
    fn space(&mut self) {
        self.0 = self.0.trim_start_matches([' ', '\t']);
    }

    fn take(&mut self, sign: char) -> bool {
        let rest = self.0.strip_prefix(sign);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    /// Skips white space and comments in parentheses; returns false if a parenthesis stays open.
    fn comments(&mut self) -> bool {
        self.space();
        while self.take('(') {
            let mut depth = 1;
            while depth > 0 {
                let mut letters = self.0.chars();
                match letters.next() {
                    None => return false,
                    Some('\\') => {
                        letters.next();
                    }
                    Some('(') => depth += 1,
                    Some(')') => depth -= 1,
                    Some(_) => {}
                }
                self.0 = letters.as_str();
            }
            self.space();
        }
        true
    }

    /// Reads an address or a group; returns the number of addresses.
    fn address(&mut self, groups: bool) -> Option<usize> {
        self.space();
        let start = self.0;
        if self.bare().is_some() {
            self.space();
            let closed = !self.0.starts_with('(') || self.comments();
            return closed.then_some(1);
        }
        self.0 = start;
        if !start.starts_with('<') {
            self.phrase()?;
        }
        self.space();
        if groups && self.take(':') {
            return self.members();
        }
        let whole = self.take('<') && self.bare().is_some() && self.take('>');
        whole.then_some(1)
    }

    fn members(&mut self) -> Option<usize> {
        self.space();
        let mut count = 0;
        while !self.take(';') {
            count += self.address(false)?;
            if !self.comments() || !(self.take(',') || self.0.starts_with(';')) {
                return None;
            }
        }
        Some(count)
    }

    /// Reads `local@domain`.
    fn bare(&mut self) -> Option<()> {
        self.space();
        if self.0.starts_with('"') {
            self.quoted()?;
        } else {
            self.atom(false)?;
        }
        if !self.take('@') {
            return None;
        }
        self.space();
        if self.take('[') {
            let (literal, rest) = self.0.split_once(']')?;
            self.0 = rest;
            return literal.parse::<std::net::IpAddr>().ok().map(|_| ());
        }
        self.atom(false)
    }

    /// Reads one or more words.
    fn phrase(&mut self) -> Option<()> {
        let mut any = false;
        loop {
            self.space();
            let word = if self.0.starts_with('"') {
                self.quoted()
            } else {
                self.atom(true)
            };
            match word {
                Some(()) => any = true,
                None => return any.then_some(()),
            }
        }
    }

    /// Reads an atom: no special characters, and dots only between other characters unless `anything` is set.
    fn atom(&mut self, anything: bool) -> Option<()> {
        let special = |c: char| c <= ' ' || c == '\x7f' || "()<>[]:;@\\,\"".contains(c);
        let end = self.0.find(special).unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest;
        let parted = anything || word.split('.').all(|part| !part.is_empty());
        (!word.is_empty() && parted).then_some(())
    }

    fn quoted(&mut self) -> Option<()> {
        let start = self.0.strip_prefix('"')?;
        let mut letters = start.chars();
        loop {
            match letters.next()? {
                '"' => break,
                '\\' => {
                    letters.next()?;
                }
                '\n' | '\r' => return None,
                _ => {}
            }
        }
        self.0 = letters.as_str();
        (!start.starts_with('"')).then_some(())
    }
}
