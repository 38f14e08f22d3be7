//! The named formats of expressions, such as `format.dns1123Label()`.
//!
//! Errors are the same as for names and labels of objects. Independent of expressions.

use crate::rules::names;
use crate::schema::format::fits;

use super::url;

/// A named format that strings can be validated against.
#[derive(Debug)]
pub(crate) struct Format {
    /// The name in expressions.
    pub(crate) name: &'static str,
    /// The length of the equivalent pattern, for the cost.
    pub(crate) pattern: u64,
}

const fn of(name: &'static str, pattern: u64) -> Format {
    Format { name, pattern }
}

static FORMATS: [Format; 13] = [
    of("dns1123Label", 30),
    of("dns1123Subdomain", 60),
    of("dns1035Label", 30),
    of("qualifiedName", 60),
    of("dns1123LabelPrefix", 30),
    of("dns1123SubdomainPrefix", 60),
    of("dns1035LabelPrefix", 30),
    of("labelValue", 40),
    of("uri", 2083),
    of("uuid", 70),
    of("byte", 80),
    of("date", 90),
    of("datetime", 90),
];

// === impl Format ===

impl Format {
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        FORMATS.iter().find(|format| format.name == name)
    }

    /// Returns the errors of a string.
    pub(super) fn validate(&self, text: &str) -> Vec<String> {
        // A name prefix may end in a dash, because the generated name continues after it.
        let begun = match text.strip_suffix('-') {
            Some(start) if self.name.ends_with("Prefix") => format!("{start}a"),
            _ => text.to_owned(),
        };
        let fitting = |format: &str, why: &str| {
            (!fits(text, format))
                .then(|| why.to_owned())
                .into_iter()
                .collect()
        };
        match self.name {
            "dns1123Label" | "dns1123LabelPrefix" => names::label(&begun).into_iter().collect(),
            "dns1123Subdomain" | "dns1123SubdomainPrefix" => {
                names::subdomain(&begun).into_iter().collect()
            }
            "dns1035Label" | "dns1035LabelPrefix" => names::dns_1035(&begun).into_iter().collect(),
            "qualifiedName" => names::qualified(text),
            "labelValue" => names::label_value(text),
            "uri" => url::Url::parse(text).err().into_iter().collect(),
            "uuid" => fitting("uuid", "does not match the UUID format"),
            "byte" => fitting("byte", "invalid base64"),
            "date" => fitting("date", "invalid date"),
            _ => fitting("date-time", "invalid datetime"),
        }
    }
}
