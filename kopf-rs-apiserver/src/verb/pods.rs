//! What is done to Pods beside changing them: `eviction`, `binding`, `log`, and what would be a connection to a container.
//!
//! Promise: an eviction is a deletion that budgets may refuse, a binding a Pod's way to its node. Nothing runs, so that logs are
//! empty and nobody can be connected to. Must not know controllers.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Answer, Deletion, Target, delete};
use crate::call::{Document, Wanted};
use crate::object::{Body, at_path, map_mut, meta_text, set_path, text};
use crate::selector::choice::chooses;
use crate::status::Refusal;
use crate::store::Store;
use crate::typed;

fn done() -> Answer {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Answer::json(201, &status)
}

/// What is sent, as its type has it, and what is to be said of it.
fn decoded(target: &Target<'_>, wanted: Wanted<'_>) -> Result<(Body, Vec<String>), Refusal> {
    let Wanted {
        api_version, kind, ..
    } = wanted;
    let judgement = target.call.unknown_fields()?;
    let Document { mut body, twice } = target.call.object(wanted)?;
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
    let (body, unknown) = typed::shape(of, body).map_err(|misfit| bad(misfit.to_string()))?;
    let complaints = target.call.complaints(unknown, &twice, true);
    Ok((body, judgement.judge(complaints).map_err(bad)?))
}

/// An answer, good or bad, with what is to be said of the body.
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

/// Delete a Pod, if no budget is against it.
pub(crate) fn evict(store: &mut Store, target: &Target<'_>) -> Result<Answer, Refusal> {
    let wanted = Wanted {
        kind: "Eviction",
        ..target.wanted("policy/v1")
    };
    let (eviction, warnings) = decoded(target, wanted)?;
    warned(warnings, evict_decoded(store, target, &eviction))
}

fn evict_decoded(
    store: &mut Store,
    target: &Target<'_>,
    eviction: &Body,
) -> Result<Answer, Refusal> {
    let pod = target.stored(store)?;
    if !pod.slim.terminating {
        check_budgets(store, target, &pod.body())?;
    }
    let dry_run = target.call.dry_run()?;
    if !dry_run {
        let mut body = pod.body();
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
        });
        add_condition(store, &mut body, condition);
        store.put(target.kind.collection, body);
    }
    let options = eviction.get("deleteOptions").and_then(Value::as_object);
    let grace = options.and_then(|options| options.get("gracePeriodSeconds")?.as_i64());
    let how = Deletion::within(grace, dry_run);
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

/// Send a Pod to a node, whose name is in the path or, by `bindings`, in the body.
pub(crate) fn bind(store: &mut Store, target: &Target<'_>) -> Result<Answer, Refusal> {
    if target.kind.is_core("pods") {
        return bind_named(store, target);
    }
    let wanted = target.wanted("v1");
    let name = meta_text(&target.call.object(wanted)?.body, "name").to_owned();
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
    let (binding, warnings) = decoded(target, wanted)?;
    warned(warnings, bind_decoded(store, target, &binding))
}

fn bind_decoded(store: &mut Store, target: &Target<'_>, binding: &Body) -> Result<Answer, Refusal> {
    let pod = target.stored(store)?;
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

/// The log of a container, of which none runs.
pub(crate) fn log(store: &mut Store, target: &Target<'_>) -> Result<Answer, Refusal> {
    let pod = target.stored(store)?.body();
    choose_container(target, &pod)?;
    let node = at_path(&pod, ".spec.nodeName").and_then(Value::as_str);
    let placed = node.is_some_and(|node| !node.is_empty());
    let mut answer = Answer::bytes(if placed { 200 } else { 204 }, Bytes::new());
    answer.content_type = "text/plain";
    Ok(answer)
}

/// Why nobody is connected to a container.
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

/// Refuse a container that is not there, or that is not named where there are several.
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
