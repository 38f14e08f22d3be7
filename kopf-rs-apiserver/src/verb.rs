//! From a call to its answer: finds the kind, checks the verb, and hands over to the verb's module.
//!
//! Promise: synchronous, under the store's lock, one call at a time. Must not know transports, faults or the journal.

mod apply;
mod create;
mod delete;
mod deletion;
mod get;
mod list;
mod page;
mod patch;
mod pods;
mod scale;
mod update;
pub(crate) mod watch;

pub(crate) use create::{Birth, create_body, place, shaped};
pub(crate) use delete::delete_key;
pub(crate) use deletion::Deletion;
pub(crate) use scale::of as scale_of;

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use crate::access::escalate::{self, Wish};
use crate::call::{Call, Form, Path, Verb, Wanted};
use crate::convert;
use crate::kind::Kind;
use crate::managed::Author;
use crate::managed::set::Set;
use crate::object::{Body, Stored};
use crate::render;
use crate::status::Refusal;
use crate::store::{Store, key};
use crate::valid;

/// What goes back: bytes, or the start of a watch.
#[derive(Debug)]
pub(crate) enum Content {
    Bytes(Bytes),
    Watch(Box<watch::Watch>),
}

/// A good answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) content: Content,
    pub(crate) content_type: &'static str,
    pub(crate) revision: Option<u64>,
    pub(crate) changed: bool,
    pub(crate) warnings: Vec<String>,
}

/// Which part of an object is addressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Main,
    Status,
    Scale,
    Finalize,
    /// A request for a token of a service account.
    Token,
    Eviction,
    Binding,
    /// Containers that are added to a running Pod.
    Ephemeral,
    /// What the containers of a running Pod may use.
    Resize,
    /// Whether a certificate is given.
    Approval,
    Log,
    /// What would be a connection to a container.
    Stream,
}

/// A call whose kind is served.
#[derive(Clone, Debug)]
pub(crate) struct Target<'a> {
    pub(crate) call: &'a Call,
    pub(crate) kind: Arc<Kind>,
    pub(crate) path: &'a Path,
    pub(crate) part: Part,
    pub(crate) form: Form,
}

// === impl Answer ===

impl Answer {
    pub(crate) fn json(code: u16, value: &Value) -> Self {
        Self::bytes(code, render::to_bytes(value))
    }

    pub(crate) fn bytes(code: u16, bytes: Bytes) -> Self {
        Self {
            code,
            content: Content::Bytes(bytes),
            content_type: "application/json",
            revision: None,
            changed: false,
            warnings: Vec::new(),
        }
    }

    /// One object, in the form asked for.
    fn object(code: u16, store: &Store, target: &Target<'_>, stored: &Stored) -> Self {
        let bytes = match (target.form, target.part) {
            (Form::Table, Part::Scale) => {
                let scale = scale::of(&target.kind, stored);
                crate::table::scale(store, &scale, stored.slim.revision)
            }
            (Form::Table, _) => crate::table::one(store, &target.kind, stored),
            (_, Part::Scale) => render::to_bytes(&scale::of(&target.kind, stored)),
            (form, _) => render::object(&target.kind, stored, form),
        };
        let mut answer = Self::bytes(code, bytes);
        answer.revision = Some(stored.slim.revision);
        answer
    }
}

// === impl Target ===

impl Target<'_> {
    fn namespace(&self) -> Option<&str> {
        self.path.namespace.as_deref()
    }

    fn name(&self) -> &str {
        self.path.name.as_deref().unwrap_or_default()
    }

    fn key(&self) -> String {
        key(self.namespace(), self.name())
    }

    /// Who writes.
    pub(crate) fn author(&self, store: &Store) -> Result<Author, Refusal> {
        let (subresource, closed) = match self.part {
            Part::Main if self.kind.traits.status => ("", &[&["status"][..]][..]),
            Part::Main => ("", &[][..]),
            Part::Status if self.kind.traits.builtin => ("status", &[&["spec"][..]][..]),
            Part::Status => ("status", &[&["metadata"][..], &["spec"]][..]),
            Part::Scale => ("scale", &[][..]),
            Part::Ephemeral => ("ephemeralcontainers", &[&["status"][..]][..]),
            Part::Resize => ("resize", &[&["status"][..]][..]),
            Part::Approval => ("approval", &[&["metadata"][..], &["spec"]][..]),
            Part::Token => ("token", &[][..]),
            _ => ("finalize", &[][..]),
        };
        let mut closed = Set::of_fields(closed);
        if self.part == Part::Status && self.kind.traits.builtin {
            for field in self.kind.kept_with_status() {
                closed.add(&Set::of_fields(&[&["metadata", field]]));
            }
        }
        Ok(Author {
            manager: self.call.manager()?,
            api_version: self.kind.api_version(),
            subresource,
            time: store.clock.stamp(),
            closed: Arc::new(closed),
        })
    }

    /// Refuse a role or binding that gives away more than its writer has.
    fn check_escalation(
        &self,
        store: &mut Store,
        old: Option<&Body>,
        new: &Body,
    ) -> Result<(), Refusal> {
        let wish = Wish {
            user: &self.call.user,
            kind: &self.kind,
            name: self.name(),
            namespace: self.namespace().unwrap_or_default(),
            old,
            new,
        };
        escalate::check(store, wish)
    }

    /// What there is to say of an object that is taken.
    fn worth_a_word(&self, body: &Body) -> Vec<String> {
        if self.part == Part::Status {
            return Vec::new();
        }
        valid::warnings(&self.kind, body)
    }

    /// The type bodies should have.
    fn wanted<'a>(&'a self, api_version: &'a str) -> Wanted<'a> {
        Wanted {
            api_version,
            kind: &self.kind.kind,
            builtin: self.kind.traits.builtin,
        }
    }

    /// The object, in the version of the request.
    fn stored(&self, store: &mut Store) -> Result<Arc<Stored>, Refusal> {
        self.found(store)?
            .ok_or_else(|| Refusal::not_found(self.kind.subject(self.name())))
    }

    /// The same, where there may be none.
    fn found(&self, store: &mut Store) -> Result<Option<Arc<Stored>>, Refusal> {
        let found = store.get(self.kind.collection, &self.key());
        let found = found.map(|found| convert::view(store, &self.kind, &found));
        found.transpose()
    }

    /// The keys of this collection that the path covers begin so.
    fn prefix(&self) -> String {
        self.namespace()
            .map(|namespace| format!("{namespace}/"))
            .unwrap_or_default()
    }
}

/// Answer a call.
pub(crate) fn answer(store: &mut Store, call: &Call) -> Result<Answer, Refusal> {
    let Some(path) = &call.path else {
        return page::answer(store, call);
    };
    let target = find(store, call, path)?;
    let warnings = target.kind.deprecation.clone();
    let result = of_target(store, &target);
    let Some(warning) = warnings else {
        return result;
    };
    match result {
        Ok(mut answer) => {
            answer.warnings.insert(0, warning);
            Ok(answer)
        }
        Err(refusal) => Err(refusal.warned_first(&[warning])),
    }
}

fn of_target(store: &mut Store, target: &Target<'_>) -> Result<Answer, Refusal> {
    match target.part {
        Part::Eviction => return pods::evict(store, target),
        Part::Binding => return pods::bind(store, target),
        Part::Log => return pods::log(store, target),
        Part::Stream => return Err(pods::stream(store, target)),
        _ => {}
    }
    match target.call.verb {
        Verb::Get => get::get(store, target),
        Verb::List => list::list(store, target),
        Verb::Watch => watch::watch(store, target),
        Verb::Create => create::create(store, target),
        Verb::Update => update::update(store, target),
        Verb::Patch => patch::patch(store, target),
        Verb::Delete => delete::delete(store, target),
        Verb::DeleteCollection => delete::delete_collection(store, target),
        Verb::Other => Err(Refusal::method_not_allowed()),
    }
}

fn find<'a>(store: &Store, call: &'a Call, path: &'a Path) -> Result<Target<'a>, Refusal> {
    let group = store.kinds.group(&path.group);
    let Some(kind) = store.kinds.kind(&path.group, &path.version, &path.plural) else {
        let known = path.group.is_empty()
            || group.is_some_and(|group| {
                group.builtin && group.versions.iter().any(|v| v.name == path.version)
            });
        return Err(if known {
            Refusal::no_resource()
        } else {
            Refusal::no_page()
        });
    };
    let kind = kind.clone();
    check_scope(&kind, path)?;
    let part = part(&kind, path)?;
    check_verb(&kind, call, path, part)?;
    let form = match call.form {
        Some(Form::Aggregated(_)) | None => return Err(Refusal::no_such_form()),
        Some(form) => form,
    };
    Ok(Target {
        call,
        kind,
        path,
        part,
        form,
    })
}

fn check_scope(kind: &Kind, path: &Path) -> Result<(), Refusal> {
    let fits = if kind.namespaced {
        path.namespace.is_some() || path.name.is_none()
    } else {
        path.namespace.is_none()
    };
    match (fits, kind.traits.builtin) {
        (true, _) => Ok(()),
        (false, true) => Err(Refusal::no_resource()),
        (false, false) => Err(Refusal::no_page()),
    }
}

fn part(kind: &Kind, path: &Path) -> Result<Part, Refusal> {
    match path.subresource.as_deref() {
        None => Ok(Part::Main),
        Some("status") if kind.traits.status => Ok(Part::Status),
        Some("scale") if kind.scale.is_some() => Ok(Part::Scale),
        Some("finalize") if kind.is_core("namespaces") => Ok(Part::Finalize),
        Some("token") if kind.is_core("serviceaccounts") => Ok(Part::Token),
        Some("eviction") if kind.is_core("pods") => Ok(Part::Eviction),
        Some("binding") if kind.is_core("pods") => Ok(Part::Binding),
        Some("ephemeralcontainers") if kind.is_core("pods") => Ok(Part::Ephemeral),
        Some("resize") if kind.is_core("pods") => Ok(Part::Resize),
        Some("log") if kind.is_core("pods") => Ok(Part::Log),
        Some("exec" | "attach" | "portforward") if kind.is_core("pods") => Ok(Part::Stream),
        Some("approval") if kind.subresources().contains(&"approval") => Ok(Part::Approval),
        Some(_) if kind.traits.builtin => Err(Refusal::no_resource()),
        // The real server says so of subresources that custom kinds lack.
        Some(_) => Err(Refusal::not_found(
            kind.subject(path.name.as_deref().unwrap_or_default()),
        )),
    }
}

fn check_verb(kind: &Kind, call: &Call, path: &Path, part: Part) -> Result<(), Refusal> {
    let verb = call.verb;
    let putting = matches!(call.method.as_str(), "PUT" | "PATCH");
    let everywhere = kind.namespaced && path.namespace.is_none();
    let writes_everywhere = everywhere && matches!(verb, Verb::Create | Verb::DeleteCollection);
    if !kind.traits.builtin {
        return match verb {
            _ if writes_everywhere => Err(Refusal::no_page()),
            Verb::Other if !putting => Err(Refusal::unknown_method(kind.subject(""))),
            Verb::Other => Err(Refusal::bad_request("name must be provided")),
            Verb::Delete if part != Part::Main => Err(Refusal::method_not_allowed()),
            _ => Ok(()),
        };
    }
    let posted = matches!(part, Part::Eviction | Part::Binding | Part::Token);
    let allowed = match verb {
        _ if posted => verb == Verb::Create,
        _ if call.method == "HEAD" => false,
        _ if part == Part::Finalize => verb == Verb::Update,
        _ if part == Part::Log => verb == Verb::Get,
        _ if part == Part::Stream => matches!(verb, Verb::Get | Verb::Create),
        Verb::Create => path.name.is_none() && !writes_everywhere,
        Verb::Delete => part == Part::Main,
        _ => !writes_everywhere,
    };
    if allowed && kind.verbs().contains(&name_of(verb)) {
        return Ok(());
    }
    Err(Refusal::method_not_allowed())
}

/// As discovery calls it.
fn name_of(verb: Verb) -> &'static str {
    match verb {
        Verb::Get => "get",
        Verb::List => "list",
        Verb::Watch => "watch",
        Verb::Create => "create",
        Verb::Update => "update",
        Verb::Patch => "patch",
        Verb::Delete => "delete",
        Verb::DeleteCollection => "deletecollection",
        Verb::Other => "",
    }
}

/// What every cluster has from the start.
pub(crate) fn seed(store: &mut Store) {
    let Some(kind) = store.kinds.kind("", "v1", "namespaces").cloned() else {
        return;
    };
    for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
        let body = serde_json::json!({"metadata": {"name": name}});
        let author = Author::server(&kind.api_version(), store.clock.stamp());
        let birth = create::Birth {
            kind: &kind,
            namespace: None,
            author: &author,
            managed: None,
            dry_run: false,
        };
        if let Value::Object(body) = body {
            // These are valid and there are no others yet: nothing can be refused.
            let _created = create::create_body(store, &birth, body);
        }
    }
}
