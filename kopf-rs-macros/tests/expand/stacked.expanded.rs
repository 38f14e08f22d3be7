/// Keeps its documentation, its visibility and its other attributes.
#[must_use]
pub(crate) async fn begin(_spec: Value, patch: &mut Patch) -> HandlerResult<u8> {
    Ok(1)
}
const _: () = {
    use ::kopf_rs::__private as __kopf;
    fn __kopf_call_begin<'a>(
        __kopf_cause: &'a __kopf::Cause,
        __kopf_patch: &'a mut __kopf::Patch,
    ) -> __kopf::Calling<'a> {
        __kopf::Box::pin(async move {
            use __kopf::{AnyKind as _, LocalBoxKind as _};
            let __kopf_argument_0 = <Value as __kopf::FromArg<
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
    const __KOPF_PLACE: __kopf::Place = __kopf::Place {
        package: ::core::env!("CARGO_PKG_NAME"),
        file: ::core::file!(),
        line: 1u32,
        column: 1u32,
        module: ::core::module_path!(),
    };
    const __KOPF_DECLS: &[__kopf::Decl] = &[
        __kopf::Decl {
            name: "begin",
            place: __KOPF_PLACE,
            kind: __kopf::HandlerKind::Create,
            selector: __kopf::Option::Some(|| __kopf::Selector::positional(
                &["kopfexamples"],
            )),
            options: || __kopf::Options {
                id: __kopf::Option::Some(__kopf::String::from("begin")),
                ..__kopf::Options::default()
            },
            call: __kopf::Call::Async(__kopf_call_begin),
        },
        __kopf::Decl {
            name: "begin",
            place: __KOPF_PLACE,
            kind: __kopf::HandlerKind::Resume,
            selector: __kopf::Option::Some(|| __kopf::Selector::positional(
                &["kopfexamples"],
            )),
            options: || __kopf::Options {
                deleted: true,
                ..__kopf::Options::default()
            },
            call: __kopf::Call::Async(__kopf_call_begin),
        },
    ];
    __kopf::submit! {
        __kopf::Declared(__KOPF_DECLS)
    }
};
