//! Recognizes clients on the same machine, which may see the names of objects.
//!
//! This module must not know what they ask for.

use std::net::{IpAddr, SocketAddr};

use http::HeaderMap;
use http::header::{HOST, HeaderName};
use http::uri::Authority;

use crate::health::http::Ends;

/// Returns true if the client is on this machine and may therefore see the names of objects. All Pods in the cluster can reach a Pod's port,
/// and a proxy beside the operator may forward their requests: with the Pod's own address, with the original host name, or with a forwarding
/// header.
pub(super) fn is_from_here(headers: &HeaderMap, ends: Ends) -> bool {
    let is_here =
        |end: &Option<SocketAddr>| end.is_some_and(|address| address.ip().to_canonical().is_loopback());
    let is_handed_on = |name: &HeaderName| {
        const FORWARDING: [&str; 3] = ["forwarded", "via", "x-real-ip"];
        const PREFIXES: [&str; 3] = ["x-forwarded-", "x-envoy-", "l5d-"];
        let name = name.as_str();
        FORWARDING.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    };
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    ends.iter().all(is_here) && host.is_some_and(is_own) && !headers.keys().any(is_handed_on)
}

/// Returns true if this name, possibly with a port, always means the local machine.
fn is_own(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else {
        return false;
    };
    let name = authority.host();
    let address = name.trim_start_matches('[').trim_end_matches(']');
    let address = address.parse::<IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|it| it.is_loopback())
}
