//! Programs in Java, each in a folder with what it depends on: made once per machine, outside the repository.
//!
//! What is installed is pinned by the program's `pom.xml`. Must not know what the program does.

use std::path::Path;
use std::process::Command;

use crate::skip::{Missing, say, skipped};
use crate::toolchain::{cache_root, key, once_per_machine};

/// What makes up a program.
const FILES: [&str; 2] = ["pom.xml", "Main.java"];

/// Copies what a `pom.xml` names, and what that needs.
const COPY: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";

/// What `java` has to be told to run the `Main` of a folder; `test` is recorded as skipped where there is no Java or Maven.
///
/// # Panics
///
/// Where the dependencies cannot be had for another reason.
#[must_use]
pub fn java_program_for(test: &str, sources: &Path) -> Option<[String; 3]> {
    for program in ["mvn", "javac"] {
        if let Err(error) = Command::new(program).arg("-version").output() {
            let missing = Missing {
                what: "Java".into(),
                detail: format!("could not run `{program}`: {error}"),
            };
            skipped(test, &missing);
            return None;
        }
    }
    let files = FILES.map(|name| sources.join(name));
    let name = sources.file_name().unwrap_or_default().to_string_lossy();
    let hash = key(&files).unwrap_or_else(|error| panic!("{name}: {error}"));
    let home = cache_root().join(format!("{name}-{hash}"));
    let path = format!("{0}/lib/*:{0}/classes", home.display());
    let install = || {
        say(&format!("installing what {name} needs, once per machine"));
        for (file, source) in FILES.iter().zip(&files) {
            std::fs::copy(source, home.join(file)).map_err(|error| error.to_string())?;
        }
        run(&home, &["mvn", "-q", "-B", COPY, "-DoutputDirectory=lib"])?;
        run(
            &home,
            &[
                "javac",
                "-nowarn",
                "-cp",
                &path,
                "-d",
                "classes",
                "Main.java",
            ],
        )?;
        std::fs::write(home.join("complete"), "").map_err(|error| error.to_string())
    };
    let unusable = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    once_per_machine(&home, &home.join("complete"), unusable, install)
        .unwrap_or_else(|error| panic!("{error}"));
    Some(["-cp".to_owned(), path, "Main".to_owned()])
}

fn run(folder: &Path, words: &[&str]) -> Result<(), String> {
    let run = Command::new(words[0])
        .args(&words[1..])
        .current_dir(folder)
        .output()
        .map_err(|error| error.to_string())?;
    if run.status.success() {
        return Ok(());
    }
    let said = [run.stdout, run.stderr].concat();
    Err(String::from_utf8_lossy(&said).into_owned())
}
