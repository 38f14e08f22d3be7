//! The table: medians, ratios by round, the goals, and a summary line of counts.

use std::collections::BTreeMap;
use std::fmt::Write as _;

pub use kopf_rs_apiserver_bench::{median, spread};

use crate::contender::Contender;
use crate::options::{Options, Scenario};
use crate::samples::Samples;

/// A row of the table.
struct Row {
    scenario: Scenario,
    measure: &'static str,
    title: &'static str,
    digits: usize,
}

const fn row(scenario: Scenario, measure: &'static str, title: &'static str, digits: usize) -> Row {
    Row { scenario, measure, title, digits }
}

const ROWS: [Row; 18] = [
    row(Scenario::Creates, "throughput", "objects handled per second", 0),
    row(Scenario::Creates, "cpu_us", "operator CPU per object, us", 0),
    row(Scenario::Creates, "peak_mib", "peak memory, MiB", 1),
    row(Scenario::Creates, "rss_mib", "memory after, MiB", 1),
    row(Scenario::Creates, "latency_p50_ms", "create to mark, p50, ms", 1),
    row(Scenario::Creates, "latency_p99_ms", "create to mark, p99, ms", 1),
    row(Scenario::Creates, "requests", "requests per object", 2),
    row(Scenario::Creates, "writes", "changes per object", 2),
    row(Scenario::Start, "seen_s", "until all were seen, s", 2),
    row(Scenario::Start, "rest_s", "until at rest, s", 2),
    row(Scenario::Start, "cpu_s", "operator CPU, s", 2),
    row(Scenario::Start, "peak_mib", "peak memory, MiB", 1),
    row(Scenario::Start, "rss_mib", "memory after, MiB", 1),
    row(Scenario::Footprint, "build_wall_s", "clean debug build, s", 1),
    row(Scenario::Footprint, "build_cpu_s", "clean debug build, CPU s", 1),
    row(Scenario::Footprint, "size_mb", "release binary, MB", 1),
    row(Scenario::Footprint, "stripped_mb", "release binary stripped, MB", 1),
    row(Scenario::Footprint, "idle_mib", "idle memory, MiB", 1),
];

/// A goal of this project, as a ratio.
struct Goal {
    scenario: Scenario,
    measure: &'static str,
    peer: Contender,
    bound: Bound,
    text: &'static str,
}

enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

const GOALS: [Goal; 4] = [
    Goal {
        scenario: Scenario::Creates,
        measure: "throughput",
        peer: Contender::Floor,
        bound: Bound::AtLeast(0.95),
        text: "throughput at least 0.95 of the floor's",
    },
    Goal {
        scenario: Scenario::Creates,
        measure: "cpu_us",
        peer: Contender::KubeRs,
        bound: Bound::AtMost(0.6),
        text: "CPU per object at most 0.6 of kube-rs'",
    },
    Goal {
        scenario: Scenario::Creates,
        measure: "peak_mib",
        peer: Contender::KubeRs,
        bound: Bound::AtMost(0.5),
        text: "peak memory of the creates at most half of kube-rs'",
    },
    Goal {
        scenario: Scenario::Start,
        measure: "peak_mib",
        peer: Contender::KubeRs,
        bound: Bound::AtMost(0.5),
        text: "peak memory of the start at most half of kube-rs'",
    },
];

const PEERS: [Contender; 4] = [Contender::KubeRs, Contender::Floor, Contender::RawFloor, Contender::Kopf];

/// Returns the text for standard output.
pub fn render(samples: &Samples, options: &Options) -> String {
    let mut text = String::new();
    let _ = write!(text, "{:<30}", format!("median of {} rounds", options.rounds));
    for contender in Contender::ALL {
        let _ = write!(text, "{:>11}", contender.label());
    }
    for peer in PEERS {
        let _ = write!(text, "  {:<18}", format!("ours/{}", peer.label()));
    }
    text = text.trim_end().to_owned() + "\n";
    let mut section = None;
    for row in &ROWS {
        if let Some(line) = line(samples, row) {
            if section.replace(row.scenario) != Some(row.scenario) {
                let _ = writeln!(text, "{}", title(row.scenario, options));
            }
            let _ = writeln!(text, "{}", line.trim_end());
        }
    }
    text.push_str("ratios: median of the rounds' own (lowest to highest)\n");
    for goal in &GOALS {
        let _ = writeln!(text, "goal: {}: {}", goal.text, verdict(samples, goal));
    }
    for skipped in &samples.skipped {
        let _ = writeln!(text, "skipped: {skipped}");
    }
    for failure in &samples.failures {
        let _ = writeln!(text, "failed: {failure}");
    }
    let handled: usize = samples.all.iter().map(|sample| sample.run.handled).sum();
    let _ = writeln!(
        text,
        "bench: {} rounds, {} runs, {handled} objects handled and checked, {} runs failed, {} contenders skipped; raw samples in {}",
        options.rounds,
        samples.all.len() + samples.failures.len(),
        samples.failures.len(),
        samples.skipped.len(),
        samples.file(),
    );
    text
}

fn title(scenario: Scenario, options: &Options) -> String {
    match scenario {
        Scenario::Creates => format!("{} creates with the operator running", options.objects),
        Scenario::Start => format!("start on {} handled objects", options.start),
        Scenario::Footprint => "a MyApp operator".to_owned(),
    }
}

/// Returns a line of the table, unless no contender has a value.
fn line(samples: &Samples, row: &Row) -> Option<String> {
    let values = |contender| samples.values(row.scenario, contender, row.measure);
    if Contender::ALL.into_iter().all(|contender| values(contender).is_empty()) {
        return None;
    }
    let mut line = format!("  {:<28}", row.title);
    for contender in Contender::ALL {
        let shown = median(values(contender).into_values().collect());
        let shown = shown.map_or("-".to_owned(), |value| format!("{value:.0$}", row.digits));
        let _ = write!(line, "{shown:>11}");
    }
    let ours = values(Contender::Ours);
    for peer in PEERS {
        let _ = write!(line, "  {:<18}", spread(ratios(&ours, &values(peer))));
    }
    Some(line)
}

/// Returns our values divided by theirs within each round, so that a slow round affects both.
fn ratios(ours: &BTreeMap<usize, f64>, theirs: &BTreeMap<usize, f64>) -> Vec<f64> {
    let pairs = ours.iter().filter_map(|(round, value)| Some(value / theirs.get(round)?));
    pairs.filter(|ratio| ratio.is_finite()).collect()
}

fn verdict(samples: &Samples, goal: &Goal) -> String {
    let values = |contender| samples.values(goal.scenario, contender, goal.measure);
    let Some(ratio) = median(ratios(&values(Contender::Ours), &values(goal.peer))) else {
        return "not measured".to_owned();
    };
    let reached = match goal.bound {
        Bound::AtLeast(bound) => ratio >= bound,
        Bound::AtMost(bound) => ratio <= bound,
    };
    format!("{ratio:.2}, {}", if reached { "reached" } else { "NOT reached" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_pair_rounds_and_skip_failed_ones() {
        let ours = BTreeMap::from([(1, 2.0), (2, 3.0), (3, 9.0)]);
        let theirs = BTreeMap::from([(1, 4.0), (3, 3.0)]);
        assert_eq!(ratios(&ours, &theirs), [0.5, 3.0]);
    }
}
