//! Credential plugins: programs that print credentials, as configured in `exec` of a kubeconfig.
//!
//! This module guarantees that one run serves all waiting requests, that expired credentials are requested again, and
//! that an error names the program and how to install it but never its output.

use std::collections::BTreeMap;
use std::io::{ErrorKind, IsTerminal as _};
use std::process::{Command, Stdio};
use std::sync::Arc;

use http::HeaderValue;
use jiff::Timestamp;
use parking_lot::RwLock;
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::runtime::Handle;

use crate::cluster::access::header::bearer;
use crate::cluster::access::identity::identity;

/// The variable that passes the request for credentials to the program.
const QUESTION: &str = "KUBERNETES_EXEC_INFO";

/// The command line of the program, from the kubeconfig. Has no `Debug`, because the environment may contain secrets.
#[derive(Clone, Default)]
pub(in crate::cluster) struct PluginConfig {
    pub(in crate::cluster) command: String,
    pub(in crate::cluster) args: Vec<String>,
    pub(in crate::cluster) env: BTreeMap<String, String>,
    pub(in crate::cluster) version: String,
    pub(in crate::cluster) mode: Interaction,
    pub(in crate::cluster) hint: String,
    /// The cluster information that is passed to the program.
    pub(in crate::cluster) cluster: Option<Value>,
}

/// Controls whether the program may prompt the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::cluster) enum Interaction {
    #[default]
    Never,
    /// Only if the standard input is a terminal.
    IfAvailable,
    Always,
}

/// A program and its last credentials.
pub(in crate::cluster) struct Plugin {
    config: PluginConfig,
    last: tokio::sync::Mutex<Option<Given>>,
    /// The client certificate for new connections.
    certificate: RwLock<Option<Arc<CertifiedKey>>>,
}

/// Credentials from a program.
struct Given {
    token: Option<HeaderValue>,
    certificate: Option<Arc<CertifiedKey>>,
    expires: Option<Timestamp>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    status: Option<AnswerStatus>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AnswerStatus {
    expiration_timestamp: Option<Timestamp>,
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

impl Plugin {
    pub(in crate::cluster) fn new(config: PluginConfig) -> Self {
        Self { config, last: tokio::sync::Mutex::default(), certificate: RwLock::default() }
    }

    /// Returns the header of the last run if it is still valid, or else runs the program.
    pub(in crate::cluster) async fn token(&self, home: &Handle) -> Result<Option<HeaderValue>, String> {
        let mut last = self.last.lock().await;
        let now = Timestamp::now();
        let is_good = |it: &Given| it.expires.is_none_or(|at| now <= at);
        if let Some(good) = last.as_ref().filter(|it| is_good(it)) {
            return Ok(good.token.clone());
        }
        let config = self.config.clone();
        // The program has no time limit, because it may wait for its user.
        let given = home.spawn_blocking(move || config.run()).await;
        let given = given.map_err(|error| format!("the credential plugin has failed: {error}"))??;
        let mut certificate = self.certificate.write();
        certificate.clone_from(&given.certificate);
        let token = given.token.clone();
        *last = Some(given);
        Ok(token)
    }
}

impl PluginConfig {
    fn run(&self) -> Result<Given, String> {
        let is_terminal = std::io::stdin().is_terminal();
        let is_interactive = match self.mode {
            Interaction::Never => false,
            Interaction::IfAvailable => is_terminal,
            Interaction::Always if is_terminal => true,
            Interaction::Always => {
                return Err(self.failed(
                    "it must ask the user (`interactiveMode: Always`), but the standard input is no terminal",
                ));
            }
        };
        let mut question = json!({
            "kind": "ExecCredential",
            "apiVersion": self.version,
            "spec": {"interactive": is_interactive},
        });
        if let Some(cluster) = &self.cluster {
            question["spec"]["cluster"] = cluster.clone();
        }
        let mut command = Command::new(&self.command);
        command.args(&self.args).envs(&self.env);
        command.env(QUESTION, question.to_string());
        command.stderr(Stdio::inherit());
        command.stdin(if is_interactive { Stdio::inherit() } else { Stdio::null() });
        let output = command.output().map_err(|error| match error.kind() {
            ErrorKind::NotFound => self.is_missing(),
            _ => self.failed(&format!("it cannot be started: {error}")),
        })?;
        if !output.status.success() {
            return Err(self.failed(&format!("it has ended with {}", output.status)));
        }
        self.given(&output.stdout).map_err(|why| self.failed(&why))
    }

    /// Reads the credentials in the output of the program.
    fn given(&self, printed: &[u8]) -> Result<Given, String> {
        // The parser's error is dropped, because it may quote the output.
        let printed = str::from_utf8(printed).map_err(|_| "its output is not text")?;
        // Output that starts like JSON is parsed as JSON: a YAML parser would treat other characters as line breaks.
        let answer: Option<Answer> = if printed.trim_start().starts_with('{') {
            serde_json::from_str(printed).ok()
        } else {
            serde_saphyr::from_str(printed).ok()
        };
        let answer = answer.ok_or("it has not printed an ExecCredential in JSON or YAML")?;
        if answer.kind != "ExecCredential" || answer.api_version != self.version {
            return Err(format!(
                "it is asked for an ExecCredential of {}, and has printed another kind or version",
                self.version
            ));
        }
        let status = answer.status.ok_or("it has printed no `status`")?;
        let text = |it: Option<String>| it.filter(|it| !it.is_empty());
        let token = text(status.token);
        let certificate = text(status.client_certificate_data);
        let key = text(status.client_key_data);
        let certificate = match (certificate, key) {
            (Some(certificate), Some(key)) => Some(identity(certificate.as_bytes(), key.as_bytes())?),
            (None, None) if token.is_none() => {
                return Err("it has printed neither a token nor a client certificate".to_owned());
            }
            (None, None) => None,
            _ => {
                return Err("it has printed a client certificate without its key, or a key alone".to_owned());
            }
        };
        Ok(Given {
            token: token.as_deref().map(bearer).transpose()?,
            certificate,
            expires: status.expiration_timestamp,
        })
    }

    fn is_missing(&self) -> String {
        // Control characters of the hint are removed, because they could manipulate the terminal.
        let hint = self.hint.trim().chars();
        let hint: String =
            hint.map(|it| if it.is_whitespace() { ' ' } else { it }).filter(|it| !it.is_control()).collect();
        let hint = if hint.is_empty() {
            "install it, or name it with its path in `exec.command`".to_owned()
        } else {
            format!("the kubeconfig says how to install it: {hint}")
        };
        format!("the credential plugin \"{}\" is not installed, or not in $PATH; {hint}", self.command)
    }

    fn failed(&self, why: &str) -> String {
        format!("the credential plugin \"{}\" gives no credentials: {why}", self.command)
    }
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plugin").field("command", &self.config.command).finish_non_exhaustive()
    }
}

impl ResolvesClientCert for Plugin {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.certificate.read().clone()
    }

    fn has_certs(&self) -> bool {
        true
    }
}
