//! Processes of one operator that share a Lease, and their output.

use std::time::Duration;

use kopf_rs_tests::{Program, TestCluster};

use tokio::time::sleep;

use super::history::History;
use crate::cli::{self, PATIENCE};

/// The polling interval.
const PULSE: Duration = Duration::from_millis(20);

/// The duration of the Lease. The holder renews it every [`RETRY`].
pub(super) const DURATION: Duration = Duration::from_secs(6);
pub(super) const RETRY: Duration = Duration::from_secs(1);

/// The worker limit of each process.
pub(super) const WORKERS: usize = 4;

/// All processes, including those that have ended.
pub(super) struct Group<'a> {
    cluster: &'a TestCluster,
    members: Vec<Member>,
    kills: usize,
}

struct Member {
    name: String,
    program: Program,
    /// True until it is killed or ends.
    runs: bool,
}

impl<'a> Group<'a> {
    pub(super) async fn start(cluster: &'a TestCluster, count: usize) -> Self {
        let mut group = Self { cluster, members: Vec::new(), kills: 0 };
        for _ in 0..count {
            group.add().await;
        }
        group
    }

    /// Starts one more process, and waits until it knows the Lease.
    pub(super) async fn add(&mut self) {
        let name = format!("instance{}", self.members.len());
        let kubeconfig = self.cluster.kubeconfig().display().to_string();
        let namespace = self.cluster.namespace();
        let args = ["--kubeconfig", &kubeconfig, "-n", namespace, "--lease"];
        let mut command = cli::operator("replica", &args);
        let workers = WORKERS.to_string();
        let [duration, retry] = [DURATION, RETRY].map(|it| format!("{}s", it.as_secs()));
        command.envs([
            ("HOSTNAME", name.as_str()),
            ("KOPF_RS_LEASE_NAMESPACE", namespace),
            ("KOPF_RS_LEASE_DURATION", &duration),
            ("KOPF_RS_LEASE_RENEW_DEADLINE", "4s"),
            ("KOPF_RS_LEASE_RETRY_PERIOD", &retry),
            ("KOPF_RS_QUEUEING_WORKER_LIMIT", &workers),
        ]);
        let program = Program::start(command, PATIENCE);
        let takes_part = |line: &str| {
            line.contains("This instance is the leader") || line.contains("Standing by: the Lease")
        };
        program.lines().until("of the Lease", takes_part).await;
        self.members.push(Member { name, program, runs: true });
    }

    /// Waits until a running process holds the Lease.
    pub(super) async fn at_work(&self, history: &History) -> usize {
        let runs = |holder: &str| {
            let is = |it: &Member| it.runs && holder.starts_with(&format!("{}_", it.name));
            self.members.iter().position(is)
        };
        history.until_held(runs).await
    }

    pub(super) fn name(&self, at: usize) -> &str {
        &self.members[at].name
    }

    pub(super) async fn signal(&self, at: usize, signal: &str) {
        self.members[at].program.signal(signal).await;
    }

    pub(super) async fn kill(&mut self, at: usize) {
        let member = &mut self.members[at];
        member.program.signal("KILL").await;
        member.program.ended().await;
        member.runs = false;
        self.kills += 1;
    }

    /// Stops a process gracefully.
    pub(super) async fn end_one(&mut self, at: usize) {
        let member = &mut self.members[at];
        member.program.signal("TERM").await;
        let ended = member.program.ended().await;
        let said = || member.program.lines().all().join("\n");
        assert_eq!(ended.code(), Some(0), "{}", said());
        member.runs = false;
    }

    pub(super) async fn end(&mut self) {
        for at in 0..self.members.len() {
            if self.members[at].runs {
                self.end_one(at).await;
            }
        }
    }

    /// Returns how often the process has logged the loss of the Lease.
    pub(super) fn losses(&self, at: usize) -> usize {
        let lines = self.members[at].program.lines();
        lines.count(is_loss)
    }

    /// Waits until the process logs the loss of the Lease once more.
    pub(super) async fn until_lost(&self, at: usize, before: usize) {
        let lines = self.members[at].program.lines();
        while lines.count(is_loss) <= before {
            sleep(PULSE).await;
        }
    }

    /// Returns the output of all processes.
    pub(super) fn said(&self) -> String {
        let lines = self.members.iter();
        let lines = lines
            .flat_map(|it| it.program.lines().all().into_iter().map(|line| format!("{}: {line}", it.name)));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Returns the number of attempts that any of them has started.
    pub(super) fn attempts_begun(&self) -> usize {
        let lines = self.members.iter().map(|it| it.program.lines());
        lines.map(|it| it.count(|it| it.contains("] attempt "))).sum()
    }

    /// Returns the number of times that attempts may have been cut off.
    pub(super) fn interruptions(&self) -> usize {
        let lapse = |line: &str| is_loss(line) || line.contains("Handlers are paused, since");
        let lines = self.members.iter().map(|it| it.program.lines());
        self.kills + lines.map(|it| it.count(lapse)).sum::<usize>()
    }
}

fn is_loss(line: &str) -> bool {
    line.contains("This instance has lost the Lease")
}
