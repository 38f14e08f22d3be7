//! The subresources of Pods: `eviction`, `binding`, `log`, and those that would connect to a container.
//!
//! Guarantees that disruption budgets can refuse an eviction and that a binding assigns a Pod to its node.
//! No container runs, so logs are empty and connections are refused. Must not depend on controllers.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::create::place;
use super::list::bad_number;
use super::{Answer, Deletion, Target, delete, deletion, update};
use crate::call::{Document, Wanted};
use crate::kind::Kind;
use crate::object::{Body, at_path, map_mut, meta_text, set_path, text};
use crate::selector::choice::chooses;
use crate::status::{Cause, Refusal};
use crate::store::Store;
use crate::typed;

fn done() -> Answer {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Answer::json(201, &status)
}

/// Decodes a body by its type; also returns the warnings.
fn decoded(
    store: &Store,
    target: &Target<'_>,
    wanted: Wanted<'_>,
) -> Result<(Body, Vec<String>), Refusal> {
    let Wanted {
        api_version, kind, ..
    } = wanted;
    let judgement = target.call.unknown_fields()?;
    let Document { mut body, twice } = target.call.object(wanted)?;
    check_type(store, (api_version, kind), &body)?;
    let Some(of) = typed::of_kind(api_version, kind) else {
        return Ok((body, Vec::new()));
    };
    let version = api_version.rsplit('/').next().unwrap_or_default();
    let bad = |why: String| {
        Refusal::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {kind}: {why}"
        ))
    };
    for name in ["apiVersion", "kind"] {
        body.remove(name);
    }
    let (mut body, unknown) = typed::shape(of, body).map_err(|misfit| bad(misfit.to_string()))?;
    let complaints = target.call.complaints(unknown, &twice, true);
    let warnings = judgement.judge(complaints).map_err(bad)?;
    place(&target.kind, target.namespace(), &mut body)
        .map_err(|refusal| refusal.warned_first(&warnings))?;
    Ok((body, warnings))
}

/// Refuses a body of an unexpected type.
pub(super) fn check_type(
    store: &Store,
    (api_version, kind): (&str, &str),
    body: &Body,
) -> Result<(), Refusal> {
    let given = |field, usual| {
        Some(text(body, field))
            .filter(|found| !found.is_empty())
            .unwrap_or(usual)
    };
    let (version, word) = (given("apiVersion", api_version), given("kind", kind));
    let older = KNOWN.contains(&(version, word));
    if word == kind && (version == api_version || (older && kind == "Eviction")) {
        return Ok(());
    }
    let served = |found: &Arc<Kind>| found.kind == word && found.api_version() == version;
    let known = older || store.kinds.iter().any(served);
    let short = version.rsplit('/').next().unwrap_or_default();
    let why = if !known {
        format!(
            "no kind {word:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
        )
    } else if word == kind {
        return Err(Refusal::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({api_version})"
        )));
    } else {
        let group = api_version
            .split_once('/')
            .map_or("core", |(group, _)| group);
        format!("converting ({short}.{word}) to ({group}.{kind}): unknown conversion")
    };
    Err(Refusal::bad_request(format!(
        "{word} in version {short:?} cannot be handled as a {kind}: {why}"
    )))
}

/// Types of subresources, current and former, that the server knows in addition to the kinds that it serves.
const KNOWN: [(&str, &str); 6] = [
    ("policy/v1", "Eviction"),
    ("policy/v1beta1", "Eviction"),
    ("extensions/v1beta1", "Scale"),
    ("apps/v1beta1", "Scale"),
    ("apps/v1beta2", "Scale"),
    ("autoscaling/v1", "Scale"),
];

/// Refuses a body whose name differs from that in the path.
fn check_name(target: &Target<'_>, kind: &str, body: &Body) -> Result<(), Refusal> {
    if meta_text(body, "name") == target.name() {
        return Ok(());
    }
    Err(Refusal::bad_request(format!(
        "name in URL does not match name in {kind} object"
    )))
}

/// Adds warnings about the body to an answer or a refusal.
fn warned(warnings: Vec<String>, done: Result<Answer, Refusal>) -> Result<Answer, Refusal> {
    let mut answer = done.map_err(|refusal| refusal.warned_first(&warnings))?;
    answer.warnings.extend(warnings);
    Ok(answer)
}

fn add_condition(store: &Store, pod: &mut Body, mut condition: Value) {
    condition["lastProbeTime"] = Value::Null;
    condition["lastTransitionTime"] = store.clock.stamp().into();
    let status = map_mut(pod, "status");
    let slot = status.entry("conditions").or_insert_with(|| json!([]));
    if let Some(conditions) = slot.as_array_mut() {
        conditions.retain(|found| found["type"] != condition["type"]);
        conditions.push(condition);
    }
}

/// Deletes a Pod unless a disruption budget forbids it.
pub(crate) fn evict(store: &mut Store, target: &Target<'_>) -> Result<Answer, Refusal> {
    let wanted = Wanted {
        kind: "Eviction",
        ..target.wanted("policy/v1")
    };
    let (eviction, warnings) = decoded(store, target, wanted)?;
    warned(warnings, evict_decoded(store, target, &eviction))
}

fn evict_decoded(
    store: &mut Store,
    target: &Target<'_>,
    eviction: &Body,
) -> Result<Answer, Refusal> {
    check_name(target, "Eviction", eviction)?;
    let empty = Body::new();
    let options = eviction.get("deleteOptions").and_then(Value::as_object);
    let options = options.unwrap_or(&empty);
    let dry_run = target.call.dry_run()? || Deletion::is_dry(options);
    let pod = target.stored(store)?;
    if !pod.slim.terminating {
        check_budgets(store, target, &pod.body())?;
    }
    let mut how = Deletion::of_options(options, target);
    how.check(&target.kind, &pod)?;
    if !dry_run {
        let mut body = pod.body();
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
        });
        add_condition(store, &mut body, condition);
        store.put(target.kind.collection, body);
    }
    // As on the real server, the condition remains even if the deletion is refused.
    deletion::validate(options)?;
    how.dry_run = dry_run;
    let how = how.without_preconditions();
    let deleted = delete::delete_key(store, &target.kind, &target.key(), &how)?;
    let mut answer = done();
    answer.changed = deleted.changed;
    Ok(answer)
}

fn check_budgets(store: &Store, target: &Target<'_>, pod: &Body) -> Result<(), Refusal> {
    let Some(budgets) = store.kinds.kind("policy", "v1", "poddisruptionbudgets") else {
        return Ok(());
    };
    let empty = Body::new();
    let labels = at_path(pod, ".metadata.labels")
        .and_then(Value::as_object)
        .unwrap_or(&empty);
    for budget in store.under(budgets.collection, &target.prefix()) {
        let body = budget.body();
        let selector = at_path(&body, ".spec.selector").and_then(Value::as_object);
        if !selector.is_some_and(|selector| chooses(selector, labels)) {
            continue;
        }
        let number = |path: &str| {
            at_path(&body, path)
                .and_then(Value::as_i64)
                .unwrap_or_default()
        };
        let name = &budget.slim.name;
        if number(".status.observedGeneration") < number(".metadata.generation") {
            let why =
                format!("The disruption budget {name} is still being processed by the server.");
            return Err(Refusal::disruption(name, &why).retry_after(10));
        }
        if number(".status.disruptionsAllowed") <= 0 {
            let why = format!(
                "The disruption budget {name} needs {} healthy pods and has {} currently",
                number(".status.desiredHealthy"),
                number(".status.currentHealthy")
            );
            return Err(Refusal::disruption(name, &why));
        }
    }
    Ok(())
}

/// Binds a Pod to a node. The Pod is named in the path or, for `bindings`, in the body.
pub(crate) fn bind(store: &mut Store, target: &Target<'_>) -> Result<Answer, Refusal> {
    if target.kind.is_core("pods") {
        return bind_named(store, target);
    }
    let wanted = target.wanted("v1");
    let binding = target.call.object(wanted)?.body;
    check_type(store, ("v1", "Binding"), &binding)?;
    let name = meta_text(&binding, "name").to_owned();
    if name.is_empty() {
        return Err(Refusal::bad_request("Name parameter required."));
    }
    let pods = store.kinds.kind("", "v1", "pods").cloned();
    let kind = pods.ok_or_else(Refusal::no_resource)?;
    let mut path = target.path.clone();
    path.name = Some(name);
    let path = &path;
    let target = Target {
        kind,
        path,
        ..target.clone()
    };
    bind_named(store, &target)
}

fn bind_named(store: &mut Store, target: &Target<'_>) -> Result<Answer, Refusal> {
    let wanted = Wanted {
        kind: "Binding",
        ..target.wanted("v1")
    };
    let (binding, warnings) = decoded(store, target, wanted)?;
    warned(warnings, bind_decoded(store, target, &binding))
}

/// Checks that a binding names a node.
fn check_node(binding: &Body) -> Result<(), Refusal> {
    let empty = Body::new();
    let target = binding.get("target").and_then(Value::as_object);
    let target = target.unwrap_or(&empty);
    let mut causes = Vec::new();
    let kind = text(target, "kind");
    if !matches!(kind, "" | "Node") {
        causes.push(format!(
            "target.kind: Unsupported value: {kind:?}: supported values: \"Node\", \"<empty>\""
        ));
    }
    if text(target, "name").is_empty() {
        causes.push("target.name: Required value".to_owned());
    }
    match causes.as_slice() {
        [] => Ok(()),
        [one] => Err(Refusal::internal(one)),
        all => Err(Refusal::internal(format!("[{}]", all.join(", ")))),
    }
}

fn bind_decoded(store: &mut Store, target: &Target<'_>, binding: &Body) -> Result<Answer, Refusal> {
    check_name(target, "Binding", binding)?;
    check_node(binding)?;
    let pod = target.stored(store)?;
    update::check_uid(target, &pod.slim.uid, meta_text(binding, "uid"))?;
    let mut body = pod.body();
    let node = binding
        .get("target")
        .and_then(Value::as_object)
        .map_or("", |node| text(node, "name"));
    let bound = at_path(&body, ".spec.nodeName")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if !bound.is_empty() {
        let why = format!(
            "pod {} is already assigned to node {bound:?}",
            pod.slim.name
        );
        let mut subject = target.kind.subject(target.name());
        subject.word = "pods/binding";
        return Err(Refusal::conflict(subject, &why));
    }
    if !target.call.dry_run()? {
        set_path(&mut body, ".spec.nodeName", node.into());
        let condition = json!({"type": "PodScheduled", "status": "True"});
        add_condition(store, &mut body, condition);
        store.put(target.kind.collection, body);
    }
    let mut answer = done();
    answer.changed = true;
    Ok(answer)
}

/// Answers with the log of a container, which is empty because no container runs.
pub(crate) fn log(store: &mut Store, target: &Target<'_>) -> Result<Answer, Refusal> {
    check_log(target)?;
    let pod = target.stored(store)?.body();
    choose_container(target, &pod)?;
    let node = at_path(&pod, ".spec.nodeName").and_then(Value::as_str);
    let placed = node.is_some_and(|node| !node.is_empty());
    let mut answer = Answer::bytes(if placed { 200 } else { 204 }, Bytes::new());
    answer.content_type = "text/plain";
    Ok(answer)
}

/// Returns the refusal of a connection to a container.
pub(crate) fn stream(store: &mut Store, target: &Target<'_>) -> Refusal {
    let pod = match target.stored(store) {
        Ok(pod) => pod.body(),
        Err(refusal) => return refusal,
    };
    let ported = target.path.subresource.as_deref() == Some("portforward");
    if !ported && let Err(refusal) = choose_container(target, &pod) {
        return refusal;
    }
    let node = at_path(&pod, ".spec.nodeName").and_then(Value::as_str);
    match node.filter(|node| !node.is_empty()) {
        None => Refusal::bad_request(format!(
            "pod {} does not have a host assigned",
            target.name()
        )),
        Some(node) => Refusal::internal(format!("error dialing backend: nothing runs on {node}")),
    }
}

/// Refuses invalid log options.
fn check_log(target: &Target<'_>) -> Result<(), Refusal> {
    let call = target.call;
    let number = |name: &str| -> Result<Option<i64>, Refusal> {
        let text = call.param(name);
        if text.is_empty() {
            return Ok(None);
        }
        text.parse().map(Some).map_err(|_| bad_number(text))
    };
    let (seconds, tail, limit) = (
        number("sinceSeconds")?,
        number("tailLines")?,
        number("limitBytes")?,
    );
    let since = call.param("sinceTime");
    if !since.is_empty() && since.parse::<jiff::Timestamp>().is_err() {
        return Err(Refusal::bad_request(format!(
            "parsing time {since:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {since:?} as \"2006\""
        )));
    }
    let mut causes = Vec::new();
    let mut least = |field: &str, found: Option<i64>, least: i64, message: &str| {
        let bad = found.filter(|found| *found < least);
        causes.extend(bad.map(|found| Cause::invalid(field, &found.into(), message)));
    };
    least("tailLines", tail, 0, "must be greater than or equal to 0");
    least("limitBytes", limit, 1, "must be greater than 0");
    if since.is_empty() {
        least("sinceSeconds", seconds, 1, "must be greater than 0");
    } else if seconds.is_some() {
        let message = "at most one of `sinceTime` or `sinceSeconds` may be specified";
        causes.push(Cause::forbidden("[]", message));
    }
    if !call.param("stream").is_empty() {
        causes.push(Cause::forbidden("stream", "may not be specified"));
    }
    if causes.is_empty() {
        return Ok(());
    }
    let mut subject = target.kind.subject(target.name());
    subject.word = "PodLogOptions";
    Err(Refusal::invalid(subject, &causes))
}

/// Refuses a container that does not exist, or a missing name if the Pod has several containers.
fn choose_container(target: &Target<'_>, pod: &Body) -> Result<(), Refusal> {
    let names = |list: &str| {
        let found = at_path(pod, &format!(".spec.{list}")).and_then(Value::as_array);
        let names = found.into_iter().flatten();
        let names = names.filter_map(|container| container["name"].as_str());
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    let (own, init) = (names("containers"), names("initContainers"));
    let (name, asked) = (target.name(), target.call.param("container"));
    let ephemeral = names("ephemeralContainers");
    let mut all = own.iter().chain(&init).chain(&ephemeral);
    if !asked.is_empty() {
        if all.any(|container| container == asked) {
            return Ok(());
        }
        let why = format!("container {asked} is not valid for pod {name}");
        return Err(Refusal::bad_request(why));
    }
    if own.len() == 1 {
        return Ok(());
    }
    let also = |word: &str, names: &[String]| {
        let shown = format!(" or one of the {word} containers: [{}]", names.join(" "));
        if names.is_empty() {
            String::new()
        } else {
            shown
        }
    };
    let why = format!(
        "a container name must be specified for pod {name}, choose one of: [{}]{}{}",
        own.join(" "),
        also("init", &init),
        also("ephemeral", &ephemeral)
    );
    Err(Refusal::bad_request(why))
}
