//! Applies a patch, with its functions, to an object, and leaves out fields that handlers must not change.
//!
//! Guarantees that a function that panics affects no other handler, and that fields of the server and of the operator stay unchanged. Must
//! not know how the object is written.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::cluster::pruned::PrunedPaths;
use crate::cluster::write::Changes;
use crate::engine::invoke::guarded;
use crate::engine::report::report;
use crate::engine::rewritten::Rewritten;
use crate::engine::shared::Shared;
use crate::engine::unsure_writes::UnsureWrites;
use crate::engine::watchdog::watched;
use crate::handler::logger::Logger;
use crate::happening::calls::{Stage, UserCode};
use crate::happening::working::{Owner, Patching};
use crate::object::body::Body;
use crate::object::inconsistency::ITEMS;
use crate::object::operations::Operations;
use crate::object::patch::{Patch, apply as merge, remove};
use crate::object::raw::Raw;
use crate::object::reference::Reference;
use crate::object::server_fields::{restore, restore_annotations, strip, strip_annotations};

/// Computes the changes of a patch.
pub(super) struct Transformer<'a> {
    pub(super) logger: &'a Logger,
    pub(super) shared: &'a Shared,
    pub(super) about: &'a Reference,
    /// The paths of the status that the schema prunes.
    pub(super) pruned: Option<&'a PrunedPaths>,
    /// The values that the server stores in another form than they are sent.
    pub(super) rewritten: Option<&'a Rewritten>,
    pub(super) unsure: Option<&'a UnsureWrites>,
}

impl Transformer<'_> {
    /// Returns the changes for `raw`: the patch itself if it has no functions.
    pub(super) fn changes(&self, raw: &Raw, patch: &Arc<Patch>) -> Result<Changes, String> {
        let has_functions = !patch.functions().is_empty();
        if !has_functions && patch.status_edits().is_empty() {
            return Ok(Changes::Merge(patch.clone()));
        }
        let found = raw.body().map_err(|error| error.to_string())?;
        if !has_functions {
            let mut resolved = self.resolved(&found, patch);
            if let Some(rewritten) = self.rewritten {
                rewritten.leave_out_of(&mut resolved, &found);
            }
            return Ok(Changes::Merge(Arc::new(resolved)));
        }
        let mut wanted = self.transformed(&found, patch);
        let of_lists = |path: &&Vec<String>| path.iter().any(|it| it == ITEMS);
        for path in self.pruned.iter().flat_map(|paths| paths.iter()) {
            let there = path.iter().try_fold(&*found, |value, part| value.get(part));
            if there.is_none() && !of_lists(&path) {
                remove(&mut wanted, path);
            }
        }
        let mut operations = Operations::between(&found, &wanted);
        if let Some(rewritten) = self.rewritten {
            rewritten.leave_out_of_operations(&mut operations, &found);
        }
        Ok(Changes::Operations { operations, wanted })
    }

    /// Returns the patch for an object in this state.
    fn resolved(&self, found: &Body, patch: &Patch) -> Patch {
        patch.resolved(found, self.shared.setup.clock.now())
    }

    /// Returns the object as the patch wants it: merged, then changed by its functions. The operator's own fields stay as the merge has left
    /// them.
    fn transformed(&self, found: &Body, patch: &Patch) -> Value {
        let mut wanted = Value::clone(found);
        merge(&mut wanted, self.resolved(found, patch).as_value());
        let mut lost = BTreeSet::new();
        let handlers = patch.functions().iter().filter_map(|it| it.handler());
        let handlers: BTreeSet<Arc<str>> = handlers.cloned().collect();
        let code = [UserCode::PatchFunctions(handlers.into_iter().collect())];
        let setup = &self.shared.setup;
        let noted = setup.notes.begin_functions((Stage::Patch, &code), self.about, found, &setup.persistence);
        for function in patch.functions() {
            let mut changed = wanted.clone();
            let called = || guarded(|| function.to(&mut changed));
            match watched(code.to_vec(), self.logger, called) {
                Ok(()) => {
                    if let Some(unsure) = self.unsure {
                        unsure.take_out_landed(function, found, (&wanted, &mut changed));
                    }
                    report_foreign(self.logger, restore(found, &mut changed), Owner::Server);
                    lost.extend(restore_annotations(&wanted, &mut changed));
                    lost.extend(self.shared.setup.persistence.keep(&wanted, &mut changed));
                    wanted = changed;
                }
                Err(panic) => {
                    let handler = function.handler().cloned();
                    report(self.logger, &Patching::FunctionPanicked { handler, panic });
                }
            }
        }
        noted.end(true);
        report_foreign(self.logger, lost.into_iter().collect(), Owner::Operator);
        wanted
    }
}

/// Removes fields of the server from the patch of handlers.
pub(super) fn keep_identity(logger: &Logger, raw: &Raw, patch: &mut Patch) {
    // Most calls change nothing, and parsing the object as a tree costs more than the call.
    if patch.is_empty() {
        return;
    }
    if let Ok(found) = raw.body() {
        report_foreign(logger, strip(patch, &found), Owner::Server);
        let lost = strip_annotations(patch);
        report_foreign(logger, lost.into_iter().collect(), Owner::Operator);
    }
}

fn report_foreign(logger: &Logger, fields: Vec<String>, owner: Owner) {
    if !fields.is_empty() {
        report(logger, &Patching::Foreign { fields, owner });
    }
}

/// Returns the operations that the functions of a patch add to it, for a log line. Functions that panic add none.
pub(super) fn added_by_functions(raw: &Raw, patch: &Patch) -> Operations {
    let Ok(found) = raw.body() else {
        return Operations::default();
    };
    let mut merged = Value::clone(&found);
    merge(&mut merged, patch.as_value());
    let mut wanted = merged.clone();
    for function in patch.functions() {
        let mut changed = wanted.clone();
        if guarded(|| function.to(&mut changed)).is_ok() {
            restore(&found, &mut changed);
            wanted = changed;
        }
    }
    Operations::between(&merged, &wanted)
}
