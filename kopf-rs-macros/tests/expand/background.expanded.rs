async fn watch_over(name: &str, stopped: &Stopped, live: Live) -> HandlerResult {
    Ok(())
}
const _: () = {
    use ::kopf_rs::__private as __kopf;
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
    const __KOPF_LOCATION: __kopf::SourceLocation = __kopf::SourceLocation {
        package: ::core::env!("CARGO_PKG_NAME"),
        file: ::core::file!(),
        line: 1u32,
        column: 1u32,
        module: ::core::module_path!(),
    };
    const __KOPF_DECLS: &[__kopf::Decl] = &[
        __kopf::Decl {
            name: "watch_over",
            location: __KOPF_LOCATION,
            kind: __kopf::HandlerKind::Daemon,
            selector: __kopf::Option::Some(|| __kopf::Selector::positional(
                &["demo.rtfm.co.ua", "v1", "myapps"],
            )),
            options: || {
                use __kopf::GivenToAll as _;
                __kopf::Options {
                    initial_delay: __kopf::Option::Some(__kopf::Pause::of(|cause| 5)),
                    cancellation_timeout: __kopf::Option::Some(
                        __kopf::Duration::from_secs(20),
                    ),
                    retries: __kopf::Option::Some(3),
                    ..__kopf::Options::default()
                }
                    .requiring(
                        __kopf::ByType::<
                            Live,
                            __kopf::family::Background,
                        >::required_state(),
                    )
            },
            call: __kopf::Function::Async(__kopf_call_watch_over),
        },
    ];
    __kopf::submit! {
        __kopf::Declared::Function(__KOPF_DECLS)
    }
};
fn tick(name: &str) {}
const _: () = {
    use ::kopf_rs::__private as __kopf;
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
    const __KOPF_LOCATION: __kopf::SourceLocation = __kopf::SourceLocation {
        package: ::core::env!("CARGO_PKG_NAME"),
        file: ::core::file!(),
        line: 1u32,
        column: 1u32,
        module: ::core::module_path!(),
    };
    const __KOPF_DECLS: &[__kopf::Decl] = &[
        __kopf::Decl {
            name: "tick",
            location: __KOPF_LOCATION,
            kind: __kopf::HandlerKind::Timer,
            selector: __kopf::Option::Some(|| __kopf::Selector::positional(&["myapps"])),
            options: || __kopf::Options {
                interval: __kopf::Option::Some(__kopf::pause(EVERY)),
                sharp: true,
                idle: __kopf::Option::Some(__kopf::Duration::from_secs(10)),
                initial_delay: __kopf::Option::Some(
                    __kopf::pause(__kopf::duration(1.5)),
                ),
                ..__kopf::Options::default()
            },
            call: __kopf::Function::Blocking(__kopf_call_tick),
        },
    ];
    __kopf::submit! {
        __kopf::Declared::Function(__KOPF_DECLS)
    }
};
fn nightly(name: &str) {}
const _: () = {
    use ::kopf_rs::__private as __kopf;
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
    const __KOPF_LOCATION: __kopf::SourceLocation = __kopf::SourceLocation {
        package: ::core::env!("CARGO_PKG_NAME"),
        file: ::core::file!(),
        line: 1u32,
        column: 1u32,
        module: ::core::module_path!(),
    };
    const __KOPF_DECLS: &[__kopf::Decl] = &[
        __kopf::Decl {
            name: "nightly",
            location: __KOPF_LOCATION,
            kind: __kopf::HandlerKind::Timer,
            selector: __kopf::Option::Some(|| __kopf::Selector::positional(&["myapps"])),
            options: || __kopf::Options {
                schedule: __kopf::Option::Some(__kopf::String::from("0 3 * * *")),
                zone: __kopf::Option::Some(__kopf::String::from("Europe/Kyiv")),
                ..__kopf::Options::default()
            },
            call: __kopf::Function::Blocking(__kopf_call_nightly),
        },
    ];
    __kopf::submit! {
        __kopf::Declared::Function(__KOPF_DECLS)
    }
};
async fn keep(name: &str) -> HandlerResult<Again> {
    Ok(Again::after(30))
}
const _: () = {
    use ::kopf_rs::__private as __kopf;
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
    const __KOPF_LOCATION: __kopf::SourceLocation = __kopf::SourceLocation {
        package: ::core::env!("CARGO_PKG_NAME"),
        file: ::core::file!(),
        line: 1u32,
        column: 1u32,
        module: ::core::module_path!(),
    };
    const __KOPF_DECLS: &[__kopf::Decl] = &[
        __kopf::Decl {
            name: "keep",
            location: __KOPF_LOCATION,
            kind: __kopf::HandlerKind::Reconcile,
            selector: __kopf::Option::Some(|| __kopf::Result::Ok(
                __kopf::Selector::of::<WebApp>(),
            )),
            options: || __kopf::Options {
                owns: __kopf::Vec::from([
                    __kopf::kind(|| __kopf::Result::Ok(
                        __kopf::Selector::of::<Deployment>(),
                    )),
                    __kopf::kind(|| __kopf::Selector::positional(&["services"])),
                    __kopf::kind(|| __kopf::Selector::positional(
                        &["apps", "statefulsets"],
                    )),
                ]),
                reads: __kopf::Vec::from([
                    __kopf::kind(|| {
                        use __kopf::either::*;
                        use CONFIG_MAPS as __KopfResource;
                        __kopf::NamesResource::<__KopfResource>::selector(__KopfResource)
                    }),
                ]),
                formerly_owns: __kopf::Vec::from([]),
                resync: __kopf::Option::Some(__kopf::Duration::from_secs(3600)),
                ..__kopf::Options::default()
            },
            call: __kopf::Function::Async(__kopf_call_keep),
        },
    ];
    __kopf::submit! {
        __kopf::Declared::Function(__KOPF_DECLS)
    }
};
