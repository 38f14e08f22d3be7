//! The operations on the kinds of a version, independent of the `OpenAPI` version.
//!
//! Paths, names, parameters and responses are those of the real server. Independent of the form of the documents.

use serde_json::{Value, json};

use super::{SUBRESOURCES, custom, gvk, path, reference};
use crate::kind::{Kind, discovery};

/// One operation.
#[derive(Debug, Clone)]
pub(super) struct Operation {
    pub(super) path: String,
    pub(super) method: &'static str,
    /// Unique within a document, because client generators use it as a function name.
    pub(super) id: String,
    pub(super) action: &'static str,
    pub(super) target: Value,
    pub(super) parameters: Vec<&'static str>,
    pub(super) body: Option<Content>,
    /// The schema of the response; `None` means plain text.
    pub(super) answer: Option<String>,
    pub(super) codes: &'static [u16],
    pub(super) gives: &'static [&'static str],
}

/// The body of a request.
#[derive(Debug, Clone)]
pub(super) struct Content {
    pub(super) schema: String,
    pub(super) required: bool,
    pub(super) forms: &'static [&'static str],
}

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const ANY: &[&str] = &["*/*"];
const BUILTIN: &[&str] = &[JSON, YAML, PROTOBUF];
const CUSTOM: &[&str] = &[JSON, YAML];
const WATCHED: &[&str] = &[
    JSON,
    YAML,
    PROTOBUF,
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];
const LOGGED: &[&str] = &["text/plain", JSON, YAML, PROTOBUF];
const PATCHED: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
    "application/strategic-merge-patch+json",
];

const LISTING: &[&str] = &[
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
    "watch",
];
const WRITING: &[&str] = &["dryRun", "fieldManager", "fieldValidation"];
const APPLYING: &[&str] = &["dryRun", "fieldManager", "fieldValidation", "force"];
const DELETING: &[&str] = &[
    "dryRun",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "propagationPolicy",
];
const LOGGING: &[&str] = &[
    "container",
    "follow",
    "insecureSkipTLSVerifyBackend",
    "limitBytes",
    "previous",
    "sinceSeconds",
    "stream",
    "tailLines",
    "timestamps",
];

/// Returns all operations on a kind.
pub(super) fn of_kind(kind: &Kind) -> Vec<Operation> {
    let mut made = Maker::new(kind);
    made.collection();
    made.object();
    if kind.traits.builtin && kind.verbs().contains(&"watch") {
        made.watches();
    }
    for name in kind.subresources() {
        made.subresource(name);
    }
    made.all
}

/// Returns the tag of a group version: the group without its domain and punctuation, and the version.
pub(super) fn tag(group: &str, version: &str) -> String {
    format!("{}_{version}", word(group))
}

/// Returns a group as a part of names.
pub(super) fn word(group: &str) -> String {
    let group = if group.is_empty() { "core" } else { group };
    let group = group.strip_suffix(".k8s.io").unwrap_or(group);
    let mut words = group.split(['.', '-']);
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |all, next| all + &capital(next))
}

/// Returns the word with a capital first letter.
pub(super) fn capital(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// Collects the operations on one kind.
struct Maker<'a> {
    kind: &'a Kind,
    schema: String,
    base: String,
    /// The path of the objects of one namespace, or of all objects of a cluster-scoped kind.
    objects: String,
    /// Group and version as a part of names.
    home: String,
    /// The kind as a part of names.
    named: String,
    all: Vec<Operation>,
}

// === impl Maker ===

impl<'a> Maker<'a> {
    fn new(kind: &'a Kind) -> Self {
        let base = format!("/{}", path(&kind.group, &kind.version));
        let (scope, prefix) = if kind.namespaced {
            ("/namespaces/{namespace}", "Namespaced")
        } else {
            ("", "")
        };
        let schema = kind
            .typed()
            .map_or_else(|| custom::name(kind, &kind.kind), reference::name);
        Self {
            kind,
            schema,
            objects: format!("{scope}/{}", kind.plural),
            base,
            home: capital(&word(&kind.group)) + &capital(&kind.version),
            named: format!("{prefix}{}", kind.kind),
            all: Vec::new(),
        }
    }

    /// Adds an operation on objects of this kind, without parameters.
    fn add(
        &mut self,
        path: String,
        method: &'static str,
        id: String,
        action: &'static str,
    ) -> &mut Operation {
        let builtin = self.kind.traits.builtin;
        let mut parameters: Vec<&'static str> = Vec::new();
        for (mark, name) in [
            ("{name}", "name"),
            ("{namespace}", "namespace"),
            ("{path}", "path"),
        ] {
            if path.contains(mark) {
                parameters.push(name);
            }
        }
        parameters.push("pretty");
        self.all.push(Operation {
            path,
            method,
            id,
            action,
            target: gvk(self.kind),
            parameters,
            body: None,
            answer: Some(self.schema.clone()),
            codes: &[200],
            gives: if builtin { BUILTIN } else { CUSTOM },
        });
        let last = self.all.len() - 1;
        &mut self.all[last]
    }

    fn sent(&self, schema: String, required: bool) -> Content {
        let forms = if self.kind.traits.builtin {
            ANY
        } else {
            CUSTOM
        };
        Content {
            schema,
            required,
            forms,
        }
    }

    fn verb(&self, verb: &str) -> bool {
        self.kind.verbs().contains(&verb)
    }

    fn collection(&mut self) {
        let path = format!("{}{}", self.base, self.objects);
        let (home, named) = (self.home.clone(), self.named.clone());
        let builtin = self.kind.traits.builtin;
        if self.verb("list") {
            self.listing(path.clone(), format!("list{home}{named}"));
            if self.kind.namespaced {
                let everywhere = format!("{}/{}", self.base, self.kind.plural);
                let id = format!("list{home}{}ForAllNamespaces", self.kind.kind);
                self.listing(everywhere, id);
            }
        }
        if self.verb("create") {
            let body = self.sent(self.schema.clone(), true);
            let made = self.add(path.clone(), "post", format!("create{home}{named}"), "post");
            made.write(body, WRITING, &[200, 201, 202]);
        }
        if self.verb("deletecollection") {
            let body = self.sent(reference::meta("DeleteOptions"), false);
            let id = format!("delete{home}Collection{named}");
            let made = self.add(path, "delete", id, "deletecollection");
            made.answer = Some(reference::meta("Status"));
            if builtin {
                made.body = Some(body);
                let chosen = LISTING
                    .iter()
                    .filter(|name| !["allowWatchBookmarks", "watch"].contains(name));
                made.parameters.extend(DELETING.iter().chain(chosen));
            } else {
                made.parameters.extend(LISTING);
            }
        }
    }

    fn listing(&mut self, path: String, id: String) {
        let list = match self.kind.typed() {
            Some(_) => format!("{}List", self.schema),
            None => custom::name(self.kind, &self.kind.list_kind),
        };
        let watched = self.kind.traits.builtin && self.verb("watch");
        let made = self.add(path, "get", id, "list");
        made.answer = Some(list);
        made.parameters.extend(LISTING);
        if made.gives.len() == BUILTIN.len() && (watched || made.action == "list") {
            made.gives = WATCHED;
        }
    }

    fn object(&mut self) {
        let path = format!("{}{}/{{name}}", self.base, self.objects);
        let id = format!("{}{}", self.home, self.named);
        self.changes(&path, &id, self.kind.verbs(), &self.schema.clone());
        if self.verb("delete") {
            let body = self.sent(reference::meta("DeleteOptions"), false);
            let returned = self.kind.traits.returns_deleted;
            let made = self.add(path, "delete", format!("delete{id}"), "delete");
            made.write(body, DELETING, &[200, 202]);
            if !returned {
                made.answer = Some(reference::meta("Status"));
            }
        }
    }

    /// Adds the operations for reading and writing at a path, as far as `verbs` allows.
    fn changes(&mut self, path: &str, id: &str, verbs: &[&str], schema: &str) {
        let builtin = self.kind.traits.builtin;
        if verbs.contains(&"get") {
            let made = self.add(path.to_owned(), "get", format!("read{id}"), "get");
            made.answer = Some(schema.to_owned());
            if !builtin {
                made.parameters.push("resourceVersion");
            }
        }
        if verbs.contains(&"update") {
            let body = self.sent(schema.to_owned(), true);
            let made = self.add(path.to_owned(), "put", format!("replace{id}"), "put");
            made.write(body, WRITING, &[200, 201]);
            made.answer = Some(schema.to_owned());
        }
        if verbs.contains(&"patch") {
            let forms = if builtin { PATCHED } else { &PATCHED[..3] };
            let body = Content {
                schema: reference::meta("Patch"),
                required: true,
                forms,
            };
            let codes: &'static [u16] = if builtin { &[200, 201] } else { &[200] };
            let made = self.add(path.to_owned(), "patch", format!("patch{id}"), "patch");
            made.write(body, APPLYING, codes);
            made.answer = Some(schema.to_owned());
        }
    }

    /// Adds the deprecated `/watch/` paths.
    fn watches(&mut self) {
        let (home, named, kind) = (self.home.clone(), self.named.clone(), self.kind);
        let below = format!("{}/watch", self.base);
        let mut paths = vec![
            (
                format!("{below}{}", self.objects),
                format!("watch{home}{named}List"),
                "watchlist",
            ),
            (
                format!("{below}{}/{{name}}", self.objects),
                format!("watch{home}{named}"),
                "watch",
            ),
        ];
        if kind.namespaced {
            let id = format!("watch{home}{}ListForAllNamespaces", kind.kind);
            paths.push((format!("{below}/{}", kind.plural), id, "watchlist"));
        }
        for (path, id, action) in paths {
            let made = self.add(path, "get", id, action);
            made.answer = Some(reference::meta("WatchEvent"));
            made.parameters.extend(LISTING);
            made.gives = WATCHED;
        }
    }

    fn subresource(&mut self, name: &'static str) {
        let path = format!("{}{}/{{name}}/{name}", self.base, self.objects);
        let id = format!("{}{}{}", self.home, self.named, capital(name));
        let from = self.all.len();
        match name {
            "exec" | "attach" | "portforward" => self.connections(&path, name, &["get", "post"]),
            "proxy" => {
                let methods = ["get", "put", "post", "delete", "options", "head", "patch"];
                self.connections(&path, "proxy", &methods);
                self.connections(&format!("{path}/{{path}}"), "proxyWithPath", &methods);
            }
            "log" => {
                let made = self.add(path, "get", format!("read{id}"), "get");
                made.parameters.extend(LOGGING);
                (made.answer, made.gives) = (None, LOGGED);
            }
            _ => {
                let special = SUBRESOURCES.iter().find(|(of, _)| *of == name);
                let schema =
                    special.map_or(self.schema.clone(), |(_, schema)| (*schema).to_owned());
                let verbs = discovery::subresource_verbs(name);
                if verbs.contains(&"create") {
                    let body = self.sent(schema.clone(), true);
                    let made = self.add(path.clone(), "post", format!("create{id}"), "post");
                    made.write(body, WRITING, &[200, 201, 202]);
                    made.answer = Some(schema.clone());
                }
                self.changes(&path, &id, verbs, &schema);
            }
        }
        // The real server names the custom kind here, even for the scale subresource.
        if let Some((group, kind)) =
            discovery::foreign(&self.kind.kind, name).filter(|_| self.kind.traits.builtin)
        {
            for made in &mut self.all[from..] {
                made.target = json!({"group": group, "version": "v1", "kind": kind});
            }
        }
    }

    fn connections(&mut self, path: &str, name: &str, methods: &[&'static str]) {
        let own: &[&'static str] = match name {
            "exec" => &["command", "container", "stderr", "stdin", "stdout", "tty"],
            "attach" => &["container", "stderr", "stdin", "stdout", "tty"],
            "portforward" => &["ports"],
            _ => &[],
        };
        for method in methods {
            let id = format!(
                "connect{}{}{}{}",
                self.home,
                capital(method),
                self.named,
                capital(name)
            );
            let made = self.add(path.to_owned(), method, id, "connect");
            made.parameters.retain(|name| *name != "pretty");
            made.parameters.extend(own);
            if name.starts_with("proxy") {
                made.parameters.push("path?");
            }
            (made.answer, made.gives) = (None, ANY);
        }
    }
}

// === impl Operation ===

impl Operation {
    fn write(&mut self, body: Content, parameters: &[&'static str], codes: &'static [u16]) {
        self.body = Some(body);
        self.parameters.extend(parameters);
        self.codes = codes;
    }
}
