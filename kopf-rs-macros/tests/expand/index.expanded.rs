fn by_node(
    node: Option<String>,
    name: String,
    by_zone: &Index<String, String>,
) -> Option<(String, String)> {
    by_zone.contains("a").then_some((node?, name))
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
    fn __kopf_call_by_node(
        __kopf_cause: &__kopf::Cause,
        __kopf_patch: &mut __kopf::Patch,
    ) -> __kopf::Returned {
        use __kopf::{AnyKind as _, GivenToAll as _, LocalBoxKind as _};
        let __kopf_argument_0 = __kopf::field_if_any::<
            String,
        >(__kopf_cause, "spec", &["nodeName"])?;
        let __kopf_argument_1 = <String as __kopf::GivenAs<
            '_,
            __kopf::arg::name,
        >>::from_arg(__kopf_cause)?;
        let __kopf_argument_2 = <Index<
            String,
            String,
        > as __kopf::IndexArgument>::of(__kopf_cause, "by_zone")?;
        let __kopf_returned = by_node(
            __kopf_argument_0,
            __kopf_argument_1,
            &__kopf_argument_2,
        );
        __kopf::index_returned(__kopf_cause, __kopf_returned)
    }
    fn __kopf_register(__kopf_registry: __kopf::Registry) -> __kopf::Registry {
        __kopf_registry
            .index(
                __kopf::Selector::positional(&["v1", "pods"]),
                {
                    use __kopf::GivenToAll as _;
                    __kopf::function(
                            "by_node",
                            __KOPF_LOCATION,
                            __kopf::Function::Blocking(__kopf_call_by_node),
                        )
                        .indexing(
                            __kopf::IndexType::of_function::<Option<(String, String)>>(),
                        )
                        .errors(__kopf::ErrorsMode::Temporary)
                        .reading(
                            <Index<
                                String,
                                String,
                            > as __kopf::IndexArgument>::required("by_zone"),
                        )
                },
            )
    }
    __kopf::submit! {
        __kopf::Declared { item : __kopf::Item::Function, name : "by_node", location :
        __KOPF_LOCATION, register : __kopf_register, }
    }
};
async fn reads(_by_node: Index<String, String>, zones: &Index<String, String>) {}
const _: () = {
    use ::kopf_rs::__private as __kopf;
    const __KOPF_LOCATION: __kopf::SourceLocation = __kopf::SourceLocation {
        package: ::core::env!("CARGO_PKG_NAME"),
        file: ::core::file!(),
        line: 1u32,
        column: 1u32,
        module: ::core::module_path!(),
    };
    fn __kopf_call_reads<'a>(
        __kopf_cause: &'a __kopf::Cause,
        __kopf_patch: &'a mut __kopf::Patch,
    ) -> __kopf::Calling<'a> {
        __kopf::Box::pin(async move {
            use __kopf::{AnyKind as _, GivenToAll as _, LocalBoxKind as _};
            let __kopf_argument_0 = <Index<
                String,
                String,
            > as __kopf::IndexArgument>::of(__kopf_cause, "by_node")?;
            let __kopf_argument_1 = <Index<
                String,
                String,
            > as __kopf::IndexArgument>::of(__kopf_cause, "by_zone")?;
            let __kopf_returned = __kopf::handler_future_must_be_send(
                    reads(__kopf_argument_0, &__kopf_argument_1),
                )
                .await;
            (&__kopf_returned).__kopf_kind().convert(__kopf_returned)
        })
    }
    fn __kopf_register(__kopf_registry: __kopf::Registry) -> __kopf::Registry {
        __kopf_registry
            .on_event(
                __kopf::Selector::positional(&["v1", "nodes"]),
                {
                    use __kopf::GivenToAll as _;
                    __kopf::function(
                            "reads",
                            __KOPF_LOCATION,
                            __kopf::Function::Async(__kopf_call_reads),
                        )
                        .reading(
                            <Index<
                                String,
                                String,
                            > as __kopf::IndexArgument>::required("by_node"),
                        )
                        .reading(
                            <Index<
                                String,
                                String,
                            > as __kopf::IndexArgument>::required("by_zone"),
                        )
                },
            )
    }
    __kopf::submit! {
        __kopf::Declared { item : __kopf::Item::Function, name : "reads", location :
        __KOPF_LOCATION, register : __kopf_register, }
    }
};
