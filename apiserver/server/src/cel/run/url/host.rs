//! Checks hosts and user info of URLs as Go's `net/url` does.
//!
//! Error messages match Go. Independent of the rest of the URL.

use super::escapes;

/// Checks a host and its port.
pub(super) fn check(scheme: &str, host: &str) -> Result<(), String> {
    match host.rfind('[') {
        Some(0) => return literal(host),
        Some(_) => return Err("invalid IP-literal".to_owned()),
        None => {}
    }
    let web = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    let colon = if web { host.find(':') } else { host.rfind(':') };
    if let Some(at) = colon {
        port(&host[at..])?;
    }
    letters(host)
}

/// Checks an IPv6 address in brackets.
fn literal(host: &str) -> Result<(), String> {
    let Some(end) = host.rfind(']') else {
        return Err("missing ']' in host".to_owned());
    };
    port(&host[end + 1..])?;
    let inner = &host[1..end];
    let (address, zone) = inner.split_once("%25").unwrap_or((inner, ""));
    letters(address)?;
    let valid = address.parse::<std::net::Ipv6Addr>().is_ok();
    if valid && (!zone.is_empty() || !inner.contains("%25")) {
        return Ok(());
    }
    let shown = inner.replacen("%25", "%", 1);
    Err(match shown.parse::<std::net::Ipv4Addr>() {
        Ok(_) => "invalid IP-literal".to_owned(),
        Err(_) => format!("invalid host: ParseAddr({shown:?}): unable to parse IP"),
    })
}

fn port(text: &str) -> Result<(), String> {
    let digits = text.strip_prefix(':');
    if text.is_empty() || digits.is_some_and(|text| text.bytes().all(|b| b.is_ascii_digit())) {
        return Ok(());
    }
    Err(format!("invalid port {text:?} after host"))
}

/// Checks percent escapes: hosts may escape only non-ASCII bytes.
fn letters(host: &str) -> Result<(), String> {
    for (at, letter) in host.char_indices() {
        if letter == '%' {
            let rest = &host[at..];
            let plain = rest[1..].starts_with(|c: char| ('0'..='7').contains(&c));
            if plain && !rest.starts_with("%25")
                || escapes(rest).is_some_and(|p| rest.starts_with(p))
            {
                let end = rest
                    .char_indices()
                    .nth(3)
                    .map_or(rest.len(), |(end, _)| end);
                return Err(format!("invalid URL escape {:?}", &rest[..end]));
            }
        } else if " #\\^`{|}".contains(letter) {
            let letter = letter.to_string();
            return Err(format!("invalid character {letter:?} in host name"));
        }
    }
    Ok(())
}

/// Checks the user name and the password.
pub(super) fn user(text: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
    if !text.chars().all(fits) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    escapes(text).map_or(Ok(()), |part| Err(format!("invalid URL escape {part:?}")))
}
