//! `--observed`: compares the requests that handlers have sent in tests with the permissions of the operator.
//!
//! Tests record their requests through [`Recorded::line`], one line of JSON each. This module does not know how a test runs an operator.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use crate::object::granted::{Granted, GrantedRule, Question};
use crate::object::rights::Rights;
#[cfg(any(feature = "testing", test))]
use crate::object::sent_request::SentRequest;

/// The variable that names the folder in which tests record requests, one file for each process.
#[cfg(feature = "testing")]
pub(crate) const FOLDER: &str = "KOPF_RS_OBSERVE";

/// A request that a handler has sent in a test.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Recorded {
    test: String,
    verb: String,
    group: String,
    /// The plural, with the subresource after a slash.
    resource: String,
    name: Option<String>,
}

/// The comparison of recorded requests with permissions.
#[derive(Debug, Default, PartialEq, Eq)]
struct Compared {
    /// The number of different requests, regardless of their tests.
    requests: usize,
    /// The requests that are not permitted, in the notation of `requires`, with their tests.
    refused: BTreeMap<String, BTreeSet<String>>,
    /// The values of `requires` that permit them.
    to_add: BTreeSet<String>,
    /// The declared requests that no test has sent.
    unused: BTreeSet<String>,
}

// === impl Recorded ===

impl Recorded {
    /// Returns the line that records a request of a test; `None` if it is about no resource, such as discovery.
    #[cfg(any(feature = "testing", test))]
    pub(crate) fn line(test: &str, method: &str, path: &str, query: &str) -> Option<String> {
        let sent = SentRequest::read(method, path, query)?;
        let resource = match sent.subresource {
            None => sent.plural,
            Some(subresource) => format!("{}/{subresource}", sent.plural),
        };
        let (verb, group, name) = (sent.verb.to_owned(), sent.group, sent.name);
        let recorded = Self { test: test.to_owned(), verb, group, resource, name };
        serde_json::to_string(&recorded).ok()
    }

    fn question(&self) -> Question<'_> {
        let Self { verb, group, resource, name, .. } = self;
        Question { namespace: None, verb, group, resource, name: name.as_deref() }
    }

    /// Returns the permission for requests like this one, for objects of any name.
    fn permission(&self) -> Rights {
        let mut rights = Rights::default();
        rights.permit(None, &self.group, &[&self.resource], &[&self.verb]);
        rights
    }
}

/// Compares the requests with the permissions, regardless of namespaces, because tests use others than the deployed operator.
fn compare(recorded: &[Recorded], permitted: &Rights, declared: &Rights) -> Compared {
    let mut granted = Granted::default();
    granted.add(None, permitted.questions().map(|it| GrantedRule::only(&it)));
    let mut compared = Compared::default();
    let (mut sent, mut missing) = (Granted::default(), Rights::default());
    let mut different = BTreeSet::new();
    for request in recorded {
        let requires = request.permission().requires();
        if !granted.allows(&request.question()) {
            missing.absorb(request.permission());
            for text in &requires {
                compared.refused.entry(text.clone()).or_default().insert(request.test.clone());
            }
        }
        different.extend(requires);
        let asked = Question { name: None, ..request.question() };
        sent.add(None, [GrantedRule::only(&asked)]);
        if asked.verb == "patch" {
            // Server-side apply creates an object by the same request.
            sent.add(None, [GrantedRule::only(&Question { verb: "create", ..asked })]);
        }
    }
    compared.requests = different.len();
    compared.to_add = missing.requires();
    compared.unused = declared.missing(&sent).requires();
    compared
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { requests, refused, to_add, unused } = self;
        if *requests == 0 {
            writeln!(
                f,
                "Handlers have sent no request by their `client` in the tests: expected tests that start the operator by `TestCluster::start`, or \
                 handlers without requests of their own."
            )?;
        } else if refused.is_empty() {
            writeln!(
                f,
                "All requests that handlers have sent by their `client` are permitted: {requests} in the tests."
            )?;
        } else {
            writeln!(f, "These requests of handlers are not permitted to the deployed operator:")?;
            for (request, tests) in refused {
                let tests: Vec<&str> = tests.iter().map(String::as_str).collect();
                writeln!(f, "  {request}    in {}", tests.join(", "))?;
            }
            writeln!(
                f,
                "Add to the attributes of the handlers that send them:\n  requires = [{}]",
                quoted(to_add)
            )?;
        }
        if !unused.is_empty() {
            writeln!(f, "No test has sent these requests, which handlers declare: {}", quoted(unused))?;
        }
        Ok(())
    }
}

fn quoted(words: &BTreeSet<String>) -> String {
    words.iter().map(|it| format!("{it:?}")).collect::<Vec<_>>().join(", ")
}

/// Reads the files of a folder. A folder that does not exist has none, because no test has started an operator.
fn read(folder: &Path) -> Result<Vec<Recorded>, Box<dyn Error>> {
    let mut all = Vec::new();
    if !folder.exists() {
        return Ok(all);
    }
    for file in std::fs::read_dir(folder)? {
        let file = file?.path();
        for line in std::fs::read_to_string(&file)?.lines() {
            let recorded = serde_json::from_str(line);
            all.push(
                recorded.map_err(|error| {
                    format!("{}: {line:?} is no recorded request: {error}", file.display())
                })?,
            );
        }
    }
    Ok(all)
}

/// Prints the comparison. The code is 1 if a request is not permitted.
pub(super) fn report(
    folder: &Path,
    permitted: &Rights,
    declared: &Rights,
) -> Result<ExitCode, Box<dyn Error>> {
    let compared = compare(&read(folder)?, permitted, declared);
    let mut text = String::new();
    write!(text, "{compared}")?;
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(if compared.refused.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(test: &str, method: &str, path: &str) -> Recorded {
        serde_json::from_str(&Recorded::line(test, method, path, "").unwrap()).unwrap()
    }

    #[test]
    fn requests_beyond_the_permissions_are_listed_with_their_tests_and_the_remedy() {
        let (mut permitted, mut declared) = (Rights::default(), Rights::default());
        declared.permit(None, "", &["secrets"], &["get", "delete"]);
        permitted.absorb(declared.clone());
        permitted.permit_named(Some("team"), ("", &["configmaps"]), &["own"], &["get"]);
        let all = [
            recorded("one", "GET", "/api/v1/namespaces/default/secrets/a"),
            recorded("one", "GET", "/api/v1/namespaces/default/configmaps/own"),
            recorded("two", "GET", "/api/v1/namespaces/default/configmaps/other"),
            recorded("one", "POST", "/api/v1/namespaces/default/pods"),
            recorded("two", "POST", "/api/v1/namespaces/default/pods"),
            recorded("two", "PATCH", "/apis/apps/v1/namespaces/default/deployments/a/scale"),
        ];
        let compared = compare(&all, &permitted, &declared);
        assert_eq!(
            compared.to_string(),
            "These requests of handlers are not permitted to the deployed operator:\n  create pods    in one, two\n  get configmaps    in \
             two\n  patch deployments.apps/scale    in two\nAdd to the attributes of the handlers that send them:\n  requires = [\"create \
             pods\", \"get configmaps\", \"patch deployments.apps/scale\"]\nNo test has sent these requests, which handlers declare: \
             \"delete secrets\"\n"
        );
        let compared = compare(&all[..1], &permitted, &permitted);
        assert_eq!((compared.requests, compared.refused.len()), (1, 0));
        assert!(compare(&[], &permitted, &declared).to_string().contains("sent no request"));
        let applied = [recorded("one", "PATCH", "/api/v1/namespaces/default/secrets/a")];
        let mut declared = Rights::default();
        declared.permit(None, "", &["secrets"], &["create", "patch"]);
        assert!(compare(&applied, &declared, &declared).unused.is_empty());
    }
}
