//! Detects the local cluster whose API server has to reach this machine, by the first node.
//!
//! Must not know what is served.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};

use serde_json::Value;

use crate::cluster::Cluster;
use crate::object::resource::Resource;
use crate::operator::settings::admission::AdmissionServer;
use crate::operator::settings::host_name;

/// Returns the address of this machine for the API server of the cluster.
pub(super) async fn detected(cluster: &Cluster) -> Result<AdmissionServer, String> {
    let nodes = Resource::built_in("", "Node", false);
    let node = cluster.first_of(&nodes).await;
    let node =
        node.map_err(|error| format!("{REMEDY}; the nodes of the cluster cannot be listed: {error}"))?;
    local_address(node.as_ref(), host_name().as_deref())
}

const REMEDY: &str = "`admission.server` is `auto`, which detects k3d, kind, minikube, Docker Desktop, and an API server on this machine: \
                      for another cluster, expected the name or address at which it reaches this machine (`host:NAME`), a Service \
                      (`service:NAMESPACE/NAME`), or a tunnel (`tunnel:COMMAND`)";

/// Returns the address for the cluster with this node, if it has any. `host` is the name of this machine.
fn local_address(node: Option<&Value>, host: Option<&str>) -> Result<AdmissionServer, String> {
    let Some(node) = node else {
        return Ok(AdmissionServer::local());
    };
    let name = node["metadata"]["name"].as_str().unwrap_or_default();
    let provider = node["spec"]["providerID"].as_str().unwrap_or_default();
    let is_minikube = node["metadata"]["labels"].get("minikube.k8s.io/name").is_some();
    if name == "docker-desktop" || provider.starts_with("kind://docker/desktop/") {
        return Ok(AdmissionServer::docker_desktop());
    }
    if is_minikube {
        return Ok(AdmissionServer::minikube());
    }
    if provider.starts_with("k3s://k3d-") || name.starts_with("k3d-") {
        return Ok(AdmissionServer::k3d());
    }
    if provider.starts_with("kind://") {
        let address = address_of(node).and_then(address_towards);
        let address = address
            .ok_or_else(|| format!("{REMEDY}; no address of this machine leads to the kind node {name}"))?;
        return Ok(AdmissionServer::Host(address.to_string()));
    }
    if host.is_some_and(|host| host.eq_ignore_ascii_case(name)) {
        return Ok(AdmissionServer::local());
    }
    let provider = if provider.is_empty() { "no provider" } else { provider };
    Err(format!("{REMEDY}; found the node {name} with {provider}"))
}

fn address_of(node: &Value) -> Option<IpAddr> {
    let mut addresses = node["status"]["addresses"].as_array()?.iter();
    let internal = addresses.find(|it| it["type"] == "InternalIP")?;
    internal["address"].as_str()?.parse().ok()
}

/// Returns the address of this machine in the network of the node. Sends nothing: connecting a datagram socket only asks the routing table.
fn address_towards(node: IpAddr) -> Option<IpAddr> {
    let any = match node {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::from([0u16; 8]),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    // Any port: no datagram is sent.
    socket.connect((node, 9)).ok()?;
    socket.local_addr().ok().map(|it| it.ip())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn local_clusters_are_told_by_their_nodes() {
        let node = |name: &str, provider: &str, labels: Value| {
            json!({
                "metadata": {"name": name, "labels": labels}, "spec": {"providerID": provider},
                "status": {"addresses": [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": "127.0.0.1"}]},
            })
        };
        for (node, address) in [
            (node("k3d-dev-server-0", "k3s://k3d-dev-server-0", json!({})), "k3d"),
            (node("dev-control-plane", "kind://docker/dev/dev-control-plane", json!({})), "host:127.0.0.1"),
            (node("dev", "", json!({"minikube.k8s.io/name": "dev"})), "minikube"),
            (node("docker-desktop", "", json!({})), "docker-desktop"),
            (
                node("desktop-control-plane", "kind://docker/desktop/desktop-control-plane", json!({})),
                "docker-desktop",
            ),
            (node("laptop", "k3s://laptop", json!({})), "local"),
        ] {
            let found = local_address(Some(&node), Some("laptop")).map(|it| it.to_string());
            assert_eq!(found.as_deref(), Ok(address), "{node}");
        }
        assert_eq!(local_address(None, None), Ok(AdmissionServer::local()));
        let foreign = node("ip-10-0-0-1", "aws:///eu/i-1", json!({}));
        let refused = local_address(Some(&foreign), Some("laptop")).unwrap_err();
        assert!(refused.ends_with("found the node ip-10-0-0-1 with aws:///eu/i-1"), "{refused}");
    }
}
