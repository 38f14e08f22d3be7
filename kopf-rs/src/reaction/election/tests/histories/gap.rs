//! The bound on the time without a leader, which every history asserts.

use super::{Sleep, Standing, World};

/// The longest time without a leader while a candidate is undisturbed. A candidate that has missed an event of the watch reads the Lease
/// when its copy has expired, and then waits for the whole lease duration again: twice 15.8 s by the slowest clock, and one retry.
const LONGEST_GAP: u64 = 34_000;

/// A lost or late request of a candidate may delay its next one by its timeout and one retry.
pub(super) const LOST_REQUEST: u64 = 10_000;

impl World {
    /// Fails when an undisturbed candidate has left the operator without a leader for too long.
    pub(super) fn check_gap(&mut self) -> Result<(), String> {
        let now = self.now;
        let mut has_leader = false;
        for node in 0..self.nodes.len() {
            let moment = self.moment(node);
            let it = &mut self.nodes[node];
            let is_running = it.sleep == Sleep::Awake && it.gone_until <= now;
            has_leader |= is_running && it.election.standing(&moment) == Standing::Holds;
            let is_reached = it.cut_until <= now && it.deaf_until <= now;
            if !is_running || !is_reached || it.election.is_leaving() {
                it.undisturbed_since = now;
                it.excused = 0;
            }
        }
        if has_leader {
            self.gap_since = now;
            self.nodes.iter_mut().for_each(|it| it.excused = 0);
            return Ok(());
        }
        // Faults of one candidate do not prevent another one from taking the Lease, so each has its own allowance.
        let gaps = self.nodes.iter().map(|it| {
            let since = it.undisturbed_since.max(self.gap_since);
            (now - since).saturating_sub(it.excused)
        });
        let gap = gaps.max().unwrap_or_default();
        if gap > LONGEST_GAP {
            return Err(format!("no leader for {gap} ms until {now}"));
        }
        Ok(())
    }
}
