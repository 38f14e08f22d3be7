async fn valid(
    spec: &Value,
    operation: Operation,
    old: Option<&Value>,
    userinfo: UserInfo,
    warnings: &Warnings,
) -> HandlerResult {
    Err(::core::convert::Into::into(AdmissionError::new("no").code(418)))
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
    fn __kopf_call_valid<'a>(
        __kopf_cause: &'a __kopf::Cause,
        __kopf_patch: &'a mut __kopf::Patch,
    ) -> __kopf::Calling<'a> {
        __kopf::Box::pin(async move {
            use __kopf::{AnyKind as _, GivenToAll as _, LocalBoxKind as _};
            let __kopf_argument_0 = <Value as __kopf::LentAs<
                '_,
                __kopf::arg::spec,
            >>::hold(__kopf_cause)?;
            let __kopf_argument_1 = <Operation as __kopf::GivenAs<
                '_,
                __kopf::arg::operation,
            >>::from_arg(__kopf_cause)?;
            let __kopf_argument_2 = <Value as __kopf::LentAs<
                '_,
                __kopf::arg::old,
            >>::hold_if_any(__kopf_cause)?;
            let __kopf_argument_3 = <UserInfo as __kopf::GivenAs<
                '_,
                __kopf::arg::userinfo,
            >>::from_arg(__kopf_cause)?;
            let __kopf_argument_4 = <Warnings as __kopf::LentAs<
                '_,
                __kopf::arg::warnings,
            >>::hold(__kopf_cause)?;
            let __kopf_returned = __kopf::handler_future_must_be_send(
                    valid(
                        &*__kopf_argument_0,
                        __kopf_argument_1,
                        __kopf_argument_2.as_deref(),
                        __kopf_argument_3,
                        &*__kopf_argument_4,
                    ),
                )
                .await;
            (&__kopf_returned).__kopf_kind().convert(__kopf_returned)
        })
    }
    fn __kopf_register(__kopf_registry: __kopf::Registry) -> __kopf::Registry {
        __kopf_registry
            .on_validate(
                __kopf::Selector::positional(&["kopf.dev", "v1", "kopfexamples"]),
                __kopf::function(
                        "valid",
                        __KOPF_LOCATION,
                        __kopf::Function::Async(__kopf_call_valid),
                    )
                    .operations([
                        __kopf::Operation::Create,
                        __kopf::Operation::Update,
                        __kopf::Operation::Delete,
                    ])
                    .deleted()
                    .timeout(__kopf::Duration::from_secs(10)),
            )
    }
    __kopf::submit! {
        __kopf::Declared { item : __kopf::Item::Function, name : "valid", location :
        __KOPF_LOCATION, register : __kopf_register, }
    }
};
fn inject(
    patch: &mut ::kopf_rs::Patch,
    dryrun: bool,
    subresource: Option<&str>,
    headers: &Value,
    sslpeer: &Value,
) {}
const _: () = {
    use ::kopf_rs::__private as __kopf;
    const __KOPF_LOCATION: __kopf::SourceLocation = __kopf::SourceLocation {
        package: ::core::env!("CARGO_PKG_NAME"),
        file: ::core::file!(),
        line: 1u32,
        column: 1u32,
        module: ::core::module_path!(),
    };
    use Patch as _;
    fn __kopf_call_inject(
        __kopf_cause: &__kopf::Cause,
        __kopf_patch: &mut __kopf::Patch,
    ) -> __kopf::Returned {
        use __kopf::{AnyKind as _, GivenToAll as _, LocalBoxKind as _};
        let __kopf_argument_1 = <bool as __kopf::GivenAs<
            '_,
            __kopf::arg::dryrun,
        >>::from_arg(__kopf_cause)?;
        let __kopf_argument_2 = <str as __kopf::LentAs<
            '_,
            __kopf::arg::subresource,
        >>::hold_if_any(__kopf_cause)?;
        let __kopf_argument_3 = <Value as __kopf::LentAs<
            '_,
            __kopf::arg::headers,
        >>::hold(__kopf_cause)?;
        let __kopf_argument_4 = <Value as __kopf::LentAs<
            '_,
            __kopf::arg::sslpeer,
        >>::hold(__kopf_cause)?;
        let __kopf_returned = inject(
            __kopf_patch,
            __kopf_argument_1,
            __kopf_argument_2.as_deref(),
            &*__kopf_argument_3,
            &*__kopf_argument_4,
        );
        (&__kopf_returned).__kopf_kind().convert(__kopf_returned)
    }
    fn __kopf_register(__kopf_registry: __kopf::Registry) -> __kopf::Registry {
        __kopf_registry
            .on_mutate(
                __kopf::Selector::positional(&["pods"]),
                __kopf::function(
                        "inject",
                        __KOPF_LOCATION,
                        __kopf::Function::Blocking(__kopf_call_inject),
                    )
                    .subresource("*")
                    .persistent()
                    .side_effects()
                    .ignore_failures(true)
                    .label("app", __kopf::criterion("x")),
            )
    }
    __kopf::submit! {
        __kopf::Declared { item : __kopf::Item::Function, name : "inject", location :
        __KOPF_LOCATION, register : __kopf_register, }
    }
};
