use super::*;

mod fuzz;
mod histories;

const TIMES: LeaseTimes = LeaseTimes {
    duration: Duration::from_secs(15),
    renew_deadline: Duration::from_secs(10),
    retry: Duration::from_secs(2),
};

fn at(seconds: u64) -> Moment {
    let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    Moment {
        mono: Duration::from_secs(seconds),
        boot: Duration::from_secs(seconds),
        wall: start + SignedDuration::from_secs(i64::try_from(seconds).unwrap()),
    }
}

fn election(identity: &str) -> Election {
    Election::new(Candidate {
        identity: identity.to_owned(),
        operator: "op".to_owned(),
        name: "op".to_owned(),
        namespace: "ns".to_owned(),
        times: TIMES,
        delay: Duration::ZERO,
    })
}

fn versioned(mut lease: Value, version: u64) -> Value {
    lease["metadata"]["resourceVersion"] = json!(version.to_string());
    lease
}

fn held_by(holder: &str, version: u64) -> Value {
    // A released Lease has a duration of one second.
    let seconds = if holder.is_empty() { 1 } else { 15 };
    let spec = json!({"holderIdentity": holder, "leaseDurationSeconds": seconds, "acquireTime": "t", "renewTime": version.to_string(), "leaseTransitions": 4});
    let lease = json!({"metadata": {"name": "op", "labels": {"a": "b"}, "managedFields": []}, "spec": spec});
    versioned(lease, version)
}

/// Sends the request at that time, and answers it.
fn exchange(election: &mut Election, at: Moment, answer: impl FnOnce(&Wish) -> Answer) -> Wish {
    let (wish, sent) = election.wish(&at);
    election.answered(&sent, answer(&wish), &at);
    wish
}

fn stored(version: u64) -> impl FnOnce(&Wish) -> Answer {
    move |wish| match wish {
        Wish::Create(lease) | Wish::Replace(lease) => Answer::Lease(versioned(lease.clone(), version)),
        Wish::Read => unreachable!("it is read"),
    }
}

/// Returns an instance that holds a Lease which was free when it was read.
fn holding() -> Election {
    let mut election = election("me");
    exchange(&mut election, at(1), |_| Answer::Lease(held_by("", 5)));
    exchange(&mut election, at(1), stored(6));
    assert_eq!(election.standing(&at(1)), Standing::Holds);
    election
}

#[test]
fn a_lease_that_is_free_is_taken_at_once_and_keeps_what_others_have_put_into_it() {
    let mut election = election("me");
    assert_eq!(exchange(&mut election, at(1), |_| Answer::Lease(held_by("", 5))), Wish::Read);
    assert_eq!(election.due(), at(1).mono);
    let Wish::Replace(lease) = exchange(&mut election, at(1), stored(6)) else {
        panic!("it is not replaced");
    };
    assert_eq!(lease["metadata"]["resourceVersion"], "5");
    assert_eq!(lease["metadata"]["labels"], json!({"a": "b", "kopf.rs/operator": "op"}));
    let spec = json!({
        "holderIdentity": "me", "leaseDurationSeconds": 15, "leaseTransitions": 5,
        "acquireTime": "2026-01-01T00:00:01.000000Z", "renewTime": "2026-01-01T00:00:01.000000Z",
    });
    assert_eq!((&lease["spec"], lease["metadata"].get("managedFields")), (&spec, None));
    assert_eq!((election.term().map(|it| it.number), election.due()), (Some(1), at(3).mono));
}

/// The API's integer ends there, and a server refuses larger numbers.
#[test]
fn a_lease_that_has_changed_hands_too_often_to_be_counted_is_taken() {
    let mut election = election("me");
    let mut free = held_by("", 5);
    free["spec"]["leaseTransitions"] = json!(i32::MAX);
    exchange(&mut election, at(1), |_| Answer::Lease(free));
    let Wish::Replace(lease) = exchange(&mut election, at(1), stored(6)) else {
        panic!("it is not replaced");
    };
    assert_eq!(lease["spec"]["leaseTransitions"], i32::MAX);
}

#[test]
fn a_lease_that_another_has_is_taken_once_it_has_not_changed_for_its_duration_and_was_read_then() {
    let mut election = election("me");
    exchange(&mut election, at(1), |_| Answer::Lease(held_by("you", 5)));
    let holder = "you".to_owned();
    assert_eq!(election.standing(&at(1)), Standing::HeldBy { holder });
    election.watched(held_by("you", 6), &at(10));
    assert_eq!(election.wish(&at(24)).0, Wish::Read);
    // The watch alone shows that it has not changed for long enough, which does not suffice.
    assert_eq!(exchange(&mut election, at(26), |_| Answer::Lease(held_by("you", 6))), Wish::Read);
    assert!(matches!(exchange(&mut election, at(26), stored(7)), Wish::Replace(_)));
    assert_eq!(election.standing(&at(26)), Standing::Holds);
}

#[test]
fn a_lost_answer_prolongs_nothing_until_the_record_shows_the_request() {
    let mut election = holding();
    let (wish, sent) = election.wish(&at(3));
    let Wish::Replace(written) = wish else {
        panic!("it is not renewed");
    };
    election.answered(&sent, Answer::Failed { retry_after: None }, &at(8));
    assert_eq!(election.term().unwrap().stamp, at(1));
    exchange(&mut election, at(8), |_| Answer::Conflict);
    assert_eq!(exchange(&mut election, at(9), |_| Answer::Lease(versioned(written, 7))), Wish::Read);
    assert_eq!(election.term().unwrap().stamp, at(3));
}

#[test]
fn a_holder_without_answers_lapses_and_goes_on_with_the_same_term() {
    let mut election = holding();
    assert_eq!(election.standing(&at(11)), Standing::Lapsed);
    let (_, sent) = election.wish(&at(60));
    assert_eq!(election.term().unwrap().time_for_request(&at(60)), None);
    let reply = stored(7)(&election.wish(&at(60)).0);
    // The response belongs to another request than the last one: both were sent, and one was stored.
    election.answered(&sent, reply, &at(60));
    assert_eq!(election.standing(&at(60)), Standing::Holds);
    assert_eq!(election.term().unwrap().number, 1);
}

#[test]
fn whatever_shows_that_it_is_anothers_ends_the_term_at_once() {
    let cases: [fn(&mut Election); 5] = [
        |it| it.watched(held_by("you", 7), &at(2)),
        |it| it.deleted(&held_by("me", 7), &at(2)),
        |it| drop(exchange(it, at(2), |_| Answer::Absent)),
        |it| {
            exchange(it, at(2), |_| Answer::Conflict);
            exchange(it, at(2), |_| Answer::Lease(held_by("you", 7)));
        },
        // The same name, but a different process.
        |it| it.watched(held_by("me", 7), &at(2)),
    ];
    for (number, case) in cases.into_iter().enumerate() {
        let mut election = holding();
        case(&mut election);
        assert_eq!(election.term(), None, "{number}");
    }
    let mut election = holding();
    election.watched(held_by("you", 4), &at(2));
    assert!(election.term().is_some(), "an old state tells nothing");
}

#[test]
fn a_deleted_lease_is_made_anew_after_its_time_and_an_unknown_one_begins_late() {
    let mut election = holding();
    election.deleted(&held_by("me", 7), &at(2));
    assert_eq!(exchange(&mut election, at(16), |_| Answer::Absent), Wish::Read);
    assert!(matches!(exchange(&mut election, at(17), stored(8)), Wish::Create(_)));
    // No other instance can have acted meanwhile.
    assert_eq!(election.terms, 2);

    let mut election = super::tests::election("me");
    exchange(&mut election, at(1), |_| Answer::Absent);
    assert!(matches!(exchange(&mut election, at(1), stored(1)), Wish::Create(_)));
    for (seconds, standing) in [(3, Standing::Begins), (5, Standing::Holds)] {
        exchange(&mut election, at(seconds), stored(seconds));
        assert_eq!(election.standing(&at(seconds)), standing);
    }
}

#[test]
fn it_is_given_back_only_where_a_read_shows_that_it_is_the_own_one() {
    let mut election = holding();
    election.leave();
    assert_eq!((election.term(), election.has_left()), (None, false));
    let own = {
        let (wish, _) = holding().wish(&at(2));
        let Wish::Replace(mut lease) = wish else {
            panic!("it is not renewed");
        };
        lease["spec"]["renewTime"] = json!("2026-01-01T00:00:01.000000Z");
        versioned(lease, 6)
    };
    exchange(&mut election, at(2), |_| Answer::Lease(own));
    let Wish::Replace(released) = exchange(&mut election, at(2), stored(7)) else {
        panic!("it is not given back");
    };
    assert_eq!(released["spec"]["holderIdentity"], "");
    assert!(election.has_left());

    let mut election = holding();
    election.leave();
    exchange(&mut election, at(2), |_| Answer::Lease(held_by("you", 9)));
    assert!(election.has_left());
}

#[test]
fn a_lease_of_another_operator_or_with_a_strategy_is_left_alone() {
    let mut other = held_by("", 5);
    other["metadata"]["labels"][OPERATOR] = json!("other");
    let mut given = held_by("", 5);
    given["spec"]["strategy"] = json!("OldestEmulationVersion");
    let operator = "other".to_owned();
    for (lease, standing) in [(other, Standing::OfOther { operator }), (given, Standing::Given)] {
        let mut election = election("me");
        exchange(&mut election, at(1), |_| Answer::Lease(lease));
        assert_eq!(election.standing(&at(1)), standing);
        assert_eq!(election.wish(&at(99)).0, Wish::Read);
    }
}

#[test]
fn who_may_not_read_it_asks_seldom_and_a_busy_server_is_obeyed() {
    let mut election = election("me");
    exchange(&mut election, at(1), |_| Answer::Refused);
    assert_eq!(election.due(), at(31).mono);
    let retry_after = Some(Duration::from_secs(60));
    exchange(&mut election, at(31), |_| Answer::Failed { retry_after });
    assert_eq!(election.due(), at(61).mono);
    let mut election = holding();
    exchange(&mut election, at(2), |_| Answer::Failed { retry_after });
    // Half of the remaining term.
    assert_eq!(election.due(), at(2).mono + Duration::from_millis(5500));
}

#[test]
fn what_others_have_freed_is_left_to_its_former_holder_for_its_time() {
    let mut election = election("me");
    exchange(&mut election, at(1), |_| Answer::Lease(held_by("other", 5)));
    // This is not a release: the former holder may not know of it yet.
    let mut freed = held_by("other", 6);
    freed["spec"]["holderIdentity"] = json!("");
    election.watched(freed.clone(), &at(2));
    let (wish, _) = election.wish(&at(3));
    assert_eq!(wish, Wish::Read, "it is taken at once");
    assert!(election.due() < at(19).mono);
    exchange(&mut election, at(18), |_| Answer::Lease(freed));
    assert!(matches!(election.wish(&at(18)).0, Wish::Replace(_)));
}

#[test]
fn what_others_have_emptied_is_left_to_its_former_holder_for_its_time() {
    let blank = |version| versioned(json!({"metadata": {"name": "op"}, "spec": {}}), version);
    for is_created_anew in [false, true] {
        let mut election = election("me");
        exchange(&mut election, at(1), |_| Answer::Lease(held_by("other", 5)));
        if is_created_anew {
            election.deleted(&held_by("other", 6), &at(2));
        }
        election.watched(blank(7), &at(2));
        assert_eq!(election.wish(&at(3)).0, Wish::Read, "it is taken at once");
        exchange(&mut election, at(16), |_| Answer::Lease(blank(7)));
        assert_eq!(election.wish(&at(16)).0, Wish::Read, "it is taken early");
        exchange(&mut election, at(17), |_| Answer::Lease(blank(7)));
        assert!(matches!(election.wish(&at(17)).0, Wish::Replace(_)));
    }
    // A former holder is unknown, so the term begins late, as with a new Lease.
    let mut election = election("me");
    exchange(&mut election, at(1), |_| Answer::Lease(blank(5)));
    assert!(matches!(exchange(&mut election, at(1), stored(6)), Wish::Replace(_)));
    assert_eq!(election.standing(&at(1)), Standing::Begins);
}
