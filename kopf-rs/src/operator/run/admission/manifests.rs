//! Prints manifests of webhook configurations and of policies, for operators that may not write them, and the roles that instances with a
//! Lease need.

use serde_json::Value;
use tokio::sync::watch;

use crate::admission::conditions::NAMESPACE;
use crate::admission::configuration::Found;
use crate::cluster::Client;
use crate::operator::admission::printed::printed;
use crate::operator::rights::{SharedLease, rights};
use crate::operator::run::{CheckedOperator, Operator, OperatorError};
use crate::operator::scope::Scope;

impl Operator {
    /// Returns the webhook configurations, the policies of rules, definitions with their rules and their converter, and roles, for the kinds
    /// of handlers that the cluster serves at present. With a Lease, includes the objects that its instances need.
    pub(crate) async fn manifests(self, client: Client) -> Result<Vec<Value>, OperatorError> {
        let name = self.check()?;
        CheckedOperator::new(self, name, client)?.printed().await
    }
}

impl CheckedOperator {
    async fn printed(&self) -> Result<Vec<Value>, OperatorError> {
        let settings = self.settings.get();
        let cluster = self.cluster(&settings);
        let mut found = Found::default();
        match &self.scope {
            Scope::All => {}
            Scope::Some(patterns) if patterns.are_names() => {
                found.namespaces = Some(patterns.literals().map(str::to_owned).collect());
            }
            // Matching namespaces may be created later, and printed manifests do not follow.
            Scope::Some(patterns) => found.namespace_expression = Some(patterns.expression(NAMESPACE)),
        }
        let setup = self.setup_of_webhooks(&settings, &cluster, watch::Sender::new(None).subscribe());
        let printed = printed(&setup, &self.rules, found).await;
        let mut printed = printed.map_err(OperatorError::Admission)?;
        if settings.lease.enabled {
            let (namespace, name) = self.lease(&settings, &cluster);
            printed.extend(rights(SharedLease { operator: &self.name, namespace: &namespace, name: &name }));
        }
        Ok(printed)
    }
}

#[cfg(test)]
mod tests {
    use kopf_rs_apiserver::ApiServer;

    use serde_json::json;

    use super::*;
    use crate::cluster::request::ObjectPath;
    use crate::handler::conversion::conversion;
    use crate::handler::filter::PRESENT;
    use crate::handler::registry::Registry;
    use crate::handler::registry::callback::handler;
    use crate::handler::validation_rule::ValidationRule;
    use crate::object::resource::Resource;
    use crate::operator::definition::register_crd;
    use crate::operator::settings::Settings;
    use crate::operator::settings::admission::AdmissionServer;

    /// Returns the manifests for an API server that reaches the webhooks by `server`.
    async fn manifests(server: AdmissionServer) -> Result<Vec<Value>, OperatorError> {
        let check = handler("check", |_| async { Ok(()) }).label("a", PRESENT);
        let registry = Registry::new().on_validate("configmaps", check);
        let settings = Settings::with(|settings| settings.admission.server = Some(server));
        let operator = Operator::new(registry).name("op").settings(settings);
        let client = Client::new(ApiServer::new().service(), "default");
        operator.manifests(client).await
    }

    /// Returns the manifests of an operator that converts between two versions of this definition.
    async fn converting(versions: &[&str], managed: bool) -> Result<Vec<Value>, OperatorError> {
        let server = ApiServer::new();
        let client = Client::new(server.service(), "default");
        let schema =
            json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let versions = versions
            .iter()
            .map(|name| json!({"name": name, "served": true, "storage": *name == "v1", "schema": schema}));
        let names = json!({"plural": "votes", "singular": "vote", "kind": "Vote"});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "votes.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": names,
                "versions": versions.collect::<Vec<_>>(),
            },
        });
        // The definition exists, whether it is established yet or not.
        let _ = register_crd(&client, &definition).await;
        let of = |version| ("example.com", version, "votes");
        let step = || conversion("step", |spec: Value| Ok(spec));
        let rule = ValidationRule::new("titled", "has(self.spec)").message("it has a spec");
        let registry = Registry::new()
            .on_convert(of("v1alpha1"), of("v1"), step())
            .on_convert(of("v1"), of("v1alpha1"), step())
            .validation_rule("votes.example.com", rule);
        let settings = Settings::with(|settings| {
            settings.admission.server = Some(AdmissionServer::service("team", "hooks"));
            settings.admission.managed = managed.then(|| "op.example.com".to_owned());
        });
        let operator = Operator::new(registry).name("op").settings(settings);
        operator.manifests(client).await
    }

    #[tokio::test]
    async fn a_definition_says_who_converts_and_has_its_rules() {
        let printed = converting(&["v1", "v1alpha1"], false).await.unwrap();
        let kinds: Vec<_> = printed.iter().map(|it| it["kind"].clone()).collect();
        assert_eq!(kinds, ["CustomResourceDefinition", "Role"]);
        let spec = &printed[0]["spec"];
        assert_eq!(spec["conversion"]["strategy"], "Webhook");
        let service = &spec["conversion"]["webhook"]["clientConfig"]["service"];
        assert_eq!(service["path"], "/convert/votes.example.com");
        assert_eq!(service["namespace"], "team");
        for version in spec["versions"].as_array().unwrap() {
            let rules = &version["schema"]["openAPIV3Schema"]["x-kubernetes-validations"];
            assert_eq!(rules[0]["message"], "it has a spec");
        }
        let error = converting(&["v1", "v2"], false).await.unwrap_err();
        assert!(error.to_string().contains("v2"), "{error}");
    }

    #[tokio::test]
    async fn what_the_operator_manages_itself_is_permitted() {
        let printed = converting(&["v1", "v1alpha1"], true).await.unwrap();
        let role = printed.last().unwrap();
        assert_eq!(role["kind"], "ClusterRole");
        let rules = role["rules"].as_array().unwrap();
        assert_eq!(rules.len(), 1, "{rules:?}");
        assert_eq!(rules[0]["resourceNames"][0], "votes.example.com");
    }

    /// Returns for each namespace whether a printed policy that denies all `ConfigMap`s lets one be created.
    async fn allowed(patterns: &[&str], names: &[&str]) -> Vec<bool> {
        let client = Client::new(ApiServer::new().service(), "default");
        let rule = ValidationRule::new("never", "false").message("no");
        let registry = Registry::new().validation_rule("configmaps", rule);
        let operator = Operator::new(registry).name("op").namespaces(patterns);
        let printed = operator.manifests(client.clone()).await.unwrap();
        let cluster = crate::cluster::Cluster::new(client);
        let create = async |resource: Resource, namespace: Option<&str>, content: &Value| {
            let name = content["metadata"]["name"].as_str().unwrap_or_default();
            let path = ObjectPath { resource: &resource, namespace, name };
            cluster.create_kept(path, content).await
        };
        for object in &printed {
            let kind = object["kind"].as_str().unwrap();
            let (group, _) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap();
            let mut resource = Resource::built_in(group, kind, false);
            resource.plural = resource.plural.replace("policys", "policies");
            create(resource, None, object).await.unwrap();
        }
        let mut allowed = Vec::new();
        for name in names {
            let namespace = json!({"metadata": {"name": name}});
            create(Resource::built_in("", "Namespace", false), None, &namespace).await.unwrap();
            let map = json!({"metadata": {"name": "map"}});
            let resource = Resource::built_in("", "ConfigMap", true);
            allowed.push(create(resource, Some(name), &map).await.is_ok());
        }
        allowed
    }

    #[tokio::test]
    async fn printed_policies_are_for_the_namespaces_that_match() {
        for (patterns, inside, outside) in [
            (&["team-*"][..], &["team-a", "team-9"][..], &["other", "steam-a"][..]),
            (&["a", "b"], &["a", "b"], &["c"]),
            (&["team-*", "a", "!team-x"], &["team-a", "a"], &["team-x", "b"]),
            (&["my-*, !*-pr-*, *-pr-1"], &["my-1", "my-pr-1"], &["my-pr-2", "x-pr-1"]),
            (&["!*-pr-*,*pr-1"], &["x", "x-pr-1"], &["a-pr-2"]),
            (&["a*,!a-x", "b*"], &["a1", "b1"], &["a-x", "c"]),
            (&["!x-*"], &["default-2"], &["x-a"]),
            (&["v?", "w[!0-9]"], &["v1", "wx"], &["v12", "w1"]),
        ] {
            let names = [inside, outside].concat();
            let expected: Vec<_> = names.iter().map(|it| outside.contains(it)).collect();
            assert_eq!(allowed(patterns, &names).await, expected, "{patterns:?} {names:?}");
        }
    }

    #[tokio::test]
    async fn printed_webhooks_are_for_the_namespaces_that_match() {
        let registry = || {
            let checks = handler("check", |_| async { Ok(()) }).annotation("a", PRESENT);
            let registry = Registry::new().on_validate("configmaps", checks);
            registry.on_mutate("configmaps", handler("fill", |_| async { Ok(()) }))
        };
        let printed = async |patterns: &[&str]| {
            let settings = Settings::with(|settings| {
                settings.admission.server = Some(AdmissionServer::service("team-1", "hooks"));
            });
            let operator = Operator::new(registry()).name("op").settings(settings);
            let client = Client::new(ApiServer::new().service(), "default");
            let printed = operator.namespaces(patterns).manifests(client).await.unwrap();
            let hooks = printed.into_iter().filter(|it| it["webhooks"].is_array());
            hooks.map(|it| it["webhooks"][0].clone()).collect::<Vec<_>>()
        };
        let hooks = printed(&["team-*"]).await;
        assert_eq!(hooks.len(), 2);
        for hook in hooks {
            // The operator itself must be able to start.
            let excluded = json!([{
                "key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-node-lease", "kube-system", "team-1"],
            }]);
            assert_eq!(hook["namespaceSelector"]["matchExpressions"], excluded);
            let conditions = hook["matchConditions"].as_array().unwrap();
            assert_eq!(
                conditions[0]["expression"],
                "!has(request.namespace) || request.namespace == '' || request.namespace.matches('^team\\\\-.*$')"
            );
        }
        let hooks = printed(&["a,b"]).await;
        let selected = &hooks[0]["namespaceSelector"]["matchExpressions"][0]["values"];
        assert_eq!(*selected, json!(["a", "b"]));
    }

    #[tokio::test]
    async fn configurations_are_made_for_those_who_apply_them() {
        let printed = manifests(AdmissionServer::service("team", "hooks")).await;
        let [printed, role]: [Value; 2] = printed.unwrap().try_into().unwrap();
        // The operator manages only its certificate.
        assert_eq!(role["kind"], "Role");
        assert_eq!(role["metadata"]["namespace"], "team");
        assert_eq!(printed["kind"], "ValidatingWebhookConfiguration");
        assert_eq!(printed["metadata"]["name"], "op.kopf.rs");
        let hook = &printed["webhooks"][0];
        assert_eq!(hook["name"], "check.op.kopf.rs");
        assert_eq!(hook["clientConfig"]["service"]["name"], "hooks");
        // There is no certificate yet, and the server would refuse an empty bundle.
        assert!(hook["clientConfig"]["caBundle"].is_null(), "{hook}");
        let unknown = manifests(AdmissionServer::local()).await.unwrap_err();
        let unknown = unknown.to_string();
        assert!(unknown.contains("settings.admission.listen"), "{unknown}");
    }
}
