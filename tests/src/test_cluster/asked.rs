//! What a server was asked by others than the cluster, in the same words for all servers.
//!
//! The server in the process keeps a journal, the real one an audit log; both hold every answered request. Must not be
//! used to wait for anything but the log itself.

use std::time::Duration;

use kopf_rs_apiserver::{ApiServer, Entry, Journal};
use serde_json::Value;

use super::TestCluster;

/// One answered request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// `create`, `update`, `patch`, `delete`, `get`, `list`, `watch`.
    pub verb: String,
    /// The path, without a query.
    pub path: String,
    /// Empty where the client sent none.
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
        let code = entry["responseStatus"]["code"]
            .as_u64()
            .and_then(|code| u16::try_from(code).ok());
        Self {
            verb: text(&entry["verb"]),
            path: uri.split('?').next().unwrap_or_default().to_owned(),
            user_agent: text(&entry["userAgent"]),
            code: code.unwrap_or_default(),
        }
    }

    /// Whether it asked for a change.
    #[must_use]
    pub fn writes(&self) -> bool {
        ["create", "update", "patch", "delete", "deletecollection"].contains(&self.verb.as_str())
    }
}

impl TestCluster {
    /// The journal of the server in the process; none for the real one.
    #[must_use]
    pub fn journal(&self) -> Option<Journal> {
        self.in_process().map(ApiServer::journal)
    }

    /// The server in the process, for faults and compaction; none for the real one.
    #[must_use]
    pub fn in_process(&self) -> Option<&ApiServer> {
        self.backend.in_process()
    }

    /// All answered requests that were not the cluster's own, oldest first. A real server answers other tests too.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        self.asked_of("")
    }

    fn asked_of(&self, word: &str) -> Vec<Asked> {
        let mut asked: Vec<Asked> = match (self.journal(), self.real()) {
            (Some(journal), _) => journal.entries().iter().map(Asked::of_journal).collect(),
            (None, Some(real)) => real
                .audit_since(0, word)
                .iter()
                .map(Asked::of_audit)
                .collect(),
            (None, None) => Vec::new(),
        };
        asked.retain(|asked| asked.user_agent != Self::USER_AGENT);
        asked
    }

    /// What others asked to change in one object, subresources included; its creation is no request to its path.
    pub async fn writes_to(&self, resource: &str, name: &str) -> Vec<Asked> {
        let path = self.path(resource, name).await;
        let mut asked = self.asked_of(&path);
        let within = |asked: &Asked| {
            asked
                .path
                .strip_prefix(&path)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        asked.retain(|asked| asked.writes() && within(asked));
        asked
    }

    /// Asserts that others have changed the object so many times. The logs of both servers are a moment late: what a write
    /// has changed can be seen before the write is logged.
    ///
    /// # Panics
    ///
    /// At another number of writes, five seconds later.
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
