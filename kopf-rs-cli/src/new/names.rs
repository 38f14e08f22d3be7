//! The names in a new operator: of its crate, and of its kind. Pure.

use std::fmt;
use std::str::FromStr;

use crate::script::fit;

/// The name of an operator: a valid name of a crate, of an image, and of Kubernetes annotations.
#[derive(Clone, Debug)]
pub(crate) struct Name(String);

/// The kind of the objects that an operator handles.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) name: String,
}

/// A name that cannot be used. The text begins with it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NameError(String);

const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop",
    "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static",
    "struct", "super", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual",
    "where", "while", "yield",
];

/// Crates that the new one is linked with, and folders of cargo's target folder.
const CRATES: &[&str] = &[
    "alloc",
    "build",
    "core",
    "deps",
    "examples",
    "incremental",
    "k8s-openapi",
    "kube",
    "proc-macro",
    "schemars",
    "serde",
    "serde-json",
    "std",
    "test",
    "tokio",
];

/// Types and variants that the new code uses, so that its own kind cannot have their names. A function `register_crd` exists already.
const TYPES: &[&str] = &[
    "Children",
    "Client",
    "Clone",
    "Condition",
    "Crd",
    "CustomResource",
    "CustomResourceExt",
    "Default",
    "Err",
    "HandlerResult",
    "JsonSchema",
    "None",
    "Ok",
    "Option",
    "Registry",
    "Result",
    "Self",
    "Some",
    "Status",
    "String",
    "TestCluster",
    "Value",
    "Vec",
];

const LONGEST: usize = 63;

// === impl Name ===

impl Name {
    pub(super) fn new(name: &str) -> Result<Self, NameError> {
        let refused = |why: &str| {
            let fitting = Some(fit(name)).filter(|it| !it.is_empty() && Self::problem(it).is_none());
            let fitting = fitting.unwrap_or_else(|| "my-operator".to_owned());
            Err(NameError(format!(
                "`{name}` cannot be the name of an operator: {why}\n  \
                 choose another folder, or give a name such as --name {fitting}"
            )))
        };
        Self::problem(name).map_or_else(|| Ok(Self(name.to_owned())), refused)
    }

    fn problem(name: &str) -> Option<&'static str> {
        let fits = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
        if !name.starts_with(|first: char| first.is_ascii_lowercase())
            || name.ends_with('-')
            || !name.chars().all(fits)
            || name.len() > LONGEST
        {
            return Some("expected at most 63 lowercase letters, digits and `-`, first a letter");
        }
        if KEYWORDS.contains(&name) {
            return Some("it is a keyword of Rust");
        }
        let is_taken = CRATES.contains(&name) || name == "kopf-rs" || name.starts_with("kopf-rs-");
        is_taken.then_some("it is the name of a crate that the operator is built with")
    }

    /// Returns the name in Rust's code.
    pub(super) fn of_crate(&self) -> String {
        self.0.replace('-', "_")
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// === impl Kind ===

impl Kind {
    /// Returns the default kind: `example.com/v1/Backup` for an operator `backup-operator`.
    pub(super) fn named_after(name: &Name) -> Result<Self, NameError> {
        let endings = ["-operator", "-controller"];
        let stem = endings.iter().find_map(|ending| name.0.strip_suffix(ending)).unwrap_or(&name.0);
        let capital = |part: &str| part[..1].to_ascii_uppercase() + &part[1..];
        let kind: String = stem.split('-').filter(|part| !part.is_empty()).map(capital).collect();
        Self::new("example.com", "v1", &kind)
            .map_err(|error| NameError(format!("{error}\n  choose another: --kind example.com/v1/KIND")))
    }

    fn new(group: &str, version: &str, kind: &str) -> Result<Self, NameError> {
        let is_label = |it: &str| {
            let fits = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
            let is_edge = |letter: char| letter != '-';
            (1..=LONGEST).contains(&it.len())
                && it.chars().all(fits)
                && it.starts_with(is_edge)
                && it.ends_with(is_edge)
        };
        let starts_small = |it: &str| it.starts_with(|first: char| first.is_ascii_lowercase());
        let is_of_kubernetes = |ending: &str| group.ends_with(&format!(".{ending}")) || group == ending;
        let refused = |why: String| Err(NameError(why));
        if !group.split('.').all(is_label) || group.len() > 253 {
            return refused(format!("`{group}` is no group: expected a domain, such as example.com"));
        }
        if !group.contains('.') || is_of_kubernetes("k8s.io") || is_of_kubernetes("kubernetes.io") {
            let problem = if group.contains('.') {
                "is one of Kubernetes"
            } else {
                "has no dot, as only groups of Kubernetes"
            };
            return refused(format!(
                "the group `{group}` {problem}\n  expected a domain of yours, such as example.com. For objects of a kind \
                 that exists, write a handler by hand: #[on_create(\"{group}\", \"{version}\", \"{}\")]",
                plural_of(kind)
            ));
        }
        if !is_label(version) || !starts_small(version) {
            return refused(format!("`{version}` is no version: expected one such as v1 or v1alpha1"));
        }
        let is_word = kind.chars().all(|letter| letter.is_ascii_alphanumeric());
        let is_capital = kind.starts_with(|first: char| first.is_ascii_uppercase());
        if !is_word || !is_capital || kind.len() > LONGEST {
            return refused(format!(
                "`{kind}` is no kind: expected a capital letter, then letters and digits, at most {LONGEST} in all, such as Backup"
            ));
        }
        if TYPES.contains(&kind) {
            return refused(format!(
                "the kind `{kind}` has the name of a type that the operator's code uses\n  choose another name, such as My{kind}"
            ));
        }
        Ok(Self { group: group.to_owned(), version: version.to_owned(), name: kind.to_owned() })
    }

    /// Returns the plural, by the rule of `kube::CustomResource`.
    pub(super) fn plural(&self) -> String {
        plural_of(&self.name)
    }
}

impl FromStr for Kind {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        match text.split('/').collect::<Vec<_>>()[..] {
            [group, version, kind] => Self::new(group, version, kind),
            _ => Err(NameError("expected three parts, such as example.com/v1/Backup".to_owned())),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.group, self.version, self.name)
    }
}

/// Returns the name of a kind as part of a name of a function: `my_sql_cluster` for `MySQLCluster`.
pub(crate) fn snake_case(kind: &str) -> String {
    let letters: Vec<char> = kind.chars().collect();
    let mut snake = String::new();
    for (at, letter) in letters.iter().enumerate() {
        let follows_small = at > 0 && !letters[at - 1].is_ascii_uppercase();
        let begins_word = at > 0 && letters.get(at + 1).is_some_and(char::is_ascii_lowercase);
        if letter.is_ascii_uppercase() && (follows_small || begins_word) {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

/// Returns the name of a kind as the name of a module.
pub(crate) fn module_name(kind: &str) -> String {
    const TAKEN: [&str; 4] = ["kopf_rs", "lib", "main", "tests"];
    let snake = snake_case(kind);
    let of_crate = snake.replace('_', "-");
    let is_taken = KEYWORDS.contains(&&*snake) || CRATES.contains(&&*of_crate) || TAKEN.contains(&&*snake);
    if is_taken { snake + "_kind" } else { snake }
}

fn plural_of(kind: &str) -> String {
    let word = kind.to_lowercase();
    if ["s", "x", "z", "ch", "sh"].iter().any(|ending| word.ends_with(ending)) {
        return word + "es";
    }
    match word.strip_suffix('y') {
        Some(stem) if stem.ends_with(|last: char| !"aeiou".contains(last)) => format!("{stem}ies"),
        _ => word + "s",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_operators_are_names_of_crates_and_annotations() {
        for name in ["demo", "my-operator", "op2", "matches"] {
            assert!(Name::new(name).is_ok(), "{name}");
        }
        for (name, why, fitting) in [
            ("My_App", "expected at most 63 lowercase letters", "my-app"),
            ("2nd", "expected", "op-2nd"),
            ("", "expected", "operator"),
            ("a-", "expected", "--name a"),
            ("ö", "expected", "operator"),
            ("fn", "it is a keyword of Rust", "my-operator"),
            ("test", "the name of a crate", "test-operator"),
            ("kube", "the name of a crate", "kube-operator"),
            ("kopf-rs", "the name of a crate", "my-operator"),
        ] {
            let refused = Name::new(name).unwrap_err().to_string();
            assert!(refused.starts_with(&format!("`{name}` cannot be the name")), "{refused}");
            assert!(refused.contains(why) && refused.ends_with(fitting), "{refused}");
        }
        assert!(Name::new(&"a".repeat(64)).is_err());
    }

    #[test]
    fn kinds_have_three_parts_of_their_own() {
        for kind in ["example.com/v1/Demo", "a.b.c-d.org/v2beta1/MySQLCluster"] {
            assert_eq!(kind.parse::<Kind>().unwrap().to_string(), kind);
        }
        for (kind, why) in [
            ("Demo", "expected three parts, such as example.com/v1/Backup"),
            ("v1/Pod", "expected three parts"),
            ("a/b/c/d", "expected three parts"),
            ("apps/v1/Deployment", "#[on_create(\"apps\", \"v1\", \"deployments\")]"),
            ("batch.k8s.io/v1/Demo", "the group `batch.k8s.io` is one of Kubernetes"),
            ("Example.com/v1/Demo", "`Example.com` is no group"),
            ("/v1/Demo", "`` is no group"),
            ("example.com/1/Demo", "`1` is no version"),
            ("example.com/V1/Demo", "`V1` is no version"),
            ("example.com/v1/demo", "`demo` is no kind"),
            ("example.com/v1/My-Demo", "`My-Demo` is no kind"),
            ("example.com/v1/", "`` is no kind"),
            ("example.com/v1/Condition", "has the name of a type"),
        ] {
            let refused = kind.parse::<Kind>().unwrap_err().to_string();
            assert!(refused.contains(why), "{kind}: {refused}");
        }
    }

    #[test]
    fn the_default_kind_has_the_name_of_the_operator() {
        for (name, kind) in
            [("demo", "Demo"), ("my-sql", "MySql"), ("backup-operator", "Backup"), ("operator", "Operator")]
        {
            let made = Kind::named_after(&Name::new(name).unwrap()).unwrap();
            assert_eq!(made.to_string(), format!("example.com/v1/{kind}"));
        }
        let refused = Kind::named_after(&Name::new("status").unwrap()).unwrap_err();
        assert!(refused.to_string().ends_with("choose another: --kind example.com/v1/KIND"), "{refused}");
    }

    #[test]
    fn modules_have_the_names_of_kinds() {
        for (kind, module) in [
            ("Order", "order"),
            ("MySQLCluster", "my_sql_cluster"),
            ("Kube", "kube_kind"),
            ("S3Bucket", "s3_bucket"),
            ("Match", "match_kind"),
        ] {
            assert_eq!(module_name(kind), module);
        }
    }

    #[test]
    fn plurals_are_those_of_kube() {
        for (kind, plural) in [
            ("Demo", "demos"),
            ("Proxy", "proxies"),
            ("Key", "keys"),
            ("Bus", "buses"),
            ("Switch", "switches"),
        ] {
            assert_eq!(plural_of(kind), plural);
        }
    }
}
