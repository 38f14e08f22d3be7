#[validation_rule("databases.example.com", "v1", "mysqlclusters", message = "volumes keep their size", field = "spec.storage")]
const VOLUMES_KEEP_THEIR_SIZE: &str = "self.spec.storage == oldSelf.spec.storage";

#[cfg(feature = "strict")]
#[validation_rule(App, crate = kopf, id = "no-deletions", operations = [DELETE], warn, ignore_failures)]
pub const KEEP: &str = "request.userInfo.username == 'admin'";
