//! The snapshot: a file with all objects, which replaces the earlier changes.
//!
//! Guarantees that the file is replaced completely or stays as it was. Must not depend on concurrent changes of objects.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{FORMAT, Head, Line, frame, replace, write_put};
use crate::kind::Resource;
use crate::object::Stored;

/// The number of objects per frame.
const TOGETHER: usize = 64;

pub(super) fn file(dir: &Path) -> PathBuf {
    dir.join("snapshot")
}

/// Writes a snapshot; `next` is the number of the file with the later changes.
pub(super) fn make(
    dir: &Path,
    revision: u64,
    next: u64,
    contents: &[(Arc<Resource>, Vec<Arc<Stored>>)],
) -> io::Result<()> {
    replace(&file(dir), |file| {
        let mut text = Vec::new();
        let head = Head {
            format: FORMAT,
            revision,
            next: Some(next),
        };
        frame::write_value(&mut text, &head);
        file.write_all(&text)?;
        for (of, objects) in contents {
            for objects in objects.chunks(TOGETHER) {
                text.clear();
                frame::write(&mut text, |text| write_objects(text, of, objects));
                file.write_all(&text)?;
            }
        }
        Ok(())
    })
}

fn write_objects(text: &mut Vec<u8>, of: &Resource, objects: &[Arc<Stored>]) {
    for (at, stored) in objects.iter().enumerate() {
        text.push(if at == 0 { b'[' } else { b',' });
        let line = Line {
            revision: stored.slim.revision,
            of: of.to_string(),
            put: None,
            remove: None,
        };
        write_put(text, &line, stored);
    }
    text.push(b']');
}
