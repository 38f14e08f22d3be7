//! Programs in Java. What is installed is pinned by the program's `pom.xml`. Must not know what the program does.

use std::path::Path;

use crate::fetched::{Recipe, program_for};

/// Copies what a `pom.xml` names, and what that needs.
const COPY: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";

const RECIPE: Recipe<'_> = Recipe {
    language: "Java",
    programs: &[["mvn", "-version"], ["javac", "-version"]],
    files: &["pom.xml", "Main.java"],
    steps: &[
        ("mvn", &["-q", "-B", COPY, "-DoutputDirectory=lib"]),
        (
            "javac",
            &["-nowarn", "-cp", "lib/*", "-d", "classes", "Main.java"],
        ),
    ],
};

/// What `java` has to be told to run the `Main` of a folder; `test` is recorded as skipped where there is no Java or Maven.
///
/// # Panics
///
/// Where the dependencies cannot be had for another reason.
#[must_use]
pub fn java_program_for(test: &str, sources: &Path) -> Option<[String; 3]> {
    let home = program_for(test, sources, RECIPE)?;
    let path = format!("{0}/lib/*:{0}/classes", home.display());
    Some(["-cp".to_owned(), path, "Main".to_owned()])
}
