/// Keeps its documentation, its visibility and its other attributes.
#[on_resume("kopfexamples", deleted)]
#[kopf_rs::on_create("kopfexamples", id = "begin")]
#[must_use]
pub(crate) async fn begin(_spec: Value, patch: &mut Patch) -> HandlerResult<u8> {
    Ok(1)
}
