//! The functions that compute the cells of built-in kinds.
//!
//! The text of cells matches kube-apiserver 1.36. Independent of columns and requests.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::age::{age, since};
use super::find;
use super::pod;
use crate::object::{Body, meta_text};

/// Returns the cell for a function and its argument.
pub(super) fn cell(function: &str, body: &Body, now: Timestamp) -> Value {
    let (name, argument) = function.split_once(' ').unwrap_or((function, ""));
    let found = || find(body, argument);
    match name {
        "@age" => since(meta_text(body, "creationTimestamp"), now).into(),
        "@created" => meta_text(body, "creationTimestamp").into(),
        "@since" => match found().and_then(Value::as_str) {
            Some(then) => since(then, now).into(),
            None => "<none>".into(),
        },
        "@seconds" => match found().and_then(Value::as_i64) {
            Some(seconds) => age(seconds).into(),
            None => "<none>".into(),
        },
        "@number" => found().and_then(Value::as_i64).unwrap_or_default().into(),
        "@given" => found().cloned().unwrap_or_else(|| "<none>".into()),
        "@size" => size(found()).into(),
        "@truth" => found().and_then(Value::as_bool).unwrap_or_default().into(),
        "@word" => match found().and_then(Value::as_bool) {
            Some(true) => "True".into(),
            Some(false) => "False".into(),
            None => "<unset>".into(),
        },
        "@names" => each(found(), "name").join(",").into(),
        "@images" => each(found(), "image").join(",").into(),
        "@joined" => texts(found()).join(",").into(),
        "@some" => or(texts(found()).join(","), "<none>").into(),
        "@labels" => or(labels(found()).join(","), "<none>").into(),
        "@selected" => selector(found()).into(),
        "@selector" => or(selector(found()), "<none>").into(),
        "@entries" => (size(find(body, ".data")) + size(find(body, ".binaryData"))).into(),
        "@default" => default_name(body, argument).into(),
        _ => of_kind(name, argument, body, now),
    }
}

/// Dispatches functions that serve a single kind.
fn of_kind(name: &str, argument: &str, body: &Body, now: Timestamp) -> Value {
    match name {
        "@ready" => pod::ready(body).into(),
        "@phase" => pod::phase(body).into(),
        "@restarts" => pod::restarts(body, now).into(),
        "@gates" => pod::gates(body).into(),
        "@replicas" => {
            let [ready, wanted] =
                [".status.readyReplicas", ".spec.replicas"].map(|at| number(body, at));
            format!("{ready}/{wanted}").into()
        }
        "@job" => job(body).into(),
        "@completions" => completions(body).into(),
        "@duration" => duration(body, now).into(),
        "@external" => external(body).into(),
        "@clusterip" => match text(body, ".spec.clusterIPs[0]") {
            "" => or(text(body, ".spec.clusterIP").to_owned(), "<none>").into(),
            address => address.into(),
        },
        "@ports" => or(ports(body), "<none>").into(),
        "@endpoints" => endpoints(body).into(),
        "@sliceports" => slice_ports(body).into(),
        "@addresses" => addresses(body).into(),
        "@hosts" => hosts(body).into(),
        "@balancer" => balancer(body).into(),
        "@tls" => if size(find(body, ".spec.tls")) > 0 {
            "80, 443"
        } else {
            "80"
        }
        .into(),
        "@last" | "@first" | "@count" | "@involved" | "@source" | "@message" => {
            super::event::cell(name, body, now)
        }
        "@metrics" => super::metrics::targets(body).into(),
        "@target" => reference(body, ".spec.scaleTargetRef").into(),
        "@role" => reference(body, ".roleRef").into(),
        "@subjects" => subjects(body, argument).into(),
        "@request" => request(body).into(),
        _ => super::cluster::cell(name, argument, body),
    }
}

/// Returns the string at a path, or an empty one.
pub(super) fn text<'a>(body: &'a Body, path: &str) -> &'a str {
    find(body, path).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a getter for the strings in a map; an absent one is empty.
pub(super) fn parts<'a>(found: &'a Value) -> impl Fn(&str) -> &'a str {
    move |name| found[name].as_str().unwrap_or_default()
}

/// Returns the number at a path, or zero.
pub(super) fn number(body: &Body, path: &str) -> i64 {
    find(body, path).and_then(Value::as_i64).unwrap_or_default()
}

/// Returns the items of a list, or none if the value is not a list.
pub(super) fn items(found: Option<&Value>) -> &[Value] {
    found.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(super) fn or(text: String, absent: &str) -> String {
    if text.is_empty() {
        absent.to_owned()
    } else {
        text
    }
}

/// Returns the status condition of a type.
pub(super) fn condition<'a>(body: &'a Body, kind: &str) -> Option<&'a Value> {
    let all = items(find(body, ".status.conditions"));
    all.iter().find(|condition| condition["type"] == kind)
}

/// Returns the strings in a list.
pub(super) fn texts(found: Option<&Value>) -> Vec<&str> {
    items(found).iter().filter_map(Value::as_str).collect()
}

fn each<'a>(found: Option<&'a Value>, field: &str) -> Vec<&'a str> {
    let shown = |item: &'a Value| item[field].as_str().unwrap_or_default();
    items(found).iter().map(shown).collect()
}

fn size(found: Option<&Value>) -> usize {
    match found {
        Some(Value::Object(map)) => map.len(),
        Some(Value::Array(items)) => items.len(),
        _ => 0,
    }
}

fn labels(found: Option<&Value>) -> Vec<String> {
    let map = found.and_then(Value::as_object);
    let pair =
        |(key, value): (&String, &Value)| format!("{key}={}", value.as_str().unwrap_or_default());
    map.into_iter().flatten().map(pair).collect()
}

/// Formats a label selector as on a command line, sorted by key.
fn selector(found: Option<&Value>) -> String {
    let Some(selector) = found else {
        return String::new();
    };
    let mut rules: Vec<(String, String)> = Vec::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        rules.push((key.clone(), format!("{key}={value}")));
    }
    for rule in items(selector.get("matchExpressions")) {
        let key = rule["key"].as_str().unwrap_or_default();
        let mut values = texts(rule.get("values"));
        values.sort_unstable();
        let values = values.join(",");
        let shown = match rule["operator"].as_str().unwrap_or_default() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        };
        rules.push((key.to_owned(), shown));
    }
    rules.sort_by(|one, two| one.0.cmp(&two.0));
    let shown: Vec<String> = rules.into_iter().map(|(_, shown)| shown).collect();
    shown.join(",")
}

/// Returns the name, marked as default if the annotation is `true`.
fn default_name(body: &Body, annotation: &str) -> String {
    let name = meta_text(body, "name");
    let annotations = find(body, ".metadata.annotations");
    let is_default = annotations.is_some_and(|all| all[annotation] == "true");
    let mark = if is_default { " (default)" } else { "" };
    format!("{name}{mark}")
}

fn reference(body: &Body, path: &str) -> String {
    let part = |name: &str| text(body, &format!("{path}.{name}"));
    format!("{}/{}", part("kind"), part("name"))
}

fn subjects(body: &Body, kind: &str) -> String {
    let all = items(find(body, ".subjects")).iter();
    let shown = all
        .filter(|subject| subject["kind"] == kind)
        .map(|subject| {
            let part = parts(subject);
            if kind == "ServiceAccount" {
                format!("{}/{}", part("namespace"), part("name"))
            } else {
                part("name").to_owned()
            }
        });
    shown.collect::<Vec<String>>().join(", ")
}

fn job(body: &Body) -> &'static str {
    let is = |kind: &str| condition(body, kind).is_some_and(|it| it["status"] == "True");
    if is("Complete") {
        "Complete"
    } else if is("Failed") {
        "Failed"
    } else if !meta_text(body, "deletionTimestamp").is_empty() {
        "Terminating"
    } else if is("Suspended") {
        "Suspended"
    } else if is("FailureTarget") {
        "FailureTarget"
    } else if is("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    }
}

fn completions(body: &Body) -> String {
    let succeeded = number(body, ".status.succeeded");
    let wanted = find(body, ".spec.completions").and_then(Value::as_i64);
    match (wanted, number(body, ".spec.parallelism")) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, 2..) => format!("{succeeded}/1 of {}", number(body, ".spec.parallelism")),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn duration(body: &Body, now: Timestamp) -> String {
    let time = |path: &str| text(body, path).parse::<Timestamp>().ok();
    let end = time(".status.completionTime").unwrap_or(now);
    let start = time(".status.startTime");
    start.map_or_else(
        String::new,
        |start| age(end.as_second() - start.as_second()),
    )
}

fn external(body: &Body) -> String {
    let given = texts(find(body, ".spec.externalIPs"));
    match text(body, ".spec.type") {
        "ExternalName" => text(body, ".spec.externalName").to_owned(),
        "LoadBalancer" => {
            let mut all: Vec<&str> = balancers(body);
            all.extend(given);
            or(all.join(","), "<pending>")
        }
        "ClusterIP" | "NodePort" => or(given.join(","), "<none>"),
        _ => "<unknown>".to_owned(),
    }
}

fn balancers(body: &Body) -> Vec<&str> {
    let all = items(find(body, ".status.loadBalancer.ingress")).iter();
    let shown = all.filter_map(|it| it["ip"].as_str().or_else(|| it["hostname"].as_str()));
    let mut shown: Vec<&str> = shown.collect();
    shown.sort_unstable();
    shown.dedup();
    shown
}

fn balancer(body: &Body) -> String {
    balancers(body).join(",")
}

fn ports(body: &Body) -> String {
    let all = items(find(body, ".spec.ports")).iter();
    let shown = all.map(|port| {
        let node = port["nodePort"].as_i64().filter(|node| *node > 0);
        let node = node.map_or_else(String::new, |node| format!(":{node}"));
        let protocol = port["protocol"].as_str().unwrap_or_default();
        format!(
            "{}{node}/{protocol}",
            port["port"].as_i64().unwrap_or_default()
        )
    });
    shown.collect::<Vec<String>>().join(",")
}

/// Joins the first three values and counts the others.
fn some(all: &[String], absent: &str) -> String {
    match all.get(..3) {
        Some(first) if all.len() > 3 => format!("{} + {} more...", first.join(","), all.len() - 3),
        _ => or(all.join(","), absent),
    }
}

fn endpoints(body: &Body) -> String {
    let mut all = Vec::new();
    for subset in items(find(body, ".subsets")) {
        let addresses = each(subset.get("addresses"), "ip");
        let ports = items(subset.get("ports"));
        if ports.is_empty() {
            all.extend(addresses.iter().map(|&ip| ip.to_owned()));
        }
        for port in ports {
            let port = port["port"].as_i64().unwrap_or_default();
            all.extend(addresses.iter().map(|ip| {
                if ip.contains(':') {
                    format!("[{ip}]:{port}")
                } else {
                    format!("{ip}:{port}")
                }
            }));
        }
    }
    some(&all, "<none>")
}

fn slice_ports(body: &Body) -> String {
    let shown = |port: &Value| match (&port["port"], &port["name"]) {
        (Value::Number(number), _) => number.to_string(),
        (_, Value::String(name)) => name.clone(),
        _ => "*".to_owned(),
    };
    let all: Vec<String> = items(find(body, ".ports")).iter().map(shown).collect();
    some(&all, "<unset>")
}

fn addresses(body: &Body) -> String {
    let endpoints = items(find(body, ".endpoints")).iter();
    let all = endpoints.flat_map(|it| texts(it.get("addresses")));
    let all: Vec<String> = all.map(str::to_owned).collect();
    some(&all, "<unset>")
}

fn hosts(body: &Body) -> String {
    let rules = items(find(body, ".spec.rules"));
    let named = rules.iter().filter_map(|rule| rule["host"].as_str());
    let first: Vec<&str> = named.filter(|host| !host.is_empty()).take(3).collect();
    if first.len() == 3 && rules.len() > 3 {
        return format!("{} + {} more...", first.join(","), rules.len() - 3);
    }
    or(first.join(","), "*")
}

fn request(body: &Body) -> String {
    let has = |kind: &str| condition(body, kind).is_some();
    let mut shown = if has("Denied") {
        "Denied"
    } else if has("Approved") {
        "Approved"
    } else {
        "Pending"
    }
    .to_owned();
    if has("Failed") {
        shown.push_str(",Failed");
    }
    if !text(body, ".status.certificate").is_empty() {
        shown.push_str(",Issued");
    }
    shown
}

/// Formats the used and hard amounts of a quota: either the limits or all others.
pub(super) fn quota(body: &Body, limits: bool) -> String {
    let none = Map::new();
    let map = |path: &str| find(body, path).and_then(Value::as_object).unwrap_or(&none);
    let (hard, used) = (map(".status.hard"), map(".status.used"));
    let shown = hard
        .iter()
        .filter(|(name, _)| name.starts_with("limits.") == limits)
        .map(|(name, wanted)| {
            let shown =
                |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or("0").to_owned();
            format!("{name}: {}/{}", shown(used.get(name)), shown(Some(wanted)))
        });
    shown.collect::<Vec<String>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cells_by_table() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        for (function, body, expected) in [
            (
                "@ports",
                json!({"spec": {"ports": [{"port": 80, "protocol": "TCP", "nodePort": 30080}, {"port": 53, "protocol": "UDP"}]}}),
                json!("80:30080/TCP,53/UDP"),
            ),
            (
                "@external",
                json!({"spec": {"type": "LoadBalancer"}}),
                json!("<pending>"),
            ),
            (
                "@external",
                json!({"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": [{"hostname": "a"}]}}}),
                json!("a"),
            ),
            (
                "@selector .s",
                json!({"s": {"matchLabels": {"b": "c"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["y", "x"]}]}}),
                json!("a in (x,y),b=c"),
            ),
            ("@selector .s", json!({"s": {}}), json!("<none>")),
            (
                "@completions",
                json!({"spec": {"parallelism": 3}}),
                json!("0/1 of 3"),
            ),
            (
                "@hosts",
                json!({"spec": {"rules": [{"host": "a"}, {"host": "b"}, {"host": "c"}, {"host": "d"}]}}),
                json!("a,b,c + 1 more..."),
            ),
            (
                "@endpoints",
                json!({"subsets": [{"addresses": [{"ip": "::1"}], "ports": [{"port": 80}]}]}),
                json!("[::1]:80"),
            ),
            ("@since .then", json!({}), json!("<none>")),
            (
                "@subjects ServiceAccount",
                json!({"subjects": [{"kind": "ServiceAccount", "name": "a", "namespace": "n"}]}),
                json!("n/a"),
            ),
        ] {
            assert_eq!(
                cell(function, body.as_object().unwrap(), now),
                expected,
                "{function} of {body}"
            );
        }
    }
}
