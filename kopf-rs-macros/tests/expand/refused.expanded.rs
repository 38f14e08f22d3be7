async fn create_fn(nmae: &str, s: Value) {}
::core::compile_error! {
    "unknown option `retires`; did you mean `retries`?\noptions of #[on_create]: id, param, errors, timeout, retries, backoff, labels, annotations, when, field, value, group, version, kind, plural, singular, shortcut, category"
}
::core::compile_error! {
    "unknown handler argument `nmae`; did you mean `name`?\nif it is a type of your own to be injected, say so: `#[inject] nmae: ...`"
}
