/// The status is lent beside the patch.
async fn create_fn(
    name: &str,
    patch: &mut ::kopf_rs::Patch,
    status: &mut Status<MyStatus>,
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
    fn __kopf_call_create_fn<'a>(
        __kopf_cause: &'a __kopf::Cause,
        __kopf_patch: &'a mut __kopf::Patch,
    ) -> __kopf::Calling<'a> {
        __kopf::Box::pin(async move {
            use __kopf::{AnyKind as _, GivenToAll as _, LocalBoxKind as _};
            let __kopf_argument_0 = <str as __kopf::LentAs<
                '_,
                __kopf::arg::name,
            >>::hold(__kopf_cause)?;
            let mut __kopf_argument_2 = <Status<
                MyStatus,
            > as __kopf::StatusArgument>::lend(__kopf_cause, __kopf_patch)?;
            let __kopf_returned = __kopf::handler_future_must_be_send(
                    create_fn(
                        &*__kopf_argument_0,
                        &mut *__kopf_argument_2.patch,
                        &mut __kopf_argument_2.status,
                    ),
                )
                .await;
            __kopf_argument_2
                .end((&__kopf_returned).__kopf_kind().convert(__kopf_returned))
        })
    }
    fn __kopf_register(__kopf_registry: __kopf::Registry) -> __kopf::Registry {
        __kopf_registry
            .on_create(
                __kopf::Selector::positional(&["myapps"]),
                __kopf::function(
                    "create_fn",
                    __KOPF_LOCATION,
                    __kopf::Function::Async(__kopf_call_create_fn),
                ),
            )
    }
    __kopf::submit! {
        __kopf::Declared { item : __kopf::Item::Function, name : "create_fn", location :
        __KOPF_LOCATION, register : __kopf_register, }
    }
};
