/// The status is lent beside the patch.
#[on_create("myapps")]
async fn create_fn(name: &str, patch: &mut Patch, status: &mut Status<MyStatus>) {}
