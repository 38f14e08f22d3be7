async fn announce(activity: &str, client: Client) {}
const _: () = {
    use ::kopf_rs::__private as __kopf;
    fn __kopf_call_announce<'a>(
        __kopf_cause: &'a __kopf::Cause,
        __kopf_patch: &'a mut __kopf::Patch,
    ) -> __kopf::Calling<'a> {
        __kopf::Box::pin(async move {
            use __kopf::{AnyKind as _, GivenToAll as _, LocalBoxKind as _};
            let __kopf_argument_0 = <str as __kopf::LentAs<
                '_,
                __kopf::arg::activity,
            >>::hold(__kopf_cause)?;
            let __kopf_argument_1 = <Client as __kopf::GivenAs<
                '_,
                __kopf::arg::client,
            >>::from_arg(__kopf_cause)?;
            let __kopf_returned = __kopf::handler_future_must_be_send(
                    announce(&*__kopf_argument_0, __kopf_argument_1),
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
            name: "announce",
            location: __KOPF_LOCATION,
            kind: __kopf::HandlerKind::OnCleanup,
            selector: __kopf::Option::None,
            options: || __kopf::Options {
                retries: __kopf::Option::Some(3),
                ..__kopf::Options::default()
            },
            call: __kopf::Function::Async(__kopf_call_announce),
        },
        __kopf::Decl {
            name: "announce",
            location: __KOPF_LOCATION,
            kind: __kopf::HandlerKind::OnStartup,
            selector: __kopf::Option::None,
            options: || __kopf::Options::default(),
            call: __kopf::Function::Async(__kopf_call_announce),
        },
    ];
    __kopf::submit! {
        __kopf::Declared::Function(__KOPF_DECLS)
    }
};
