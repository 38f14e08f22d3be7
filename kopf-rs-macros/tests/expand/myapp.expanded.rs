async fn create_myapp(
    spec: MyAppSpec,
    name: &str,
    namespace: Option<&str>,
    logger: Logger,
    client: Client,
) -> HandlerResult {
    Ok(())
}
const _: () = {
    use ::kopf_rs::__private as __kopf;
    const __KOPF_LOCATION: __kopf::SourceLocation = __kopf::SourceLocation {
        package: ::core::env!("CARGO_PKG_NAME"),
        file: ::core::file!(),
        line: 1u32,
        column: 1u32,
        module: ::core::module_path!(),
    };
    fn __kopf_call_create_myapp<'a>(
        __kopf_cause: &'a __kopf::Cause,
        __kopf_patch: &'a mut __kopf::Patch,
    ) -> __kopf::Calling<'a> {
        __kopf::Box::pin(async move {
            use __kopf::{AnyKind as _, GivenToAll as _, LocalBoxKind as _};
            let __kopf_argument_0 = <MyAppSpec as __kopf::GivenAs<
                '_,
                __kopf::arg::spec,
            >>::from_arg(__kopf_cause)?;
            let __kopf_argument_1 = <str as __kopf::LentAs<
                '_,
                __kopf::arg::name,
            >>::hold(__kopf_cause)?;
            let __kopf_argument_2 = <str as __kopf::LentAs<
                '_,
                __kopf::arg::namespace,
            >>::hold_if_any(__kopf_cause)?;
            let __kopf_argument_3 = <Logger as __kopf::GivenAs<
                '_,
                __kopf::arg::logger,
            >>::from_arg(__kopf_cause)?;
            let __kopf_argument_4 = <Client as __kopf::GivenAs<
                '_,
                __kopf::arg::client,
            >>::from_arg(__kopf_cause)?;
            let __kopf_returned = __kopf::handler_future_must_be_send(
                    create_myapp(
                        __kopf_argument_0,
                        &*__kopf_argument_1,
                        __kopf_argument_2.as_deref(),
                        __kopf_argument_3,
                        __kopf_argument_4,
                    ),
                )
                .await;
            (&__kopf_returned).__kopf_kind().convert(__kopf_returned)
        })
    }
    fn __kopf_register(__kopf_registry: __kopf::Registry) -> __kopf::Registry {
        __kopf_registry
            .on_create(
                __kopf::Selector::positional(&["demo.rtfm.co.ua", "v1", "myapps"]),
                __kopf::function(
                    "create_myapp",
                    __KOPF_LOCATION,
                    __kopf::Function::Async(__kopf_call_create_myapp),
                ),
            )
    }
    __kopf::submit! {
        __kopf::Declared { item : __kopf::Item::Function, name : "create_myapp", location
        : __KOPF_LOCATION, register : __kopf_register, }
    }
};
