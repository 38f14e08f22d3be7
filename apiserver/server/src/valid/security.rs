//! Validates security settings of Pods and containers: profiles, users, host namespaces and sysctls.
//!
//! Ignores options of Windows. Never looks at the old object of an update.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::finder::{Finder, child, is_true, items, map, maps};
use super::format::inner_path;
use super::rule::Named;
use crate::object::{Body, text};

pub(super) const NAMED: Named = &[
    ("security", security),
    ("pod_security", pod_security),
    ("seccomp", seccomp),
    ("app_armor", app_armor),
    ("host", host),
];

/// Checks for contradictions in a container's security context.
fn security(finder: &mut Finder<'_>, context: &Body, at: &str) {
    let unprivileged = context.get("allowPrivilegeEscalation") == Some(&Value::Bool(false));
    if unprivileged && is_true(context, "privileged") {
        let message = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        finder.invalid_as(at, &inner_form(context), message);
    }
    let added = map(context, "capabilities").map_or(&[][..], |found| items(found, "add"));
    for _ in added
        .iter()
        .filter(|name| unprivileged && **name == "CAP_SYS_ADMIN")
    {
        let message =
            "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
        finder.invalid_as(at, &inner_form(context), message);
    }
    let shared = !finder_hides_users(finder);
    if text(context, "procMount") == "Unmasked" && shared {
        let message = "`hostUsers` must be false to use `Unmasked`";
        finder.invalid(child(at, "procMount"), &"Unmasked".into(), message);
    }
}

fn finder_hides_users(finder: &Finder<'_>) -> bool {
    let specs = [".spec", ".spec.template.spec", ".template.spec"];
    let mut found = specs
        .iter()
        .filter_map(|path| crate::object::at_path(finder.root, &format!("{path}.hostUsers")));
    found.any(|users| *users == Value::Bool(false))
}

/// Prints the security context in the real server's internal form.
fn inner_form(context: &Body) -> String {
    let part = |field: &str| context.get(field).cloned().unwrap_or_default();
    let capabilities = map(context, "capabilities").map_or(Value::Null, |found| {
        let list = |field: &str| found.get(field).cloned().unwrap_or_default();
        json!([list("add"), list("drop")])
    });
    let capabilities = match &capabilities {
        Value::Array(lists) => format!("{{\"Add\":{},\"Drop\":{}}}", lists[0], lists[1]),
        _ => "null".to_owned(),
    };
    format!(
        "{{\"Capabilities\":{capabilities},\"Privileged\":{},\"SELinuxOptions\":{},\"WindowsOptions\":{},\"RunAsUser\":{},\"RunAsGroup\":{},\"RunAsNonRoot\":{},\"ReadOnlyRootFilesystem\":{},\"AllowPrivilegeEscalation\":{},\"ProcMount\":{},\"SeccompProfile\":{},\"AppArmorProfile\":{}}}",
        part("privileged"),
        part("seLinuxOptions"),
        part("windowsOptions"),
        part("runAsUser"),
        part("runAsGroup"),
        part("runAsNonRoot"),
        part("readOnlyRootFilesystem"),
        part("allowPrivilegeEscalation"),
        part("procMount"),
        part("seccompProfile"),
        part("appArmorProfile")
    )
}

fn pod_security(finder: &mut Finder<'_>, context: &Body, at: &str) {
    for (index, group) in items(context, "supplementalGroups").iter().enumerate() {
        if !group
            .as_i64()
            .is_some_and(|group| (0..=2_147_483_647).contains(&group))
        {
            let message = "must be between 0 and 2147483647, inclusive";
            finder.invalid(format!("{at}.supplementalGroups[{index}]"), group, message);
        }
    }
    let mut seen = HashSet::new();
    for (at, setting) in maps(context, "sysctls", at) {
        let (at, name) = (child(&at, "name"), text(setting, "name"));
        if name.is_empty() {
            finder.required(at, "");
        } else if !is_setting(name) {
            let message = "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            finder.invalid(at, &name.into(), message);
        } else if !seen.insert(name) {
            finder.duplicate(at, &name.into());
        }
    }
}

/// Returns true for a valid sysctl name.
fn is_setting(name: &str) -> bool {
    let part = |part: &str| {
        let ends = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        part.starts_with(ends)
            && part.ends_with(ends)
            && part.chars().all(|c| ends(c) || c == '-' || c == '_')
    };
    name.len() <= 253 && name.split(['.', '/']).all(part)
}

fn seccomp(finder: &mut Finder<'_>, profile: &Body, at: &str) {
    let of = text(profile, "type");
    let at_file = child(at, "localhostProfile");
    let known = ["Localhost", "RuntimeDefault", "Unconfined"];
    if of.is_empty() {
        let message = "type is required when seccompProfile is set";
        finder.required(child(at, "type"), message);
    } else if !known.contains(&of) {
        finder.unsupported(child(at, "type"), &of.into(), &known);
    }
    let file = profile.get("localhostProfile").and_then(Value::as_str);
    match (of, file) {
        ("Localhost", None) => {
            finder.required(at_file, "must be set when seccomp type is Localhost");
        }
        ("Localhost", Some(path)) => finder.all(&at_file, &path.into(), inner_path(path)),
        (_, Some(path)) => {
            let shown = format!(
                "{{\"Type\":{},\"LocalhostProfile\":{}}}",
                json!(of),
                json!(path)
            );
            let message = "can only be set when seccomp type is Localhost";
            finder.invalid_as(at_file, &shown, message);
        }
        _ => {}
    }
}

fn app_armor(finder: &mut Finder<'_>, profile: &Body, at: &str) {
    let of = text(profile, "type");
    let at_file = child(at, "localhostProfile");
    let known = ["Localhost", "RuntimeDefault", "Unconfined"];
    if of.is_empty() {
        let message = "type is required when appArmorProfile is set";
        finder.required(child(at, "type"), message);
    } else if !known.contains(&of) {
        finder.unsupported(child(at, "type"), &of.into(), &known);
    }
    let file = profile.get("localhostProfile").and_then(Value::as_str);
    match (of, file) {
        ("Localhost", None | Some("")) => {
            finder.required(at_file, "must be set when AppArmor type is Localhost");
        }
        ("Localhost", Some(_)) | (_, None) => {}
        (_, Some(path)) => {
            let message = "can only be set when AppArmor type is Localhost";
            finder.invalid(at_file, &path.into(), message);
        }
    }
}

/// Checks the namespaces that a Pod shares with its node.
fn host(finder: &mut Finder<'_>, spec: &Body, at: &str) {
    if is_true(spec, "shareProcessNamespace") && is_true(spec, "hostPID") {
        let message = "ShareProcessNamespace and HostPID cannot both be enabled";
        let at = child(at, "securityContext.shareProcessNamespace");
        finder.invalid(at, &true.into(), message);
    }
    if spec.get("hostUsers") == Some(&Value::Bool(false)) {
        for field in ["hostNetwork", "hostPID", "hostIPC"] {
            if is_true(spec, field) {
                finder.forbidden(child(at, field), "when `hostUsers` is false");
            }
        }
    }
    if let Some(system) = map(spec, "os") {
        let known = ["linux", "windows"];
        match text(system, "name") {
            "" => finder.required(child(at, "os.name"), ""),
            name if !known.contains(&name) => {
                finder.unsupported(child(at, "os"), &name.into(), &known);
            }
            _ => {}
        }
    }
}
