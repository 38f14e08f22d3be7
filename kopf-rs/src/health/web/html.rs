//! Writes HTML. Guarantees that texts of the cluster cannot become markup: only literals of this program are written as they are.

/// A document, or a part of one.
#[derive(Debug, Default)]
pub(super) struct Html(String);

/// A cell of a table.
#[derive(Clone, Debug)]
pub(super) enum Cell {
    /// A name or a number.
    Text(String),
    /// A longer text.
    Line(String),
    /// A time in RFC 3339.
    Time(String),
    /// A link to the page of an object.
    Object { text: String, href: String },
    /// A state that is good or bad. The text says so, too.
    State { is_good: bool, text: String },
}

/// A table with a caption.
pub(super) struct Table {
    pub(super) id: &'static str,
    pub(super) caption: &'static str,
    pub(super) columns: &'static [&'static str],
    pub(super) rows: Vec<Vec<Cell>>,
    /// The text in place of a table without rows.
    pub(super) empty: &'static str,
}

/// The maximum number of rows of a table.
const SHOWN: usize = 100;

impl Html {
    /// Writes markup of this program.
    pub(super) fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Writes a text, or the value of an attribute between double quotation marks. Characters that hide or reorder text are replaced.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        for letter in text.chars() {
            match letter {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                '\n' | '\t' => self.0.push(letter),
                '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' => self.0.push('\u{FFFD}'),
                letter if letter.is_control() => self.0.push('\u{FFFD}'),
                letter => self.0.push(letter),
            }
        }
        self
    }

    pub(super) fn number(&mut self, number: usize) -> &mut Self {
        let number = number.to_string();
        self.text(&number)
    }

    /// Writes a table, or the text for no rows.
    pub(super) fn table(&mut self, table: Table) {
        let Table { id, caption, columns, rows, empty } = table;
        if rows.is_empty() {
            self.raw("<p class=\"empty\">").raw(empty).raw("</p>\n");
            return;
        }
        // A region that scrolls must be reachable by the keyboard.
        self.raw("<div class=\"scroll\" role=\"region\" tabindex=\"0\" id=\"").raw(id);
        self.raw("-region\" aria-labelledby=\"").raw(id).raw("\">\n<table>\n<caption id=\"").raw(id);
        self.raw("\">").raw(caption).raw("</caption>\n<thead><tr>");
        for column in columns {
            self.raw("<th scope=\"col\">").raw(column).raw("</th>");
        }
        self.raw("</tr></thead>\n<tbody>\n");
        for row in rows.iter().take(SHOWN) {
            self.raw("<tr>");
            for (at, cell) in row.iter().enumerate() {
                self.cell(cell, at == 0);
            }
            self.raw("</tr>\n");
        }
        self.raw("</tbody>\n</table>\n</div>\n");
        if rows.len() > SHOWN {
            self.raw("<p class=\"hint\">The first ")
                .number(SHOWN)
                .raw(" of ")
                .number(rows.len())
                .raw(" rows.</p>\n");
        }
    }

    /// The first cell of a row names the row.
    fn cell(&mut self, cell: &Cell, is_first: bool) {
        let class = matches!(cell, Cell::Line(_));
        self.raw(match (is_first, class) {
            (true, _) => "<th scope=\"row\">",
            (false, true) => "<td class=\"line\">",
            (false, false) => "<td>",
        });
        match cell {
            Cell::Text(text) | Cell::Line(text) => self.text(text),
            Cell::Time(time) => self.time(time),
            Cell::Object { text, href } => {
                self.raw("<a href=\"").text(href).raw("\">").text(text).raw("</a>")
            }
            Cell::State { is_good, text } => self.state(*is_good, text),
        };
        self.raw(if is_first { "</th>" } else { "</td>" });
    }

    /// Writes a time of day; its date is in the attribute and in the tooltip.
    pub(super) fn time(&mut self, time: &str) -> &mut Self {
        let (_, of_day) = time.split_once('T').unwrap_or(("", time));
        let of_day = of_day.split('.').next().unwrap_or(of_day).trim_end_matches('Z');
        self.raw("<time datetime=\"").text(time).raw("\" title=\"").text(time).raw("\">");
        self.text(of_day).raw("</time>")
    }

    pub(super) fn state(&mut self, is_good: bool, text: &str) -> &mut Self {
        self.raw(if is_good { "<span class=\"good\">✓ " } else { "<span class=\"bad\">✗ " });
        self.text(text).raw("</span>")
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }
}

/// Returns a duration in words.
pub(super) fn duration(seconds: f64) -> String {
    if seconds < 10.0 {
        return format!("{seconds:.1} s");
    }
    let whole = format!("{:.0}", seconds.round()).parse::<u64>().unwrap_or(u64::MAX);
    match whole {
        0..60 => format!("{whole} s"),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        3600..86_400 => format!("{} h {} min", whole / 3600, whole / 60 % 60),
        _ => format!("{} d {} h", whole / 86_400, whole / 3600 % 24),
    }
}
