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
    fn __kopf_call_create_myapp<'a>(
        __kopf_cause: &'a ::kopf_rs::__private::Cause,
        __kopf_patch: &'a mut ::kopf_rs::__private::Patch,
    ) -> ::kopf_rs::__private::Calling<'a> {
        ::kopf_rs::__private::Box::pin(async move {
            use ::kopf_rs::__private::{AnyKind as _, LocalBoxKind as _};
            let __kopf_argument_0 = <MyAppSpec as ::kopf_rs::__private::FromArg<
                '_,
                ::kopf_rs::__private::arg::spec,
            >>::from_arg(__kopf_cause)?;
            let __kopf_argument_1 = <str as ::kopf_rs::__private::LendArg<
                '_,
                ::kopf_rs::__private::arg::name,
            >>::hold(__kopf_cause)?;
            let __kopf_argument_2 = <str as ::kopf_rs::__private::LendArg<
                '_,
                ::kopf_rs::__private::arg::namespace,
            >>::hold_if_any(__kopf_cause)?;
            let __kopf_argument_3 = <Logger as ::kopf_rs::__private::FromArg<
                '_,
                ::kopf_rs::__private::arg::logger,
            >>::from_arg(__kopf_cause)?;
            let __kopf_argument_4 = <Client as ::kopf_rs::__private::FromArg<
                '_,
                ::kopf_rs::__private::arg::client,
            >>::from_arg(__kopf_cause)?;
            let __kopf_returned = ::kopf_rs::__private::handler_future_must_be_send(
                    create_myapp(
                        __kopf_argument_0,
                        <str as ::kopf_rs::__private::LendArg<
                            '_,
                            ::kopf_rs::__private::arg::name,
                        >>::lend(&__kopf_argument_1),
                        __kopf_argument_2
                            .as_ref()
                            .map(
                                <str as ::kopf_rs::__private::LendArg<
                                    '_,
                                    ::kopf_rs::__private::arg::namespace,
                                >>::lend,
                            ),
                        __kopf_argument_3,
                        __kopf_argument_4,
                    ),
                )
                .await;
            (&__kopf_returned).__kopf_kind().convert(__kopf_returned)
        })
    }
    const __KOPF_PLACE: ::kopf_rs::__private::Place = ::kopf_rs::__private::Place {
        package: ::core::env!("CARGO_PKG_NAME"),
        file: ::core::file!(),
        line: 1u32,
        column: 1u32,
        module: ::core::module_path!(),
    };
    ::kopf_rs::__private::submit! {
        ::kopf_rs::__private::Declared(& [::kopf_rs::__private::Decl { name :
        "create_myapp", place : __KOPF_PLACE, kind :
        ::kopf_rs::__private::HandlerKind::Create, selector :
        ::kopf_rs::__private::Option::Some(||
        ::kopf_rs::__private::Selector::positional(& ["demo.rtfm.co.ua", "v1",
        "myapps"])), options : || ::kopf_rs::__private::Options::default(), call :
        ::kopf_rs::__private::Call::Async(__kopf_call_create_myapp), }])
    }
};
