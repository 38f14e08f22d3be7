//! The raw samples, which are kept in order and written to `bench/results/` after every run.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
pub use kopf_rs_apiserver_bench::real;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::contender::{Contender, root};
use crate::options::{Options, Scenario};
use crate::say;
use crate::usage::Usage;

/// The results of one run.
#[derive(Debug, Default, Serialize)]
pub struct Run {
    /// Figures by the name of their measure.
    pub measures: BTreeMap<&'static str, f64>,
    /// Results that the table does not show.
    pub detail: Map<String, Value>,
    /// The number of objects that the operator has handled, each of them checked.
    pub handled: usize,
}

impl Run {
    pub fn set(&mut self, measure: &'static str, value: f64) {
        self.measures.insert(measure, value);
    }

    pub fn set_memory(&mut self, usage: Usage) {
        self.set("peak_mib", usage.peak_mib);
        self.set("rss_mib", usage.rss_mib);
    }

    /// Sets the numbers of requests per verb, from the totals at the start and at the end.
    pub fn set_requests(
        &mut self,
        before: &BTreeMap<String, usize>,
        after: &BTreeMap<String, usize>,
        objects: usize,
    ) {
        let mut requests = 0;
        for (verb, many) in after {
            let many = many - before.get(verb).copied().unwrap_or_default();
            requests += many;
            let each = real(many) / real(objects);
            self.detail.insert(format!("requests: {verb}"), each.into());
        }
        self.set("requests", real(requests) / real(objects));
    }
}

/// A run with its position.
#[derive(Debug, Serialize)]
pub struct Sample {
    pub scenario: Scenario,
    pub contender: Contender,
    pub round: usize,
    #[serde(flatten)]
    pub run: Run,
}

/// All samples of one invocation.
#[derive(Debug)]
pub struct Samples {
    pub all: Vec<Sample>,
    /// Failed runs with their errors.
    pub failures: Vec<String>,
    /// Contenders that this machine cannot run, with the reasons.
    pub skipped: Vec<String>,
    about: Value,
    file: PathBuf,
}

impl Samples {
    pub fn new(options: &Options) -> Result<Self> {
        let folder = root().join("results");
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let seconds = std::time::UNIX_EPOCH.elapsed()?.as_secs();
        let cores = std::thread::available_parallelism()?;
        Ok(Self {
            all: Vec::new(),
            failures: Vec::new(),
            skipped: Vec::new(),
            about: json!({"began": seconds, "cores": cores, "options": options}),
            file: folder.join(format!("{seconds}.json")),
        })
    }

    /// Adds the result of a run. Reports and counts a failed run at once, and lets the others continue.
    pub fn take(
        &mut self,
        scenario: Scenario,
        contender: Contender,
        round: usize,
        run: Result<Run>,
    ) -> Result<()> {
        match run {
            Ok(run) => self.all.push(Sample { scenario, contender, round, run }),
            Err(error) => {
                let failure = format!("round {round}, {scenario:?}, {}: {error:#}", contender.label());
                say(&failure);
                self.failures.push(failure);
            }
        }
        self.write()
    }

    fn write(&self) -> Result<()> {
        let Self { all, failures, skipped, about, file } = self;
        let text = json!({"about": about, "samples": all, "failures": failures, "skipped": skipped});
        std::fs::write(file, format!("{text:#}\n")).with_context(|| file.display().to_string())
    }

    /// Returns the path of the raw samples from the root of the checkout.
    pub fn file(&self) -> String {
        let name = self.file.file_name().unwrap_or_default().to_string_lossy();
        format!("bench/results/{name}")
    }

    /// Returns the values of a measure by round, without the rounds whose run failed.
    pub fn values(&self, scenario: Scenario, contender: Contender, measure: &str) -> BTreeMap<usize, f64> {
        let ours = self.all.iter().filter(|one| one.scenario == scenario && one.contender == contender);
        ours.filter_map(|one| Some((one.round, *one.run.measures.get(measure)?))).collect()
    }
}

/// Returns the file for the output of an operator.
pub fn log_of(scenario: &str, contender: &str) -> Result<PathBuf> {
    let folder = root().join("results/logs");
    std::fs::create_dir_all(&folder)?;
    Ok(folder.join(format!("{scenario}-{contender}.log")))
}
