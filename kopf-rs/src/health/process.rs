//! Reads facts about this process from the system: memory, time and files. Available only on Linux.

use std::fs;

/// Facts about the process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Process {
    pub(crate) resident: Option<f64>,
    pub(crate) virtually: Option<f64>,
    /// Processor time in seconds.
    pub(crate) processors: Option<f64>,
    /// Seconds since the epoch.
    pub(crate) begun: Option<f64>,
    pub(crate) files: Option<f64>,
    pub(crate) most_files: Option<f64>,
}

/// The unit of time in `/proc`, independent of the kernel's timer frequency.
const TICKS: f64 = 100.0;

impl Process {
    /// Reads the current facts.
    pub(crate) fn read() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (status, stat) = (text("/proc/self/status"), text("/proc/self/stat"));
        let files = fs::read_dir("/proc/self/fd").ok();
        // One of them is the directory being read.
        let files = files.map(|it| it.count().saturating_sub(1));
        Self {
            resident: kibibytes(&status, "VmRSS:"),
            virtually: kibibytes(&status, "VmSize:"),
            processors: processors(&stat),
            begun: begun(&stat, &text("/proc/stat")),
            files: files.and_then(|it| u32::try_from(it).ok()).map(f64::from),
            most_files: most_files(&text("/proc/self/limits")),
        }
    }
}

fn kibibytes(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let number: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(number * 1024.0)
}

/// Returns a field of `/proc/self/stat` by its number. The second one, the program's name, may contain any characters.
fn field(stat: &str, number: usize) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(number - 3)?.parse().ok()
}

fn processors(stat: &str) -> Option<f64> {
    Some((field(stat, 14)? + field(stat, 15)?) / TICKS)
}

fn begun(stat: &str, system: &str) -> Option<f64> {
    let boot = system.lines().find_map(|it| it.strip_prefix("btime "))?;
    let boot: f64 = boot.trim().parse().ok()?;
    Some(boot + field(stat, 22)? / TICKS)
}

fn most_files(limits: &str) -> Option<f64> {
    let line = limits.lines().find_map(|it| it.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_linux_are_parsed() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 1 2 3 4 250 50 0 0 20 0 9 0 1000 2 3";
        assert_eq!(processors(stat), Some(3.0));
        assert_eq!(begun(stat, "cpu 1\nbtime 1700000000\n"), Some(1_700_000_010.0));
        assert_eq!(kibibytes("VmSize:\t  8 kB\nVmRSS:\t  4 kB\n", "VmRSS:"), Some(4096.0));
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files   1024   4096   files\n";
        assert_eq!(most_files(limits), Some(1024.0));
        assert_eq!(most_files("Max open files unlimited unlimited files"), None);
        assert_eq!((processors(""), begun("", ""), kibibytes("", "VmRSS:")), (None, None, None));
    }
}
