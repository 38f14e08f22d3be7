//! The identity of a server for its clients: its certificate authority, its token and its port.
//!
//! Guarantees that a printed kubeconfig stays valid as long as the data directory exists, and that an identity is read as it was
//! written or not at all. Must not depend on TLS.

use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{DataDir, OpenError, refused, replace};

/// The properties by which clients recognize a server.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Identity {
    /// The certificate of the authority, as PEM.
    pub(crate) authority: String,
    /// The key of the authority, as PEM.
    pub(crate) authority_key: String,
    /// The key that signs the tokens of service accounts, as PEM.
    pub(crate) accounts_key: String,
    /// The administrator's token.
    pub(crate) token: String,
    /// The port on which the server listened last.
    pub(crate) port: Option<u16>,
}

/// The file format of an identity.
#[derive(Debug, Deserialize, Serialize)]
struct Sealed<I> {
    /// The checksum of the identity's compact JSON, in hexadecimal.
    checksum: String,
    #[serde(flatten)]
    identity: I,
}

/// The file of an identity.
#[derive(Clone, Debug)]
pub(crate) struct Passport {
    path: PathBuf,
}

/// Returns the path of the identity file.
pub(super) fn file(dir: &Path) -> PathBuf {
    dir.join("identity.json")
}

// === impl Identity ===

impl fmt::Debug for Identity {
    /// Omits keys and the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

// === impl Passport ===

impl Passport {
    pub(crate) fn of(dir: &DataDir) -> Self {
        Self {
            path: file(&dir.path),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the stored identity, if there is one.
    pub(crate) fn read(&self) -> Result<Option<Identity>, OpenError> {
        let text = match fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(refused(&self.path)(error)),
        };
        let damaged = |why: String| OpenError::Damaged {
            path: self.path.clone(),
            offset: 0,
            why,
        };
        let Sealed::<Identity> { identity, .. } =
            serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        // This detects every change of the file, even of whitespace.
        if sealed(&identity).map_err(refused(&self.path))? != text {
            return Err(damaged("the checksum is another one".to_owned()));
        }
        Ok(Some(identity))
    }

    pub(crate) fn write(&self, identity: &Identity) -> io::Result<()> {
        let text = sealed(identity)?;
        replace(&self.path, |file| file.write_all(&text))
    }
}

/// Returns the content of an identity file.
fn sealed(identity: &Identity) -> io::Result<Vec<u8>> {
    let checksum = crc32fast::hash(&serde_json::to_vec(identity)?);
    Ok(serde_json::to_vec_pretty(&Sealed {
        checksum: format!("{checksum:08x}"),
        identity,
    })?)
}
