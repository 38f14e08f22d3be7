const VOLUMES_KEEP_THEIR_SIZE: &str = "self.spec.storage == oldSelf.spec.storage";
const _: () = {
    use ::kopf_rs::__private as __kopf;
    __kopf::submit! {
        __kopf::Declared::Rule(__kopf::RuleDecl { location : __kopf::SourceLocation {
        package : ::core::env!("CARGO_PKG_NAME"), file : ::core::file!(), line : 1u32,
        column : 1u32, module : ::core::module_path!(), }, selector : ||
        __kopf::Selector::positional(& ["databases.example.com", "v1", "mysqlclusters"]),
        rule : || __kopf::ValidationRule::new("volumes-keep-their-size",
        VOLUMES_KEEP_THEIR_SIZE).message("volumes keep their size")
        .field("spec.storage"), })
    }
};
#[cfg(feature = "strict")]
pub const KEEP: &str = "request.userInfo.username == 'admin'";
#[cfg(feature = "strict")]
const _: () = {
    use kopf::__private as __kopf;
    __kopf::submit! {
        __kopf::Declared::Rule(__kopf::RuleDecl { location : __kopf::SourceLocation {
        package : ::core::env!("CARGO_PKG_NAME"), file : ::core::file!(), line : 1u32,
        column : 1u32, module : ::core::module_path!(), }, selector : ||
        __kopf::Result::Ok(__kopf::Selector::of:: < App > ()), rule : ||
        __kopf::ValidationRule::new("no-deletions", KEEP)
        .operations([__kopf::Operation::Delete]).warn().ignore_failures(), })
    }
};
