//! Causes for unit tests of this crate, and calls without an engine.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::handler::cause::{Attempt, Cause, CauseContext, Reason, SubjectObject};
use crate::handler::decl::{Call, Callee, Handler, Returned};
use crate::handler::family::change::{Change, ChangeSubject};
use crate::handler::family::event::EventSubject;
use crate::handler::family::{Family, Subject};
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

/// A call of `handler` for `object`, as a creation or as a first listing.
pub(crate) fn cause(handler: &Arc<Handler>, object: Value) -> Cause {
    let spec = json!({"spec": object["spec"]});
    let object = SubjectObject {
        resource: Arc::new(Resource {
            plural: "myapps".to_owned(),
            ..Resource::default()
        }),
        body: Arc::new(Body::new(object)),
    };
    let subject = match &handler.family {
        Family::Change(_) => Subject::Change(ChangeSubject {
            object,
            change: Change {
                reason: Some(Reason::Create),
                old: None,
                new: Some(Arc::new(spec)),
                diff: Arc::new(Diff::default()),
            },
            subhandlers: None,
        }),
        Family::Event(_) => Subject::Event(EventSubject {
            object,
            event: EventType::Listed,
        }),
        Family::Activity(handler) => Subject::Activity(handler.activity),
    };
    Cause {
        handler: Arc::clone(handler),
        context: CauseContext::default(),
        attempt: Attempt {
            retry: 2,
            started: Timestamp::UNIX_EPOCH,
            runtime: Duration::from_secs(90),
        },
        subject,
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
