//! Programs in Java. The program's `pom.xml` pins the dependencies. Must not know the purpose of the program.

use std::path::Path;

use crate::fetched::{Recipe, program_for};

/// Copies the dependencies in `pom.xml`, including transitive ones.
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

/// Returns the arguments with which `java` runs the class `Main` of a folder; records `test` as skipped if Java or Maven is missing.
///
/// # Panics
///
/// Panics if the installation of the dependencies fails for another reason.
#[must_use]
pub fn java_program_for(test: &str, sources: &Path) -> Option<[String; 3]> {
    let home = program_for(test, sources, RECIPE)?;
    let path = format!("{0}/lib/*:{0}/classes", home.display());
    Some(["-cp".to_owned(), path, "Main".to_owned()])
}
