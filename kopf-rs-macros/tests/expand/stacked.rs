/// Keeps its documentation, its visibility and its other attributes.
#[on_resume("kopfexamples", deleted)]
#[kopf_rs::on_create("kopfexamples", id = "begin")]
#[must_use]
pub(crate) async fn begin(_spec: Value, patch: &mut Patch) -> HandlerResult<u8> {
    Ok(1)
}

/// An attribute of somebody else's, whose name is one of ours.
#[on_event("pods")]
#[other::timer(every = 3)]
async fn seen() {}
