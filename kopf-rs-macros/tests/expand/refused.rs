#[on_create("kopfexamples", retires = 3)]
async fn create_fn(nmae: &str, #[from(spec)] s: Value) {}

#[on_convert("votes.example.com", from = "v1", to = "v2", labels = "x")]
fn convert(spec: Value) -> Value {
    spec
}

#[on_startup(annotations = "x", labels = {"a": "b", c})]
async fn startup_fn() {}
