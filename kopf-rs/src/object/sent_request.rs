//! A request to the API server, read from its method and path, in the terms of RBAC.
//!
//! Must not know who sends it.

/// A request about a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SentRequest {
    /// The verb of RBAC.
    pub(crate) verb: &'static str,
    pub(crate) group: String,
    pub(crate) plural: String,
    pub(crate) subresource: Option<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
}

impl SentRequest {
    /// Reads a request; `None` if it is not about a resource, such as discovery.
    pub(crate) fn read(method: &str, path: &str, query: &str) -> Option<Self> {
        let parts: Vec<_> = path.split('/').filter(|it| !it.is_empty()).collect();
        let (group, rest) = match parts.as_slice() {
            ["api", _, rest @ ..] => ("", rest),
            ["apis", group, _, rest @ ..] => (*group, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, plural, rest @ ..] if *plural != "status" && *plural != "finalize" => {
                (Some(*namespace), [&[*plural][..], rest].concat())
            }
            rest => (None, rest.to_vec()),
        };
        let (plural, name, subresource) = match rest.as_slice() {
            [plural] => (*plural, None, None),
            [plural, name] => (*plural, Some(*name), None),
            [plural, name, subresource, ..] => (*plural, Some(*name), Some(*subresource)),
            [] => return None,
        };
        let has = |parameter: &str| query.split('&').any(|it| it == parameter);
        let is_watch = has("watch=true") || has("watch=1");
        let verb = match (method, name) {
            ("POST", _) => "create",
            ("PUT", _) => "update",
            ("PATCH", _) => "patch",
            ("DELETE", Some(_)) => "delete",
            ("DELETE", None) => "deletecollection",
            ("GET" | "HEAD", None) if is_watch => "watch",
            ("GET" | "HEAD", None) => "list",
            ("GET" | "HEAD", Some(_)) => "get",
            _ => return None,
        };
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Some(Self {
            verb,
            group: group.to_owned(),
            plural: plural.to_owned(),
            subresource: owned(subresource),
            namespace: owned(namespace),
            name: owned(name),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_rbac_sees_them() {
        for (method, path, expected) in [
            ("GET", "/api/v1/pods", "list  pods"),
            ("GET", "/api/v1/namespaces/team/pods?limit=5&watch=true", "watch  pods in team"),
            ("GET", "/api/v1/namespaces/team/pods/a", "get  pods in team named a"),
            ("GET", "/api/v1/namespaces/team/pods/a/log", "get  pods/log in team named a"),
            ("POST", "/api/v1/namespaces/team/pods/a/proxy/x/y", "create  pods/proxy in team named a"),
            (
                "PATCH",
                "/apis/apps/v1/namespaces/team/deployments/a/scale",
                "patch apps deployments/scale in team named a",
            ),
            (
                "DELETE",
                "/apis/apps/v1/namespaces/team/deployments",
                "deletecollection apps deployments in team",
            ),
            (
                "DELETE",
                "/apis/apps/v1/namespaces/team/deployments/a",
                "delete apps deployments in team named a",
            ),
            ("PUT", "/api/v1/namespaces/team/status", "update  namespaces/status named team"),
            ("GET", "/api/v1/namespaces/team", "get  namespaces named team"),
            ("GET", "/apis/apps/v1", ""),
            ("GET", "/version", ""),
        ] {
            let (path, query) = path.split_once('?').unwrap_or((path, ""));
            let read = SentRequest::read(method, path, query).map(|it| {
                let subresource = it.subresource.map(|it| format!("/{it}")).unwrap_or_default();
                let namespace = it.namespace.map(|it| format!(" in {it}")).unwrap_or_default();
                let name = it.name.map(|it| format!(" named {it}")).unwrap_or_default();
                format!("{} {} {}{subresource}{namespace}{name}", it.verb, it.group, it.plural)
            });
            assert_eq!(read.unwrap_or_default(), expected, "{method} {path}");
        }
    }
}
