//! The webhook configurations of an operator, and the policies of its rules, where it may not write them itself.

use serde_json::Value;
use tokio::sync::watch;

use crate::cluster::Client;
use crate::operator::admission::printed::{PrintedRules, printed};
use crate::operator::run::{CheckedOperator, Operator, OperatorError};
use crate::operator::scope::Scope;
use crate::state::naming;

impl Operator {
    /// The webhook configurations, the policies of rules, and definitions with their rules, as the cluster serves the kinds of handlers now.
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
        printed.map_err(OperatorError::Admission)
    }
}

#[cfg(test)]
mod tests {
    use kopf_rs_apiserver::ApiServer;

    use super::*;
    use crate::handler::filter::PRESENT;
    use crate::handler::registry::Registry;
    use crate::handler::registry::callback::handler;
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

    #[tokio::test]
    async fn configurations_are_made_for_those_who_apply_them() {
        let printed = manifests(AdmissionServer::service("team", "hooks")).await;
        let [printed]: [Value; 1] = printed.unwrap().try_into().unwrap();
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
