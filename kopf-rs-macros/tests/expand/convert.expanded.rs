fn up(spec: v1alpha1::VoteSpec) -> v1::VoteSpec {
    v1::VoteSpec {
        options: vec![spec.options],
    }
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
    fn __kopf_convert_up(
        __kopf_given: &__kopf::ConversionInput<'_>,
    ) -> __kopf::Returned {
        use __kopf::{ConvertedResult as _, ConvertedValue as _};
        let __kopf_read = __kopf_given.read::<v1alpha1::VoteSpec>()?;
        let __kopf_returned = up(__kopf_read);
        (&__kopf_returned).__kopf_converted().convert(__kopf_returned)
    }
    fn __kopf_register(__kopf_registry: __kopf::Registry) -> __kopf::Registry {
        __kopf_registry
            .on_convert(
                __kopf::Selector::positional(&["votes.example.com"])
                    .map(|mut selector| {
                        selector.version = __kopf::Option::Some(
                            __kopf::String::from("v1alpha1"),
                        );
                        selector
                    }),
                __kopf::Selector::positional(&["votes.example.com"])
                    .map(|mut selector| {
                        selector.version = __kopf::Option::Some(
                            __kopf::String::from("v1"),
                        );
                        selector
                    }),
                __kopf::conversion_function(
                    "up",
                    __KOPF_LOCATION,
                    __kopf::ConvertedPart::Spec,
                    __kopf_convert_up,
                ),
            )
    }
    __kopf::submit! {
        __kopf::Declared { item : __kopf::Item::Conversion, name : "up", location :
        __KOPF_LOCATION, register : __kopf_register, }
    }
};
fn down(object: &v1::Vote) -> HandlerResult<v1alpha1::Vote> {
    Err(::core::convert::Into::into(PermanentError::new("no")))
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
    fn __kopf_convert_down(
        __kopf_given: &__kopf::ConversionInput<'_>,
    ) -> __kopf::Returned {
        use __kopf::{ConvertedResult as _, ConvertedValue as _};
        let __kopf_read = __kopf_given.read::<v1::Vote>()?;
        let __kopf_returned = down(&__kopf_read);
        (&__kopf_returned).__kopf_converted().convert(__kopf_returned)
    }
    fn __kopf_register(__kopf_registry: __kopf::Registry) -> __kopf::Registry {
        __kopf_registry
            .on_convert(
                __kopf::Selector::of::<v1::Vote>()
                    .defined_by({
                        #[allow(unused_imports)]
                        use __kopf::Undefined as _;
                        __kopf::DefinedBy::<v1::Vote>::ask().definition()
                    }),
                __kopf::Selector::of::<v1alpha1::Vote>()
                    .defined_by({
                        #[allow(unused_imports)]
                        use __kopf::Undefined as _;
                        __kopf::DefinedBy::<v1alpha1::Vote>::ask().definition()
                    }),
                __kopf::conversion_function(
                    "down",
                    __KOPF_LOCATION,
                    __kopf::ConvertedPart::Object,
                    __kopf_convert_down,
                ),
            )
    }
    __kopf::submit! {
        __kopf::Declared { item : __kopf::Item::Conversion, name : "down", location :
        __KOPF_LOCATION, register : __kopf_register, }
    }
};
