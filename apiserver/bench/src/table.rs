//! The table: medians, ratios by round, the goals.

use std::fmt::Write as _;

use kopf_rs_apiserver_bench::{median, spread};

use crate::Rounds;
use crate::contender::Server;
use crate::options::Options;

/// Measure, title, digits, and true if more is better.
const ROWS: [(&str, &str, usize, bool); 13] = [
    ("ready_ms", "from start to ready, ms", 0, false),
    ("creates_per_s", "creates per second", 0, true),
    ("patches_per_s", "merge patches per second", 0, true),
    ("gets_per_s", "gets per second", 0, true),
    ("list_ms", "list of all, ms", 0, false),
    ("events_per_s", "events to 100 watchers per second", 0, true),
    ("create_cpu_us", "server CPU per create, us", 0, false),
    ("patch_cpu_us", "server CPU per merge patch, us", 0, false),
    ("get_cpu_us", "server CPU per get, us", 0, false),
    ("idle_mib", "memory, empty, MiB", 1, false),
    ("full_mib", "memory with the objects, MiB", 1, false),
    ("grown_mib", "memory of the objects, MiB", 1, false),
    ("end_mib", "memory in the end, MiB", 1, false),
];

/// Returns the text for standard output.
pub fn render(rounds: &Rounds, options: &Options) -> String {
    let mut text = format!("{:<36}", format!("median of {} rounds", options.rounds));
    for server in [Server::Memory, Server::Disk, Server::Real] {
        let _ = write!(text, "{:>23}", server.label());
    }
    let _ = writeln!(text, "  ours, times better");
    for (measure, title, digits, more) in ROWS {
        let ratios = ratios(rounds, measure, more);
        if ratios.is_empty() {
            continue;
        }
        let _ = write!(text, "  {title:<34}");
        for server in [Server::Memory, Server::Disk, Server::Real] {
            let shown = median(values(rounds, server, measure));
            let shown = shown.map_or("-".to_owned(), |value| format!("{value:.digits$}"));
            let _ = write!(text, "{shown:>23}");
        }
        let _ = writeln!(text, "  {}", spread(ratios));
    }
    let _ = writeln!(
        text,
        "{} objects of 2 kB, {} requests in flight; ratios: median of the rounds' own (lowest to highest)",
        options.stored, options.concurrency
    );
    for (goal, measure, more, bound) in [
        (
            "creates at least 10 times as fast",
            "creates_per_s",
            true,
            10.0,
        ),
        (
            "merge patches at least 10 times as fast",
            "patches_per_s",
            true,
            10.0,
        ),
        (
            "at most 1/5 of the memory with the objects",
            "full_mib",
            false,
            5.0,
        ),
    ] {
        let ratio = median(ratios(rounds, measure, more)).unwrap_or_default();
        let reached = if ratio >= bound {
            "reached"
        } else {
            "NOT reached"
        };
        let _ = writeln!(text, "goal: {goal}: {ratio:.1}, {reached}");
    }
    let ready = median(values(rounds, Server::Memory, "ready_ms")).unwrap_or(f64::MAX);
    let reached = if ready < 50.0 {
        "reached"
    } else {
        "NOT reached"
    };
    let _ = writeln!(text, "goal: ready in under 50 ms: {ready:.0} ms, {reached}");
    text
}

fn values(rounds: &Rounds, server: Server, measure: &str) -> Vec<f64> {
    let of = rounds.get(&server).map(Vec::as_slice).unwrap_or_default();
    of.iter()
        .filter_map(|figures| figures.get(measure).copied())
        .collect()
}

/// Returns by how many times our values are better, by round.
fn ratios(rounds: &Rounds, measure: &str, more: bool) -> Vec<f64> {
    let ours = values(rounds, Server::Memory, measure);
    let real = values(rounds, Server::Real, measure);
    let pairs = ours.into_iter().zip(real);
    pairs
        .map(|(ours, real)| if more { ours / real } else { real / ours })
        .filter(|ratio| ratio.is_finite())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn ratios_say_how_many_times_better_ours_is() {
        let rounds = Rounds::from([
            (
                Server::Memory,
                vec![BTreeMap::from([("a", 10.0), ("b", 2.0)])],
            ),
            (Server::Real, vec![BTreeMap::from([("a", 2.0), ("b", 8.0)])]),
        ]);
        assert_eq!(ratios(&rounds, "a", true), [5.0]);
        assert_eq!(ratios(&rounds, "b", false), [4.0]);
        assert!(ratios(&rounds, "c", true).is_empty());
    }
}
