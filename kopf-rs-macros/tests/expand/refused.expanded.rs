async fn create_fn(nmae: &str, s: Value) {}
::core::compile_error! {
    "unknown option `retires`; did you mean `retries`?"
}
::core::compile_error! {
    "unknown handler argument `nmae`; did you mean `name`?\nif it is a type of your own to be injected, say so: `#[inject] nmae: ...`"
}
fn convert(spec: Value) -> Value {
    spec
}
::core::compile_error! {
    "#[on_convert] has no option `labels`; it is written so: `#[on_convert(\"myapps.example.com\", from = \"v1alpha1\", to = \"v1\")]`, or `#[on_convert(from = v1alpha1::MyApp, to = v1::MyApp)]`"
}
async fn startup_fn() {}
::core::compile_error! {
    "#[on_startup] has no option `annotations`: it belongs to #[on_create], #[on_update], #[on_delete], #[finalize], #[on_resume], #[on_field], #[on_event], #[daemon], #[timer], #[reconcile], #[index], #[on_validate], #[on_mutate] and #[subhandler]"
}
::core::compile_error! {
    "#[on_startup] has no option `labels`: it belongs to #[on_create], #[on_update], #[on_delete], #[finalize], #[on_resume], #[on_field], #[on_event], #[daemon], #[timer], #[reconcile], #[index], #[on_validate], #[on_mutate] and #[subhandler]"
}
