//! Causes for unit tests of this crate, and calls of handlers without an engine.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::handler::again::AgainCell;
use crate::handler::callee::{Callee, Function, Returned};
use crate::handler::cause::{Attempt, CauseContext};
use crate::handler::definition::{Handler, HandlerCall};
use crate::handler::index::erased::EntriesSink;
use crate::handler::live::Live;
use crate::handler::operation::Operation;
use crate::handler::review::{ReviewFacts, Warnings};
use crate::handler::stopped::Stopped;
use crate::handler::subject::{
    BackgroundSubject, Change, ChangeSubject, EventSubject, IndexSubject, Reason, ReviewSubject, Subject,
    SubjectObject,
};
use crate::object::body::Body;
use crate::object::diff::Diff;
use crate::object::event::EventType;
use crate::object::patch::Patch;
use crate::object::resource::Resource;

/// Returns the object of most tests.
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

/// Creates a call of `handler` for `object`, as for a creation or a first listing.
pub(crate) fn cause(handler: &Arc<Handler>, object: Value) -> HandlerCall {
    let spec = json!({"spec": object["spec"]});
    let object = SubjectObject {
        resource: Arc::new(Resource { plural: "myapps".to_owned(), ..Resource::default() }),
        body: Arc::new(Body::new(object)),
    };
    let subject = subject(handler, object, spec);
    let attempt = Attempt {
        retry: 2,
        is_first: false,
        started: Timestamp::UNIX_EPOCH,
        runtime: Duration::from_secs(90),
        key: None,
    };
    HandlerCall::new(Arc::clone(handler), CauseContext::default(), attempt, subject)
}

fn subject(handler: &Handler, object: SubjectObject, spec: Value) -> Subject {
    if let Some(activity) = handler.activity() {
        Subject::Activity(activity)
    } else if handler.is_for_events() {
        Subject::Event(EventSubject { object, event: EventType::Listed })
    } else if handler.index.is_some() {
        Subject::Index(IndexSubject { object, entries: EntriesSink::default() })
    } else if handler.admission().is_some() {
        Subject::Review(ReviewSubject {
            object,
            facts: Arc::new(ReviewFacts::of(Operation::Create)),
            sides: Arc::default(),
            warnings: Warnings::new(),
        })
    } else if handler.is_background() {
        Subject::Background(BackgroundSubject {
            again: AgainCell::default(),
            live: Live::of(object.body.clone()),
            stopped: Stopped::unset(None),
            object,
        })
    } else {
        Subject::Change(ChangeSubject {
            object,
            change: Change {
                reason: Some(Reason::Create),
                old: None,
                new: Some(Arc::new(spec)),
                diff: Arc::new(Diff::default()),
            },
            subhandlers: None,
        })
    }
}

/// Calls the handler, whose future must be ready at its first poll.
pub(crate) fn call(call: &HandlerCall) -> (Returned, Patch) {
    let cause = &call.cause;
    let mut patch = Patch::new();
    let returned = match &call.handler.callee {
        Callee::Fn(Function::Async(function)) => ready(function(cause, &mut patch)),
        Callee::Fn(Function::Blocking(function)) => function(cause, &mut patch),
        Callee::Closure(function) => ready(function(cause, &mut patch)),
        Callee::BlockingClosure(function) => function(cause, &mut patch),
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
