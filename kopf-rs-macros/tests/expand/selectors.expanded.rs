async fn watch(event_type: EventType) {}
const _: () = {
    use ::kopf_rs::__private as __kopf;
    const __KOPF_LOCATION: __kopf::SourceLocation = __kopf::SourceLocation {
        package: ::core::env!("CARGO_PKG_NAME"),
        file: ::core::file!(),
        line: 1u32,
        column: 1u32,
        module: ::core::module_path!(),
    };
    fn __kopf_call_watch<'a>(
        __kopf_cause: &'a __kopf::Cause,
        __kopf_patch: &'a mut __kopf::Patch,
    ) -> __kopf::Calling<'a> {
        __kopf::Box::pin(async move {
            use __kopf::{AnyKind as _, GivenToAll as _, LocalBoxKind as _};
            let __kopf_argument_0 = <EventType as __kopf::GivenAs<
                '_,
                __kopf::arg::event_type,
            >>::from_arg(__kopf_cause)?;
            let __kopf_returned = __kopf::handler_future_must_be_send(
                    watch(__kopf_argument_0),
                )
                .await;
            (&__kopf_returned).__kopf_kind().convert(__kopf_returned)
        })
    }
    fn __kopf_register(__kopf_registry: __kopf::Registry) -> __kopf::Registry {
        __kopf_registry
            .on_event(
                __kopf::Selector::named(
                    __kopf::Option::None,
                    __kopf::Option::None,
                    __kopf::SelectorName::Category(__kopf::String::from("all")),
                ),
                __kopf::function(
                    "watch",
                    __KOPF_LOCATION,
                    __kopf::Function::Async(__kopf_call_watch),
                ),
            )
            .on_event(
                __kopf::Selector::positional(&["deployments"])
                    .map(|mut selector| {
                        selector.group = __kopf::Option::Some(
                            __kopf::String::from("apps"),
                        );
                        selector.version = __kopf::Option::Some(
                            __kopf::String::from(VERSION),
                        );
                        selector
                    }),
                __kopf::function(
                    "watch",
                    __KOPF_LOCATION,
                    __kopf::Function::Async(__kopf_call_watch),
                ),
            )
            .on_event(
                __kopf::Selector::named(
                    __kopf::Option::Some(__kopf::String::from("apps")),
                    __kopf::Option::None,
                    __kopf::SelectorName::Kind(__kopf::String::from("Deployment")),
                ),
                __kopf::function(
                    "watch",
                    __KOPF_LOCATION,
                    __kopf::Function::Async(__kopf_call_watch),
                ),
            )
            .on_event(
                __kopf::Selector::of::<MyApp>()
                    .defined_by({
                        #[allow(unused_imports)]
                        use __kopf::Undefined as _;
                        __kopf::DefinedBy::<MyApp>::ask().definition()
                    }),
                __kopf::function(
                    "watch",
                    __KOPF_LOCATION,
                    __kopf::Function::Async(__kopf_call_watch),
                ),
            )
            .on_event(
                __kopf::Selector::positional(&["apps", "everything"])
                    .map(|mut selector| {
                        selector.name = __kopf::SelectorName::Everything;
                        selector
                    }),
                __kopf::function(
                    "watch",
                    __KOPF_LOCATION,
                    __kopf::Function::Async(__kopf_call_watch),
                ),
            )
            .on_event(
                __kopf::Selector::positional(&["everything"])
                    .map(|mut selector| {
                        selector.name = __kopf::SelectorName::Everything;
                        selector
                    }),
                __kopf::function(
                    "watch",
                    __KOPF_LOCATION,
                    __kopf::Function::Async(__kopf_call_watch),
                ),
            )
    }
    __kopf::submit! {
        __kopf::Declared { item : __kopf::Item::Function, name : "watch", location :
        __KOPF_LOCATION, register : __kopf_register, }
    }
};
