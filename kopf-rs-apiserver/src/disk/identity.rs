//! Who a server is to its clients: the authority of its certificates, its token, its port.
//!
//! Promise: a kubeconfig that was printed stays valid for as long as the data directory lives. Must not know TLS.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{DataDir, OpenError, refused, replace};

/// What clients know a server by.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Identity {
    /// The certificate of the authority, as PEM.
    pub(crate) authority: String,
    /// Its key, as PEM.
    pub(crate) authority_key: String,
    /// The key that tokens of service accounts are signed with, as PEM.
    pub(crate) accounts_key: String,
    /// The token that opens everything.
    pub(crate) token: String,
    /// Where it listened last.
    pub(crate) port: Option<u16>,
}

/// Where an identity is kept.
#[derive(Clone, Debug)]
pub(crate) struct Passport {
    path: PathBuf,
}

// === impl Passport ===

impl Passport {
    pub(crate) fn of(dir: &DataDir) -> Self {
        Self {
            path: dir.path.join("identity.json"),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The identity that was kept, if there is one.
    pub(crate) fn read(&self) -> Result<Option<Identity>, OpenError> {
        let text = match fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(refused(&self.path)(error)),
        };
        let identity = serde_json::from_slice(&text).map_err(|error| OpenError::Damaged {
            path: self.path.clone(),
            offset: 0,
            why: error.to_string(),
        })?;
        Ok(Some(identity))
    }

    pub(crate) fn write(&self, identity: &Identity) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(identity)?;
        replace(&self.path, |file| file.write_all(&text))
    }
}
