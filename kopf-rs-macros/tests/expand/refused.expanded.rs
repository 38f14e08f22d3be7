async fn create_fn(nmae: &str, s: Value) {}
::core::compile_error! {
    "unknown option `retires`; did you mean `retries`?"
}
::core::compile_error! {
    "unknown handler argument `nmae`; did you mean `name`?\nif it is a type of your own to be injected, say so: `#[inject] nmae: ...`"
}
