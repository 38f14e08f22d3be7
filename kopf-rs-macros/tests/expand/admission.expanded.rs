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
    const __KOPF_LOCATION: __kopf::SourceLocation = __kopf::SourceLocation {
        package: ::core::env!("CARGO_PKG_NAME"),
        file: ::core::file!(),
        line: 1u32,
        column: 1u32,
        module: ::core::module_path!(),
    };
    const __KOPF_DECLS: &[__kopf::Decl] = &[
        __kopf::Decl {
            name: "valid",
            location: __KOPF_LOCATION,
            kind: __kopf::HandlerKind::OnValidate,
            selector: __kopf::Option::Some(|| __kopf::Selector::positional(
                &["kopf.dev", "v1", "kopfexamples"],
            )),
            options: || __kopf::Options {
                operations: __kopf::Vec::from([
                    __kopf::Operation::Create,
                    __kopf::Operation::Update,
                    __kopf::Operation::Delete,
                ]),
                deleted: true,
                timeout: __kopf::Option::Some(__kopf::Duration::from_secs(10)),
                ..__kopf::Options::default()
            },
            call: __kopf::Function::Async(__kopf_call_valid),
        },
    ];
    __kopf::submit! {
        __kopf::Declared::Function(__KOPF_DECLS)
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
    const __KOPF_LOCATION: __kopf::SourceLocation = __kopf::SourceLocation {
        package: ::core::env!("CARGO_PKG_NAME"),
        file: ::core::file!(),
        line: 1u32,
        column: 1u32,
        module: ::core::module_path!(),
    };
    const __KOPF_DECLS: &[__kopf::Decl] = &[
        __kopf::Decl {
            name: "inject",
            location: __KOPF_LOCATION,
            kind: __kopf::HandlerKind::OnMutate,
            selector: __kopf::Option::Some(|| __kopf::Selector::positional(&["pods"])),
            options: || __kopf::Options {
                subresource: __kopf::Option::Some(__kopf::String::from("*")),
                persistent: true,
                side_effects: true,
                ignore_failures: __kopf::Option::Some(true),
                labels: __kopf::Vec::from([
                    (__kopf::String::from("app"), __kopf::criterion("x")),
                ]),
                ..__kopf::Options::default()
            },
            call: __kopf::Function::Blocking(__kopf_call_inject),
        },
    ];
    __kopf::submit! {
        __kopf::Declared::Function(__KOPF_DECLS)
    }
};
