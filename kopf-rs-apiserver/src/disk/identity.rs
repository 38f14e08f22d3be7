//! Who a server is to its clients: the authority of its certificates, its token, its port.
//!
//! Promise: a kubeconfig that was printed stays valid for as long as the data directory lives; an identity is read as it was
//! written, or not at all. Must not know TLS.

use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{DataDir, OpenError, refused, replace};

/// What clients know a server by.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize)]
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

/// An identity as it is written.
#[derive(Debug, Deserialize, Serialize)]
struct Sealed<I> {
    /// Of the compact JSON of the identity, in hexadecimal.
    checksum: String,
    #[serde(flatten)]
    identity: I,
}

/// Where an identity is kept.
#[derive(Clone, Debug)]
pub(crate) struct Passport {
    path: PathBuf,
}

/// The file that says who the server is.
pub(super) fn file(dir: &Path) -> PathBuf {
    dir.join("identity.json")
}

// === impl Identity ===

impl fmt::Debug for Identity {
    /// Without keys and token.
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

    /// The identity that was kept, if there is one.
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
        // Whatever else was changed, spaces too, would be written otherwise.
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

/// The file of an identity.
fn sealed(identity: &Identity) -> io::Result<Vec<u8>> {
    let checksum = crc32fast::hash(&serde_json::to_vec(identity)?);
    Ok(serde_json::to_vec_pretty(&Sealed {
        checksum: format!("{checksum:08x}"),
        identity,
    })?)
}
