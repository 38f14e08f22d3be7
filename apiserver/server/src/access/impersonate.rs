//! Impersonation: the `Impersonate-` headers, and the permission to send them.
//!
//! Guarantees the checks of kube-apiserver 1.36 in its order: narrow modes first, the legacy verb `impersonate` last; if all fail, the
//! first refusal is the answer. Must not depend on the request beyond its attributes.

use super::attributes::Attributes;
use super::user::{ANONYMOUS, UNAUTHENTICATED, User, account_of, node_of};
use super::{demand, user};
use crate::call::Call;
use crate::status::Refusal;
use crate::store::Store;

const AUTHENTICATION: &str = "authentication.k8s.io";
const EXTRA: &str = "impersonate-extra-";

/// An impersonation mode, named after the users to which it applies; `Old` is the legacy mode, which has no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Node,
    Account,
    UserInfo,
    Old,
}

const MODES: [Mode; 4] = [Mode::Node, Mode::Account, Mode::UserInfo, Mode::Old];

/// Returns the user whom a call impersonates, or `None` if it does not impersonate.
pub(super) fn impersonated(store: &mut Store, call: &Call) -> Result<Option<User>, Refusal> {
    if call.impersonation.is_empty() {
        return Ok(None);
    }
    let Some(wanted) = wanted(&call.impersonation)? else {
        return Ok(None);
    };
    let sender = call.user.clone();
    let last = store.access.modes.get(&sender.name).copied();
    let others = (0..MODES.len()).filter(|at| Some(*at) != last);
    let order: Vec<usize> = last.into_iter().chain(others).collect();
    let mut first = None;
    for at in order {
        match try_mode(store, MODES[at], call, &wanted) {
            Some(Ok(user)) => {
                store.access.modes.insert(sender.name.clone(), at);
                return Ok(Some(user));
            }
            Some(Err(refusal)) => first = first.or(Some(refusal)),
            None => {}
        }
    }
    Err(first.unwrap_or_else(Refusal::unauthorized))
}

/// Returns the user that the headers name.
fn wanted(headers: &[(String, String)]) -> Result<Option<User>, Refusal> {
    let first = |name: &str| {
        let found = headers.iter().find(|(found, _)| found == name);
        found.map_or("", |(_, value)| value)
    };
    let mut user = User::new(first("impersonate-user")).uid(first("impersonate-uid"));
    for (header, value) in headers {
        if header == "impersonate-group" {
            user.groups.push(value.clone());
        } else if let Some(key) = header.strip_prefix(EXTRA) {
            let key = crate::call::decoded(key).to_lowercase();
            user.extra.entry(key).or_default().push(value.clone());
        }
    }
    if !user.name.is_empty() {
        return Ok(Some(user));
    }
    if user == User::default() {
        return Ok(None);
    }
    Err(Refusal::bad_request(format!(
        "requested {} without impersonating a user name",
        as_go(&user)
    )))
}

/// Formats a user as Go prints the struct.
fn as_go(user: &User) -> String {
    let list = |items: &[String]| {
        let items: Vec<String> = items.iter().map(|item| format!("{item:?}")).collect();
        format!("[]string{{{}}}", items.join(", "))
    };
    let groups = if user.groups.is_empty() {
        "[]string(nil)".to_owned()
    } else {
        list(&user.groups)
    };
    let extra = if user.extra.is_empty() {
        "map[string][]string(nil)".to_owned()
    } else {
        let pairs = user.extra.iter();
        let pairs: Vec<String> = pairs
            .map(|(key, values)| format!("{key:?}:{}", list(values)))
            .collect();
        format!("map[string][]string{{{}}}", pairs.join(", "))
    };
    format!(
        "&user.DefaultInfo{{Name:{:?}, UID:{:?}, Groups:{groups}, Extra:{extra}}}",
        user.name, user.uid
    )
}

/// Tries a mode; returns `None` if it does not apply to the impersonated user.
fn try_mode(
    store: &mut Store,
    mode: Mode,
    call: &Call,
    wanted: &User,
) -> Option<Result<User, Refusal>> {
    let bare = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
    let is_node = node_of(&wanted.name).is_some();
    let is_account = account_of(&wanted.name).is_some();
    let fits = match mode {
        Mode::Node => bare && is_node,
        Mode::Account => bare && is_account,
        Mode::UserInfo => !is_node && !is_account,
        Mode::Old => true,
    };
    fits.then(|| authorized(store, mode, call, wanted))
}

fn authorized(store: &mut Store, mode: Mode, call: &Call, wanted: &User) -> Result<User, Refusal> {
    let sender = call.user.clone();
    let verb = match mode.word() {
        Some(word) => {
            let asked = Attributes::of_call(call);
            let narrow = Attributes {
                verb: format!("impersonate-on:{word}:{}", asked.verb),
                ..asked
            };
            demand(store, &sender, &narrow)?;
            format!("impersonate:{word}")
        }
        None => "impersonate".to_owned(),
    };
    let mut user = wanted.clone();
    let group = if mode == Mode::Old {
        ""
    } else {
        AUTHENTICATION
    };
    let named = |group: &str, resource: &str, name: &str| Attributes {
        verb: verb.clone(),
        group: group.to_owned(),
        resource: resource.to_owned(),
        name: name.to_owned(),
        ..Attributes::default()
    };
    let mut asked = named(group, "users", &wanted.name);
    if let Some(node) = node_of(&wanted.name).filter(|_| mode == Mode::Node) {
        asked = named(group, "nodes", node);
        user.groups = vec!["system:nodes".to_owned()];
    }
    if let Some((namespace, name)) = account_of(&wanted.name) {
        asked = named(group, "serviceaccounts", name);
        namespace.clone_into(&mut asked.namespace);
        if wanted.groups.is_empty() {
            user.groups = User::service_account(namespace, name).groups;
        }
    }
    demand(store, &sender, &asked)?;
    if !wanted.uid.is_empty() {
        demand(store, &sender, &named(AUTHENTICATION, "uids", &wanted.uid))?;
    }
    for wanted in &wanted.groups {
        demand(store, &sender, &named(group, "groups", wanted))?;
    }
    for (key, values) in &wanted.extra {
        for value in values {
            let mut asked = named(AUTHENTICATION, "userextras", value);
            key.clone_into(&mut asked.subresource);
            demand(store, &sender, &asked)?;
        }
    }
    if user.name == ANONYMOUS {
        user.join(UNAUTHENTICATED);
    } else if !user.is_in(UNAUTHENTICATED) {
        user.join(user::AUTHENTICATED);
    }
    Ok(user)
}

// === impl Mode ===

impl Mode {
    fn word(self) -> Option<&'static str> {
        match self {
            Self::Node => Some("arbitrary-node"),
            Self::Account => Some("serviceaccount"),
            Self::UserInfo => Some("user-info"),
            Self::Old => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        pairs.iter().map(owned).collect()
    }

    #[test]
    fn headers_name_a_user() {
        let found = wanted(&headers(&[
            ("impersonate-user", "bob"),
            ("impersonate-group", "a"),
            ("impersonate-group", "b"),
            ("impersonate-extra-foo%2fbar", "1"),
            ("impersonate-extra-foo%2fbar", "2"),
        ]));
        let user = found.unwrap().unwrap();
        assert_eq!((user.name.as_str(), user.groups.len()), ("bob", 2));
        assert_eq!(user.extra["foo/bar"], ["1", "2"]);
    }

    #[test]
    fn a_group_without_a_user_is_refused_in_go_s_words() {
        let refusal = wanted(&headers(&[("impersonate-group", "g1")])).unwrap_err();
        assert_eq!(
            refusal.body()["message"],
            r#"requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"g1"}, Extra:map[string][]string(nil)} without impersonating a user name"#
        );
        assert_eq!(wanted(&[]).unwrap(), None);
    }
}
