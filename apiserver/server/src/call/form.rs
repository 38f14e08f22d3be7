//! The form of an answer, as requested by the `Accept` header and the query.
//!
//! Guarantees that only supported forms are listed, in the order of preference. Must not depend on the requested resource.

use http::{HeaderMap, header};

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The form of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    #[default]
    Whole,
    Table(Look),
    /// The metadata of one object, in this version.
    Partial(&'static str),
    /// The metadata of the objects of a list, in this version.
    Partials(&'static str),
    /// Aggregated discovery.
    Aggregated,
}

/// The version and content of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) api_version: &'static str,
    pub(crate) included: Included,
}

/// The part of an object that is included in its table row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Included {
    Metadata,
    Object,
    Nothing,
    /// An invalid value.
    Unknown,
}

/// A media type of the `Accept` header with its weight.
#[derive(Debug)]
struct Clause<'a> {
    media: &'a str,
    sub: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    weight: f32,
}

/// The accepted forms.
#[derive(Clone, Debug, Default)]
pub(crate) struct Accepted {
    /// The supported forms among them.
    forms: Vec<Form>,
    /// The real server supports one of the media types, although this server may not.
    known: bool,
    /// The header itself.
    header: Option<String>,
}

// === impl Accepted ===

impl Accepted {
    pub(super) fn of(headers: &HeaderMap, included: &str) -> Self {
        let accept = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok());
        let Some(accept) = accept.filter(|accept| !accept.trim().is_empty()) else {
            return Self {
                forms: vec![Form::Whole],
                known: true,
                header: None,
            };
        };
        let included = match included {
            "" | "Metadata" => Included::Metadata,
            "Object" => Included::Object,
            "None" => Included::Nothing,
            _ => Included::Unknown,
        };
        let clauses = clauses(accept);
        let forms: Vec<Form> = clauses
            .iter()
            .filter_map(|clause| clause.form(included))
            .collect();
        let elsewhere = |clause: &Clause<'_>| {
            clause.media == "application"
                && matches!(clause.sub, "yaml" | "vnd.kubernetes.protobuf")
                && clause.parameters.is_empty()
        };
        Self {
            known: forms.contains(&Form::Whole) || clauses.iter().any(elsewhere),
            header: Some(accept.to_owned()),
            forms,
        }
    }

    /// Returns the form for a page of discovery.
    pub(crate) fn page(&self) -> Option<Form> {
        let mut forms = self.forms.iter().copied();
        forms.find(|form| matches!(form, Form::Whole | Form::Aggregated))
    }

    /// Returns whether one of these media types is accepted.
    pub(crate) fn has(&self, media_types: &[&str]) -> bool {
        self.header.as_ref().is_none_or(|accept| {
            accept.split(',').any(|media| {
                let media = media.split(';').next().unwrap_or_default().trim();
                media == "*/*" || media_types.contains(&media)
            })
        })
    }

    /// Returns whether the real server supports a form for a page of discovery.
    pub(crate) fn is_known(&self) -> bool {
        self.known
    }

    /// Returns the form for objects; `tabular` says whether they have a table.
    pub(crate) fn object(&self, tabular: bool) -> Option<Form> {
        let fits = |form: &Form| match form {
            Form::Aggregated => false,
            Form::Table(_) => tabular,
            _ => true,
        };
        self.forms.iter().copied().find(fits)
    }

    /// Returns whether none of the media types is supported for built-in kinds.
    pub(crate) fn is_foreign(&self) -> bool {
        !self.has(&[JSON, YAML, PROTOBUF])
    }
}

/// Returns the media types of a header in the order of preference.
fn clauses(accept: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> = Vec::new();
    for clause in accept.split(',').filter_map(Clause::of) {
        // Insertion sort gives the same result as the real server's sort of short lists; the relation is not a strict order.
        let mut at = clauses.len();
        while at > 0 && clause.precedes(&clauses[at - 1]) {
            at -= 1;
        }
        clauses.insert(at, clause);
    }
    clauses
}

// === impl Clause ===

impl<'a> Clause<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';');
        let media = parts.next()?.trim_matches(' ');
        let (media, sub) = match media.split_once('/') {
            None if media == "*" => ("*", "*"),
            Some((media, sub)) if !sub.is_empty() && !sub.contains('/') => {
                (media.trim_matches(' '), sub.trim_matches(' '))
            }
            _ => return None,
        };
        let given = |part: &'a str| {
            let (key, value) = part.split_once('=')?;
            (!value.is_empty() && !value.contains('='))
                .then(|| (key.trim_matches(' '), value.trim_matches(' ')))
        };
        let mut parameters: Vec<(&str, &str)> = parts.filter_map(given).collect();
        let weight = parameters
            .iter()
            .rfind(|(key, _)| *key == "q")
            .map_or(1.0, |(_, weight)| weight.parse().unwrap_or_default());
        parameters.retain(|(key, _)| *key != "q");
        Some(Self {
            media,
            sub,
            parameters,
            weight,
        })
    }

    fn precedes(&self, other: &Self) -> bool {
        self.weight > other.weight
            || (self.media != "*" && other.media == "*")
            || (self.sub != "*" && other.sub == "*")
    }

    fn form(&self, included: Included) -> Option<Form> {
        if !matches!(
            (self.media, self.sub),
            ("application", "json" | "*") | ("*", "*")
        ) {
            return None;
        }
        let get = |key: &str| {
            let found = self.parameters.iter().rfind(|(k, _)| *k == key);
            found.map(|(_, value)| *value)
        };
        if get("stream").is_some_and(|stream| stream != "watch")
            || get("sv").is_some_and(|version| version != "v1")
        {
            return None;
        }
        let meta = match (get("g"), get("v")) {
            (Some("meta.k8s.io"), Some("v1")) => Some("meta.k8s.io/v1"),
            (Some("meta.k8s.io"), Some("v1beta1")) => Some("meta.k8s.io/v1beta1"),
            _ => None,
        };
        match (get("as"), meta, get("g"), get("v")) {
            (None, _, None, None) => Some(Form::Whole),
            (Some("Table"), Some(api_version), ..) => Some(Form::Table(Look {
                api_version,
                included,
            })),
            (Some("PartialObjectMetadata"), Some(version), ..) => Some(Form::Partial(version)),
            (Some("PartialObjectMetadataList"), Some(version), ..) => Some(Form::Partials(version)),
            (Some("APIGroupDiscoveryList"), _, Some("apidiscovery.k8s.io"), Some("v2")) => {
                Some(Form::Aggregated)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forms(accept: &str) -> Vec<Form> {
        let found = clauses(accept);
        let form = |clause: &Clause<'_>| clause.form(Included::Metadata);
        found.iter().filter_map(form).collect()
    }

    #[test]
    fn the_most_wanted_form_that_can_be_given_is_first() {
        let table = Form::Table(Look {
            api_version: "meta.k8s.io/v1",
            included: Included::Metadata,
        });
        assert_eq!(forms("application/vnd.kubernetes.protobuf"), []);
        assert_eq!(
            forms(" application/json;as=Table;v=v1;g=meta.k8s.io, application/json"),
            [table, Form::Whole]
        );
        assert_eq!(
            forms("application/json;q=0.5,application/json;as=Table;v=v1;g=meta.k8s.io"),
            [table, Form::Whole]
        );
        assert_eq!(forms("*/*;q=0.1"), [Form::Whole]);
        assert_eq!(forms("application/json;as="), [Form::Whole]);
        assert_eq!(forms("application/json;v=v1"), []);
    }
}
