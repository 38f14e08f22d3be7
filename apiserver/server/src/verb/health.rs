//! The health pages: all checks, all but excluded ones, or a single one.
//!
//! Guarantees the check names of kube-apiserver 1.36; all checks always succeed. Must not depend on the store.

use std::fmt::Write as _;

use super::Answer;
use crate::call::Call;

/// The health checks in the order of the page. The prefixes `live:` and `ready:` limit a check to some pages; `+` marks a post-start hook.
const PARTS: &str = "ping log live:loopback-serving-certificate etcd ready:etcd-readiness ready:informer-sync
+start-apiserver-admission-initializer +generic-apiserver-start-informers +priority-and-fairness-config-consumer
+priority-and-fairness-filter +storage-object-count-tracker-hook +start-apiextensions-informers
+start-apiextensions-controllers +crd-informer-synced +start-system-namespaces-controller
+peer-endpoint-reconciler-controller +start-cluster-authentication-info-controller
+start-kube-apiserver-identity-lease-controller +start-kube-apiserver-identity-lease-garbage-collector
+storage-readiness +start-legacy-token-tracking-controller +start-service-ip-repair-controllers +rbac/bootstrap-roles
+scheduling/bootstrap-system-priority-classes +priority-and-fairness-config-producer +bootstrap-controller
+start-kubernetes-service-cidr-controller +start-kube-aggregator-informers +apiservice-status-local-available-controller
+apiservice-status-remote-available-controller +apiservice-registration-controller +apiservice-discovery-controller
+kube-apiserver-autoregistration autoregister-completion +apiservice-openapi-controller +apiservice-openapiv3-controller
ready:shutdown";

/// Returns the checks of a page.
fn parts(page: &str) -> Vec<String> {
    let ready = page == "readyz";
    let part = |word: &str| match (word.split_once(':'), word.strip_prefix('+')) {
        (Some((only, word)), _) => ((only == "ready") == ready).then(|| word.to_owned()),
        (None, Some(hook)) => Some(format!("poststarthook/{hook}")),
        (None, None) => Some(word.to_owned()),
    };
    PARTS.split_whitespace().filter_map(part).collect()
}

/// Returns a health page or one check of it; `None` if there is no such check.
pub(super) fn answer(call: &Call, page: &str, part: &[&str]) -> Option<Answer> {
    let parts = parts(page);
    let text = if part.is_empty() {
        whole(call, page, &parts)
    } else {
        parts.contains(&part.join("/")).then(|| "ok".to_owned())?
    };
    let mut answer = Answer::bytes(200, text.into());
    answer.content_type = "text/plain; charset=utf-8";
    Some(answer)
}

fn whole(call: &Call, page: &str, parts: &[String]) -> String {
    if !call.query.iter().any(|(key, _)| key == "verbose") {
        return "ok".to_owned();
    }
    let mut excluded: Vec<&str> = call.params("exclude").collect();
    excluded.sort_unstable();
    excluded.dedup();
    let mut text = String::new();
    for part in parts {
        let word = match excluded.iter().position(|name| name == part) {
            Some(at) => {
                excluded.remove(at);
                " excluded: ok"
            }
            None => " ok",
        };
        let told = writeln!(text, "[+]{part}{word}");
        debug_assert!(told.is_ok(), "texts take all that is written to them");
    }
    if !excluded.is_empty() {
        let names: Vec<String> = excluded.iter().map(|name| format!("{name:?}")).collect();
        text += "warn: some health checks cannot be excluded: no matches for ";
        text += &names.join(",");
        text += "\n";
    }
    text + page + " check passed\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_tell_of_their_own_parts() {
        assert_eq!(parts("healthz"), parts("livez"));
        let ready = parts("readyz");
        assert_eq!(ready.len(), 36);
        assert!(ready.contains(&"poststarthook/rbac/bootstrap-roles".to_owned()));
        assert!(!ready.contains(&"loopback-serving-certificate".to_owned()));
    }
}
