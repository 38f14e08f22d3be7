//! Besides the runs: the build time, size and idle memory of a small but complete operator.
//!
//! The `MyApp` operators create a Pod per object. A clean debug build starts with an empty target folder and downloaded dependencies; idle
//! memory is read at rest after the first Pod.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result};
use serde_json::json;

use crate::bench_cluster::{API_VERSION, BenchCluster, collection, post};
use crate::contender::{Contender, build_release, cargo, release_binary, root, run};
use crate::observer::{Observer, Sign};
use crate::operator::Operator;
use crate::samples::{Run, log_of, real};
use crate::usage;

/// A server for the idle operators.
pub struct Stage {
    cluster: BenchCluster,
}

impl Stage {
    /// Builds the release binaries, and downloads the dependencies of the debug builds.
    pub async fn set(contenders: &[Contender]) -> Result<Self> {
        let packages: Vec<_> = contenders.iter().filter_map(|one| one.my_app()).collect();
        tokio::task::spawn_blocking(move || {
            let mut fetch = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
            let manifest = root().join("Cargo.toml");
            run(fetch.args(["fetch", "--quiet", "--locked", "--manifest-path"]).arg(manifest))?;
            packages.into_iter().try_for_each(build_release)
        })
        .await??;
        Ok(Self { cluster: BenchCluster::start().await? })
    }

    /// Runs one clean build and one idle operator.
    pub async fn run(&self, contender: Contender) -> Result<Run> {
        let package = contender.my_app().context("no MyApp operator")?;
        let mut run = tokio::task::spawn_blocking(move || clean_build(package)).await??;
        let binary = release_binary(package);
        run.set("size_mb", megabytes(&binary)?);
        match stripped(&binary) {
            Ok(size) => run.set("stripped_mb", size),
            Err(error) => {
                run.detail.insert("stripped".to_owned(), format!("{error:#}").into());
            }
        }
        run.set("idle_mib", self.idle(contender).await?);
        run.handled = 1;
        Ok(run)
    }

    async fn idle(&self, contender: Contender) -> Result<f64> {
        // Each run has its own empty namespace.
        let namespace = format!("idle-{}-{}", contender.slug(), std::time::UNIX_EPOCH.elapsed()?.as_millis());
        self.cluster.namespace(&namespace).await?;
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        let observer = Observer::start(&self.cluster.admin, &pods, Sign::Existence).await?;
        let command = contender.my_app_command(&namespace).context("no MyApp operator")?;
        let mut operator =
            Operator::spawn(command, &self.cluster.kubeconfig(), log_of("idle", contender.slug())?)?;
        let app = json!({
            "apiVersion": API_VERSION, "kind": "MyApp", "metadata": {"name": "example-app"},
            "spec": {"image": "nginx:latest", "banner": "hello"},
        });
        post(&self.cluster.admin, &collection(&namespace, "myapps"), &app).await?;
        observer.until(1, &mut operator).await?;
        operator.until_rest().await?;
        Ok(operator.usage()?.rss_mib)
    }
}

fn clean_build(package: &str) -> Result<Run> {
    let target = root().join("target/clean").join(package);
    let empty = || {
        if target.exists() { std::fs::remove_dir_all(&target) } else { Ok(()) }
    };
    empty()?;
    let (began, before) = (Instant::now(), usage::ended_children()?);
    // Disable incremental compilation, which would slow down only our crate, because it is a path dependency instead of one from a
    // registry.
    run(cargo(&target).args(["--offline", "--package", package]).env("CARGO_INCREMENTAL", "0"))?;
    let mut measured = Run::default();
    measured.set("build_wall_s", began.elapsed().as_secs_f64());
    measured.set("build_cpu_s", usage::ended_children()?.saturating_sub(before).as_secs_f64());
    empty()?;
    Ok(measured)
}

fn stripped(binary: &Path) -> Result<f64> {
    let copy = binary.with_extension("stripped");
    run(Command::new("strip").arg("-o").arg(&copy).arg(binary))?;
    megabytes(&copy)
}

fn megabytes(file: &Path) -> Result<f64> {
    let metadata = std::fs::metadata(file).with_context(|| file.display().to_string())?;
    Ok(usize::try_from(metadata.len()).map(real)? / 1e6)
}
