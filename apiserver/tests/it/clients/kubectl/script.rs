//! The script format.
//!
//! A malformed script fails with its name. Must not know how commands are run.

use std::fmt;
use std::path::{Path, PathBuf};

/// A file of commands.
#[derive(Debug)]
pub(super) struct Script {
    /// The file name, without its extension.
    pub(super) name: String,
    /// The files in the working folder of the commands, with their texts.
    pub(super) files: Vec<(String, String)>,
    pub(super) steps: Vec<Step>,
}

/// A step that both sides run.
#[derive(Debug)]
pub(super) enum Step {
    /// A command.
    Run(Run),
    /// Starts a command that continues to run under a name.
    Start { name: String, command: String },
    /// Waits until the command with this name has printed this number of lines.
    Await { name: String, lines: usize },
    /// Waits like `Await`, compares the lines, and ends the command.
    Take { name: String, lines: usize },
}

/// A command, and its expected result with the real server.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// The shell command.
    pub(super) command: String,
    /// The exit code.
    pub(super) exit: i32,
    /// Text that the output must contain.
    pub(super) says: Option<String>,
    /// Repeats the command on both sides until it prints this, and then compares.
    pub(super) until: Option<String>,
}

// === impl Script ===

impl Script {
    /// Returns all scripts of a folder, sorted by name.
    pub(super) fn read_all(folder: &Path) -> Vec<Self> {
        let entries = std::fs::read_dir(folder).expect("the scripts' folder is readable");
        let paths = entries.map(|entry| entry.expect("a folder entry").path());
        let mut paths: Vec<PathBuf> = paths
            .filter(|path| path.extension().is_some_and(|it| it == "txt"))
            .collect();
        paths.sort();
        paths.iter().map(|path| Self::read(path)).collect()
    }

    fn read(path: &Path) -> Self {
        let name = path.file_stem().expect("a file name").to_string_lossy();
        let text = std::fs::read_to_string(path).expect("a script is readable");
        let text = text.replace("${ns}", &namespace(&name));
        let mut sections = text.split("\n--- ").skip(1).map(|section| {
            let (title, text) = section.split_once('\n').unwrap_or((section, ""));
            (
                title.to_owned(),
                format!("{}\n", text.trim_end_matches('\n')),
            )
        });
        let mut files: Vec<(String, String)> = sections.by_ref().collect();
        let (title, lines) = files.pop().unwrap_or_default();
        assert_eq!(title, "steps", "{name} ends with its steps");
        let mut steps = Vec::new();
        for line in lines.lines() {
            read_line(line, &mut steps)
                .unwrap_or_else(|| panic!("{name}: a line that means nothing: {line}"));
        }
        Self {
            name: name.into_owned(),
            files,
            steps,
        }
    }

    /// Returns the namespace of the commands.
    pub(super) fn namespace(&self) -> String {
        namespace(&self.name)
    }
}

fn namespace(script: &str) -> String {
    format!("kubectl-{script}")
}

/// Parses a line into steps; returns `None` for an invalid line.
fn read_line(line: &str, steps: &mut Vec<Step>) -> Option<()> {
    let line = line.trim_end();
    if line.is_empty() || line.starts_with('#') {
        return Some(());
    }
    if let Some(command) = line.strip_prefix("$ ") {
        steps.push(Step::Run(Run {
            command: command.to_owned(),
            ..Run::default()
        }));
        return Some(());
    }
    let (word, rest) = line.trim_start().split_once(' ')?;
    if !line.starts_with(' ') {
        let (name, lines) = rest.split_once(' ')?;
        let (name, lines) = (name.to_owned(), lines.parse().ok()?);
        steps.push(match word {
            "await" => Step::Await { name, lines },
            "take" => Step::Take { name, lines },
            _ => return None,
        });
        return Some(());
    }
    let Some(Step::Run(run)) = steps.last_mut() else {
        return None;
    };
    match word {
        "exit" => run.exit = rest.parse().ok()?,
        "says" => run.says = Some(rest.to_owned()),
        "until" => run.until = Some(rest.to_owned()),
        "as" => {
            let (name, command) = (rest.to_owned(), std::mem::take(&mut run.command));
            *steps.last_mut()? = Step::Start { name, command };
        }
        _ => return None,
    }
    Some(())
}

// === impl Step ===

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(run) => f.write_str(&run.command),
            Self::Start { name, command } => write!(f, "{name}: {command}"),
            Self::Await { name, lines } | Self::Take { name, lines } => {
                write!(f, "{lines} lines of {name}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Run, Step, read_line};

    #[test]
    fn lines_belong_to_the_command_above() {
        let mut steps = Vec::new();
        for line in [
            "# why",
            "$ a b",
            "  exit 1",
            "  says no",
            "$ c",
            "  as w",
            "take w 2",
        ] {
            assert_eq!(read_line(line, &mut steps), Some(()), "{line}");
        }
        let [
            Step::Run(Run {
                command,
                exit: 1,
                says: Some(says),
                ..
            }),
            Step::Start { .. },
            Step::Take { lines: 2, .. },
        ] = steps.as_slice()
        else {
            panic!("{steps:?}")
        };
        assert_eq!((command.as_str(), says.as_str()), ("a b", "no"));
        assert_eq!(read_line("  exit two", &mut steps), None);
        assert_eq!(read_line("take w", &mut steps), None);
    }
}
