const VOLUMES_KEEP_THEIR_SIZE: &str = "self.spec.storage == oldSelf.spec.storage";
const _: () = {
    use ::kopf_rs::__private as __kopf;
    const __KOPF_LOCATION: __kopf::SourceLocation = __kopf::SourceLocation {
        package: ::core::env!("CARGO_PKG_NAME"),
        file: ::core::file!(),
        line: 1u32,
        column: 1u32,
        module: ::core::module_path!(),
    };
    fn __kopf_register(__kopf_registry: __kopf::Registry) -> __kopf::Registry {
        __kopf_registry
            .validation_rule(
                __kopf::Selector::positional(
                    &["databases.example.com", "v1", "mysqlclusters"],
                ),
                __kopf::ValidationRule::new(
                        "volumes-keep-their-size",
                        VOLUMES_KEEP_THEIR_SIZE,
                    )
                    .message("volumes keep their size")
                    .field("spec.storage")
                    .at(__KOPF_LOCATION),
            )
    }
    __kopf::submit! {
        __kopf::Declared { item : __kopf::Item::Rule, name : "VOLUMES_KEEP_THEIR_SIZE",
        location : __KOPF_LOCATION, register : __kopf_register, }
    }
};
#[cfg(feature = "strict")]
pub const KEEP: &str = "request.userInfo.username == 'admin'";
#[cfg(feature = "strict")]
const _: () = {
    use kopf::__private as __kopf;
    const __KOPF_LOCATION: __kopf::SourceLocation = __kopf::SourceLocation {
        package: ::core::env!("CARGO_PKG_NAME"),
        file: ::core::file!(),
        line: 1u32,
        column: 1u32,
        module: ::core::module_path!(),
    };
    fn __kopf_register(__kopf_registry: __kopf::Registry) -> __kopf::Registry {
        __kopf_registry
            .validation_rule(
                __kopf::Selector::of::<App>()
                    .defined_by({
                        #[allow(unused_imports)]
                        use __kopf::Undefined as _;
                        __kopf::DefinedBy::<App>::ask().definition()
                    }),
                __kopf::ValidationRule::new("no-deletions", KEEP)
                    .operations([__kopf::Operation::Delete])
                    .warn()
                    .ignore_failures()
                    .at(__KOPF_LOCATION),
            )
    }
    __kopf::submit! {
        __kopf::Declared { item : __kopf::Item::Rule, name : "KEEP", location :
        __KOPF_LOCATION, register : __kopf_register, }
    }
};
