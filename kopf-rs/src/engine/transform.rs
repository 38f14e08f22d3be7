//! What a patch makes of an object, its functions included, without what is not the handlers' own.
//!
//! Promises that a function that panics harms nobody, and that what belongs to the server or to the operator stays as it is. Must not know
//! how it is written.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::cluster::write::Changes;
use crate::engine::invoke::guarded;
use crate::engine::report::report;
use crate::engine::watchdog::watched;
use crate::handler::logger::Logger;
use crate::happening::patching::{Owner, Patching};
use crate::happening::{Happening, UserCode};
use crate::object::identity::{restore, strip};
use crate::object::operations::Operations;
use crate::object::patch::{Patch, apply as merge};
use crate::object::raw::Raw;
use crate::state::Persistence;

/// Makes changes of a patch.
pub(super) struct Transformer<'a> {
    pub(super) persistence: &'a Persistence,
    pub(super) logger: &'a Logger,
}

impl Transformer<'_> {
    /// What is to be changed on `raw`: the patch itself, where no function asks what the object is like.
    pub(super) fn changes(&self, raw: &Raw, patch: &Arc<Patch>) -> Result<Changes, String> {
        if patch.functions().is_empty() {
            return Ok(Changes::Merge(patch.clone()));
        }
        let found = raw.body().map_err(|error| error.to_string())?;
        let wanted = self.transformed(&found, &raw.facts().uid, patch);
        Ok(Changes::Operations {
            operations: Operations::between(&found, &wanted),
            wanted,
        })
    }

    /// Leave to the server what is its own, whatever handlers have put into their patch.
    pub(super) fn keep_identity(&self, raw: &Raw, patch: &mut Patch) {
        if let Ok(found) = raw.body() {
            self.report_foreign(strip(patch, &found), Owner::Server);
        }
    }

    /// The object as the patch wants it: merged, then changed by its functions. What is the operator's own is as the merge has left it.
    fn transformed(&self, found: &Value, uid: &str, patch: &Patch) -> Value {
        let mut wanted = found.clone();
        merge(&mut wanted, patch.as_value());
        let mut lost = BTreeSet::new();
        for function in patch.functions() {
            let mut changed = wanted.clone();
            let called = || guarded(|| function.to(&mut changed));
            let code = vec![UserCode::PatchFunctions];
            match watched(code, self.logger, uid, called) {
                Ok(()) => {
                    self.report_foreign(restore(found, &mut changed), Owner::Server);
                    lost.extend(self.persistence.keep(&wanted, &mut changed));
                    wanted = changed;
                }
                Err(panic) => self.report(Patching::FunctionPanicked { panic }),
            }
        }
        self.report_foreign(lost.into_iter().collect(), Owner::Operator);
        wanted
    }

    fn report_foreign(&self, fields: Vec<String>, owner: Owner) {
        if !fields.is_empty() {
            self.report(Patching::Foreign { fields, owner });
        }
    }

    fn report(&self, patching: Patching) {
        report(self.logger, &Happening::Patching(patching));
    }
}
