//! Functions that Kubernetes adds: quantities, addresses, formats and versions.
//!
//! See <https://kubernetes.io/docs/reference/using-api/cel/>. Uses strings only as input to parse.

use std::cmp::Ordering;
use std::net::IpAddr;
use std::rc::Rc;

use super::convert;
use super::format::Format;
use super::semver::Semver;
use super::url::Url;
use crate::cel::value::{Fault, Key, Map, Outcome, Value};
use crate::typed::quantity;

const NANO: i128 = 1_000_000_000;

/// Applies a function to its operands, or returns `None` if it belongs to another module.
pub(super) fn call<'a>(name: &str, given: &[Value<'a>]) -> Option<Outcome<'a>> {
    match given {
        [] => {
            let format = Format::named(name.strip_prefix("format.")?)?;
            Some(Ok(Value::Format(format)))
        }
        [Value::Text(text), rest @ ..] => of_text(name, text, rest),
        [Value::Quantity(nanos), rest @ ..] => of_quantity(name, *nanos, rest),
        [Value::Ip(address)] => of_address(name, *address),
        [Value::Cidr(address, bits), rest @ ..] => of_cidr(name, *address, *bits, rest),
        [Value::Url(url)] => of_url(name, url),
        [Value::Semver(one), rest @ ..] => of_version(name, one, rest),
        [Value::Format(format), Value::Text(text)] if name == "validate" => {
            let wrong = format.validate(text);
            Some(Ok(if wrong.is_empty() {
                Value::Optional(None)
            } else {
                Value::some(Value::texts(wrong))
            }))
        }
        _ => None,
    }
}

/// Parses a value from a string.
fn of_text<'a>(name: &str, text: &str, rest: &[Value<'a>]) -> Option<Outcome<'a>> {
    let loose = match rest {
        [] => false,
        [Value::Bool(loose)] if matches!(name, "semver" | "isSemver") => *loose,
        _ => return None,
    };
    let before = "network address parse error during conversion from string: ";
    Some(match name {
        "quantity" => {
            let nanos = quantity::nanos(text).ok_or(quantity::COMPLAINT);
            nanos.map(Value::Quantity).map_err(Fault::told)
        }
        "isQuantity" => Ok(Value::Bool(quantity::nanos(text).is_some())),
        "ip" => address(text).map(Value::Ip).map_err(Fault::Told),
        "isIP" => Ok(Value::Bool(address(text).is_ok())),
        "ip.isCanonical" => {
            let found = address(text).map_err(Fault::Told);
            found.map(|found| Value::Bool(found.to_string() == text))
        }
        "cidr" => {
            let found = cidr(text).map(|(address, bits)| Value::Cidr(address, bits));
            found.map_err(|why| Fault::Told(format!("{before}{why}")))
        }
        "isCIDR" => Ok(Value::Bool(cidr(text).is_ok())),
        "url" => {
            let before = "URL parse error during conversion from string: ";
            let found = Url::parse(text).map(|url| Value::Url(Rc::new(url)));
            found.map_err(|why| Fault::Told(format!("{before}{why}")))
        }
        "isURL" => Ok(Value::Bool(Url::parse(text).is_ok())),
        "semver" => {
            let found = Semver::parse(text, loose).map(|found| Value::Semver(Rc::new(found)));
            found.map_err(Fault::Told)
        }
        "isSemver" => Ok(Value::Bool(Semver::parse(text, loose).is_ok())),
        "format.named" => Ok(match Format::named(text) {
            Some(format) => Value::some(Value::Format(format)),
            None => Value::Optional(None),
        }),
        _ => return None,
    })
}

fn of_quantity<'a>(name: &str, nanos: i128, rest: &[Value<'a>]) -> Option<Outcome<'a>> {
    let whole = (nanos % NANO == 0)
        .then(|| i64::try_from(nanos / NANO).ok())
        .flatten();
    if let [other] = rest {
        let other = match other {
            Value::Quantity(other) => *other,
            Value::Int(other) if matches!(name, "add" | "sub") => i128::from(*other) * NANO,
            _ => return None,
        };
        return Some(Ok(match name {
            "add" => Value::Quantity(nanos.saturating_add(other)),
            "sub" => Value::Quantity(nanos.saturating_sub(other)),
            name => return compared(name, nanos.cmp(&other)),
        }));
    }
    Some(Ok(match name {
        "sign" => Value::Int(i64::try_from(nanos.signum()).unwrap_or_default()),
        "isInteger" => Value::Bool(whole.is_some()),
        "asInteger" => match whole {
            Some(whole) => Value::Int(whole),
            None => return Some(Err(Fault::told("cannot convert value to integer"))),
        },
        "asApproximateFloat" => Value::Double(float(nanos)),
        _ => return None,
    }))
}

#[expect(clippy::cast_precision_loss, reason = "it is approximate")]
fn float(nanos: i128) -> f64 {
    if nanos % NANO == 0 {
        return (nanos / NANO) as f64;
    }
    nanos as f64 / NANO as f64
}

fn compared<'a>(name: &str, order: Ordering) -> Option<Outcome<'a>> {
    Some(Ok(match name {
        "isGreaterThan" => Value::Bool(order.is_gt()),
        "isLessThan" => Value::Bool(order.is_lt()),
        "compareTo" => Value::Int(order as i64),
        _ => return None,
    }))
}

/// Parses an IP address as Go's `netip` does; rejects zones and IPv4-mapped IPv6 addresses.
fn address(text: &str) -> Result<IpAddr, String> {
    if let Some((bare, _)) = text.split_once('%')
        && bare.parse::<std::net::Ipv6Addr>().is_ok()
    {
        return Err(format!(
            "IP address {text:?} with zone value is not allowed"
        ));
    }
    let Ok(found) = text.parse::<IpAddr>() else {
        let why = unparsed(text);
        return Err(format!(
            "IP Address {text:?} parse error during conversion from string: {why}"
        ));
    };
    if matches!(found, IpAddr::V6(six) if six.to_ipv4_mapped().is_some()) {
        return Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed"));
    }
    Ok(found)
}

/// Returns Go's error for an invalid address.
fn unparsed(text: &str) -> String {
    let first = text
        .chars()
        .find(|letter| matches!(letter, '.' | ':' | '%'));
    let why = match first {
        Some('.') => return four(text),
        Some(':') => return format!("ParseAddr({text:?}): unable to parse IP"),
        Some(_) => "missing IPv6 address",
        None => "unable to parse IP",
    };
    format!("ParseAddr({text:?}): {why}")
}

/// Returns Go's error for an invalid IPv4 address.
fn four(text: &str) -> String {
    let mut parts = 0;
    let mut digits = String::new();
    let told = |why: &str| format!("ParseAddr({text:?}): {why}");
    for (at, letter) in text.char_indices() {
        if letter.is_ascii_digit() {
            if digits == "0" {
                return told("IPv4 field has octet with leading zero");
            }
            digits.push(letter);
            if digits.parse::<u16>().is_ok_and(|number| number > 255) {
                return told("IPv4 field has value >255");
            }
        } else if letter == '.' {
            let rest = &text[at..];
            if digits.is_empty() || rest == "." {
                return format!(
                    "ParseAddr({text:?}): IPv4 field must have at least one digit (at {rest:?})"
                );
            }
            if parts == 3 {
                return told("IPv4 address too long");
            }
            parts += 1;
            digits.clear();
        } else {
            return format!(
                "ParseAddr({text:?}): unexpected character (at {:?})",
                &text[at..]
            );
        }
    }
    told("IPv4 address too short")
}

fn cidr(text: &str) -> Result<(IpAddr, u8), String> {
    let before = "network address parse error during conversion from string: ";
    let told = |why: String| format!("{before}netip.ParsePrefix({text:?}): {why}");
    let Some((bare, bits)) = text.rsplit_once('/') else {
        return Err(told("no '/'".to_owned()));
    };
    let Ok(found) = bare.parse::<IpAddr>() else {
        if bare.contains('%') {
            return Err(told("IPv6 zones cannot be present in a prefix".to_owned()));
        }
        return Err(told(unparsed(bare)));
    };
    let most = if found.is_ipv4() { 32 } else { 128 };
    let leading = bits.len() > 1 && !bits.starts_with(|letter: char| ('1'..='9').contains(&letter));
    let number = bits
        .parse::<u16>()
        .ok()
        .filter(|_| !leading && !bits.starts_with('+'));
    let Some(number) = number else {
        return Err(told(format!("bad bits after slash: {bits:?}")));
    };
    let Some(bits) = u8::try_from(number).ok().filter(|bits| *bits <= most) else {
        return Err(told("prefix length out of range".to_owned()));
    };
    if matches!(found, IpAddr::V6(six) if six.to_ipv4_mapped().is_some()) {
        return Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed"));
    }
    Ok((found, bits))
}

fn of_address<'a>(name: &str, address: IpAddr) -> Option<Outcome<'a>> {
    Some(Ok(Value::Bool(match name {
        "family" => return Some(Ok(Value::Int(if address.is_ipv4() { 4 } else { 6 }))),
        "isUnspecified" => address.is_unspecified(),
        "isLoopback" => address.is_loopback(),
        "isLinkLocalMulticast" => match address {
            IpAddr::V4(four) => four.octets()[..3] == [224, 0, 0],
            IpAddr::V6(six) => six.segments()[0] & 0xff0f == 0xff02,
        },
        "isLinkLocalUnicast" => is_local(address),
        "isGlobalUnicast" => {
            let broadcast = matches!(address, IpAddr::V4(four) if four.is_broadcast());
            let nowhere = address.is_unspecified() || address.is_loopback() || broadcast;
            !nowhere && !address.is_multicast() && !is_local(address)
        }
        _ => return None,
    })))
}

fn is_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(four) => four.is_link_local(),
        IpAddr::V6(six) => six.segments()[0] & 0xffc0 == 0xfe80,
    }
}

/// Returns the bits of an address, and their number.
fn bits_of(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(four) => (u128::from(four.to_bits()), 32),
        IpAddr::V6(six) => (six.to_bits(), 128),
    }
}

fn masked(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(four) => {
            let mask = u32::MAX.checked_shl(u32::from(32 - bits)).unwrap_or(0);
            IpAddr::V4((four.to_bits() & mask).into())
        }
        IpAddr::V6(six) => {
            let mask = u128::MAX.checked_shl(u32::from(128 - bits)).unwrap_or(0);
            IpAddr::V6((six.to_bits() & mask).into())
        }
    }
}

fn of_cidr<'a>(name: &str, net: IpAddr, bits: u8, rest: &[Value<'a>]) -> Option<Outcome<'a>> {
    let within = |other: IpAddr| {
        bits_of(net).1 == bits_of(other).1 && masked(net, bits) == masked(other, bits)
    };
    let read = |text: &Value<'a>, as_what: &str| match text {
        Value::Text(text) => of_text(as_what, text, &[]),
        other => Some(Ok(other.clone())),
    };
    Some(match (name, rest) {
        ("ip", []) => Ok(Value::Ip(net)),
        ("prefixLength", []) => Ok(Value::Int(bits.into())),
        ("masked", []) => Ok(Value::Cidr(masked(net, bits), bits)),
        ("containsIP", [other]) => match read(other, "ip")? {
            Ok(Value::Ip(other)) => Ok(Value::Bool(within(other))),
            Ok(_) => return None,
            Err(why) => Err(why),
        },
        ("containsCIDR", [other]) => match read(other, "cidr")? {
            Ok(Value::Cidr(other, others)) => Ok(Value::Bool(bits <= others && within(other))),
            Ok(_) => return None,
            Err(why) => Err(why),
        },
        ("string", []) => return convert::to_text(&Value::Cidr(net, bits)),
        _ => return None,
    })
}

fn of_url<'a>(name: &str, url: &Url) -> Option<Outcome<'a>> {
    Some(Ok(Value::text(match name {
        "getScheme" => url.scheme.clone(),
        "getHost" => url.host.clone(),
        "getHostname" => url.hostname().to_owned(),
        "getPort" => url.port().unwrap_or_default().to_owned(),
        "getEscapedPath" => url.path.clone(),
        "getQuery" => {
            let pairs = url.query().into_iter();
            let map = pairs.map(|(name, values)| (Key::Text(name), Value::texts(values)));
            return Some(Ok(Value::Map(Map::Made(Rc::new(map.collect())))));
        }
        _ => return None,
    })))
}

fn of_version<'a>(name: &str, one: &Semver, rest: &[Value<'a>]) -> Option<Outcome<'a>> {
    if let [Value::Semver(other)] = rest {
        return compared(name, one.compare(other));
    }
    let place = match name {
        "major" => 0,
        "minor" => 1,
        "patch" => 2,
        _ => return None,
    };
    Some(Ok(Value::Int(one.numbers[place].cast_signed())))
}
