async fn watch_over(name: &str, stopped: &Stopped, live: Live) -> HandlerResult {
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
    fn __kopf_call_watch_over<'a>(
        __kopf_cause: &'a __kopf::Cause,
        __kopf_patch: &'a mut __kopf::Patch,
    ) -> __kopf::Calling<'a> {
        __kopf::Box::pin(async move {
            use __kopf::{AnyKind as _, GivenToAll as _, LocalBoxKind as _};
            __kopf::ByType::<Live, __kopf::family::Background>::is_given();
            let __kopf_argument_0 = <str as __kopf::LentAs<
                '_,
                __kopf::arg::name,
            >>::hold(__kopf_cause)?;
            let __kopf_argument_1 = <Stopped as __kopf::LentAs<
                '_,
                __kopf::arg::stopped,
            >>::hold(__kopf_cause)?;
            let __kopf_argument_2 = <Live as __kopf::FromCause<
                '_,
            >>::from_cause(__kopf_cause)?;
            let __kopf_returned = __kopf::handler_future_must_be_send(
                    watch_over(
                        &*__kopf_argument_0,
                        &*__kopf_argument_1,
                        __kopf_argument_2,
                    ),
                )
                .await;
            (&__kopf_returned).__kopf_kind().convert(__kopf_returned)
        })
    }
    fn __kopf_register(__kopf_registry: __kopf::Registry) -> __kopf::Registry {
        __kopf_registry
            .daemon(
                __kopf::Selector::positional(&["demo.rtfm.co.ua", "v1", "myapps"]),
                {
                    use __kopf::GivenToAll as _;
                    __kopf::function(
                            "watch_over",
                            __KOPF_LOCATION,
                            __kopf::Function::Async(__kopf_call_watch_over),
                        )
                        .initial_delay(__kopf::of_cause(|cause| 5))
                        .cancellation_timeout(__kopf::Duration::from_secs(20))
                        .retries(3)
                        .requiring(
                            __kopf::ByType::<
                                Live,
                                __kopf::family::Background,
                            >::required_state(),
                        )
                },
            )
    }
    __kopf::submit! {
        __kopf::Declared { item : __kopf::Item::Function, name : "watch_over", location :
        __KOPF_LOCATION, register : __kopf_register, }
    }
};
fn tick(name: &str) {}
const _: () = {
    use ::kopf_rs::__private as __kopf;
    const __KOPF_LOCATION: __kopf::SourceLocation = __kopf::SourceLocation {
        package: ::core::env!("CARGO_PKG_NAME"),
        file: ::core::file!(),
        line: 1u32,
        column: 1u32,
        module: ::core::module_path!(),
    };
    fn __kopf_call_tick(
        __kopf_cause: &__kopf::Cause,
        __kopf_patch: &mut __kopf::Patch,
    ) -> __kopf::Returned {
        use __kopf::{AnyKind as _, GivenToAll as _, LocalBoxKind as _};
        let __kopf_argument_0 = <str as __kopf::LentAs<
            '_,
            __kopf::arg::name,
        >>::hold(__kopf_cause)?;
        let __kopf_returned = tick(&*__kopf_argument_0);
        (&__kopf_returned).__kopf_kind().convert(__kopf_returned)
    }
    fn __kopf_register(__kopf_registry: __kopf::Registry) -> __kopf::Registry {
        __kopf_registry
            .timer(
                __kopf::Selector::positional(&["myapps"]),
                __kopf::function(
                        "tick",
                        __KOPF_LOCATION,
                        __kopf::Function::Blocking(__kopf_call_tick),
                    )
                    .interval(EVERY)
                    .sharp()
                    .idle(__kopf::Duration::from_secs(10))
                    .initial_delay(1.5),
            )
    }
    __kopf::submit! {
        __kopf::Declared { item : __kopf::Item::Function, name : "tick", location :
        __KOPF_LOCATION, register : __kopf_register, }
    }
};
fn nightly(name: &str) {}
const _: () = {
    use ::kopf_rs::__private as __kopf;
    const __KOPF_LOCATION: __kopf::SourceLocation = __kopf::SourceLocation {
        package: ::core::env!("CARGO_PKG_NAME"),
        file: ::core::file!(),
        line: 1u32,
        column: 1u32,
        module: ::core::module_path!(),
    };
    fn __kopf_call_nightly(
        __kopf_cause: &__kopf::Cause,
        __kopf_patch: &mut __kopf::Patch,
    ) -> __kopf::Returned {
        use __kopf::{AnyKind as _, GivenToAll as _, LocalBoxKind as _};
        let __kopf_argument_0 = <str as __kopf::LentAs<
            '_,
            __kopf::arg::name,
        >>::hold(__kopf_cause)?;
        let __kopf_returned = nightly(&*__kopf_argument_0);
        (&__kopf_returned).__kopf_kind().convert(__kopf_returned)
    }
    fn __kopf_register(__kopf_registry: __kopf::Registry) -> __kopf::Registry {
        __kopf_registry
            .timer(
                __kopf::Selector::positional(&["myapps"]),
                __kopf::function(
                        "nightly",
                        __KOPF_LOCATION,
                        __kopf::Function::Blocking(__kopf_call_nightly),
                    )
                    .schedule("0 3 * * *")
                    .zone("Europe/Kyiv"),
            )
    }
    __kopf::submit! {
        __kopf::Declared { item : __kopf::Item::Function, name : "nightly", location :
        __KOPF_LOCATION, register : __kopf_register, }
    }
};
async fn keep(name: &str) -> HandlerResult<Again> {
    Ok(Again::after(30))
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
    fn __kopf_call_keep<'a>(
        __kopf_cause: &'a __kopf::Cause,
        __kopf_patch: &'a mut __kopf::Patch,
    ) -> __kopf::Calling<'a> {
        __kopf::Box::pin(async move {
            use __kopf::{AnyKind as _, GivenToAll as _, LocalBoxKind as _};
            let __kopf_argument_0 = <str as __kopf::LentAs<
                '_,
                __kopf::arg::name,
            >>::hold(__kopf_cause)?;
            let __kopf_returned = __kopf::handler_future_must_be_send(
                    keep(&*__kopf_argument_0),
                )
                .await;
            __kopf::reconcile_returned(__kopf_cause, __kopf_returned)
        })
    }
    fn __kopf_register(__kopf_registry: __kopf::Registry) -> __kopf::Registry {
        __kopf_registry
            .reconcile(
                __kopf::Selector::of::<WebApp>()
                    .defined_by({
                        #[allow(unused_imports)]
                        use __kopf::Undefined as _;
                        __kopf::DefinedBy::<WebApp>::ask().definition()
                    }),
                __kopf::function(
                        "keep",
                        __KOPF_LOCATION,
                        __kopf::Function::Async(__kopf_call_keep),
                    )
                    .owns(
                        __kopf::Selector::of::<Deployment>()
                            .defined_by({
                                #[allow(unused_imports)]
                                use __kopf::Undefined as _;
                                __kopf::DefinedBy::<Deployment>::ask().definition()
                            }),
                    )
                    .owns(__kopf::Selector::positional(&["services"]))
                    .owns(__kopf::Selector::positional(&["apps", "statefulsets"]))
                    .reads({
                        use __kopf::either::*;
                        use CONFIG_MAPS as __KopfResource;
                        let selector = __kopf::NamesResource::<
                            __KopfResource,
                        >::selector(__KopfResource);
                        selector
                            .map(|selector| {
                                selector
                                    .defined_by({
                                        #[allow(unused_imports)]
                                        use __kopf::Undefined as _;
                                        __kopf::DefinedBy::<__KopfResource>::ask().definition()
                                    })
                            })
                    })
                    .resync(__kopf::Duration::from_secs(3600)),
            )
    }
    __kopf::submit! {
        __kopf::Declared { item : __kopf::Item::Function, name : "keep", location :
        __KOPF_LOCATION, register : __kopf_register, }
    }
};
