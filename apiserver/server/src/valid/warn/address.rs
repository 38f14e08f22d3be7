//! Warnings about addresses that are not in canonical form.
//!
//! Ignores invalid addresses. Independent of the location of an address.

use std::net::IpAddr;

use crate::object::Body;
use crate::valid::finder::items;
use crate::valid::format::block;

/// Returns the warning for an address.
pub(super) fn of_one(text: &str, at: &str) -> Option<String> {
    let address: IpAddr = text.parse().ok()?;
    let right = address.to_string();
    (address.is_ipv6() && right != text).then(|| {
        format!("{at}: IPv6 address {text:?} should be in RFC 5952 canonical format ({right:?})")
    })
}

/// Returns the warning for a CIDR block.
pub(super) fn of_block(text: &str, at: &str) -> Option<String> {
    let (address, length) = block(text)?;
    let right = format!("{address}/{length}");
    (address.is_ipv6() && right != text).then(|| {
        format!("{at}: IPv6 CIDR value {text:?} should be in RFC 5952 canonical format ({right:?})")
    })
}

pub(super) fn of_list(body: &Body, list: &str, at: &str) -> Vec<String> {
    each(body, list, at, of_one)
}

pub(super) fn of_blocks(body: &Body, list: &str, at: &str) -> Vec<String> {
    each(body, list, at, of_block)
}

fn each(body: &Body, list: &str, at: &str, tell: fn(&str, &str) -> Option<String>) -> Vec<String> {
    let found = items(body, list).iter().enumerate();
    found
        .filter_map(|(index, item)| tell(item.as_str()?, &format!("{at}.{list}[{index}]")))
        .collect()
}
