#[cfg(feature = "blocking")]
fn work<'a>(spec: &'a KopfExample, labels: &BTreeMap<String, String>) {}
#[cfg(feature = "blocking")]
const _: () = {
    use ::kopf_rs::__private as __kopf;
    const __KOPF_LOCATION: __kopf::SourceLocation = __kopf::SourceLocation {
        package: ::core::env!("CARGO_PKG_NAME"),
        file: ::core::file!(),
        line: 1u32,
        column: 1u32,
        module: ::core::module_path!(),
    };
    fn __kopf_call_work(
        __kopf_cause: &__kopf::Cause,
        __kopf_patch: &mut __kopf::Patch,
    ) -> __kopf::Returned {
        use __kopf::{AnyKind as _, GivenToAll as _, LocalBoxKind as _};
        let __kopf_argument_0 = <KopfExample as __kopf::LentAs<
            '_,
            __kopf::arg::spec,
        >>::hold(__kopf_cause)?;
        let __kopf_argument_1 = <BTreeMap<
            String,
            String,
        > as __kopf::LentAs<'_, __kopf::arg::labels>>::hold(__kopf_cause)?;
        let __kopf_returned = work(&*__kopf_argument_0, &*__kopf_argument_1);
        (&__kopf_returned).__kopf_kind().convert(__kopf_returned)
    }
    fn __kopf_register(__kopf_registry: __kopf::Registry) -> __kopf::Registry {
        __kopf_registry
            .on_delete(
                __kopf::Selector::positional(&["kopfexamples"]),
                __kopf::function(
                        "work",
                        __KOPF_LOCATION,
                        __kopf::Function::Blocking(__kopf_call_work),
                    )
                    .optional(),
            )
    }
    __kopf::submit! {
        __kopf::Declared { item : __kopf::Item::Function, name : "work", location :
        __KOPF_LOCATION, register : __kopf_register, }
    }
};
