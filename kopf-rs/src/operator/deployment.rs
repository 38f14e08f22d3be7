//! The objects that run an operator in a cluster: its namespace, account, Deployment, and what surrounds its Pods.
//!
//! Pure. Must not know the permissions of the account.

use serde_json::{Value, json};

use crate::object::essence::digest;
use crate::object::rights::Account;

/// The port of the health endpoints in the Pod.
const HEALTH: u16 = 8080;

/// The folder and the name of the settings file in the Pod.
const SETTINGS: (&str, &str) = ("/etc/operator", "settings.yaml");

/// The folder of the certificate in the Pod, if cert-manager creates it.
const CERTIFICATE: &str = "/etc/operator-certificate";

/// What the objects depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deployed<'a> {
    pub(crate) account: Account<'a>,
    pub(crate) image: &'a str,
    pub(crate) replicas: u16,
    /// The arguments of the program, except for those about health endpoints.
    pub(crate) args: &'a [String],
    /// The text of the settings file.
    pub(crate) settings: Option<&'a str>,
    /// Environment variables.
    pub(crate) variables: &'a [(String, String)],
    pub(crate) webhooks: Option<WebhookService<'a>>,
    pub(crate) metrics: Option<ScrapedEndpoint>,
    /// True if the Prometheus operator collects the metrics.
    pub(crate) is_monitored: bool,
    /// True if cert-manager creates the certificate of the webhooks.
    pub(crate) has_cert_manager: bool,
    pub(crate) resources: &'a Resources,
}

/// The endpoint at which Prometheus collects the metrics of a Pod.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScrapedEndpoint {
    pub(crate) port: u16,
    pub(crate) is_tls: bool,
    /// True if the certificate comes from a file.
    pub(crate) has_certificate: bool,
    /// True if clients need a token.
    pub(crate) is_authenticated: bool,
}

/// The requests and limits of a container, by resource.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resources {
    pub(crate) requests: Vec<(String, String)>,
    pub(crate) limits: Vec<(String, String)>,
}

/// The Service through which the API server reaches webhooks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WebhookService<'a> {
    pub(crate) name: &'a str,
    pub(crate) port: u16,
    /// The port on which the operator answers.
    pub(crate) target: u16,
}

/// Returns the objects that must exist before the Deployment.
pub(crate) fn before(account: Account<'_>) -> Vec<Value> {
    let Account { name, namespace } = account;
    let created = (namespace != "default")
        .then(|| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}));
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": namespace, "labels": labels(name)},
    });
    created.into_iter().chain([account]).collect()
}

/// Returns the Deployment, and the objects around it.
pub(crate) fn deployment(deployed: Deployed<'_>) -> Vec<Value> {
    let Deployed { account: Account { name, namespace }, replicas, .. } = deployed;
    let metadata = || json!({"name": name, "namespace": namespace, "labels": labels(name)});
    let service = deployed.webhooks.map(|service| {
        let port = json!({"name": "webhooks", "port": service.port, "targetPort": "webhooks"});
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": service.name, "namespace": namespace, "labels": labels(name)},
            "spec": {"selector": labels(name), "ports": [port]},
        })
    });
    // Two Pods without a Lease would handle the same objects.
    let strategy = if replicas > 1 { json!({"type": "RollingUpdate"}) } else { json!({"type": "Recreate"}) };
    let main = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(),
        "spec": {
            "replicas": replicas,
            "strategy": strategy,
            "selector": {"matchLabels": labels(name)},
            "template": {"metadata": pod_metadata(deployed), "spec": pod(deployed)},
        },
    });
    let settings = deployed.settings.map(|text| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(), "data": {SETTINGS.1: text}})
    });
    let budget = (replicas > 1).then(|| {
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata(),
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels(name)}},
        })
    });
    let certificate = deployed.certificates();
    let monitor = deployed.metrics.filter(|_| deployed.is_monitored).map(|it| {
        json!({
            "apiVersion": "monitoring.coreos.com/v1", "kind": "PodMonitor", "metadata": metadata(),
            "spec": {"selector": {"matchLabels": labels(name)}, "podMetricsEndpoints": [it.for_prometheus(name)]},
        })
    });
    let around = [policy(deployed)].into_iter().chain(monitor);
    settings.into_iter().chain(certificate).chain(service).chain([main]).chain(budget).chain(around).collect()
}

/// Returns the policy that admits requests to the ports of the Pods, and to no other port. Handlers may send requests anywhere.
fn policy(deployed: Deployed<'_>) -> Value {
    let Account { name, namespace } = deployed.account;
    let ports = ports(deployed).into_iter().map(|port| json!({"protocol": "TCP", "port": port["name"]}));
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": namespace, "labels": labels(name)},
        "spec": {
            "podSelector": {"matchLabels": labels(name)},
            "policyTypes": ["Ingress"],
            "ingress": [{"ports": ports.collect::<Vec<Value>>()}],
        },
    })
}

/// Lets cert-manager trust the certificate in these objects: webhook configurations, and definitions with a converter.
pub(crate) fn inject_certificates(objects: &mut [Value], account: Account<'_>) {
    let converts = |it: &Value| it["spec"]["conversion"]["strategy"] == "Webhook";
    for object in objects.iter_mut().filter(|it| it["webhooks"].is_array() || converts(it)) {
        let certificate = format!("{}/{}-webhook", account.namespace, account.name);
        object["metadata"]["annotations"]["cert-manager.io/inject-ca-from"] = certificate.into();
    }
}

/// Returns the environment variables by which the operator serves the certificate of cert-manager.
pub(crate) fn certificate_variables() -> [(String, String); 3] {
    let files = [("CERTIFICATE_FILE", "tls.crt"), ("KEY_FILE", "tls.key"), ("AUTHORITY_FILE", "ca.crt")];
    files.map(|(setting, file)| (format!("KOPF_RS_ADMISSION_{setting}"), format!("{CERTIFICATE}/{file}")))
}

fn metrics_port(port: u16) -> &'static str {
    if port == HEALTH { "health" } else { "metrics" }
}

/// Returns the ports of the container.
fn ports(deployed: Deployed<'_>) -> Vec<Value> {
    let port = |name: &str, port: u16| json!({"name": name, "containerPort": port});
    let webhooks = deployed.webhooks.map(|service| port("webhooks", service.target));
    let metrics = deployed.metrics.map(|it| it.port).filter(|it| *it != HEALTH);
    let metrics = metrics.map(|it| port(metrics_port(it), it));
    [port("health", HEALTH)].into_iter().chain(webhooks).chain(metrics).collect()
}

fn labels(name: &str) -> Value {
    json!({"app.kubernetes.io/name": name})
}

/// Returns the metadata of the Pods, with a digest of the settings, so that a change of the settings replaces the Pods.
fn pod_metadata(deployed: Deployed<'_>) -> Value {
    let mut metadata = json!({"labels": labels(deployed.account.name)});
    if let Some(text) = deployed.settings {
        metadata["annotations"] = json!({"kopf.rs/settings": digest(&text.into())});
    }
    metadata
}

fn pod(deployed: Deployed<'_>) -> Value {
    let name = deployed.account.name;
    let mut pod = json!({
        "serviceAccountName": name,
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container(deployed)],
    });
    let settings = deployed.settings.map(|_| json!({"name": "settings", "configMap": {"name": name}}));
    let secret = format!("{name}-webhook");
    let certificate = deployed.has_certificate();
    let certificate = certificate.then(|| json!({"name": "certificate", "secret": {"secretName": secret}}));
    let volumes: Vec<Value> = settings.into_iter().chain(certificate).collect();
    if !volumes.is_empty() {
        pod["volumes"] = volumes.into();
    }
    if deployed.replicas > 1 {
        pod["topologySpreadConstraints"] = json!([{
            "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": labels(name)},
        }]);
    }
    pod
}

fn container(deployed: Deployed<'_>) -> Value {
    let health = format!("--liveness=http://0.0.0.0:{HEALTH}/healthz");
    let (folder, file) = SETTINGS;
    let settings = deployed.settings.map(|_| format!("--settings={folder}/{file}"));
    let mount = |name: &str, folder: &str| json!({"name": name, "mountPath": folder, "readOnly": true});
    let certificate = deployed.has_certificate().then(|| mount("certificate", CERTIFICATE));
    let mounts = deployed.settings.map(|_| mount("settings", folder)).into_iter().chain(certificate);
    let own = settings.as_deref().into_iter().chain([&*health]);
    let args: Vec<&str> = deployed.args.iter().map(String::as_str).chain(own).collect();
    let name = json!({"name": "POD_ID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}});
    let variables = deployed.variables.iter().map(|(name, value)| json!({"name": name, "value": value}));
    let variables: Vec<Value> = [name].into_iter().chain(variables).collect();
    // A Service routes only to ready Pods, and `/readyz` waits for listings, for which the API server may have to call the webhooks.
    let ready = if deployed.webhooks.is_some() { "/readyz/webhooks" } else { "/readyz" };
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": "health"}});
    json!({
        "name": "operator",
        "image": deployed.image,
        "args": args,
        "env": variables,
        "ports": ports(deployed),
        "volumeMounts": mounts.collect::<Vec<Value>>(),
        "livenessProbe": probe("/livez"),
        "readinessProbe": probe(ready),
        "resources": deployed.resources.object(),
        "securityContext": {
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
        },
    })
}

// === impl Deployed ===

impl Deployed<'_> {
    fn has_certificate(self) -> bool {
        self.has_cert_manager && self.webhooks.is_some()
    }

    /// Returns the objects by which cert-manager creates the certificate of the webhooks.
    fn certificates(self) -> Vec<Value> {
        let Some(service) = self.webhooks.filter(|_| self.has_cert_manager) else {
            return Vec::new();
        };
        let Account { name, namespace } = self.account;
        let object = |kind: &str, name: &str, spec: Value| {
            json!({
                "apiVersion": "cert-manager.io/v1", "kind": kind,
                "metadata": {"name": name, "namespace": namespace, "labels": labels(self.account.name)}, "spec": spec,
            })
        };
        let host = format!("{}.{namespace}.svc", service.name);
        let certificate = format!("{name}-webhook");
        let spec = json!({
            "secretName": certificate, "dnsNames": [host, format!("{host}.cluster.local")],
            "issuerRef": {"name": name, "kind": "Issuer"},
        });
        vec![object("Issuer", name, json!({"selfSigned": {}})), object("Certificate", &certificate, spec)]
    }
}

// === impl ScrapedEndpoint ===

impl ScrapedEndpoint {
    /// Returns how Prometheus gets the metrics of the operator of this name.
    fn for_prometheus(self, name: &str) -> Value {
        let mut endpoint = json!({"port": metrics_port(self.port)});
        if self.is_tls {
            endpoint["scheme"] = "https".into();
        }
        // Prometheus cannot verify a certificate that the operator makes.
        if self.is_tls && !self.has_certificate {
            endpoint["tlsConfig"] = json!({"insecureSkipVerify": true});
        }
        if self.is_authenticated {
            // The user creates the Secret, for an account that may read the metrics.
            let secret = format!("{name}-metrics-reader");
            endpoint["authorization"] = json!({"credentials": {"name": secret, "key": "token"}});
        }
        endpoint
    }
}

// === impl Resources ===

impl Resources {
    /// Returns the requests and limits, or default ones if none are given.
    fn object(&self) -> Value {
        if self.requests.is_empty() && self.limits.is_empty() {
            return json!({"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}});
        }
        let map = |all: &[(String, String)]| {
            let all = all.iter().map(|(name, quantity)| (name.clone(), quantity.as_str().into()));
            all.collect::<serde_json::Map<String, Value>>()
        };
        let mut object = json!({});
        for (field, given) in [("requests", &self.requests), ("limits", &self.limits)] {
            if !given.is_empty() {
                object[field] = map(given).into();
            }
        }
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULT: &Resources = &Resources { requests: Vec::new(), limits: Vec::new() };

    const OPERATOR: Deployed<'_> = Deployed {
        account: Account { name: "op", namespace: "team" },
        image: "op:1",
        replicas: 1,
        args: &[],
        settings: None,
        variables: &[],
        webhooks: None,
        metrics: None,
        is_monitored: false,
        has_cert_manager: false,
        resources: DEFAULT,
    };

    const PLAIN: ScrapedEndpoint =
        ScrapedEndpoint { port: 9090, is_tls: false, has_certificate: false, is_authenticated: false };

    #[test]
    fn one_pod_is_replaced_and_several_roll() {
        let [one, _]: [Value; 2] = deployment(OPERATOR).try_into().unwrap();
        assert_eq!(one["spec"]["strategy"]["type"], "Recreate");
        let several = Deployed { replicas: 2, ..OPERATOR };
        let [several, budget, _]: [Value; 3] = deployment(several).try_into().unwrap();
        assert_eq!(several["spec"]["strategy"]["type"], "RollingUpdate");
        assert_eq!(several["spec"]["template"]["spec"]["topologySpreadConstraints"][0]["maxSkew"], 1);
        assert_eq!(budget["kind"], "PodDisruptionBudget");
    }

    #[test]
    fn a_service_leads_to_the_port_of_the_webhooks() {
        let hooks = WebhookService { name: "hooks", port: 8443, target: 9443 };
        let asked = Deployed { webhooks: Some(hooks), args: &["-A".to_owned()], ..OPERATOR };
        let [service, main, policy]: [Value; 3] = deployment(asked).try_into().unwrap();
        assert_eq!(service["metadata"]["name"], "hooks");
        let admitted = &policy["spec"]["ingress"][0]["ports"];
        assert_eq!(admitted[1], json!({"protocol": "TCP", "port": "webhooks"}));
        assert_eq!(admitted.as_array().map(Vec::len), Some(2));
        let container = &main["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["ports"][1], json!({"name": "webhooks", "containerPort": 9443}));
        assert_eq!(container["args"], json!(["-A", "--liveness=http://0.0.0.0:8080/healthz"]));
        assert_eq!(service["spec"]["ports"][0]["targetPort"], container["ports"][1]["name"]);
        assert_eq!(service["spec"]["ports"][0]["port"], 8443);
        assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/readyz/webhooks");
        assert_eq!(service["spec"]["selector"], main["spec"]["template"]["metadata"]["labels"]);
    }

    #[test]
    fn the_settings_file_is_mounted() {
        let with_settings = Deployed { settings: Some("posting: {enabled: false}"), ..OPERATOR };
        let [file, main, _]: [Value; 3] = deployment(with_settings).try_into().unwrap();
        assert_eq!(file["data"], json!({"settings.yaml": "posting: {enabled: false}"}));
        let pod = &main["spec"]["template"]["spec"];
        assert_eq!(pod["volumes"][0]["configMap"]["name"], file["metadata"]["name"]);
        let container = &pod["containers"][0];
        assert_eq!(container["volumeMounts"][0]["mountPath"], "/etc/operator");
        assert_eq!(container["args"][0], "--settings=/etc/operator/settings.yaml");
    }

    #[test]
    fn metrics_have_a_port_of_their_own_or_share_that_of_probes() {
        for (port, name, ports) in [(9090, "metrics", 2), (HEALTH, "health", 1)] {
            let metrics = Some(ScrapedEndpoint { port, ..PLAIN });
            let monitored = Deployed { metrics, is_monitored: true, ..OPERATOR };
            let [main, policy, monitor]: [Value; 3] = deployment(monitored).try_into().unwrap();
            assert_eq!(monitor["spec"]["podMetricsEndpoints"], json!([{"port": name}]));
            assert_eq!(monitor["spec"]["selector"], main["spec"]["selector"]);
            assert_eq!(policy["spec"]["ingress"][0]["ports"].as_array().map(Vec::len), Some(ports));
        }
        assert_eq!(deployment(Deployed { metrics: Some(PLAIN), ..OPERATOR }).len(), 2);
        let scraped = |metrics: ScrapedEndpoint| metrics.for_prometheus("op");
        let secured = ScrapedEndpoint { is_tls: true, ..PLAIN };
        let expected =
            json!({"port": "metrics", "scheme": "https", "tlsConfig": {"insecureSkipVerify": true}});
        assert_eq!(scraped(secured), expected);
        let checked = scraped(ScrapedEndpoint { has_certificate: true, is_authenticated: true, ..secured });
        let authorization = json!({"credentials": {"name": "op-metrics-reader", "key": "token"}});
        assert_eq!(checked, json!({"port": "metrics", "scheme": "https", "authorization": authorization}));
    }

    #[test]
    fn cert_manager_creates_the_certificate() {
        let hooks = WebhookService { name: "hooks", port: 443, target: 9443 };
        let certified = Deployed { webhooks: Some(hooks), has_cert_manager: true, ..OPERATOR };
        let [issuer, certificate, _, main, _]: [Value; 5] = deployment(certified).try_into().unwrap();
        assert_eq!(certificate["spec"]["issuerRef"]["name"], issuer["metadata"]["name"]);
        assert_eq!(certificate["spec"]["dnsNames"][0], "hooks.team.svc");
        let pod = &main["spec"]["template"]["spec"];
        assert_eq!(pod["volumes"][0]["secret"]["secretName"], certificate["spec"]["secretName"]);
        assert_eq!(pod["containers"][0]["volumeMounts"][0]["mountPath"], CERTIFICATE);
        assert!(certificate_variables().iter().all(|(_, file)| file.starts_with(CERTIFICATE)));
        let mut objects = [json!({"webhooks": []}), json!({"spec": {"conversion": {"strategy": "None"}}})];
        inject_certificates(&mut objects, OPERATOR.account);
        let named = format!("team/{}", certificate["metadata"]["name"].as_str().unwrap());
        assert_eq!(objects[0]["metadata"]["annotations"]["cert-manager.io/inject-ca-from"], named);
        assert_eq!(objects[1]["metadata"], Value::Null);
    }

    #[test]
    fn given_requests_and_limits_replace_the_defaults() {
        let given = Resources { requests: vec![("cpu".to_owned(), "1".to_owned())], limits: Vec::new() };
        assert_eq!(given.object(), json!({"requests": {"cpu": "1"}}));
        assert_eq!(DEFAULT.object()["limits"]["memory"], "256Mi");
    }

    #[test]
    fn a_namespace_of_its_own_is_created() {
        let kinds = |account| before(account).iter().map(|it| it["kind"].clone()).collect::<Vec<_>>();
        assert_eq!(kinds(OPERATOR.account), ["Namespace", "ServiceAccount"]);
        assert_eq!(kinds(Account { name: "op", namespace: "default" }), ["ServiceAccount"]);
    }
}
