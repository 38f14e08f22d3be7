async fn create_fn(db: State<Db>, stats: Stats, who: &str) -> Result<(), anyhow::Error> {
    Ok(())
}
const _: () = {
    use my_framework::kopf_rs::__private as __kopf;
    const __KOPF_LOCATION: __kopf::SourceLocation = __kopf::SourceLocation {
        package: ::core::env!("CARGO_PKG_NAME"),
        file: ::core::file!(),
        line: 1u32,
        column: 1u32,
        module: ::core::module_path!(),
    };
    fn __kopf_call_create_fn<'a>(
        __kopf_cause: &'a __kopf::Cause,
        __kopf_patch: &'a mut __kopf::Patch,
    ) -> __kopf::Calling<'a> {
        __kopf::Box::pin(async move {
            use __kopf::{AnyKind as _, GivenToAll as _, LocalBoxKind as _};
            __kopf::ByType::<State<Db>, __kopf::family::Change>::is_given();
            __kopf::ByType::<Stats, __kopf::family::Change>::is_given();
            let __kopf_argument_0 = <State<
                Db,
            > as __kopf::FromCause<'_>>::from_cause(__kopf_cause)?;
            let __kopf_argument_1 = <Stats as __kopf::FromCause<
                '_,
            >>::from_cause(__kopf_cause)?;
            let __kopf_argument_2 = <str as __kopf::LentAs<
                '_,
                __kopf::arg::name,
            >>::hold(__kopf_cause)?;
            let __kopf_returned = __kopf::handler_future_must_be_send(
                    create_fn(__kopf_argument_0, __kopf_argument_1, &*__kopf_argument_2),
                )
                .await;
            (&__kopf_returned).__kopf_kind().convert(__kopf_returned)
        })
    }
    fn __kopf_register(__kopf_registry: __kopf::Registry) -> __kopf::Registry {
        __kopf_registry
            .on_create(
                __kopf::Selector::positional(&["kopfexamples"]),
                {
                    use __kopf::GivenToAll as _;
                    __kopf::function(
                            "create_fn",
                            __KOPF_LOCATION,
                            __kopf::Function::Async(__kopf_call_create_fn),
                        )
                        .requiring(
                            __kopf::ByType::<
                                State<Db>,
                                __kopf::family::Change,
                            >::required_state(),
                        )
                        .requiring(
                            __kopf::ByType::<
                                Stats,
                                __kopf::family::Change,
                            >::required_state(),
                        )
                },
            )
    }
    __kopf::submit! {
        __kopf::Declared { item : __kopf::Item::Function, name : "create_fn", location :
        __KOPF_LOCATION, register : __kopf_register, }
    }
};
async fn other_indices(
    cells: geo::Index<String, String>,
    places: &Index<u8>,
    ours: &kopf_rs::Index<String, String>,
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
    fn __kopf_call_other_indices<'a>(
        __kopf_cause: &'a __kopf::Cause,
        __kopf_patch: &'a mut __kopf::Patch,
    ) -> __kopf::Calling<'a> {
        __kopf::Box::pin(async move {
            use __kopf::{AnyKind as _, GivenToAll as _, LocalBoxKind as _};
            __kopf::ByType::<
                geo::Index<String, String>,
                __kopf::family::Event,
            >::is_given();
            __kopf::ByType::<&Index<u8>, __kopf::family::Event>::is_given();
            let __kopf_argument_0 = <geo::Index<
                String,
                String,
            > as __kopf::FromCause<'_>>::from_cause(__kopf_cause)?;
            let __kopf_argument_1 = <&Index<
                u8,
            > as __kopf::FromCause<'_>>::from_cause(__kopf_cause)?;
            let __kopf_argument_2 = <kopf_rs::Index<
                String,
                String,
            > as __kopf::IndexArgument>::of(__kopf_cause, "ours")?;
            let __kopf_returned = __kopf::handler_future_must_be_send(
                    other_indices(
                        __kopf_argument_0,
                        __kopf_argument_1,
                        &__kopf_argument_2,
                    ),
                )
                .await;
            (&__kopf_returned).__kopf_kind().convert(__kopf_returned)
        })
    }
    fn __kopf_register(__kopf_registry: __kopf::Registry) -> __kopf::Registry {
        __kopf_registry
            .on_event(
                __kopf::Selector::positional(&["pods"]),
                {
                    use __kopf::GivenToAll as _;
                    __kopf::function(
                            "other_indices",
                            __KOPF_LOCATION,
                            __kopf::Function::Async(__kopf_call_other_indices),
                        )
                        .requiring(
                            __kopf::ByType::<
                                geo::Index<String, String>,
                                __kopf::family::Event,
                            >::required_state(),
                        )
                        .requiring(
                            __kopf::ByType::<
                                &Index<u8>,
                                __kopf::family::Event,
                            >::required_state(),
                        )
                        .reading(
                            <kopf_rs::Index<
                                String,
                                String,
                            > as __kopf::IndexArgument>::required("ours"),
                        )
                },
            )
    }
    __kopf::submit! {
        __kopf::Declared { item : __kopf::Item::Function, name : "other_indices",
        location : __KOPF_LOCATION, register : __kopf_register, }
    }
};
