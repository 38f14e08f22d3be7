//! Random Leases: the election continues, and never believes that it holds another instance's Lease.

use kopf_rs_fuzz::{Run, Target, attack, texts};
use serde_json::Value;

use super::*;

const LEASES: &[&str] = &[
    r#"{"metadata":{"name":"op","resourceVersion":"5","labels":{"kopf.rs/operator":"op"},"managedFields":[]},"spec":{"holderIdentity":"you","leaseDurationSeconds":15,"acquireTime":"2026-01-01T00:00:00.000000Z","renewTime":"2026-01-01T00:00:01.000000Z","leaseTransitions":4}}"#,
    r#"{"metadata":{"name":"op","resourceVersion":"18446744073709551615"},"spec":{"holderIdentity":"","leaseDurationSeconds":2147483647,"leaseTransitions":2147483647,"strategy":"OldestEmulationVersion"}}"#,
    r#"{"metadata":{"labels":null},"spec":{"holderIdentity":"me","renewTime":null,"leaseDurationSeconds":1}}"#,
];

const WORDS: &[&str] = &[
    "holderIdentity",
    "leaseDurationSeconds",
    "leaseTransitions",
    "acquireTime",
    "renewTime",
    "strategy",
    "resourceVersion",
    "labels",
    "kopf.rs/operator",
    "me",
    "18446744073709551615",
    "-1",
    "null",
    "{}",
    "[]",
    "{",
    "}",
    "\"",
    ":",
    ",",
];

fn leases() -> Run {
    Box::new(|input| {
        let Ok(lease) = serde_json::from_slice::<Value>(input) else {
            return;
        };
        let holder = LeaseRecord::of(&lease).holder;
        for mut election in [election("me"), holding()] {
            for seconds in [2, 20, 4000] {
                election.watched(lease.clone(), &at(seconds));
                let is_mine = election.standing(&at(seconds)) == Standing::Holds;
                assert!(!is_mine || election.term().is_some());
                assert!(holder == "me" || !is_mine || is_older(&lease), "a term that is another's");
                exchange(&mut election, at(seconds), |wish| match wish {
                    Wish::Read => Answer::Lease(lease.clone()),
                    Wish::Create(_) | Wish::Replace(_) => stored(seconds + 10)(wish),
                });
                election.due();
                election.transitions();
            }
            election.deleted(&lease, &at(4001));
            election.leave();
            exchange(&mut election, at(4002), |_| Answer::Lease(lease.clone()));
        }
    })
}

/// Returns true if the version is older than that of the candidate's record, so that it is ignored.
fn is_older(lease: &Value) -> bool {
    let version = lease["metadata"]["resourceVersion"].as_str();
    version.and_then(|it| it.parse::<u64>().ok()).is_some_and(|it| it < 4010)
}

#[test]
fn no_lease_breaks_the_election() {
    let target = Target { name: "lease", share: 1, tokens: WORDS, samples: || texts(LEASES), begin: leases };
    attack(&[target], 3000);
}
