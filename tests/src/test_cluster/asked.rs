//! Requests that a server received from clients other than the cluster itself, in the same form for all servers.
//!
//! The in-process server keeps a journal, the real one an audit log; both hold every answered request. Use it only to inspect the log, not
//! to wait for other conditions.

use std::time::Duration;

use kopf_rs_apiserver::{ApiServer, Entry, Journal};
use serde_json::Value;

use super::TestCluster;

/// One answered request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// `create`, `update`, `patch`, `delete`, `get`, `list`, `watch`.
    pub verb: String,
    /// The path, without the query.
    pub path: String,
    /// The user agent; empty if the client sent none.
    pub user_agent: String,
    /// The HTTP status of the answer.
    pub code: u16,
}

impl Asked {
    fn of_journal(entry: &Entry) -> Self {
        Self {
            verb: format!("{:?}", entry.verb).to_lowercase(),
            path: entry.path.clone(),
            user_agent: entry.user_agent.clone().unwrap_or_default(),
            code: entry.code,
        }
    }
    fn of_audit(entry: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let uri = text(&entry["requestURI"]);
        let code = entry["responseStatus"]["code"].as_u64().and_then(|code| u16::try_from(code).ok());
        Self {
            verb: text(&entry["verb"]),
            path: uri.split('?').next().unwrap_or_default().to_owned(),
            user_agent: text(&entry["userAgent"]),
            code: code.unwrap_or_default(),
        }
    }

    /// Returns whether the request is a write.
    #[must_use]
    pub fn writes(&self) -> bool {
        ["create", "update", "patch", "delete", "deletecollection"].contains(&self.verb.as_str())
    }
}

impl TestCluster {
    /// Returns the journal of the in-process server; `None` for the real one.
    #[must_use]
    pub fn journal(&self) -> Option<Journal> {
        self.in_process().map(ApiServer::journal)
    }

    /// Returns the in-process server, for faults and compaction; `None` for the real one.
    #[must_use]
    pub fn in_process(&self) -> Option<&ApiServer> {
        self.backend.in_process()
    }

    /// Returns all answered requests that the cluster did not send itself, oldest first. On a real server, these include requests of other
    /// tests.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        self.asked_about("")
    }

    /// The same, of those whose path has `word` in it: on a real server that is faster.
    #[must_use]
    pub fn asked_about(&self, word: &str) -> Vec<Asked> {
        let mut asked: Vec<Asked> = match (self.journal(), self.real()) {
            (Some(journal), _) => journal.entries().iter().map(Asked::of_journal).collect(),
            (None, Some(real)) => real.audit_since(0, word).iter().map(Asked::of_audit).collect(),
            (None, None) => Vec::new(),
        };
        asked.retain(|it| it.user_agent != Self::USER_AGENT && it.path.contains(word));
        asked
    }

    /// Returns the writes of others to one object, including its subresources. Its creation is not included, because that request goes to
    /// the path of the collection.
    pub async fn writes_to(&self, resource: &str, name: &str) -> Vec<Asked> {
        let path = self.path(resource, name).await;
        let mut asked = self.asked_about(&path);
        let within = |asked: &Asked| {
            asked.path.strip_prefix(&path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        asked.retain(|asked| asked.writes() && within(asked));
        asked
    }

    /// Asserts the number of writes of others to the object. Waits up to five seconds, because both servers log a write only after its
    /// result is visible.
    ///
    /// # Panics
    ///
    /// Panics if the number differs after five seconds.
    pub async fn assert_writes_to(&self, resource: &str, name: &str, expected: usize) {
        let mut pulse = tokio::time::interval(Duration::from_millis(20));
        for _ in 0..250 {
            if self.writes_to(resource, name).await.len() >= expected {
                break;
            }
            pulse.tick().await;
        }
        let writes = self.writes_to(resource, name).await;
        assert_eq!(writes.len(), expected, "writes to {resource} {name}");
    }
}
