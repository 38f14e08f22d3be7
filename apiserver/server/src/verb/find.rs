//! Resolves a call: the kind that its path names, the subresource, the verb's availability, and the form of the answer.
//!
//! Guarantees the real server's refusals for paths that name no resource. Must not depend on objects.

use super::{Part, Target};
use crate::call::{Call, Form, Path, Verb};
use crate::kind::Kind;
use crate::status::Refusal;
use crate::store::Store;

pub(super) fn find<'a>(
    store: &Store,
    call: &'a Call,
    path: &'a Path,
) -> Result<Target<'a>, Refusal> {
    let group = store.kinds.group(&path.group);
    let Some(kind) = store.kinds.kind(&path.group, &path.version, &path.plural) else {
        // This includes API versions that were removed, because old clients still request them.
        let known = path.group.is_empty() || group.is_some_and(|group| group.builtin);
        return Err(if known {
            Refusal::no_resource()
        } else {
            Refusal::no_page()
        });
    };
    let kind = kind.clone();
    if kind.traits.builtin && call.segments.iter().any(String::is_empty) {
        return Err(Refusal::no_resource());
    }
    check_scope(&kind, path)?;
    let part = part(&kind, path)?;
    check_verb(&kind, call, path, part)?;
    let form = form(&kind, call)?;
    Ok(Target {
        call,
        kind,
        path,
        part,
        form,
    })
}

/// Returns the form of the answer for a kind.
fn form(kind: &Kind, call: &Call) -> Result<Form, Refusal> {
    if kind.traits.builtin && call.accepted.is_foreign() {
        let watched = matches!(call.verb, Verb::List | Verb::Watch);
        return Err(Refusal::no_representation(watched));
    }
    let form = call.accepted.object(!kind.traits.review);
    form.ok_or_else(Refusal::no_such_form)
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
        Some("proxy") if kind.subresources().contains(&"proxy") => Ok(Part::Proxy),
        Some(_) if kind.traits.builtin && path.goes_on => Err(Refusal::no_resource()),
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
        // The real server answers this for subresources that a custom kind does not define.
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
            Verb::Create if path.name.is_some() && part != Part::Main => {
                Err(Refusal::unsupported_verb("create", kind.subject("")))
            }
            Verb::Delete if part != Part::Main => {
                Err(Refusal::unsupported_verb("delete", kind.subject("")))
            }
            Verb::Watch if part != Part::Main => {
                Err(Refusal::unsupported_verb("watch", kind.subject("")))
            }
            _ => Ok(()),
        };
    }
    let posted = matches!(part, Part::Eviction | Part::Binding | Part::Token);
    if part == Part::Proxy {
        return Ok(());
    }
    let lone = kind.traits.review || kind.is_core("bindings");
    if (verb == Verb::Watch && !kind.verbs().contains(&"watch"))
        || (lone && (path.name.is_some() || everywhere))
    {
        return Err(Refusal::no_resource());
    }
    let allowed = match verb {
        Verb::Watch if call.watched_by_path && call.method != "GET" => false,
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

/// Returns the name of the verb in discovery.
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

/// Returns the reason why a name cannot be part of a path.
pub(super) fn path_flaw(name: &str) -> Option<String> {
    match name {
        "." | ".." => Some(format!("may not be '{name}'")),
        _ => ['/', '%']
            .iter()
            .find(|letter| name.contains(**letter))
            .map(|letter| format!("may not contain '{letter}'")),
    }
}
