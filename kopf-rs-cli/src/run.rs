//! `kopf-rs run`: finds the sources, builds them, and becomes the operator.

#[cfg(test)]
mod sharing;

use std::error::Error;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::args::Run;
use crate::become_program::become_program;
use crate::cache::cache;
use crate::cargo::{self, Build, CargoError};
use crate::kopf::{Kopf, SOURCE};
use crate::runner::{Runner, WriteError};
use crate::script::Script;
use crate::source::{Program, Source, SourceError};
use crate::terminal;
use crate::workspace::{Inherited, Workspace};

/// Sources that cannot be combined into one operator.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error(
        "{0} is a program of its own, and cannot be joined with other paths\n  run it alone, or move its handlers into a library"
    )]
    NotAlone(String),
    #[error(
        "the paths depend on different versions of kopf-rs, and each version would collect its own handlers:\n  {one}\n  {other}\n  \
         make them use the same one"
    )]
    TwoKopfs { one: String, other: String },
    #[error(
        "{0} is a single file, and --observe runs the tests of a crate\n  expected the folder of a crate; to begin one: kopf-rs new NAME"
    )]
    NotTested(String),
    #[error("{}: no kopf-rs library there\n  expected the folder `kopf-rs` of its repository, with the Cargo.toml of the package `kopf-rs`", .0.display())]
    NoKopfThere(PathBuf),
}

/// Where a build takes place, and which settings it inherits.
struct Surroundings {
    /// The folder in which cargo runs.
    folder: PathBuf,
    target: PathBuf,
    inherited: Inherited,
}

/// An operator that is ready to be built.
pub(crate) struct Prepared {
    build: Build,
    /// The folder for the operator's own files.
    folder: PathBuf,
    network: Vec<OsString>,
}

/// A built operator.
#[derive(Debug)]
pub(crate) struct Operator {
    pub(crate) program: PathBuf,
    /// The folder for its own files.
    pub(crate) folder: PathBuf,
}

/// Builds and runs the operator. Returns only if the operator cannot be started or, on systems other than Unix, after
/// it has ended.
pub(crate) fn run(run: &Run, operator_args: &[OsString]) -> Result<ExitCode, Box<dyn Error>> {
    become_program(prepare(run)?.build()?.command(operator_args))
}

/// Returns the paths of the command line, or this folder.
pub(crate) fn paths(run: &Run) -> Vec<PathBuf> {
    if run.paths.is_empty() { vec![PathBuf::from(".")] } else { run.paths.clone() }
}

/// Finds the sources at the paths.
pub(crate) fn sources(run: &Run) -> Result<Vec<Source>, SourceError> {
    let package = run.build.package.as_deref();
    let offline: Vec<OsString> = network_args(run);
    paths(run).iter().map(|path| Source::find(path, package, &offline)).collect()
}

/// Builds the program for tasks that need no handlers, and becomes it.
pub(crate) fn do_task(args: &[OsString]) -> Result<ExitCode, Box<dyn Error>> {
    let folder = PathBuf::from(".");
    let kopf = Kopf::own();
    let around = alone(&folder, &kopf);
    let runner = Runner::of_tasks(&around.target, around.inherited.clone(), &kopf);
    if !around.target.join("debug").join(&runner.name).is_file() {
        eprintln!(
            "Building what speaks with the cluster: this takes some minutes where no operator was built yet, once."
        );
    }
    let build = generate(&runner, "what speaks with the cluster".to_owned(), around, Vec::new())?;
    let mut command = Command::new(build.run()?);
    command.args(args);
    become_program(command)
}

/// Finds the sources, and writes the generated crate if they need one.
pub(crate) fn prepare(run: &Run) -> Result<Prepared, Box<dyn Error>> {
    let network = network_args(run);
    let sources = sources(run)?;
    let what = name_of(run);
    let (build, folder) = match &sources[..] {
        [Source::Program(program)] => program_build(program, run, what),
        sources => runner_build(sources, run, what)?,
    };
    Ok(Prepared { build, folder, network })
}

/// Returns the names of the built folders and files, for the user.
pub(crate) fn name_of(run: &Run) -> String {
    paths(run).iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

fn program_build(program: &Program, run: &Run, what: String) -> (Build, PathBuf) {
    let target = program.workspace.target_directory.clone();
    let args = crate_args(run);
    let folder = target.join("kopf-run").join(&program.package.name);
    let build = Build {
        what,
        manifest: program.package.manifest_path.clone(),
        program: program.target.clone(),
        folder: program.package.folder().to_owned(),
        target,
        args,
        stand_ins: Vec::new(),
    };
    (build, folder)
}

fn runner_build(sources: &[Source], run: &Run, what: String) -> Result<(Build, PathBuf), Box<dyn Error>> {
    if let Some(program) = sources.iter().find(|source| matches!(source, Source::Program(_))) {
        return Err(RunError::NotAlone(program.name()).into());
    }
    let kopf = the_kopf(sources, run)?;
    let around = surroundings(&sources[0], &kopf);
    if run.build.network.wants_lock() {
        for source in sources {
            if let Source::Library(library) = source {
                let manifest = &library.package.manifest_path;
                cargo::check_lock(manifest, run.build.network.is_offline())?;
            }
        }
    }
    let features = &run.build.features;
    let runner = Runner::new(sources, &around.target, around.inherited.clone(), &kopf, features);
    if run.flags.log.verbose || run.flags.log.debug {
        terminal::say(&format!("Building {what} in {}", runner.folder.display()));
    }
    let build = generate(&runner, what, around, build_args(run))?;
    Ok((build, runner.folder))
}

/// Writes the generated crate, and returns its build.
fn generate(
    runner: &Runner,
    what: String,
    around: Surroundings,
    args: Vec<OsString>,
) -> Result<Build, WriteError> {
    runner.write()?;
    Ok(Build {
        what,
        manifest: runner.folder.join("Cargo.toml"),
        program: runner.name.clone(),
        folder: around.folder,
        target: around.target,
        args,
        stand_ins: runner.stand_ins.clone(),
    })
}

/// Returns the one version of kopf-rs that all parts are linked with.
fn the_kopf(sources: &[Source], run: &Run) -> Result<Kopf, RunError> {
    let mut libraries = sources.iter().filter_map(|source| match source {
        Source::Library(library) => Some((library, Kopf::of(&library.kopf))),
        _ => None,
    });
    let Some((_, first)) = libraries.next() else {
        return kopf_of_scripts(sources, run);
    };
    match libraries.find(|(_, kopf)| *kopf != first) {
        Some((_, other)) => Err(RunError::TwoKopfs {
            one: first.0.to_string().trim().to_owned(),
            other: other.0.to_string().trim().to_owned(),
        }),
        None => Ok(first),
    }
}

/// Returns the kopf-rs that a file names, or else the requested folder, or else the checkout of this program, or else
/// its version.
fn kopf_of_scripts(sources: &[Source], run: &Run) -> Result<Kopf, RunError> {
    let named = sources.iter().find_map(|source| match source {
        Source::Script(script) => kopf_of_script(script),
        _ => None,
    });
    if let Some(named) = named {
        return Ok(named);
    }
    kopf_of_folder(run.build.kopf_path.as_deref())
}

/// Returns the kopf-rs in the requested folder, or else the checkout of this program, or else its version.
pub(crate) fn kopf_of_folder(folder: Option<&Path>) -> Result<Kopf, RunError> {
    let Some(folder) = folder else {
        return Ok(Kopf::own());
    };
    let real = folder.canonicalize().ok();
    let real = real.filter(|real| is_kopf(&real.join("Cargo.toml")));
    real.map(|real| Kopf::at(&real)).ok_or_else(|| RunError::NoKopfThere(folder.to_owned()))
}

fn is_kopf(manifest: &Path) -> bool {
    let text = std::fs::read_to_string(manifest).ok();
    let manifest = text.and_then(|text| text.parse::<toml::Table>().ok());
    manifest.is_some_and(|it| it.get("package").and_then(|it| it.get("name")?.as_str()) == Some("kopf-rs"))
}

fn kopf_of_script(script: &Script) -> Option<Kopf> {
    let dependencies = script.table("dependencies");
    match dependencies.get("kopf-rs")? {
        toml::Value::String(version) => Some(Kopf::version(version)),
        toml::Value::Table(table) => {
            let table = table.clone().into_iter();
            let source: toml::Table = table.filter(|(key, _)| SOURCE.contains(&key.as_str())).collect();
            // A file may name features only.
            (!source.is_empty()).then_some(Kopf(source))
        }
        _ => None,
    }
}

fn surroundings(first: &Source, kopf: &Kopf) -> Surroundings {
    match first.package() {
        Ok((package, workspace)) => within(workspace, package.folder(), kopf),
        // Ignores any crate in a parent folder, since a single file names its own dependencies.
        Err(script) => alone(script.file.parent().unwrap_or(Path::new("/")), kopf),
    }
}

/// The surroundings of a crate or a file in a workspace: its patches, its profiles, its versions, and its custom
/// target folder.
fn within(workspace: &Workspace, folder: &Path, kopf: &Kopf) -> Surroundings {
    let own = &workspace.target_directory;
    let is_chosen = *own != workspace.root.join("target");
    let shared = shared_target(kopf).filter(|_| !is_chosen);
    Surroundings {
        folder: folder.to_owned(),
        target: shared.unwrap_or_else(|| own.clone()),
        inherited: Inherited::of(&workspace.root, lock_of(kopf)),
    }
}

/// The surroundings of a single file.
fn alone(folder: &Path, kopf: &Kopf) -> Surroundings {
    let variables = ["CARGO_TARGET_DIR", "CARGO_BUILD_TARGET_DIR"];
    let chosen = variables.into_iter().find_map(std::env::var_os);
    let chosen = chosen.and_then(|target| std::path::absolute(target).ok());
    let chosen = chosen.or_else(|| configured_target(folder));
    let target = chosen.or_else(|| shared_target(kopf));
    Surroundings {
        folder: folder.to_owned(),
        target: target.unwrap_or_else(|| folder.join("target")),
        inherited: Inherited::none(lock_of(kopf)),
    }
}

/// Returns the target folder that all builds with the same kopf-rs share, so that it is built only once: the one of
/// its checkout, or else one in the user's cache.
pub(crate) fn shared_target(kopf: &Kopf) -> Option<PathBuf> {
    let of_checkout = lock_of(kopf).map(|lock| lock.with_file_name("target"));
    of_checkout.or_else(|| Some(cache()?.join("target")))
}

/// Returns the lock file of a kopf-rs checkout, with tested versions.
pub(crate) fn lock_of(kopf: &Kopf) -> Option<PathBuf> {
    let folder = kopf.0.get("path").and_then(toml::Value::as_str)?;
    let lock = Path::new(folder).with_file_name("Cargo.lock");
    lock.is_file().then_some(lock)
}

/// Returns `build.target-dir` from cargo's configuration for a folder.
fn configured_target(folder: &Path) -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let above = folder.ancestors().map(|above| above.join(".cargo"));
    above.chain(home).find_map(|cargo| {
        // Of both, cargo reads the first.
        let files = ["config", "config.toml"].map(|name| cargo.join(name));
        let text = files.iter().find_map(|file| std::fs::read_to_string(file).ok())?;
        let table: toml::Table = text.parse().ok()?;
        let target = table.get("build")?.get("target-dir")?.as_str()?;
        Some(cargo.parent()?.join(target))
    })
}

fn network_args(run: &Run) -> Vec<OsString> {
    let offline = run.build.network.is_offline();
    offline.then(|| "--offline".into()).into_iter().collect()
}

fn build_args(run: &Run) -> Vec<OsString> {
    let mut args = network_args(run);
    args.extend(run.build.release.then(|| "--release".into()));
    args
}

/// Returns the arguments for a crate of the user, rather than a generated one.
pub(crate) fn crate_args(run: &Run) -> Vec<OsString> {
    let mut args = build_args(run);
    args.extend(run.build.network.wants_lock().then(|| "--locked".into()));
    if !run.build.features.features.is_empty() {
        args.push("--features".into());
        args.push(run.build.features.features.join(",").into());
    }
    if run.build.features.no_default_features {
        args.push("--no-default-features".into());
    }
    args
}

// === impl Prepared ===

impl Prepared {
    /// Builds the operator.
    pub(crate) fn build(self) -> Result<Operator, CargoError> {
        Ok(Operator { program: self.build.run()?, folder: self.folder })
    }

    /// Returns the folders of the packages on this machine that the operator is built from, except generated ones.
    pub(crate) fn packages(&self) -> Result<Vec<PathBuf>, CargoError> {
        let mut packages = cargo::local_packages(&self.build.manifest, &self.network)?;
        let generated = self.build.target.join("kopf-run");
        packages.retain(|package| !package.starts_with(&generated));
        Ok(packages)
    }
}

// === impl Operator ===

impl Operator {
    /// Returns the command that runs it.
    pub(crate) fn command(&self, args: &[OsString]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).env("KOPF_RS_RUN_DIR", &self.folder);
        command
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_single_file_takes_nothing_from_a_crate_above_it_and_builds_where_cargo_would() {
        let name = format!("kopf-rs-around-{}", std::process::id());
        let root = std::env::temp_dir().join(name);
        let folder = root.join("crate/below");
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("crate/below/op.rs", "");
        write(
            "crate/Cargo.toml",
            "[workspace]\n[profile.dev]\nopt-level = 3\n[patch.crates-io]\nserde.path = '/none'\n",
        );
        let script = Script::read(&folder.join("op.rs"), Path::new("op.rs")).unwrap();
        let around = surroundings(&Source::Script(script), &Kopf::version("=0.1.0"));
        assert_eq!(around.folder, folder);
        assert_eq!(around.inherited, Inherited::none(None));
        write(".cargo/config.toml", "build.target-dir = 'above'");
        assert_eq!(configured_target(&folder), Some(root.join("above")));
        write("crate/.cargo/config.toml", "build.jobs = 1");
        assert_eq!(configured_target(&folder), Some(root.join("above")));
        write("crate/.cargo/config.toml", "build.target-dir = '/else/where'");
        assert_eq!(configured_target(&folder), Some("/else/where".into()));
        write("crate/.cargo/config", "build.target-dir = 'old'");
        assert_eq!(configured_target(&folder), Some(root.join("crate/old")));
        fs::remove_dir_all(&root).unwrap();
    }
}
