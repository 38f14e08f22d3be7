//! The size of a small operator: `myapp/ours`, built with cargo's default release profile and stripped.
//!
//! Must not know its parts.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// Returns the size in bytes of the binary that was built together with this program.
pub fn size() -> Result<f64> {
    let built = std::env::current_exe()?.with_file_name("myapp-ours");
    ensure!(built.is_file(), "{} is not built: `./test costs` does it", built.display());
    let stripped = built.with_extension("stripped");
    let strip = Command::new("strip").arg("-o").arg(&stripped).arg(&built).status();
    let strip =
        strip.context("strip is missing: install it (apt-get install binutils) and run this again")?;
    ensure!(strip.success(), "strip has failed");
    #[expect(clippy::cast_precision_loss, reason = "programs have less than 2^52 bytes")]
    let size = std::fs::metadata(&stripped)?.len() as f64;
    Ok(size)
}
