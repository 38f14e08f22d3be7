//! Lock files: the versions of dependencies that a runner is built with.
//!
//! A user's lock file lacks packages that only the runner needs, such as those of the features `cli` and `embedded`.
//! Their versions come from kopf-rs' own lock file, with which the framework was tested. This module does not know
//! where lock files are.

use toml::{Table, Value};

const PACKAGE: &str = "package";

/// Merges two lock files: `first`, plus the packages of `second` of which it has no compatible version. Returns
/// `first` alone if either cannot be parsed.
pub(crate) fn joined(first: String, second: &str) -> String {
    let (Ok(mut lock), Ok(mut other)) = (first.parse::<Table>(), second.parse::<Table>()) else {
        return first;
    };
    let (Some(Value::Array(own)), Some(Value::Array(others))) =
        (lock.get_mut(PACKAGE), other.remove(PACKAGE))
    else {
        return first;
    };
    let there: Vec<_> = own.iter().filter_map(line).collect();
    own.extend(others.into_iter().filter(|it| line(it).is_some_and(|line| !there.contains(&line))));
    lock.to_string()
}

/// Returns a package's name, and the part of its version that compatible versions share.
fn line(package: &Value) -> Option<(String, String)> {
    let text = |key| package.get(key).and_then(Value::as_str);
    let (name, version) = (text("name")?, text("version")?);
    let parts = match version {
        it if it.starts_with("0.0.") => 3,
        it if it.starts_with("0.") => 2,
        _ => 1,
    };
    let shared: Vec<_> = version.split('.').take(parts).collect();
    Some((name.to_owned(), shared.join(".")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "version = 4\n\n[[package]]\nname = \"serde\"\nversion = \"1.0.1\"\n";
    const OTHER: &str = "version = 4\n\n[[package]]\nname = \"clap\"\nversion = \"4.0.0\"\n\n[[package]]\nname = \"serde\"\nversion = \"1.0.9\"\n\n[[package]]\nname = \"serde\"\nversion = \"0.9.1\"\n";

    #[test]
    fn packages_that_a_lock_file_lacks_are_those_of_the_other() {
        let lock: Table = joined(OWN.to_owned(), OTHER).parse().unwrap();
        let packages = lock["package"].as_array().unwrap().iter();
        let versions: Vec<_> =
            packages.map(|it| (it["name"].as_str().unwrap(), it["version"].as_str().unwrap())).collect();
        let wanted = [("serde", "1.0.1"), ("clap", "4.0.0"), ("serde", "0.9.1")];
        assert_eq!(versions, wanted);
    }

    #[test]
    fn versions_below_0_1_are_compatible_with_none() {
        let own = OWN.replace("1.0.1", "0.0.4");
        let other = OTHER.replace("0.9.1", "0.0.12");
        let lock: Table = joined(own, &other).parse().unwrap();
        let packages = lock["package"].as_array().unwrap().iter();
        let versions = packages.filter(|it| it["name"].as_str() == Some("serde"));
        let versions: Vec<_> = versions.map(|it| it["version"].as_str().unwrap()).collect();
        assert_eq!(versions, ["0.0.4", "1.0.9", "0.0.12"]);
    }

    #[test]
    fn a_file_that_is_no_lock_file_adds_nothing() {
        assert_eq!(joined(OWN.to_owned(), "<<<<"), OWN);
    }
}
