//! `kopf-rs new`: creates the crate, or the single file, of a new operator.
//!
//! Like `cargo new`, it overwrites nothing, and a failure leaves nothing behind. The created files are the user's own: no later command
//! generates them again.

pub(crate) mod names;
pub(crate) mod templates;

use std::error::Error;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::slice;

use kopf_rs_flags::shell_word;
use toml::Table;

use crate::args::New;
use crate::cargo::{self, CargoError};
use crate::kopf::Kopf;
use crate::new::names::{Kind, Name, NameError};
use crate::new::templates::Operator;
use crate::run;
use crate::workspace::Inherited;

/// Why nothing is created.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NewError {
    #[error("{} exists and is not empty\n  choose another folder: `kopf-rs new` overwrites nothing", .0.display())]
    NotEmpty(PathBuf),
    #[error("{} exists\n  choose another name: `kopf-rs new` overwrites nothing", .0.display())]
    Exists(PathBuf),
    #[error("{} ends in no name\n  expected a folder such as my-operator, or the option --name", .0.display())]
    NoName(PathBuf),
    #[error("{} is the name of a file\n  for an operator in one file: kopf-rs new {} --single-file", .0.display(), shell_word(.0))]
    File(PathBuf),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(
        "{} cannot be written: {error}\n  expected a path in a folder that you may change: correct the path, or choose another one",
        .path.display()
    )]
    Write { path: PathBuf, error: io::Error },
}

impl NewError {
    /// Returns whether the input is invalid, as opposed to a failed operation.
    pub(crate) fn is_wrong_usage(&self) -> bool {
        !matches!(self, Self::Write { .. })
    }
}

/// Creates the operator, and prints the commands to run next.
pub(crate) fn new(args: &New) -> Result<(), Box<dyn Error>> {
    if args.single_file { Ok(new_file(args)?) } else { new_crate(args) }
}

fn new_file(args: &New) -> Result<(), NewError> {
    let shown = args.path.with_extension("rs");
    let name = name_of(&shown, args)?;
    let kind = args.kind.clone().map_or_else(|| Kind::named_after(&name), Ok)?;
    if shown.exists() {
        return Err(NewError::Exists(shown));
    }
    let operator = Operator { name, kind, reconcile: args.reconcile };
    let mut written = Written::default();
    written.file(&shown, &operator.single_file(&shown))?;
    format(slice::from_ref(&shown));
    written.keep();
    eprint!("{}", operator.next_for_file(&shown));
    Ok(())
}

fn new_crate(args: &New) -> Result<(), Box<dyn Error>> {
    let shown = &args.path;
    if shown.extension().is_some_and(|ending| ending == "rs") {
        return Err(NewError::File(shown.clone()).into());
    }
    let name = name_of(shown, args)?;
    let kind = args.kind.clone().map_or_else(|| Kind::named_after(&name), Ok).map_err(NewError::from)?;
    check_folder(shown)?;
    let kopf = run::kopf_of_folder(args.kopf_path.as_deref())?;
    let operator = Operator { name, kind, reconcile: args.reconcile };
    let mut written = Written::default();
    written.folder(shown)?;
    let mut sources = Vec::new();
    for (below, text) in operator.crate_files(&kopf) {
        let path = shown.join(below);
        written.file(&path, &text)?;
        sources.extend(path.extension().is_some_and(|ending| ending == "rs").then_some(path));
    }
    format(&sources);
    let trouble = share_build(shown, &kopf, &mut written)?;
    written.keep();
    init_git(shown);
    if let Some(trouble) = trouble {
        eprintln!("warning: the crate is created, but not ready to build: {trouble}");
    }
    eprint!("{}", operator.next_for_crate(shown));
    Ok(())
}

/// Returns the name that the user has chosen, or the last part of the path.
fn name_of(path: &Path, args: &New) -> Result<Name, NewError> {
    if let Some(name) = &args.name {
        return Ok(Name::new(name)?);
    }
    // Such as `.`
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let last = if args.single_file { real.file_stem() } else { real.file_name() };
    let last = last.ok_or_else(|| NewError::NoName(path.to_owned()))?;
    Ok(Name::new(&last.to_string_lossy())?)
}

/// Accepts a folder without files, also a new git repository.
fn check_folder(folder: &Path) -> Result<(), NewError> {
    if folder.symlink_metadata().is_err() {
        return Ok(());
    }
    let Ok(mut entries) = folder.read_dir() else {
        return Err(NewError::Exists(folder.to_owned()));
    };
    let is_file = |entry: io::Result<fs::DirEntry>| entry.is_ok_and(|entry| entry.file_name() != ".git");
    if entries.any(is_file) { Err(NewError::NotEmpty(folder.to_owned())) } else { Ok(()) }
}

/// Adapts line breaks to the lengths of the names, as `cargo new` does. Without rustfmt, the files stay valid.
pub(crate) fn format(sources: &[PathBuf]) {
    let mut command = Command::new("rustfmt");
    command.args(["--edition", "2024"]).args(sources);
    let _formatted = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
}

/// Gives the crate the versions that the kopf-rs checkout is tested with, and the target folder and the profile of `kopf-rs run`, so that all
/// operators of this machine share one build of kopf-rs. Leaves a member of a workspace as it is. Returns cargo's complaint about the folder,
/// such as a workspace above it that excludes it.
fn share_build(folder: &Path, kopf: &Kopf, written: &mut Written) -> Result<Option<CargoError>, NewError> {
    // Cargo runs in the folder, so a relative path would lead elsewhere.
    let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let workspace = match cargo::metadata(&real.join("Cargo.toml"), &["--offline".into()]) {
        Ok(workspace) => workspace,
        // The first build reports a missing cargo.
        Err(CargoError::Missing) => return Ok(None),
        Err(error) => return Ok(Some(error)),
    };
    if real != workspace.root {
        return Ok(None);
    }
    let lock = run::lock_of(kopf).and_then(|lock| fs::read_to_string(lock).ok());
    if let Some(lock) = lock {
        written.file(&folder.join("Cargo.lock"), &lock)?;
    }
    let has_default_target = workspace.target_directory == real.join("target");
    if let Some(target) = run::shared_target(kopf).filter(|_| has_default_target) {
        written.file(&folder.join(".cargo/config.toml"), &cargo_config(&target))?;
    }
    Ok(None)
}

/// Returns cargo's settings for a crate that builds in this target folder.
fn cargo_config(target: &Path) -> String {
    let build = Table::from_iter([("target-dir".to_owned(), target.to_string_lossy().into_owned().into())]);
    let settings = [("build", build), ("profile", Inherited::none(None).profile)];
    let settings = Table::from_iter(settings.map(|(key, table)| (key.to_owned(), table.into())));
    format!(
        "# For this machine only, and not in git: one build of kopf-rs serves `cargo test` here and `kopf-rs run` everywhere.\n\
         # `cargo clean` would delete that build. Without this file, cargo builds in the folder `target`.\n{settings}"
    )
}

/// Makes the folder a git repository, unless it is inside of one or git is not installed.
fn init_git(folder: &Path) {
    let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    if real.ancestors().any(|above| above.join(".git").exists()) {
        return;
    }
    let mut command = Command::new("git");
    command.args(["init", "--quiet"]).current_dir(real);
    let _made = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
}

/// The created files and folders, in the order of their creation. They are removed at the end, unless they are to be kept.
#[derive(Debug, Default)]
pub(crate) struct Written(Vec<PathBuf>);

impl Written {
    /// Creates a folder, with those above it.
    fn folder(&mut self, path: &Path) -> Result<(), NewError> {
        if path.as_os_str().is_empty() || path.is_dir() {
            return Ok(());
        }
        if let Some(above) = path.parent() {
            self.folder(above)?;
        }
        fs::create_dir(path).map_err(|error| NewError::Write { path: path.to_owned(), error })?;
        self.0.push(path.to_owned());
        Ok(())
    }

    /// Creates a file, which must not exist, with the folders above it.
    pub(crate) fn file(&mut self, path: &Path, text: &str) -> Result<(), NewError> {
        if let Some(above) = path.parent() {
            self.folder(above)?;
        }
        let failed = |error| NewError::Write { path: path.to_owned(), error };
        let mut file = fs::File::create_new(path).map_err(failed)?;
        self.0.push(path.to_owned());
        file.write_all(text.as_bytes()).map_err(failed)
    }

    pub(crate) fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        for path in self.0.iter().rev() {
            let _removed = if path.is_dir() { fs::remove_dir(path) } else { fs::remove_file(path) };
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, FromArgMatches as _};

    use super::*;
    use crate::args::{Cli, Subcommand};

    /// A folder of one test, removed at its end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("kopf-rs-new-{name}-{}", std::process::id()));
            let _old = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn run(&self, path: &str, options: &[&str]) -> Result<(), String> {
            let path = self.0.join(path);
            let words = ["kopf-rs", "new", path.to_str().unwrap()];
            let matches = Cli::command().try_get_matches_from([&words, options].concat()).unwrap();
            let Subcommand::New(args) = Cli::from_arg_matches(&matches).unwrap().command else {
                panic!("not `new`");
            };
            new(&args).map_err(|error| error.to_string())
        }

        /// Returns all files, sorted, without those of git, and without cargo's settings, which depend on the machine.
        fn files(&self) -> Vec<String> {
            let mut files = Vec::new();
            let mut folders = vec![self.0.clone()];
            while let Some(folder) = folders.pop() {
                for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                    if entry.ends_with(".git") || entry.ends_with(".cargo") {
                        continue;
                    }
                    if entry.is_dir() {
                        folders.push(entry);
                    } else {
                        files.push(entry.strip_prefix(&self.0).unwrap().to_str().unwrap().to_owned());
                    }
                }
            }
            files.sort();
            files
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _removed = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_crate_has_all_of_its_files_and_a_repository() {
        let folder = Folder::new("crate");
        folder.run("my-op", &["--kind", "example.com/v1/Thing"]).unwrap();
        let files = [
            ".dockerignore",
            ".github/workflows/ci.yml",
            ".gitignore",
            "Cargo.lock",
            "Cargo.toml",
            "Dockerfile",
            "README.md",
            "sample.yaml",
            "src/lib.rs",
            "src/main.rs",
            "src/tests.rs",
        ];
        assert_eq!(folder.files(), files.map(|file| format!("my-op/{file}")));
        assert!(folder.0.join("my-op/.git").is_dir());
    }

    #[test]
    fn a_crate_shares_the_target_folder_and_the_profile_of_runs() {
        let config: Table = cargo_config(Path::new("/there/target")).parse().unwrap();
        assert_eq!(config["build"]["target-dir"].as_str(), Some("/there/target"));
        assert_eq!(config["profile"], Inherited::none(None).profile.into());
    }

    #[test]
    fn an_existing_folder_is_used_only_if_it_is_empty() {
        let folder = Folder::new("existing");
        fs::create_dir_all(folder.0.join("fresh/.git")).unwrap();
        folder.run("fresh", &[]).unwrap();
        fs::create_dir(folder.0.join("full")).unwrap();
        fs::write(folder.0.join("full/notes.txt"), "mine").unwrap();
        let refused = folder.run("full", &[]).unwrap_err();
        assert!(refused.contains("full exists and is not empty\n  choose another folder"), "{refused}");
        let refused = folder.run("full/notes.txt", &["--name", "notes"]).unwrap_err();
        assert!(refused.contains("notes.txt exists\n  choose another name"), "{refused}");
        let within = folder.files().into_iter().filter(|file| file.starts_with("full"));
        assert_eq!(within.collect::<Vec<_>>(), ["full/notes.txt"]);
    }

    #[test]
    fn a_failure_leaves_nothing_behind() {
        let folder = Folder::new("failure");
        let mut written = Written::default();
        written.folder(&folder.0.join("a/b")).unwrap();
        written.file(&folder.0.join("a/b/src/lib.rs"), "text").unwrap();
        fs::write(folder.0.join("mine"), "mine").unwrap();
        let refused = written.file(&folder.0.join("mine"), "text").unwrap_err();
        assert!(refused.to_string().contains("mine cannot be written"), "{refused}");
        drop(written);
        assert_eq!(folder.files(), ["mine"]);
        assert!(!folder.0.join("a").exists());
        assert_eq!(fs::read_to_string(folder.0.join("mine")).unwrap(), "mine");
    }

    #[test]
    fn no_repository_is_made_in_a_repository_and_no_lock_file_in_a_workspace() {
        let folder = Folder::new("within");
        fs::create_dir(folder.0.join(".git")).unwrap();
        fs::write(folder.0.join("Cargo.toml"), "[workspace]\nmembers = [\"*\"]\nresolver = \"3\"\n").unwrap();
        folder.run("member", &[]).unwrap();
        assert!(!folder.0.join("member/.git").exists());
        assert!(!folder.0.join("member/Cargo.lock").exists());
        assert!(folder.0.join("member/Cargo.toml").exists());
    }

    #[test]
    fn a_single_file_is_named_with_or_without_its_ending() {
        let folder = Folder::new("single");
        folder.run("one", &["--single-file"]).unwrap();
        folder.run("two.rs", &["--single-file", "--reconcile"]).unwrap();
        assert_eq!(folder.files(), ["one.rs", "two.rs"]);
        let refused = folder.run("one.rs", &["--single-file"]).unwrap_err();
        assert!(refused.contains("one.rs exists"), "{refused}");
        let refused = folder.run("three.rs", &[]).unwrap_err();
        assert!(refused.contains("three.rs --single-file"), "{refused}");
    }

    #[test]
    fn names_that_cannot_be_used_are_refused_before_anything_is_written() {
        let folder = Folder::new("names");
        for (path, options, said) in [
            ("My Op", &[][..], "`My Op` cannot be the name of an operator"),
            ("match", &[], "`match` cannot be the name of an operator: it is a keyword of Rust"),
            ("fine", &["--name", "serde"], "`serde` cannot be the name of an operator"),
            ("status", &[], "the kind `Status`"),
            ("/", &[], "ends in no name"),
        ] {
            let refused = folder.run(path, options).unwrap_err();
            assert!(refused.contains(said), "{refused}");
        }
        assert!(folder.files().is_empty());
    }
}
