async fn resize(step: &u64, old: Option<&str>, new: Option<String>) {}
const _: () = {
    use ::kopf_rs::__private as __kopf;
    const __KOPF_LOCATION: __kopf::SourceLocation = __kopf::SourceLocation {
        package: ::core::env!("CARGO_PKG_NAME"),
        file: ::core::file!(),
        line: 1u32,
        column: 1u32,
        module: ::core::module_path!(),
    };
    fn __kopf_call_resize<'a>(
        __kopf_cause: &'a __kopf::Cause,
        __kopf_patch: &'a mut __kopf::Patch,
    ) -> __kopf::Calling<'a> {
        __kopf::Box::pin(async move {
            use __kopf::{AnyKind as _, GivenToAll as _, LocalBoxKind as _};
            let __kopf_argument_0 = <u64 as __kopf::LentAs<
                '_,
                __kopf::arg::param,
            >>::hold(__kopf_cause)?;
            let __kopf_argument_1 = <str as __kopf::LentAs<
                '_,
                __kopf::arg::old,
            >>::hold_if_any(__kopf_cause)?;
            let __kopf_argument_2 = <String as __kopf::GivenAs<
                '_,
                __kopf::arg::new,
            >>::from_arg_if_any(__kopf_cause)?;
            let __kopf_returned = __kopf::handler_future_must_be_send(
                    resize(
                        &*__kopf_argument_0,
                        __kopf_argument_1.as_deref(),
                        __kopf_argument_2,
                    ),
                )
                .await;
            (&__kopf_returned).__kopf_kind().convert(__kopf_returned)
        })
    }
    fn __kopf_register(__kopf_registry: __kopf::Registry) -> __kopf::Registry {
        __kopf_registry
            .on_update(
                __kopf::Selector::positional(&["kopf.dev/v1", "kopfexamples"]),
                __kopf::function(
                        "resized",
                        __KOPF_LOCATION,
                        __kopf::Function::Async(__kopf_call_resize),
                    )
                    .param({
                        let __kopf_param: u64 = 42;
                        __kopf_param
                    })
                    .errors(__kopf::ErrorsMode::Permanent)
                    .timeout(__kopf::Duration::from_secs(30))
                    .retries(MAX_RETRIES)
                    .backoff(1.5)
                    .field(
                        __kopf::FieldPath::from_parts([
                            "metadata",
                            "labels",
                            "example.com/size",
                        ]),
                    )
                    .old(__kopf::Criterion::Absent)
                    .new(__kopf::matches(|size| size.is_some()))
                    .label("app", __kopf::criterion("x"))
                    .label("tier", __kopf::Criterion::Present)
                    .label(KEY, __kopf::criterion(is_number))
                    .annotation("old", __kopf::Criterion::Absent)
                    .when(|cause| cause.name() != "ignored"),
            )
    }
    __kopf::submit! {
        __kopf::Declared { item : __kopf::Item::Function, name : "resize", location :
        __KOPF_LOCATION, register : __kopf_register, }
    }
};
