//! The webhook configurations of an operator, and the policies of its rules, where it may not write them itself; and the rights that its
//! instances need to share a Lease.

use serde_json::Value;
use tokio::sync::watch;

use crate::cluster::Client;
use crate::operator::admission::printed::{PrintedRules, printed};
use crate::operator::rights::{SharedLease, rights};
use crate::operator::run::{CheckedOperator, Operator, OperatorError};
use crate::operator::scope::Scope;
use crate::state::naming;

impl Operator {
    /// The webhook configurations, the policies of rules, definitions with their rules and with who converts, and roles, as the cluster serves
    /// the kinds of handlers now. With a Lease, what its instances need for that.
    pub(crate) async fn manifests(self, client: Client) -> Result<Vec<Value>, OperatorError> {
        let name = self.check()?;
        CheckedOperator::new(self, name, client)?.printed().await
    }
}

impl CheckedOperator {
    async fn printed(&self) -> Result<Vec<Value>, OperatorError> {
        let settings = self.settings.get();
        let cluster = self.cluster(&settings);
        let namespaces = match &self.scope {
            Scope::All => None,
            Scope::Some(patterns) => Some(patterns.literals().map(str::to_owned).collect()),
        };
        let unknown = watch::Sender::new(None).subscribe();
        let setup = self.setup_of_webhooks(&settings, &cluster, unknown);
        let rules = PrintedRules {
            rules: &self.rules,
            domain: &naming::prefix(&self.name),
        };
        let printed = printed(&setup, rules, namespaces).await;
        let mut printed = printed.map_err(OperatorError::Admission)?;
        if settings.lease.enabled {
            let (namespace, name) = self.lease(&settings, &cluster);
            printed.extend(rights(SharedLease {
                operator: &self.name,
                namespace: &namespace,
                name: &name,
            }));
        }
        Ok(printed)
    }
}

#[cfg(test)]
mod tests {
    use kopf_rs_apiserver::ApiServer;

    use serde_json::json;

    use super::*;
    use crate::handler::conversion::conversion;
    use crate::handler::filter::PRESENT;
    use crate::handler::registry::Registry;
    use crate::handler::registry::callback::handler;
    use crate::handler::validation_rule::ValidationRule;
    use crate::operator::definition::register_crd;
    use crate::operator::settings::Settings;
    use crate::operator::settings::admission::AdmissionServer;

    /// What is printed for an API server that is reached so.
    async fn manifests(server: AdmissionServer) -> Result<Vec<Value>, OperatorError> {
        let check = handler("check", |_| async { Ok(()) }).label("a", PRESENT);
        let registry = Registry::new().on_validate("configmaps", check);
        let settings = Settings::with(|settings| settings.admission.server = Some(server));
        let operator = Operator::new(registry).name("op").settings(settings);
        let client = Client::new(ApiServer::new().service(), "default");
        operator.manifests(client).await
    }

    /// What is printed of an operator that converts between two versions of this definition.
    async fn converting(versions: &[&str], managed: bool) -> Result<Vec<Value>, OperatorError> {
        let server = ApiServer::new();
        let client = Client::new(server.service(), "default");
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let versions = versions.iter().map(|name| {
            json!({"name": name, "served": true, "storage": *name == "v1", "schema": schema})
        });
        let names = json!({"plural": "votes", "singular": "vote", "kind": "Vote"});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "votes.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": names,
                "versions": versions.collect::<Vec<_>>(),
            },
        });
        // It is there, whether it is established yet or not.
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

    #[tokio::test]
    async fn configurations_are_made_for_those_who_apply_them() {
        let printed = manifests(AdmissionServer::service("team", "hooks")).await;
        let [printed, role]: [Value; 2] = printed.unwrap().try_into().unwrap();
        // It manages nothing but its certificate.
        assert_eq!(role["kind"], "Role");
        assert_eq!(role["metadata"]["namespace"], "team");
        assert_eq!(printed["kind"], "ValidatingWebhookConfiguration");
        assert_eq!(printed["metadata"]["name"], "op.kopf.rs");
        let hook = &printed["webhooks"][0];
        assert_eq!(hook["name"], "check.op.kopf.rs");
        assert_eq!(hook["clientConfig"]["service"]["name"], "hooks");
        // Nobody has made a certificate yet; an empty bundle would be refused.
        assert!(hook["clientConfig"]["caBundle"].is_null(), "{hook}");
        let unknown = manifests(AdmissionServer::local()).await.unwrap_err();
        let unknown = unknown.to_string();
        assert!(unknown.contains("settings.admission.listen"), "{unknown}");
    }
}
