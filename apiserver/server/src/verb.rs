//! Dispatches a call: finds the kind that its path names, checks the verb, and runs the verb's module.
//!
//! Guarantees that calls run synchronously, one at a time, under the store's lock.
//! Must not depend on transports, injected faults or the journal.

mod apply;
mod apply_scale;
mod create;
mod delete;
mod deletion;
mod find;
mod get;
mod health;
mod list;
mod page;
mod patch;
mod pods;
mod proxy;
mod scale;
mod seed;
mod update;
pub(crate) mod watch;

pub(crate) use create::{Birth, create_body, place, shaped};
pub(crate) use delete::delete_key;
pub(crate) use deletion::Deletion;
pub(crate) use scale::of as scale_of;
pub(crate) use seed::seed;

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use crate::access::escalate::{self, Wish};
use crate::call::{Call, Form, Included, Path, Verb, Wanted};
use crate::convert;
use crate::kind::{Kind, crd, shape};
use crate::managed::Author;
use crate::managed::set::Set;
use crate::object::{Body, Stored};
use crate::render;
use crate::status::Refusal;
use crate::store::{Store, key};
use crate::valid;

/// The body of an answer: bytes, or a watch that starts.
#[derive(Debug)]
pub(crate) enum Content {
    Bytes(Bytes),
    Watch(Box<watch::Watch>),
}

/// A successful answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) content: Content,
    pub(crate) content_type: &'static str,
    pub(crate) revision: Option<u64>,
    pub(crate) changed: bool,
    pub(crate) warnings: Vec<String>,
}

/// The part of an object that a path addresses: the object itself or a subresource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Main,
    Status,
    Scale,
    Finalize,
    /// `token` of a service account: requests a token.
    Token,
    Eviction,
    Binding,
    /// `ephemeralcontainers`: adds containers to a running Pod.
    Ephemeral,
    /// `resize`: changes the resources of a running Pod's containers.
    Resize,
    /// `approval`: approves or denies a certificate signing request.
    Approval,
    Log,
    /// `exec`, `attach` and `portforward`, which would connect to a container.
    Stream,
    /// `proxy`, which would forward a request to a Pod, Service or Node.
    Proxy,
}

/// A call together with the kind that its path names.
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

    /// Answers with one object in the requested form.
    fn object(code: u16, store: &Store, target: &Target<'_>, stored: &Stored) -> Self {
        if let Some(refusal) = target.misfit(false) {
            // A write is already stored by now, so only the answer reports that the form does not fit.
            return Self::json(refusal.code, &refusal.body());
        }
        let bytes = match (target.form, target.part) {
            (Form::Table(look), Part::Scale) => {
                let scale = scale::of(&target.kind, stored);
                crate::table::scale(store, &target.kind, &scale, stored.slim.revision, look)
            }
            (Form::Table(look), _) => crate::table::one(store, &target.kind, stored, look),
            (Form::Partial(version), Part::Scale) => {
                let scale = scale::of(&target.kind, stored);
                render::to_bytes(&render::metadata_of(&scale, version))
            }
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

    /// Returns the author of this write for the managed fields, with the fields that it cannot change.
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

    /// Returns the refusal if the answer, one object or a list, cannot have the requested form.
    fn misfit(&self, list: bool) -> Option<Refusal> {
        let wanted = match self.form {
            Form::Table(look) if look.included == Included::Unknown => {
                let given = self.call.param("includeObject");
                return Some(Refusal::bad_request(format!(
                    "Unable to convert to Table as requested: includeObject: Invalid value: {given:?}: must be 'Metadata', 'Object', \
                     'None', or empty"
                )));
            }
            Form::Partial(_) if list => "PartialObjectMetadata, but the requested object is a list",
            Form::Partials(_) if !list && !self.kind.traits.builtin && self.part != Part::Scale => {
                return Some(Refusal::internal("content is not a list"));
            }
            Form::Partials(_) if !list => {
                "PartialObjectMetadataList, but the requested object is not a list"
            }
            _ => return None,
        };
        let held = match (self.part, self.kind.traits.builtin) {
            (Part::Scale, true) => "autoscaling.Scale".to_owned(),
            (Part::Scale, false) => "v1.Scale".to_owned(),
            _ => render::go_type(&self.kind, list),
        };
        Some(Refusal::unfit_form(&format!(
            "you requested {wanted} (*{held})"
        )))
    }

    /// Refuses a role or binding that grants more permissions than its author has.
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

    /// Returns the warnings about an object that is accepted.
    fn worth_a_word(&self, old: Option<&Stored>, body: &Body) -> Vec<String> {
        if self.part != Part::Main {
            return Vec::new();
        }
        let old = old.map(|old| shape::of_version(&self.kind, old.body()));
        let mut told = crd::warnings(&self.kind, old.as_ref(), body);
        told.extend(valid::warnings(&self.kind, old.as_ref(), body));
        told
    }

    /// Returns the API version and kind that a body must have.
    fn wanted<'a>(&'a self, api_version: &'a str) -> Wanted<'a> {
        Wanted {
            api_version,
            kind: &self.kind.kind,
            builtin: self.kind.traits.builtin,
        }
    }

    /// Returns the stored object in the version of the request, or the refusal `NotFound`.
    fn stored(&self, store: &mut Store) -> Result<Arc<Stored>, Refusal> {
        self.found(store)?
            .ok_or_else(|| Refusal::not_found(self.kind.subject(self.name())))
    }

    /// Like [`stored`](Self::stored), but returns `None` for an object that does not exist.
    fn found(&self, store: &mut Store) -> Result<Option<Arc<Stored>>, Refusal> {
        if let Some(flaw) = find::path_flaw(self.name()) {
            return Err(Refusal::bad_request(format!(
                "Name parameter invalid: {:?}: {flaw}",
                self.name()
            )));
        }
        let found = store.get(self.kind.collection, &self.key());
        let found = found.map(|found| convert::view(store, &self.kind, &found));
        found.transpose()
    }

    /// Returns the prefix of the keys in this collection that the path covers.
    fn prefix(&self) -> String {
        self.namespace()
            .map(|namespace| format!("{namespace}/"))
            .unwrap_or_default()
    }
}

/// Answers a call.
pub(crate) fn answer(store: &mut Store, call: &Call) -> Result<Answer, Refusal> {
    let Some(path) = &call.path else {
        return page::answer(store, call);
    };
    if path.plural == "watch" && path.name.is_none() && path.namespace.is_none() {
        return Err(Refusal::undeterminable(&call.raw_path));
    }
    let target = find::find(store, call, path)?;
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
        Part::Proxy => return Err(proxy::refuse(store, target)),
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
