//! Causes for unit tests of this crate, and calls without an engine.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::handler::cause::{Attempt, Cause, Change, Reason, Subject, Surroundings};
use crate::handler::decl::{Call, Callee, Handler, Returned};
use crate::object::body::Body;
use crate::object::diff::Diff;
use crate::object::event::EventType;
use crate::object::patch::Patch;
use crate::object::resource::Resource;

/// The object of most tests.
pub(crate) fn myapp() -> Value {
    json!({
        "apiVersion": "demo.rtfm.co.ua/v1",
        "kind": "MyApp",
        "metadata": {
            "name": "example-app",
            "namespace": "default",
            "uid": "uid-1",
            "labels": {"app": "x"},
        },
        "spec": {"image": "nginx:latest", "banner": "🚀"},
    })
}

/// A call of `handler` for `object`, as a creation and as a first listing.
pub(crate) fn cause(handler: &Arc<Handler>, object: Value) -> Cause {
    Cause {
        handler: Arc::clone(handler),
        surroundings: Surroundings::default(),
        attempt: Attempt {
            retry: 2,
            started: Timestamp::UNIX_EPOCH,
            runtime: Duration::from_secs(90),
        },
        subject: Some(Subject {
            resource: Arc::new(Resource {
                plural: "myapps".to_owned(),
                ..Resource::default()
            }),
            change: Some(Change {
                reason: Reason::Create,
                old: None,
                new: Some(Arc::new(json!({"spec": object["spec"]}))),
                diff: Arc::new(Diff::default()),
            }),
            event: Some(EventType::Listed),
            body: Arc::new(Body::new(object)),
        }),
        subs: None,
    }
}

/// Call the cause's handler; its future must not wait for anything.
pub(crate) fn call(cause: &Cause) -> (Returned, Patch) {
    let mut patch = Patch::new();
    let returned = match &cause.handler.callee {
        Callee::Fn(Call::Async(function)) => ready(function(cause, &mut patch)),
        Callee::Fn(Call::Blocking(function)) => function(cause, &mut patch),
        Callee::Closure(function) => ready(function(cause, &mut patch)),
    };
    (returned, patch)
}

fn ready<F: Future>(future: F) -> F::Output {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the handler waits, but nothing would wake it"),
    }
}
