use super::*;

const STATUS: Request = Request::Patch(Part::Status);
const OBJECT: Request = Request::Patch(Part::Object { with_status: false });
const QUIETLY: Next = Next::Again { at_least: Duration::ZERO, is_told: false };
const LOUDLY: Next = Next::Again { at_least: Duration::ZERO, is_told: true };

fn not_found() -> ClusterError {
    ClusterError::NotFound("x".to_owned().into())
}

fn denied() -> ClusterError {
    ClusterError::Denied { message: String::new(), rule: String::new() }
}

fn unreachable() -> ClusterError {
    ClusterError::Unreachable(String::new())
}

#[test]
fn the_first_table() {
    let first = Tries::default();
    let late = Tries { failures: 3, denials: 9, ..first };
    let other = || ClusterError::OtherObject(String::new());
    let throttled = |seconds| ClusterError::Busy {
        code: 429,
        message: String::new(),
        retry_after: Some(Duration::from_secs(seconds)),
    };
    let asked = |seconds, is_told| Next::Again { at_least: Duration::from_secs(seconds), is_told };
    for (error, request, tries, next) in [
        (not_found(), STATUS, first, Next::Read(Why::NoStatus)),
        (not_found(), OBJECT, first, Next::Gone),
        (other(), OBJECT, first, Next::Gone),
        (other(), STATUS, first, Next::Gone),
        (ClusterError::Conflict(String::new()), OBJECT, late, Next::Read(Why::Conflict)),
        (ClusterError::Invalid(String::new()), OBJECT, first, Next::Refused),
        (denied(), OBJECT, first, QUIETLY),
        (denied(), OBJECT, late, LOUDLY),
        (unreachable(), STATUS, first, QUIETLY),
        (unreachable(), OBJECT, late, LOUDLY),
        (throttled(3), OBJECT, first, asked(3, false)),
        (throttled(60), OBJECT, first, asked(60, true)),
    ] {
        let found = after_error(&error, request, &tries);
        assert_eq!(found, next, "{error} to {request:?} after {tries:?}");
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
        let found = after_read(sight, why, &tries);
        assert_eq!(found, next, "{sight:?} for {why:?} after {tries:?}");
    }
    let read = |error, why| after_error(&error, Request::Read(why), &first);
    assert_eq!(read(not_found(), Why::NoStatus), Next::Gone);
    assert_eq!(read(denied(), Why::Conflict), Next::PlanAnew);
    assert_eq!(read(denied(), Why::ToPlan), Next::PlanAnew);
    assert_eq!(read(unreachable(), Why::Conflict), QUIETLY);
}

#[test]
fn an_operator_that_is_to_end_or_stops_does_not_wait_for_ever() {
    let once = |denials| Tries { once: true, denials, ..Tries::default() };
    assert_eq!(after_error(&denied(), OBJECT, &once(3)), QUIETLY);
    assert_eq!(after_error(&denied(), OBJECT, &once(4)), Next::Forbidden);
    let last = |failures| Tries { patience: Patience::Last, failures, ..Tries::default() };
    assert_eq!(after_error(&unreachable(), OBJECT, &last(2)), QUIETLY);
    assert_eq!(after_error(&unreachable(), OBJECT, &last(3)), Next::GiveUp);
}
