//! Parses and validates URLs of servers and proxies, and redacts them for display.
//!
//! This module must not depend on their purpose.

use http::Uri;

/// A user and a password in a URL.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Login {
    pub(super) user: String,
    pub(super) password: String,
}

/// Parses the URL of a server in the forms that kubeconfigs allow: a host or `HOST:PORT` without a scheme gets `scheme`.
pub(super) fn server_url(text: &str, scheme: &str) -> Result<(Uri, Option<Login>), String> {
    let expected = "expected https://HOST:PORT";
    let has_scheme = text.contains("://");
    let whole = if has_scheme { text.to_owned() } else { format!("{scheme}://{text}") };
    let (url, login) = parted(&whole).map_err(|why| format!("{why}; {expected}"))?;
    if !matches!(url.scheme_str(), Some("http" | "https")) {
        let scheme = url.scheme_str().unwrap_or_default();
        return Err(format!("its scheme is \"{scheme}\"; {expected}"));
    }
    if !has_scheme && url.path() != "/" {
        return Err(format!("it has a path and no scheme; {expected}"));
    }
    let mut parts = url.into_parts();
    let path = parts.path_and_query.as_ref().map(|it| it.path().parse());
    parts.path_and_query = path.transpose().map_err(|_| "its path is not valid")?;
    let url = Uri::from_parts(parts).map_err(|_| format!("it is not a valid URL; {expected}"))?;
    Ok((url, login))
}

/// Splits a URL into the URL without its user, and the user. The URL must have a scheme, a host, and a valid port if it has one.
pub(super) fn parted(url: &str) -> Result<(Uri, Option<Login>), String> {
    let invalid = || "it is not a valid URL".to_owned();
    let (scheme, rest) = url.split_once("://").ok_or_else(invalid)?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    // An empty port counts as none.
    let host = host.strip_suffix(':').unwrap_or(host);
    let url = format!("{scheme}://{host}{path}");
    let url: Uri = url.parse().map_err(|_| invalid())?;
    if url.host().is_none_or(|host| host.trim_matches(['[', ']']).is_empty()) {
        return Err(invalid());
    }
    port_of(&url)?;
    Ok((url, user.map(login).transpose()?))
}

/// Returns the port if the URL has one.
pub(super) fn port_of(url: &Uri) -> Result<Option<u16>, String> {
    let host = url.host().unwrap_or_default();
    let authority = url.authority().map(http::uri::Authority::as_str);
    let rest = authority.and_then(|it| it.strip_prefix(host));
    match rest.unwrap_or_default().strip_prefix(':') {
        None | Some("") => Ok(None),
        Some(port) => {
            let number = port.parse().map(Some);
            number.map_err(|_| format!("its port is {port}; expected a number up to 65535"))
        }
    }
}

fn login(text: &str) -> Result<Login, String> {
    let (user, password) = text.split_once(':').unwrap_or((text, ""));
    let plain = |text: &str| {
        unescaped(text).ok_or_else(|| "its user or password has an invalid escape after %".to_owned())
    };
    Ok(Login { user: plain(user)?, password: plain(password)? })
}

fn unescaped(text: &str) -> Option<String> {
    let mut plain = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digits = [bytes.next()?, bytes.next()?];
            let digits = digits.map(|it| char::from(it).to_digit(16));
            let byte = digits[0]? * 16 + digits[1]?;
            plain.push(u8::try_from(byte).ok()?);
        } else {
            plain.push(byte);
        }
    }
    String::from_utf8(plain).ok()
}

/// Returns the URL without a user, password or query, because logs have other readers.
pub(super) fn shown_url(url: &str) -> String {
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), url),
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = authority.rsplit('@').next().unwrap_or_default();
    let path = path.split(['?', '#']).next().unwrap_or_default();
    format!("{scheme}{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_address_is_shown() {
        for (url, shown) in [
            ("https://10.0.0.1:6443", "https://10.0.0.1:6443"),
            ("https://me:pa@ss@x:1/k8s/c-1", "https://x:1/k8s/c-1"),
            ("http://token@[::1]:80/", "http://[::1]:80/"),
            ("https://x/a@b?token=c#d", "https://x/a@b"),
            ("me:secret@x", "x"),
        ] {
            assert_eq!(shown_url(url), shown);
        }
    }

    #[test]
    fn servers_are_read_as_by_go() {
        for (text, url) in [
            ("https://a:6443", Ok("https://a:6443/")),
            ("HTTPS://A", Ok("https://A/")),
            ("https://a:6443/k8s/c-1/?x=y#z", Ok("https://a:6443/k8s/c-1/")),
            ("https://me:secret@a", Ok("https://a/")),
            ("https://a:", Ok("https://a/")),
            ("https://[::1]:6443", Ok("https://[::1]:6443/")),
            ("127.0.0.1:6443", Ok("http://127.0.0.1:6443/")),
            ("localhost", Ok("http://localhost/")),
            ("a/b", Err("it has a path and no scheme")),
            ("", Err("it is not a valid URL")),
            ("https://", Err("it is not a valid URL")),
            ("https:///x", Err("it is not a valid URL")),
            ("https://a b", Err("it is not a valid URL")),
            ("https://a:b", Err("its port is b")),
            ("https://a\n", Err("it is not a valid URL")),
            ("https://[::1", Err("it is not a valid URL")),
            ("https://a:99999", Err("its port is 99999")),
            ("ftp://a", Err("its scheme is \"ftp\"")),
            ("https://me:%zz@a", Err("invalid escape")),
        ] {
            let read = server_url(text, "http").map(|(url, _)| url.to_string());
            match url {
                Ok(url) => assert_eq!(read.as_deref(), Ok(url), "{text}"),
                Err(part) => {
                    let error = read.expect_err(text);
                    assert!(error.contains(part) && !error.contains("secret"), "{error}");
                }
            }
        }
    }

    #[test]
    fn users_in_urls_are_unescaped() {
        let (_, login) = parted("https://m%40e:a%3Ab@x").unwrap();
        let login = login.unwrap();
        assert_eq!((login.user.as_str(), login.password.as_str()), ("m@e", "a:b"));
    }
}
