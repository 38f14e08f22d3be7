//! `update`: replaces an object, its status or its scale.
//!
//! Guarantees that a stale resource version is refused before any other check. Must not know the rules for metadata.

use super::create::{Birth, create_body, decode, place};
use super::{Answer, Part, Target, scale};
use crate::access;
use crate::call::Verb;
use crate::object::{Body, Stored, finalizers, meta_text};
use crate::rules;
use crate::status::Refusal;
use crate::store::Store;
use crate::write;

pub(crate) fn update(store: &mut Store, target: &Target<'_>) -> Result<Answer, Refusal> {
    let dry_run = target.call.dry_run()?;
    if target.part == Part::Scale {
        return scale::update(store, target, dry_run);
    }
    let api_version = target.kind.api_version();
    let document = target.call.object(target.wanted(&api_version))?;
    let (body, warnings) = decode(store, target, document)?;
    let updated = update_decoded(store, target, body, dry_run);
    let mut answer = updated.map_err(|refusal| refusal.warned_first(&warnings))?;
    answer.warnings.splice(0..0, warnings);
    Ok(answer)
}

fn update_decoded(
    store: &mut Store,
    target: &Target<'_>,
    mut body: Body,
    dry_run: bool,
) -> Result<Answer, Refusal> {
    check_name(&body, target.name())?;
    place(&target.kind, target.namespace(), &mut body)?;
    let Some(old) = target.found(store)? else {
        if !target.kind.traits.create_on_update || target.part != Part::Main {
            return Err(Refusal::not_found(target.kind.subject(target.name())));
        }
        check_uid(target, "", meta_text(&body, "uid"))?;
        target.check_escalation(store, None, &body)?;
        let birth = Birth {
            kind: &target.kind,
            namespace: target.namespace(),
            author: &target.author(store)?,
            managed: None,
            upserted: true,
            dry_run,
        };
        let warnings = [
            rules::unite_owners(&mut body, false).into_iter().collect(),
            rules::warnings(&target.kind, &body, &[]),
            target.worth_a_word(None, &body),
        ]
        .concat();
        let stored = create_body(store, &birth, body)?;
        let mut answer = Answer::object(201, store, target, &stored);
        answer.changed = !dry_run;
        answer.warnings = warnings;
        return Ok(answer);
    };
    check_uid(target, &old.slim.uid, meta_text(&body, "uid"))?;
    write::check_revision(&target.kind, &old, &body)?;
    replace_telling(store, target, &old, body, dry_run)
}

/// Replaces an object whose preconditions hold, and adds the warnings about the new one. A refusal carries the warnings too
/// if the object itself is valid, for example when a webhook denies it.
pub(crate) fn replace_telling(
    store: &mut Store,
    target: &Target<'_>,
    old: &Stored,
    body: Body,
    dry_run: bool,
) -> Result<Answer, Refusal> {
    let also = target.worth_a_word(Some(old), &body);
    let mut answer = replace(store, target, old, body, dry_run).map_err(|refusal| {
        let also = Some(&also).filter(|_| refusal.is_late());
        refusal.warned(also.map_or(&[], Vec::as_slice))
    })?;
    answer.warnings.extend(also);
    Ok(answer)
}

/// Replaces an object whose preconditions hold.
pub(crate) fn replace(
    store: &mut Store,
    target: &Target<'_>,
    old: &Stored,
    body: Body,
    dry_run: bool,
) -> Result<Answer, Refusal> {
    let author = target.author(store)?;
    let change = write::Change {
        kind: &target.kind,
        part: target.part,
        author: &author,
        managed: None,
        dry_run,
    };
    store_change(store, target, change, old, body)
}

/// Stores a change and answers with the new object.
pub(crate) fn store_change(
    store: &mut Store,
    target: &Target<'_>,
    change: write::Change<'_>,
    old: &Stored,
    mut body: Body,
) -> Result<Answer, Refusal> {
    let patched = target.call.verb == Verb::Patch;
    let repeated: Vec<String> = rules::unite_owners(&mut body, patched)
        .into_iter()
        .collect();
    if target.kind.group == access::GROUP {
        target.check_escalation(store, Some(&old.body()), &body)?;
    }
    let warnings = if target.part == Part::Status || finalizers(&body).is_empty() {
        Vec::new()
    } else {
        let known: Vec<String> = finalizers(&old.body())
            .into_iter()
            .map(str::to_owned)
            .collect();
        rules::warnings(&target.kind, &body, &known)
    };
    let written = write::replace(store, change, old, body).map_err(|refusal| {
        let refusal = refusal.warned(&repeated);
        let told = Some(&warnings).filter(|_| refusal.is_late());
        refusal.warned(told.map_or(&[], Vec::as_slice))
    })?;
    let mut answer = Answer::object(200, store, target, &written.stored);
    answer.changed = written.changed;
    answer.warnings = [repeated, warnings, written.warnings].concat();
    Ok(answer)
}

pub(crate) fn check_name(body: &Body, name: &str) -> Result<(), Refusal> {
    match meta_text(body, "name") {
        "" => Err(Refusal::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        ))),
        found if found == name => Ok(()),
        found => Err(Refusal::bad_request(format!(
            "the name of the object ({found}) does not match the name on the URL ({name})"
        ))),
    }
}

/// Refuses a uid that differs from the object's; an empty uid matches.
pub(crate) fn check_uid(target: &Target<'_>, uid: &str, given: &str) -> Result<(), Refusal> {
    if given.is_empty() || given == uid {
        return Ok(());
    }
    let resource = &target.kind.subject("");
    let place = if target.kind.traits.builtin {
        resource.word.to_owned()
    } else {
        format!("{}/{}", resource.group, resource.word)
    };
    // Unlike a dry run, a real write reaches etcd, whose keys start with `/registry`.
    let root = if target.call.dry_run()? {
        ""
    } else {
        "/registry"
    };
    Err(Refusal::conflict(
        target.kind.subject(target.name()),
        &format!(
            "StorageError: invalid object, Code: 4, Key: {root}/{place}/{}, ResourceVersion: 0, \
             AdditionalErrorMsg: Precondition failed: UID in precondition: {given}, UID in object meta: {uid}",
            target.key()
        ),
    ))
}
