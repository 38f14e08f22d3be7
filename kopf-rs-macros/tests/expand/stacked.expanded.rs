/// Keeps its documentation, its visibility and its other attributes.
#[must_use]
pub(crate) async fn begin(
    _spec: Value,
    patch: &mut ::kopf_rs::Patch,
) -> HandlerResult<u8> {
    Ok(1)
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
    use Patch as _;
    fn __kopf_call_begin<'a>(
        __kopf_cause: &'a __kopf::Cause,
        __kopf_patch: &'a mut __kopf::Patch,
    ) -> __kopf::Calling<'a> {
        __kopf::Box::pin(async move {
            use __kopf::{AnyKind as _, GivenToAll as _, LocalBoxKind as _};
            let __kopf_argument_0 = <Value as __kopf::GivenAs<
                '_,
                __kopf::arg::spec,
            >>::from_arg(__kopf_cause)?;
            let __kopf_returned = __kopf::handler_future_must_be_send(
                    begin(__kopf_argument_0, __kopf_patch),
                )
                .await;
            (&__kopf_returned).__kopf_kind().convert(__kopf_returned)
        })
    }
    fn __kopf_register(__kopf_registry: __kopf::Registry) -> __kopf::Registry {
        __kopf_registry
            .on_create(
                __kopf::Selector::positional(&["kopfexamples"]),
                __kopf::function(
                    "begin",
                    __KOPF_LOCATION,
                    __kopf::Function::Async(__kopf_call_begin),
                ),
            )
            .on_resume(
                __kopf::Selector::positional(&["kopfexamples"]),
                __kopf::function(
                        "begin",
                        __KOPF_LOCATION,
                        __kopf::Function::Async(__kopf_call_begin),
                    )
                    .deleted(),
            )
    }
    __kopf::submit! {
        __kopf::Declared { item : __kopf::Item::Function, name : "begin", location :
        __KOPF_LOCATION, register : __kopf_register, }
    }
};
/// An attribute of somebody else's, whose name is one of ours.
#[other::timer(every = 3)]
async fn seen() {}
const _: () = {
    use ::kopf_rs::__private as __kopf;
    const __KOPF_LOCATION: __kopf::SourceLocation = __kopf::SourceLocation {
        package: ::core::env!("CARGO_PKG_NAME"),
        file: ::core::file!(),
        line: 1u32,
        column: 1u32,
        module: ::core::module_path!(),
    };
    fn __kopf_call_seen<'a>(
        __kopf_cause: &'a __kopf::Cause,
        __kopf_patch: &'a mut __kopf::Patch,
    ) -> __kopf::Calling<'a> {
        __kopf::Box::pin(async move {
            use __kopf::{AnyKind as _, GivenToAll as _, LocalBoxKind as _};
            let __kopf_returned = __kopf::handler_future_must_be_send(seen()).await;
            (&__kopf_returned).__kopf_kind().convert(__kopf_returned)
        })
    }
    fn __kopf_register(__kopf_registry: __kopf::Registry) -> __kopf::Registry {
        __kopf_registry
            .on_event(
                __kopf::Selector::positional(&["pods"]),
                __kopf::function(
                    "seen",
                    __KOPF_LOCATION,
                    __kopf::Function::Async(__kopf_call_seen),
                ),
            )
    }
    __kopf::submit! {
        __kopf::Declared { item : __kopf::Item::Function, name : "seen", location :
        __KOPF_LOCATION, register : __kopf_register, }
    }
};
