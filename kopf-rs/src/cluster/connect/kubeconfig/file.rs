//! Parses the text of a kubeconfig as client-go does: `null` and empty values count as absent, and entries of unused contexts may have any
//! content of the right types.
//!
//! This module guarantees that an error quotes only names of fields. Has no `Debug`, because most of the content is
//! secret. It does not know which part of it is used.

use std::collections::BTreeMap;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, de};
use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, MessageFormatter as _, UserMessageFormatter};

pub(super) mod usable;

/// A whole file.
#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct File {
    api_version: String,
    kind: String,
    #[serde(rename = "current-context")]
    pub(super) current_context: String,
    pub(super) contexts: Vec<NamedContext>,
    pub(super) clusters: Vec<NamedCluster>,
    pub(super) users: Vec<NamedUser>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct NamedContext {
    pub(super) name: String,
    pub(super) context: Context,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Context {
    pub(super) cluster: String,
    pub(super) user: String,
    pub(super) namespace: String,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct NamedCluster {
    pub(super) name: String,
    pub(super) cluster: Cluster,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(super) struct Cluster {
    pub(super) server: String,
    pub(super) tls_server_name: String,
    #[serde(deserialize_with = "truth")]
    pub(super) insecure_skip_tls_verify: bool,
    pub(super) certificate_authority: String,
    #[serde(deserialize_with = "bytes")]
    pub(super) certificate_authority_data: Vec<u8>,
    pub(super) proxy_url: String,
    #[serde(deserialize_with = "truth")]
    pub(super) disable_compression: bool,
    pub(super) extensions: Vec<Extension>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Extension {
    pub(super) name: String,
    pub(super) extension: Value,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct NamedUser {
    pub(super) name: String,
    pub(super) user: User,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(super) struct User {
    pub(super) client_certificate: String,
    #[serde(deserialize_with = "bytes")]
    pub(super) client_certificate_data: Vec<u8>,
    pub(super) client_key: String,
    #[serde(deserialize_with = "bytes")]
    pub(super) client_key_data: Vec<u8>,
    pub(super) token: String,
    #[serde(rename = "tokenFile")]
    pub(super) token_file: String,
    pub(super) username: String,
    pub(super) password: String,
    pub(super) r#as: String,
    pub(super) as_uid: String,
    pub(super) as_groups: Vec<String>,
    pub(super) as_user_extra: BTreeMap<String, Vec<String>>,
    pub(super) auth_provider: Option<AuthProvider>,
    pub(super) exec: Option<Exec>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct AuthProvider {
    pub(super) name: String,
    pub(super) config: BTreeMap<String, String>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Exec {
    pub(super) command: String,
    pub(super) args: Vec<String>,
    pub(super) env: Vec<Variable>,
    pub(super) api_version: String,
    pub(super) install_hint: String,
    #[serde(deserialize_with = "truth")]
    pub(super) provide_cluster_info: bool,
    pub(super) interactive_mode: String,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) value: String,
}

impl File {
    /// Parses the file in this folder, and makes its relative paths absolute.
    pub(super) fn parse(bytes: &[u8], folder: &Path) -> Result<Self, String> {
        let text = text(bytes).ok_or("it is not text in UTF-8 or UTF-16")?;
        let mut file = Self::of(&text)?;
        let is_config = file.kind.is_empty() || file.kind == "Config";
        if !is_config || !matches!(file.api_version.as_str(), "" | "v1") {
            return Err("expected `apiVersion: v1` and `kind: Config`".to_owned());
        }
        once("clusters", file.clusters.iter().map(|it| &it.name))?;
        once("users", file.users.iter().map(|it| &it.name))?;
        once("contexts", file.contexts.iter().map(|it| &it.name))?;
        for NamedCluster { cluster, .. } in &mut file.clusters {
            complete(folder, &mut cluster.certificate_authority)?;
        }
        for NamedUser { user, .. } in &mut file.users {
            complete(folder, &mut user.client_certificate)?;
            complete(folder, &mut user.client_key)?;
            complete(folder, &mut user.token_file)?;
            if let Some(exec) = &mut user.exec
                && exec.command.contains(std::path::MAIN_SEPARATOR)
            {
                complete(folder, &mut exec.command)?;
            }
        }
        Ok(file)
    }

    fn of(text: &str) -> Result<Self, String> {
        let options = serde_saphyr::options! {
            duplicate_keys: DuplicateKeyPolicy::LastWins,
            with_snippet: false,
        };
        let value = serde_saphyr::from_multiple_with_options::<Value>(text, options);
        let value = value.map_err(|error| {
            let line = error.location().map_or(0, |it| it.line());
            let words = UserMessageFormatter.format_message(error.without_snippet());
            format!("line {line}: {}", unquoted(&words))
        })?;
        // client-go reads only the first of several documents.
        let value = value.into_iter().next().unwrap_or_default();
        let mut value = match value {
            Value::Null => Value::Object(serde_json::Map::new()),
            value => value,
        };
        drop_nulls(&mut value);
        serde_path_to_error::deserialize(value).map_err(|error| {
            let path = error.path().to_string();
            let words = error.into_inner().to_string();
            format!("`{path}`: expected {}", expectation(&words))
        })
    }
}

/// Decodes the encodings that editors write, detected by the first bytes.
fn text(bytes: &[u8]) -> Option<String> {
    let wide = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let (units, rest) = bytes.as_chunks::<2>();
        let units: Vec<u16> = units.iter().map(|it| unit(*it)).collect();
        rest.is_empty().then(|| String::from_utf16(&units).ok())?
    };
    match bytes {
        [0xFF, 0xFE, rest @ ..] => wide(rest, u16::from_le_bytes),
        [0xFE, 0xFF, rest @ ..] => wide(rest, u16::from_be_bytes),
        [0xEF, 0xBB, 0xBF, rest @ ..] => String::from_utf8(rest.to_vec()).ok(),
        bytes => String::from_utf8(bytes.to_vec()).ok(),
    }
}

/// Removes quotations from an error message, because they may contain a secret.
fn unquoted(words: &str) -> String {
    let words = words.lines().next().unwrap_or_default();
    let mut parts = words.split(['`', '"']);
    let mut whole = parts.next().unwrap_or_default().to_owned();
    while parts.next().is_some() {
        whole.push_str("(…)");
        whole.push_str(parts.next().unwrap_or_default());
    }
    whole
}

/// Returns the expectation in an error of serde. The part before it quotes the value.
fn expectation(words: &str) -> &str {
    let tail = words.rsplit_once("expected ").map(|(_, tail)| tail);
    tail.unwrap_or("another value")
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(entries) => {
            entries.retain(|_, value| !value.is_null());
            entries.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

fn once<'a>(list: &str, names: impl Iterator<Item = &'a String>) -> Result<(), String> {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(format!("`{list}` has two entries called \"{name}\": remove one"));
        }
    }
    Ok(())
}

/// Makes a path absolute that is relative to the file.
fn complete(folder: &Path, path: &mut String) -> Result<(), String> {
    if !path.is_empty() && Path::new(path.as_str()).is_relative() {
        let whole = folder.join(path.as_str()).into_os_string();
        *path = whole.into_string().map_err(|_| "the path of its folder is not valid UTF-8")?;
    }
    Ok(())
}

/// Decodes base64, ignoring line breaks.
fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let mut text = String::deserialize(deserializer)?;
    text.retain(|it| it != '\n' && it != '\r');
    STANDARD.decode(&text).map_err(|_| de::Error::custom("expected base64"))
}

/// Reads a boolean in the words of YAML 1.1, which Go's parser accepts.
fn truth<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Truth(bool),
        Word(String),
    }
    let wrong = || de::Error::custom("expected true or false");
    match Written::deserialize(deserializer).map_err(|_| wrong())? {
        Written::Truth(truth) => Ok(truth),
        Written::Word(word) => match word.as_str() {
            "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "True" | "TRUE" => Ok(true),
            "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "False" | "FALSE" => Ok(false),
            _ => Err(wrong()),
        },
    }
}
