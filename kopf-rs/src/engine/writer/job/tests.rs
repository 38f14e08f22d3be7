use std::cell::Cell;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::*;
use crate::engine::rewritten::Rewritten;
use crate::object::operations::Operations;
use crate::object::patch::Patch;
use crate::rt::rng::Rng;

const READ: &str = "read";

fn resource(has_status: bool) -> Resource {
    let subresources = has_status.then(|| "status".to_owned());
    Resource {
        plural: "kopfexamples".into(),
        subresources: subresources.into_iter().collect(),
        ..Resource::default()
    }
}

fn state(uid: &str, version: &str, more: &Value) -> Raw {
    let mut state = json!({"metadata": {"name": "a", "uid": uid, "resourceVersion": version}});
    for (key, value) in more.as_object().unwrap() {
        if key == "finalizers" {
            state["metadata"]["finalizers"] = value.clone();
        } else {
            state[key] = value.clone();
        }
    }
    Raw::parse(&state.to_string()).unwrap()
}

fn merging(content: Value) -> impl Fn(&Raw) -> Result<Changes, String> {
    let mut patch = Patch::new();
    patch.merge(content);
    let patch = Arc::new(patch);
    move |_| Ok(Changes::Merge(patch.clone()))
}

/// Applies a function that adds to a list in the spec and to one in the status.
fn pushing(found: &Raw) -> Result<Changes, String> {
    let found = found.body().map_err(|error| error.to_string())?;
    let mut wanted = (*found).clone();
    for part in ["spec", "status"] {
        let items = wanted[part]["items"].as_array_mut().unwrap();
        items.push(json!("one"));
    }
    Ok(Changes::Operations { operations: Operations::between(&found, &wanted), wanted })
}

fn lists(spec: &Value, status: &Value) -> Value {
    json!({"spec": {"items": spec}, "status": {"items": status}})
}

type Reply = Result<Raw, ClusterError>;

fn conflict() -> Reply {
    Err(ClusterError::Conflict("no".into()))
}

fn lost() -> Reply {
    Err(ClusterError::Unreachable("reset".into()))
}

fn missing() -> Reply {
    Err(ClusterError::NotFound("no".to_owned().into()))
}

/// Returns the requests that these answers lead to, with the version that each is for, and the end.
fn told(mut job: Job<'_>, answers: Vec<Reply>) -> (Vec<String>, String) {
    let mut asked = Vec::new();
    let mut answers = answers.into_iter();
    loop {
        let Some(request) = job.request() else {
            let version = job.state().facts().resource_version.clone();
            assert_eq!(answers.next().map(|_| ()), None, "{asked:?}");
            return (asked, format!("landed {version}"));
        };
        let version = job.state().facts().resource_version.clone();
        asked.push(match request {
            Request::Read(_) => READ.to_owned(),
            Request::Patch(Part::Status) => format!("status {version}"),
            Request::Patch(Part::Object { with_status: true }) => format!("all {version}"),
            Request::Patch(Part::Object { .. }) => format!("rest {version}"),
        });
        let answer = answers.next().expect("an answer is there");
        match job.take(request, answer) {
            Step::GoOn | Step::Again { .. } => {}
            Step::End(written) => {
                let end = match written {
                    Written::Gone { .. } => "gone".to_owned(),
                    Written::Outdated(Ok(raw)) | Written::Read(Ok(raw)) => {
                        format!("outdated {}", raw.facts().resource_version)
                    }
                    written => format!("{written:?}"),
                };
                return (asked, end);
            }
        }
    }
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

#[test]
fn the_status_goes_apart_and_first() {
    let plan = merging(json!({"spec": {"a": 1}, "status": {"x": 1}}));
    let none = json!({});
    let (resource, known) = (resource(true), state("u", "5", &none));
    let job = || Job::write(&resource, &known, &plan, None).unwrap();
    let at = |version: &str| Ok(state("u", version, &none));
    let with_status = json!({"status": {"x": 1}});
    let kept = |version: &str| Ok(state("u", version, &with_status));
    for (answers, asked, end) in [
        (vec![at("6"), at("7")], vec!["status 5", "rest 6"], "landed 7"),
        // Other writers interfere.
        (
            vec![conflict(), at("8"), at("9"), at("10")],
            vec!["status 5", READ, "status 8", "rest 9"],
            "landed 10",
        ),
        // The answer was lost although the change landed; the server has to confirm that.
        (
            vec![lost(), conflict(), at("6"), at("6"), at("7")],
            vec!["status 5", "status 5", READ, "status 6", "rest 6"],
            "landed 7",
        ),
        // The server reports a conflict although nothing has changed.
        (vec![conflict(), at("5")], vec!["status 5", READ], "outdated 5"),
        // The subresource is gone, or the object.
        (vec![missing(), at("5"), kept("6")], vec!["status 5", READ, "all 5"], "landed 6"),
        // The subresource is back by then.
        (
            vec![missing(), at("5"), at("6"), kept("7")],
            vec!["status 5", READ, "all 5", "status 6"],
            "landed 7",
        ),
        // The subresource is not back, and the schema has no status.
        (
            vec![missing(), at("5"), at("6"), missing()],
            vec!["status 5", READ, "all 5", "status 6"],
            "landed 6",
        ),
        (vec![missing(), missing()], vec!["status 5", READ], "gone"),
        (vec![conflict(), Ok(state("other", "9", &none))], vec!["status 5", READ], "gone"),
        (vec![at("6"), missing()], vec!["status 5", "rest 6"], "gone"),
    ] {
        let found = told(job(), answers);
        assert_eq!((found.0, &*found.1), (asked.into_iter().map(str::to_owned).collect(), end));
    }
}

#[test]
fn without_a_status_subresource_it_is_one_request_and_without_content_none() {
    let (resource, known) = (resource(false), state("u", "5", &json!({})));
    let plan = merging(json!({"spec": {"a": 1}, "status": {"x": 1}}));
    let job = Job::write(&resource, &known, &plan, None).unwrap();
    let kept = json!({"status": {"x": 1}});
    let found = told(job, vec![Ok(state("u", "6", &kept))]);
    assert_eq!(found, (vec!["all 5".to_owned()], "landed 6".to_owned()));
    let plan = merging(json!({"status": {}}));
    let job = Job::write(&resource, &known, &plan, None).unwrap();
    assert_eq!(told(job, Vec::new()), (Vec::new(), "landed 5".to_owned()));
}

#[test]
fn a_status_that_the_server_drops_goes_to_a_subresource_that_may_be_there() {
    let (resource, known) = (resource(false), state("u", "5", &json!({})));
    let plan = merging(json!({"spec": {"a": 1}, "status": {"x": 1}}));
    let job = || Job::write(&resource, &known, &plan, None).unwrap();
    let at = |version: &str, status: Value| Ok(state("u", version, &json!({"status": status})));
    let dropped = || at("6", json!({"y": 1}));
    let forbidden = || Err(ClusterError::Denied { message: "no".into(), rule: "things/status".into() });
    for (answers, asked, end) in [
        (vec![at("6", json!({"x": 1}))], vec!["all 5"], "landed 6"),
        (vec![dropped(), at("7", json!({"x": 1}))], vec!["all 5", "status 6"], "landed 7"),
        (
            vec![dropped(), conflict(), at("7", json!({})), at("8", json!({}))],
            vec!["all 5", "status 6", READ, "status 7"],
            "landed 8",
        ),
        (vec![dropped(), missing()], vec!["all 5", "status 6"], "landed 6"),
        (vec![dropped(), forbidden()], vec!["all 5", "status 6"], "landed 6"),
    ] {
        let found = told(job(), answers);
        assert_eq!((found.0, &*found.1), (strings(&asked), end));
    }
    // Known facts are not requested again.
    let mut without = job();
    without.know_status_path(false);
    assert_eq!(told(without, vec![dropped()]).0, ["all 5"]);
    let mut with = job();
    with.know_status_path(true);
    let answers = vec![missing(), at("5", json!({})), dropped(), at("7", json!({"x": 1}))];
    let asked = ["status 5", READ, "all 5", "status 6"];
    assert_eq!(told(with, answers).0, asked);
}

#[test]
fn finalizers_are_only_replaced_where_they_are_as_expected() {
    let plan = merging(json!({"metadata": {"finalizers": []}, "status": {"x": 1}}));
    let ours = json!({"finalizers": ["f"]});
    let others = json!({"finalizers": ["f", "other"]});
    let (resource, known) = (resource(true), state("u", "5", &ours));
    let expected = ["f".to_owned()];
    let job = || Job::write(&resource, &known, &plan, Some(&expected)).unwrap();
    let found = told(job(), vec![Ok(state("u", "6", &others))]);
    assert_eq!(found.1, "outdated 6");
    let answers = vec![Ok(state("u", "6", &ours)), conflict(), Ok(state("u", "7", &others))];
    assert_eq!(told(job(), answers).1, "outdated 7");
    let answers = vec![
        Ok(state("u", "6", &ours)),
        conflict(),
        Ok(state("u", "7", &ours)),
        Ok(state("u", "8", &json!({}))),
    ];
    let found = told(job(), answers);
    assert_eq!(found.0, ["status 5", "rest 6", READ, "rest 7"]);
    let patch = job();
    let bound = patch.patch(Part::Object { with_status: false });
    assert!(bound.is_some_and(|request| request.is_bound));
}

#[test]
fn what_functions_have_made_counts_once() {
    let (none, one) = (json!([]), json!(["one"]));
    let resource = resource(true);
    let known = state("u", "5", &lists(&none, &none));
    let job = || Job::write(&resource, &known, &pushing, None).unwrap();
    let status_landed = || Ok(state("u", "6", &lists(&none, &one)));
    let all_landed = || Ok(state("u", "7", &lists(&one, &one)));
    // The answer for the status is lost, then the one for the rest.
    let answers = vec![lost(), conflict(), status_landed(), all_landed()];
    let found = told(job(), answers);
    assert_eq!(found.0, ["status 5", "status 5", READ, "rest 6"]);
    assert_eq!(found.1, "landed 7");
    let answers = vec![status_landed(), lost(), conflict(), all_landed()];
    let found = told(job(), answers);
    assert_eq!(found.0, ["status 5", "rest 6", "rest 6", READ]);
    assert_eq!(found.1, "landed 7");
    // After the lost write, another writer has added a finalizer.
    let with = |finalizers: &[&str], version, lists: Value| {
        let mut more = lists;
        more["finalizers"] = json!(finalizers);
        state("u", version, &more)
    };
    let (expected, known) = (["f".to_owned()], with(&["f"], "5", lists(&none, &none)));
    let job_with_finalizers = Job::write(&resource, &known, &pushing, Some(&expected)).unwrap();
    let answers = vec![
        Ok(with(&["f"], "6", lists(&none, &one))),
        lost(),
        conflict(),
        Ok(with(&["f", "other"], "7", lists(&one, &one))),
    ];
    assert_eq!(told(job_with_finalizers, answers).1, "landed 7");
    // The same while the rest is pending, which would replace finalizers that have changed.
    let job_with_finalizers = Job::write(&resource, &known, &pushing, Some(&expected)).unwrap();
    let answers = vec![lost(), conflict(), Ok(with(&["f", "other"], "6", lists(&none, &one)))];
    let found = told(job_with_finalizers, answers);
    assert_eq!(found.0, ["status 5", "status 5", READ]);
    assert_eq!(found.1, "outdated 6");
    // Another writer comes in between: the functions see its change, and the status is not changed twice.
    let theirs = || Ok(state("u", "8", &lists(&json!(["theirs"]), &one)));
    let mut between = job();
    for answer in [status_landed(), conflict(), theirs()] {
        let request = between.request().unwrap();
        assert!(matches!(between.take(request, answer), Step::GoOn));
    }
    let rest = Part::Object { with_status: false };
    assert_eq!(between.request(), Some(Request::Patch(rest)));
    let changes = between.patch(rest).unwrap().changes;
    let Changes::Operations { wanted, .. } = changes else {
        panic!("functions make operations");
    };
    assert_eq!(wanted["spec"]["items"], json!(["theirs", "one"]));
    // An equal change by another writer does not count as an own one while every request was answered.
    let alike = told(job(), vec![conflict(), all_landed(), all_landed(), all_landed()]);
    assert_eq!(alike.0, ["status 5", READ, "status 7", "rest 7"]);
}

#[test]
fn what_was_rewritten_of_the_status_is_known_beside_the_rest_of_the_same_write() {
    let wanted = json!({"spec": {"n": 1}, "status": {"cpu": "0.5"}});
    let plan = merging(wanted.clone());
    let (resource, known) = (resource(true), state("u", "5", &json!({})));
    let at = |version, spec: &Value| {
        let more = json!({"spec": spec, "status": {"cpu": "500m"}});
        state("u", version, &more)
    };
    let (nothing, ours) = (json!({}), json!({"n": 1}));
    let both = json!({"max": 9, "n": 1});
    for (between, last, left) in [
        (vec![], &ours, json!({})),
        (vec![conflict(), Ok(at("7", &nothing))], &ours, json!({})),
        // Another writer has changed the spec, which may affect the status.
        (vec![conflict(), Ok(at("7", &json!({"max": 9})))], &both, json!({"status": {"cpu": "0.5"}})),
    ] {
        let mut shown = Shown::default();
        let mut job = Job::write(&resource, &known, &plan, None).unwrap();
        job.tell(&mut shown);
        let mut answers = vec![Ok(at("6", &nothing))];
        answers.extend(between);
        answers.push(Ok(at("8", last)));
        assert_eq!(told(job, answers).1, "landed 8");
        let mut rewritten = Rewritten::new(Instant::now(), 0);
        for seen in shown.rewritten {
            rewritten.note(seen);
        }
        let there = at("8", last).body().unwrap();
        let mut again = Patch::new();
        again.merge(wanted.clone());
        let mut again = again.effective(&there);
        rewritten.leave_out_of(&mut again, &there);
        assert_eq!(*again.as_value(), left);
    }
}

/// Returns the number of requests that one write sends without a pause, for random answers of the server.
fn requests(rng: &Rng, resource: &Resource) -> usize {
    let version = Cell::new(5);
    let pick = |share: f64| rng.next_f64() < share;
    let next = || {
        version.set(version.get() + u32::from(pick(0.9)));
        state("u", &version.get().to_string(), &lists(&json!([]), &json!([])))
    };
    let known = next();
    let mut job = Job::write(resource, &known, &pushing, None).unwrap();
    let mut count = 0;
    while let Some(request) = job.request() {
        count += 1;
        let answer = match request {
            Request::Read(_) => Ok(next()),
            Request::Patch(_) if pick(0.3) => Ok(next()),
            Request::Patch(_) if pick(0.2) => missing(),
            Request::Patch(_) => conflict(),
        };
        if !matches!(job.take(request, answer), Step::GoOn) {
            break;
        }
    }
    count
}

#[test]
fn no_more_than_eleven_requests_follow_each_other_without_a_pause() {
    for has_status in [true, false] {
        let (rng, resource) = (Rng::new(), resource(has_status));
        let longest = (0..20_000).map(|_| requests(&rng, &resource)).max();
        assert!(longest <= Some(11), "{longest:?}");
    }
}
