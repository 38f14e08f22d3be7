//! Parses webhook URLs, with Go's error messages for invalid ones.
//!
//! Guarantees that, of several mistakes, the error names the one that Go finds first. Must not depend on configurations.

/// The checked parts of a URL.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Url<'a> {
    pub(super) scheme: String,
    pub(super) user: &'a str,
    pub(super) host: &'a str,
    pub(super) query: &'a str,
    pub(super) fragment: &'a str,
}

/// Splits a URL into its parts.
///
/// # Errors
///
/// If it is not a valid URL, with Go's message.
pub(super) fn parse(text: &str) -> Result<Url<'_>, String> {
    let wrong = |why: &str| format!("parse {text:?}: {why}");
    if text.chars().any(|c| c.is_ascii_control()) {
        return Err(wrong("net/url: invalid control character in URL"));
    }
    let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
    let (scheme, rest) = scheme(rest).map_err(|why| wrong(&why))?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut url = Url {
        scheme,
        query,
        fragment,
        ..Url::default()
    };
    let path = match rest.strip_prefix("//") {
        Some(rest) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            (url.user, url.host) = authority.rsplit_once('@').unwrap_or(("", authority));
            check_host(url.host).map_err(|why| wrong(&why))?;
            path
        }
        None => rest,
    };
    let first = path.split('/').next().unwrap_or_default();
    if url.scheme.is_empty() && url.host.is_empty() && first.contains(':') {
        return Err(wrong("first path segment in URL cannot contain colon"));
    }
    check_escapes(path).map_err(|why| wrong(&why))?;
    Ok(url)
}

fn scheme(text: &str) -> Result<(String, &str), String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    match text.split_once(':') {
        Some(("", _)) => Err("missing protocol scheme".to_owned()),
        Some((scheme, rest))
            if scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && scheme.chars().all(fits) =>
        {
            Ok((scheme.to_lowercase(), rest))
        }
        _ => Ok((String::new(), text)),
    }
}

fn check_host(host: &str) -> Result<(), String> {
    let port = if host.starts_with('[') {
        let end = host.rfind(']').ok_or("missing ']' in host")?;
        &host[end + 1..]
    } else {
        &host[host.rfind(':').unwrap_or(host.len())..]
    };
    let digits = port.strip_prefix(':').unwrap_or_default();
    if !port.is_empty()
        && (!port.starts_with(':') || !digits.bytes().all(|digit| digit.is_ascii_digit()))
    {
        return Err(format!("invalid port {port:?} after host"));
    }
    check_escapes(host)?;
    let strange = |c: &char| c.is_ascii() && !is_of_host(*c);
    match host.chars().find(strange) {
        Some(letter) => Err(format!(
            "invalid character {:?} in host name",
            letter.to_string()
        )),
        None => Ok(()),
    }
}

fn is_of_host(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:[]<>\"%".contains(letter)
}

fn check_escapes(text: &str) -> Result<(), String> {
    for (at, _) in text.match_indices('%') {
        let part: String = text[at..].chars().take(3).collect();
        let digits = part[1..].bytes();
        if part.len() < 3 || !digits.clone().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(format!("invalid URL escape {part:?}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_by_table() {
        for (text, expected) in [
            ("https://a.example:443/x", Ok(("https", "a.example:443"))),
            ("HTTPS://u@a/x?y#z", Ok(("https", "a"))),
            ("a.example", Ok(("", ""))),
            ("https://a:x", Err("invalid port \":x\" after host")),
            ("https://a b", Err("invalid character \" \" in host name")),
            ("https://[::1", Err("missing ']' in host")),
            ("https://a/%z", Err("invalid URL escape \"%z\"")),
            (":x", Err("missing protocol scheme")),
        ] {
            let found = parse(text);
            let found = found.as_ref().map(|url| (url.scheme.as_str(), url.host));
            let wrong = |why| format!("parse {text:?}: {why}");
            assert_eq!(found, expected.map_err(wrong).as_ref().copied());
        }
    }
}
