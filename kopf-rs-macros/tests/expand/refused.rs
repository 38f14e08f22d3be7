#[on_create("kopfexamples", retires = 3)]
async fn create_fn(nmae: &str, #[from(spec)] s: Value) {}
