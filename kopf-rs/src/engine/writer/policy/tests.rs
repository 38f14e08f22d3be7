use super::*;

const STATUS: Request = Request::Patch(Part::Status);
const OBJECT: Request = Request::Patch(Part::Object { with_status: false });
const LANDED: Answer = Answer::Landed { is_outdated: false };
const FAILED: Answer = Answer::Failed { retry_after: Duration::ZERO };
const QUIETLY: Next = Next::Again { at_least: Duration::ZERO, is_told: false };
const LOUDLY: Next = Next::Again { at_least: Duration::ZERO, is_told: true };

#[test]
fn the_first_table() {
    let first = Tries::default();
    let late = Tries { failures: 3, denials: 9, ..first };
    let outdated = Answer::Landed { is_outdated: true };
    let throttled = |seconds| Answer::Failed { retry_after: Duration::from_secs(seconds) };
    let asked = |seconds, is_told| Next::Again { at_least: Duration::from_secs(seconds), is_told };
    for (answer, request, tries, next) in [
        (LANDED, STATUS, first, Next::Done),
        (LANDED, OBJECT, late, Next::Done),
        (outdated, STATUS, first, Next::PlanAnew),
        (Answer::NotFound, STATUS, first, Next::Read(Why::NoStatus)),
        (Answer::NotFound, OBJECT, first, Next::Gone),
        (Answer::OtherObject, OBJECT, first, Next::Gone),
        (Answer::OtherObject, STATUS, first, Next::Gone),
        (Answer::Conflict, OBJECT, late, Next::Read(Why::Conflict)),
        (Answer::Refused, OBJECT, first, Next::Refused),
        (Answer::Forbidden, OBJECT, first, QUIETLY),
        (Answer::Forbidden, OBJECT, late, LOUDLY),
        (FAILED, STATUS, first, QUIETLY),
        (FAILED, OBJECT, late, LOUDLY),
        (throttled(3), OBJECT, first, asked(3, false)),
        (throttled(60), OBJECT, first, asked(60, true)),
    ] {
        let found = after(answer, request, &tries);
        assert_eq!(found, next, "{answer:?} to {request:?} after {tries:?}");
    }
}

#[test]
fn the_second_table() {
    let first = Tries::default();
    let last_rebind = Tries { rebinds: 3, ..first };
    for (sight, why, tries, next) in [
        (Sight::OtherObject, Why::Conflict, first, Next::Gone),
        (Sight::OtherObject, Why::NoStatus, first, Next::Gone),
        (Sight::OtherObject, Why::ToPlan, first, Next::Gone),
        (Sight::OtherFinalizers, Why::NoStatus, first, Next::PlanAnew),
        (Sight::Newer, Why::NoStatus, first, Next::AllInOne),
        (Sight::Unchanged, Why::NoStatus, first, Next::AllInOne),
        (Sight::OtherFinalizers, Why::Conflict, first, Next::PlanAnew),
        (Sight::Unchanged, Why::Conflict, first, Next::PlanAnew),
        (Sight::Done, Why::Conflict, last_rebind, Next::Done),
        (Sight::Newer, Why::Conflict, first, Next::Rebind),
        (Sight::Newer, Why::Conflict, last_rebind, Next::PlanAnew),
        (Sight::Newer, Why::ToPlan, first, Next::PlanAnew),
    ] {
        let found = after(Answer::Found(sight), Request::Read(why), &tries);
        assert_eq!(found, next, "{sight:?} for {why:?} after {tries:?}");
    }
    let read = |answer, why| after(answer, Request::Read(why), &first);
    assert_eq!(read(Answer::NotFound, Why::NoStatus), Next::Gone);
    assert_eq!(read(Answer::Forbidden, Why::Conflict), Next::PlanAnew);
    assert_eq!(read(Answer::Forbidden, Why::ToPlan), Next::PlanAnew);
    assert_eq!(read(FAILED, Why::Conflict), QUIETLY);
}

#[test]
fn an_operator_that_is_to_end_or_stops_does_not_wait_for_ever() {
    let once = |denials| Tries { once: true, denials, ..Tries::default() };
    assert_eq!(after(Answer::Forbidden, OBJECT, &once(3)), QUIETLY);
    assert_eq!(after(Answer::Forbidden, OBJECT, &once(4)), Next::Forbidden);
    let last = |failures| Tries { patience: Patience::Last, failures, ..Tries::default() };
    assert_eq!(after(FAILED, OBJECT, &last(2)), QUIETLY);
    assert_eq!(after(FAILED, OBJECT, &last(3)), Next::GiveUp);
}
