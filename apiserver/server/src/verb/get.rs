//! `get`: returns one object.
//!
//! Guarantees the newest state for any requested resource version that exists. Must not change anything.

use super::{Answer, Part, Target, scale};
use crate::status::Refusal;
use crate::store::Store;

pub(crate) fn get(store: &mut Store, target: &Target<'_>) -> Result<Answer, Refusal> {
    if target.call.switch("export") {
        return Err(Refusal::bad_request(
            "the export parameter, deprecated since v1.14, is no longer supported",
        ));
    }
    if let Some(asked) = super::list::parse_revision(target.call.param("resourceVersion"))
        .map_err(Refusal::internal)?
        && asked > store.revision()
    {
        return Err(Refusal::too_new(asked, store.revision()));
    }
    let stored = target.stored(store)?;
    if target.part == Part::Scale {
        scale::check(&target.kind, &stored)?;
    }
    Ok(Answer::object(200, store, target, &stored))
}
