//! The resource usage of a process, from `/proc`.
//!
//! CPU time is the larger of two exact lower bounds: the ticks of the process (whole hundredths of a second, including ended threads) and
//! the nanoseconds of its living threads.

use std::io;
use std::time::Duration;

/// On every common architecture, Linux reports times to user space in hundredths of a second.
const TICK: Duration = Duration::from_millis(10);

/// CPU time and memory of a process so far.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// User and system time of all its threads.
    pub cpu: Duration,
    /// Current resident memory.
    pub rss_mib: f64,
    /// Maximum resident memory.
    pub peak_mib: f64,
}

/// Reads the usage of a living process.
pub fn of(pid: u32) -> io::Result<Usage> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let missing = || io::Error::other(format!("no memory figures of process {pid}: it ended"));
    Ok(Usage {
        cpu: cpu(pid)?,
        rss_mib: mib(&status, "VmRSS:").ok_or_else(missing)?,
        peak_mib: mib(&status, "VmHWM:").ok_or_else(missing)?,
    })
}

/// Returns the CPU time of a living process without its children; cheap enough for frequent calls.
pub fn cpu(pid: u32) -> io::Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let [user, system, ..] =
        times(&stat).ok_or_else(|| io::Error::other("unexpected /proc/PID/stat"))?;
    Ok((user + system).max(threads(pid)))
}

/// Returns the CPU time of all ended and awaited children of this process, including their own children.
pub fn ended_children() -> io::Result<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let [.., user, system] =
        times(&stat).ok_or_else(|| io::Error::other("unexpected /proc/self/stat"))?;
    Ok(user + system)
}

/// Returns the CPU time of the living threads; zero if the kernel does not count nanoseconds.
fn threads(pid: u32) -> Duration {
    let nanoseconds = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    };
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    Duration::from_nanos(tasks.filter_map(nanoseconds).sum())
}

/// Returns the times of user, system, ended children's user and ended children's system.
fn times(stat: &str) -> Option<[Duration; 4]> {
    // The name in parentheses may contain any character. It is the 2nd field, and utime the 14th.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut ticks = fields
        .split_whitespace()
        .skip(11)
        .map(|field| field.parse::<u32>().ok().map(|ticks| TICK * ticks));
    Some([
        ticks.next()??,
        ticks.next()??,
        ticks.next()??,
        ticks.next()??,
    ])
}

fn mib(status: &str, key: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    let kib: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_follow_the_last_parenthesis() {
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194304 103 0 0 0 7 5 300 20 20 0 1 0 162924";
        let expected = [70, 50, 3000, 200].map(Duration::from_millis);
        assert_eq!(times(stat), Some(expected));
        assert_eq!(times("42 (short) S 1"), None);
    }

    #[test]
    fn memory_is_read_by_name() {
        let status = "Name:\tx\nVmPeak:\t 9 kB\nVmHWM:\t   12288 kB\nVmRSS:\t   4608 kB\n";
        assert_eq!(mib(status, "VmHWM:"), Some(12.0));
        assert_eq!(mib(status, "VmRSS:"), Some(4.5));
        assert_eq!(mib(status, "VmSwap:"), None);
    }

    #[test]
    fn this_process_has_used_something() {
        let usage = of(std::process::id()).unwrap();
        assert!(usage.peak_mib >= usage.rss_mib && usage.rss_mib > 0.0);
    }
}
