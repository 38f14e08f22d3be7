async fn announce(activity: &str, client: Client) {}
const _: () = {
    use ::kopf_rs::__private as __kopf;
    const __KOPF_LOCATION: __kopf::SourceLocation = __kopf::SourceLocation {
        package: ::core::env!("CARGO_PKG_NAME"),
        file: ::core::file!(),
        line: 1u32,
        column: 1u32,
        module: ::core::module_path!(),
    };
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
    fn __kopf_register(__kopf_registry: __kopf::Registry) -> __kopf::Registry {
        __kopf_registry
            .on_cleanup(
                __kopf::function(
                        "announce",
                        __KOPF_LOCATION,
                        __kopf::Function::Async(__kopf_call_announce),
                    )
                    .retries(3),
            )
            .on_startup(
                __kopf::function(
                    "announce",
                    __KOPF_LOCATION,
                    __kopf::Function::Async(__kopf_call_announce),
                ),
            )
    }
    __kopf::submit! {
        __kopf::Declared { item : __kopf::Item::Function, name : "announce", location :
        __KOPF_LOCATION, register : __kopf_register, }
    }
};
