//! URLs of servers, as they may be shown.
//!
//! Must not know what they are for.

/// The URL without a user and a password, and without a query: what is in a log is read by others.
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
    fn nothing_but_the_place_is_shown() {
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
}
