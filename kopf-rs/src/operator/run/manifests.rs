//! Prints everything that installs an operator: definitions, its account with the permissions that it needs, webhook configurations and
//! policies, and its Deployment.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;

use crate::admission::conditions::NAMESPACE;
use crate::admission::configuration::Found;
#[cfg(feature = "cli")]
use crate::admission::rules::with_rules;
use crate::cluster::{Client, Cluster};
use crate::handler::definition::Handler;
use crate::happening::serving::Serving;
use crate::object::resource::Resource;
use crate::object::rights::{Account, Rights};
use crate::operator::admission::printed::{Given, Printed, printed};
use crate::operator::admission::setup::port_to_be;
use crate::operator::deployment::{
    Deployed, Resources, ScrapedEndpoint, WebhookService, before, certificate_variables, deployment,
    inject_certificates,
};
use crate::operator::matching::{Matched, match_handlers};
use crate::operator::rights::{SharedLease, flow_schema, rights_for};
#[cfg(feature = "cli")]
use crate::operator::run::manifests::definitions::united;
use crate::operator::run::{CheckedOperator, Operator, OperatorError};
use crate::operator::scope::Scope;
use crate::operator::settings::Settings;
use crate::operator::settings::admission::AdmissionServer;
use crate::reaction::peering::GROUPS;

#[cfg(feature = "cli")]
pub(crate) mod definitions;

/// How the operator is to be installed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Install {
    /// The namespace of the operator itself; by default one of its own name.
    pub(crate) namespace: Option<String>,
    /// By default the operator's name.
    pub(crate) image: Option<String>,
    /// By default one, or two with a Lease.
    pub(crate) replicas: Option<u16>,
    /// The arguments of its program.
    pub(crate) args: Vec<String>,
    /// The text of its settings file.
    pub(crate) settings: Option<String>,
    /// The environment variables that set its settings.
    pub(crate) variables: Vec<(String, String)>,
    /// Its definitions.
    pub(crate) definitions: Vec<Value>,
    /// True if the Prometheus operator collects the metrics.
    pub(crate) is_monitored: bool,
    /// True if cert-manager creates the certificate of its webhooks.
    pub(crate) has_cert_manager: bool,
    pub(crate) resources: Resources,
}

/// The objects in the order in which they are to be applied, and the resources of handlers that nothing defines.
#[derive(Debug)]
pub(crate) struct Manifests {
    pub(crate) objects: Vec<Value>,
    /// The permissions of the roles among the objects.
    #[cfg(feature = "cli")]
    pub(crate) rights: Rights,
    pub(crate) undefined: Vec<String>,
}

impl Operator {
    /// Returns all objects that install this operator, for the kinds that the server serves at present.
    pub(crate) async fn manifests(
        self,
        client: Client,
        install: Install,
    ) -> Result<Manifests, OperatorError> {
        let name = self.check()?;
        CheckedOperator::new(self, name, client)?.manifests(install).await
    }

    /// Returns the namespace of the Service through which the API server reaches webhooks, if the settings name one.
    #[cfg(feature = "cli")]
    pub(crate) fn service_namespace(&self) -> Option<String> {
        let server = self.settings.admission.server.as_ref();
        server.and_then(|it| it.namespace()).map(str::to_owned)
    }

    /// Returns the definitions of the Rust types that handlers name, each kind once with all of its versions. The version of the first
    /// handler is stored.
    ///
    /// # Errors
    ///
    /// Returns an error if two types define the same version of a kind differently.
    #[cfg(feature = "cli")]
    pub(crate) fn definitions(&self) -> Result<Vec<Value>, OperatorError> {
        let handlers = || self.registry.handlers().iter();
        let others = handlers().flat_map(|it| {
            let referred = it.watches.iter().map(|it| &it.selector);
            it.kinds_of_children().chain(referred)
        });
        let rules = self.registry.rules().iter().map(|it| &it.selector);
        let selectors = handlers().filter_map(|it| it.selector()).chain(others).chain(rules);
        let converted = self.registry.conversions().iter().flat_map(|it| it.definitions.iter().copied());
        let defined = selectors.filter_map(|it| it.definition).chain(converted);
        united(defined.map(|it| (it.of, with_rules(&(it.value)(), self.registry.rules()))))
    }
}

/// Returns the number of Pods.
fn replicas(given: Option<u16>, settings: &Settings) -> Result<u16, OperatorError> {
    match given {
        Some(given) if given > 1 && !settings.lease.enabled => Err(OperatorError::Manifests(format!(
            "--replicas is {given}, and several Pods would handle the same objects: expected --lease, which lets one of them work"
        ))),
        Some(given) => Ok(given),
        None => Ok(if settings.lease.enabled { 2 } else { 1 }),
    }
}

/// Returns the namespace of the operator: that of its webhooks' Service, if the settings name one.
fn install_namespace(given: Option<&str>, settings: &Settings, name: &str) -> Result<String, OperatorError> {
    let of_service = settings.admission.server.as_ref().and_then(|it| it.namespace());
    match (given, of_service) {
        (Some(given), Some(of_service)) if given != of_service => Err(OperatorError::Manifests(format!(
            "--install-namespace is `{given}`, and the Service of the setting `admission.server` is in `{of_service}`: expected one namespace"
        ))),
        (given, of_service) => Ok(given.or(of_service).map_or_else(|| label(name), str::to_owned)),
    }
}

/// Returns the Service through which the API server reaches webhooks.
fn webhook_service(
    settings: &Settings,
    has_cert_manager: bool,
) -> Result<Option<WebhookService<'_>>, OperatorError> {
    let Some(server @ AdmissionServer::Service { name, port, .. }) = &settings.admission.server else {
        return if has_cert_manager {
            Err(OperatorError::Manifests(
                "--cert-manager is for webhooks behind a Service, and this operator has no such webhooks: add an admission or conversion handler, or leave \
                 out --cert-manager"
                    .to_owned(),
            ))
        } else {
            Ok(None)
        };
    };
    let target = port_to_be(server, &settings.admission).map_err(OperatorError::Admission)?;
    Ok(Some(WebhookService { name, port: *port, target }))
}

/// Returns a message for each request in `requires` for a resource that the server does not serve, although it serves the group. Groups that
/// are not served may be installed later.
fn unknown_requests<'a>(
    handlers: impl Iterator<Item = &'a Arc<Handler>>,
    resources: &[Resource],
) -> Vec<String> {
    let mut messages = Vec::new();
    for handler in handlers {
        for requested in handler.requires.iter().flat_map(|it| &it.resources) {
            let mut of_group = resources.iter().filter(|it| it.group == requested.group).peekable();
            if of_group.peek().is_some() && !of_group.any(|it| it.plural == requested.plural) {
                let group = if requested.group.is_empty() { "the core group" } else { &requested.group };
                messages.push(format!(
                    "`requires` of '{}' names {:?}, and {group} has no such resource: expected a plural in lower case, such as pods or \
                     deployments.apps",
                    handler.id, requested.plural
                ));
            }
        }
    }
    messages
}

/// Returns the operator's name as a name without dots, which namespaces and Services must not have.
fn label(name: &str) -> String {
    name.replace('.', "-")
}

impl CheckedOperator {
    async fn manifests(&self, install: Install) -> Result<Manifests, OperatorError> {
        let mut settings = self.settings.get();
        let replicas = replicas(install.replicas, &settings)?;
        let namespace = install_namespace(install.namespace.as_deref(), &settings, &self.name)?;
        let account = Account { name: &self.name, namespace: &namespace };
        let mut variables = install.variables.clone();
        variables.extend(self.served_in_cluster(&mut settings, account, install.has_cert_manager));
        let cluster = self.cluster(&settings);
        let resources = cluster.discover().await;
        let resources = resources.map_err(|error| OperatorError::Refused(error.to_string()))?;
        let matched = match_handlers(&self.handlers, &resources, &BTreeSet::new());
        let undefined = self.undefined(&matched, &resources)?;
        let Printed { mut definitions, mut others, rights: mut needed } =
            self.asked(&settings, &cluster, &resources, &install).await?;
        for definition in &install.definitions {
            let is_same = |it: &Value| it["metadata"]["name"] == definition["metadata"]["name"];
            if !definitions.iter().any(is_same) {
                definitions.push(definition.clone());
            }
        }
        // Peerings may be defined later.
        let of_handlers = (&*resources, &*matched.resources);
        needed.absorb(self.rights_of_handlers(&settings, of_handlers, &self.scope, &GROUPS));
        let flows = settings.lease.enabled.then(|| self.lease_of(&settings, account, &mut needed));
        let webhooks = webhook_service(&settings, install.has_cert_manager)?;
        let metrics = self.endpoints.metrics.as_ref().map(|address| ScrapedEndpoint {
            port: address.port(),
            is_tls: address.is_tls(),
            has_certificate: settings.metrics.certificate_file.is_some(),
            is_authenticated: settings.metrics.authentication,
        });
        let deployed = Deployed {
            account,
            image: install.image.as_deref().unwrap_or(&self.name),
            replicas,
            args: &install.args,
            settings: install.settings.as_deref(),
            variables: &variables,
            webhooks,
            metrics,
            is_monitored: install.is_monitored,
            has_cert_manager: install.has_cert_manager,
            resources: &install.resources,
        };
        if install.has_cert_manager {
            inject_certificates(&mut definitions, account);
            inject_certificates(&mut others, account);
        }
        let mut objects = definitions;
        objects.extend(before(account));
        objects.extend(needed.roles(account));
        objects.extend(others);
        objects.extend(flows);
        objects.extend(deployment(deployed));
        Ok(Manifests {
            objects,
            #[cfg(feature = "cli")]
            rights: needed,
            undefined,
        })
    }

    /// Lets the API server reach webhooks through a Service, unless the settings say otherwise. Returns environment variables that do so.
    fn served_in_cluster(
        &self,
        settings: &mut Settings,
        account: Account<'_>,
        has_cert_manager: bool,
    ) -> Vec<(String, String)> {
        let admission = &mut settings.admission;
        let is_asked = !self.admission_handlers.is_empty() || !self.conversions.is_empty();
        let mut variables = Vec::new();
        if is_asked && has_cert_manager {
            variables.extend(certificate_variables());
        }
        if !is_asked || admission.server.is_some() {
            return variables;
        }
        let server = AdmissionServer::service(account.namespace, label(account.name));
        variables.push(("KOPF_RS_ADMISSION_SERVER".to_owned(), server.to_string()));
        // cert-manager writes its authority into the configurations, which the operator need not change then.
        if !has_cert_manager {
            let managed = admission.managed.get_or_insert_with(|| format!("{}.kopf.rs", account.name));
            variables.push(("KOPF_RS_ADMISSION_MANAGED".to_owned(), managed.clone()));
        }
        admission.server = Some(server);
        variables
    }

    /// Returns the selectors of handlers that match no resource.
    ///
    /// # Errors
    ///
    /// Returns an error for kinds that are defined and cannot be served, such as ambiguous ones.
    fn undefined(&self, matched: &Matched, resources: &[Resource]) -> Result<Vec<String>, OperatorError> {
        let asked = match_handlers(&self.admission_handlers, resources, &BTreeSet::new());
        let mut unresolved: BTreeSet<String> = BTreeSet::new();
        let mut problems = unknown_requests(self.handlers.iter().chain(&self.admission_handlers), resources);
        for unserved in matched.unserved.iter().chain(&asked.unserved) {
            match unserved {
                Serving::Unresolved { selectors } => unresolved.extend(selectors.iter().cloned()),
                // Conversions and reviews need no watch.
                Serving::Unwatchable { .. } | Serving::Unpatchable { .. }
                    if asked.unserved.contains(unserved) => {}
                other => problems.push(other.to_string()),
            }
        }
        if !problems.is_empty() {
            return Err(OperatorError::Manifests(problems.join("\n")));
        }
        let owned = self.handlers.iter().flat_map(|it| &it.owns).map(|it| &it.selector);
        let referred = self.handlers.iter().flat_map(|it| &it.watches).map(|it| &it.selector);
        let ruled = self.rules.iter().map(|it| &it.selector);
        let others = owned.chain(referred).chain(ruled).filter(|it| it.select(resources).is_empty());
        unresolved.extend(others.map(ToString::to_string));
        Ok(unresolved.into_iter().collect())
    }

    /// Returns the objects for what the API server asks.
    async fn asked(
        &self,
        settings: &Settings,
        cluster: &Cluster,
        resources: &[Resource],
        install: &Install,
    ) -> Result<Printed, OperatorError> {
        let mut found = Found { resources: resources.to_vec(), ..Found::default() };
        match &self.scope {
            Scope::All => {}
            Scope::Some(patterns) if patterns.are_names() => {
                found.namespaces = Some(patterns.literals().map(str::to_owned).collect());
            }
            // Matching namespaces may be created later, and printed manifests do not follow.
            Scope::Some(patterns) => found.namespace_expression = Some(patterns.expression(NAMESPACE)),
        }
        let setup = self.setup_of_webhooks(settings, cluster, watch::Sender::new(None).subscribe());
        let given = Given { definitions: &install.definitions, has_cert_manager: install.has_cert_manager };
        printed(&setup, &self.rules, &found, given).await.map_err(OperatorError::Admission)
    }

    /// Adds the permissions for the Lease. Returns its flow schema.
    fn lease_of(&self, settings: &Settings, account: Account<'_>, needed: &mut Rights) -> Value {
        let lease = &settings.lease;
        let lease = SharedLease {
            namespace: lease.namespace.as_deref().unwrap_or(account.namespace),
            name: lease.name.as_deref().unwrap_or(&self.name),
        };
        needed.absorb(rights_for(lease));
        flow_schema(account, lease)
    }
}

#[cfg(test)]
mod refused;

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

    /// Returns the manifests of an operator without peers, except those of the account and of the Deployment.
    async fn but_for_deployment(mut operator: Operator, client: Client) -> Result<Vec<Value>, OperatorError> {
        operator.settings.peering.standalone = true;
        let all = operator.manifests(client, Install::default()).await?.objects;
        let around = [
            "Namespace",
            "ServiceAccount",
            "Deployment",
            "NetworkPolicy",
            "Service",
            "RoleBinding",
            "ClusterRoleBinding",
        ];
        Ok(all.into_iter().filter(|it| !around.contains(&it["kind"].as_str().unwrap())).collect())
    }

    /// Returns the manifests for an API server that reaches the webhooks by `server`.
    async fn manifests(server: AdmissionServer) -> Result<Vec<Value>, OperatorError> {
        let check = handler("check", |_| async { Ok(()) }).label("a", PRESENT);
        let registry = Registry::new().on_validate("configmaps", check);
        let settings = Settings::with(|settings| settings.admission.server = Some(server));
        let operator = Operator::new(registry).name("op").settings(settings);
        let client = Client::new(ApiServer::new().service(), "default");
        but_for_deployment(operator, client).await
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
        but_for_deployment(operator, client).await
    }

    #[tokio::test]
    async fn checked_clients_of_metrics_need_two_permissions() {
        let registry = Registry::new().on_create("configmaps", handler("c", |_| async { Ok(()) }));
        let settings = Settings::with(|settings| settings.metrics.authentication = true);
        let operator = Operator::new(registry).name("op").settings(settings);
        let client = Client::new(ApiServer::new().service(), "default");
        let printed = but_for_deployment(operator, client).await.unwrap();
        let rules = printed.iter().filter_map(|it| it["rules"].as_array()).flatten();
        let rules: Vec<_> = rules.filter(|it| it["verbs"] == json!(["create"])).cloned().collect();
        for (group, plural) in
            [("authentication.k8s.io", "tokenreviews"), ("authorization.k8s.io", "subjectaccessreviews")]
        {
            let expected = json!({"apiGroups": [group], "resources": [plural], "verbs": ["create"]});
            assert!(rules.contains(&expected), "{rules:#?}");
        }
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
        let role = &printed[1];
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
        let printed = but_for_deployment(operator, client.clone()).await.unwrap();
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
            let printed = but_for_deployment(operator.namespaces(patterns), client).await.unwrap();
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
        let [role, printed]: [Value; 2] = printed.unwrap().try_into().unwrap();
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

    /// Returns `Role NAMESPACE` or `ClusterRole` with the rules in short: `verbs resources.group`.
    async fn rules(operator: Operator) -> Vec<String> {
        let client = Client::new(ApiServer::new().service(), "default");
        let printed = operator.name("op").manifests(client, Install::default()).await.unwrap();
        let words = |it: &Value| {
            let words = it.as_array().into_iter().flatten().filter_map(Value::as_str);
            words.collect::<Vec<_>>().join(",")
        };
        let mut all = Vec::new();
        for role in printed.objects.iter().filter(|it| it["rules"].is_array()) {
            let place =
                [&role["kind"], &role["metadata"]["namespace"]].map(|it| it.as_str().unwrap_or_default());
            for rule in role["rules"].as_array().unwrap() {
                let [verbs, resources, groups] =
                    ["verbs", "resources", "apiGroups"].map(|it| words(&rule[it]));
                all.push(format!("{}: {verbs} {resources} {groups}", place.join(" ").trim()));
            }
        }
        all
    }

    #[tokio::test]
    async fn permissions_follow_from_handlers() {
        let does_nothing = |id: &str| handler(id, |_| async { Ok(()) });
        let registry = || {
            Registry::new()
                .on_event("pods", does_nothing("look"))
                .reconcile("deployments", does_nothing("keep").owns("services"))
                .on_create("namespaces", does_nothing("greet").requires("create pods,deployments.apps/scale"))
        };
        let quiet = || {
            Settings::with(|settings| {
                settings.posting.enabled = false;
                settings.peering.standalone = true;
            })
        };
        let everywhere = rules(Operator::new(registry()).settings(quiet())).await;
        assert_eq!(
            everywhere,
            [
                "ClusterRole: get,list,watch,create pods ",
                "ClusterRole: get,list,watch,create,patch,delete services ",
                "ClusterRole: get,list,watch,patch namespaces ",
                "ClusterRole: patch namespaces/status ",
                "ClusterRole: get,list,watch,patch deployments apps",
                "ClusterRole: create deployments/scale apps",
                "ClusterRole: update deployments/finalizers apps",
                "ClusterRole: patch deployments/status apps",
            ]
        );
        let in_one = rules(Operator::new(registry()).namespaces(["team"])).await;
        let shifted = everywhere.iter().filter(|it| !it.contains("namespaces"));
        let shifted = shifted.map(|it| it.replace("ClusterRole", "Role team"));
        let more = [
            "ClusterRole: get,list,watch,patch namespaces ",
            "ClusterRole: patch namespaces/status ",
            "Role default: create,patch events events.k8s.io",
            "Role team: create,patch events events.k8s.io",
            "Role team: get,list,watch,patch kopfpeerings kopf.dev",
            "Role team: get,list,watch,patch kopfpeerings zalando.org",
            "Role team: patch kopfpeerings/status kopf.dev",
            "Role team: patch kopfpeerings/status zalando.org",
        ];
        let expected: BTreeSet<String> = shifted.chain(more.map(str::to_owned)).collect();
        assert_eq!(in_one.iter().cloned().collect::<BTreeSet<_>>(), expected);
    }

    #[tokio::test]
    async fn objects_of_a_lister_may_be_listed_and_watched() {
        let counting = handler("count", |_| async { Ok(()) }).listing::<k8s_openapi::api::core::v1::Pod>();
        let quiet = Settings::with(|settings| {
            settings.posting.enabled = false;
            settings.peering.standalone = true;
        });
        let operator = Operator::new(Registry::new().on_startup(counting)).settings(quiet);
        assert_eq!(rules(operator).await, ["ClusterRole: get,list,watch pods "]);
    }

    #[tokio::test]
    async fn an_undefined_kind_is_named() {
        let registry = Registry::new().on_create("foos.example.com", handler("f", |_| async { Ok(()) }));
        let client = Client::new(ApiServer::new().service(), "default");
        let printed = Operator::new(registry).name("op").manifests(client, Install::default()).await.unwrap();
        assert_eq!(printed.undefined, ["foos.example.com"]);
    }
}
