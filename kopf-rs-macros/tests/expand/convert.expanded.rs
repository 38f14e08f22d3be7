fn up(spec: v1alpha1::VoteSpec) -> v1::VoteSpec {
    v1::VoteSpec {
        options: vec![spec.options],
    }
}
const _: () = {
    use ::kopf_rs::__private as __kopf;
    fn __kopf_convert_up(
        __kopf_given: &__kopf::ConversionInput<'_>,
    ) -> __kopf::Returned {
        use __kopf::{ConvertedResult as _, ConvertedValue as _};
        let __kopf_read = __kopf_given.read::<v1alpha1::VoteSpec>()?;
        let __kopf_returned = up(__kopf_read);
        (&__kopf_returned).__kopf_converted().convert(__kopf_returned)
    }
    __kopf::submit! {
        __kopf::Declared::Conversion(__kopf::ConversionDecl { name : "up", location :
        __kopf::SourceLocation { package : ::core::env!("CARGO_PKG_NAME"), file :
        ::core::file!(), line : 1u32, column : 1u32, module : ::core::module_path!(), },
        from : || __kopf::Selector::positional(& ["votes.example.com"]).map(| mut
        selector | { selector.version =
        __kopf::Option::Some(__kopf::String::from("v1alpha1")); selector }), to : ||
        __kopf::Selector::positional(& ["votes.example.com"]).map(| mut selector | {
        selector.version = __kopf::Option::Some(__kopf::String::from("v1")); selector }),
        part : __kopf::ConvertedPart::Spec, call : __kopf_convert_up, })
    }
};
fn down(object: &v1::Vote) -> HandlerResult<v1alpha1::Vote> {
    Err(::core::convert::Into::into(PermanentError::new("no")))
}
const _: () = {
    use ::kopf_rs::__private as __kopf;
    fn __kopf_convert_down(
        __kopf_given: &__kopf::ConversionInput<'_>,
    ) -> __kopf::Returned {
        use __kopf::{ConvertedResult as _, ConvertedValue as _};
        let __kopf_read = __kopf_given.read::<v1::Vote>()?;
        let __kopf_returned = down(&__kopf_read);
        (&__kopf_returned).__kopf_converted().convert(__kopf_returned)
    }
    __kopf::submit! {
        __kopf::Declared::Conversion(__kopf::ConversionDecl { name : "down", location :
        __kopf::SourceLocation { package : ::core::env!("CARGO_PKG_NAME"), file :
        ::core::file!(), line : 1u32, column : 1u32, module : ::core::module_path!(), },
        from : || __kopf::Result::Ok(__kopf::Selector::of:: < v1::Vote > ()), to : ||
        __kopf::Result::Ok(__kopf::Selector::of:: < v1alpha1::Vote > ()), part :
        __kopf::ConvertedPart::Object, call : __kopf_convert_down, })
    }
};
