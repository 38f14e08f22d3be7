//! Errors where a handler returns: written out, or in the short forms.

use std::error::Error;

use kopf_rs::prelude::*;
use kopf_rs::{Context, Registry};

#[on_create("kopfexamples")]
async fn written_out(spec: &Value, retry: u32) -> HandlerResult<Value> {
    if retry == 0 {
        return Err(TemporaryError::new("not yet").delay(5));
    }
    let Some(size) = spec["size"].as_u64() else {
        return Err(PermanentError::new("spec.size must be a number"));
    };
    match size {
        0 => Err(kopf_rs::TemporaryError::new("empty")),
        1 => Err(TemporaryError::new("one"))?,
        2 => Err(PermanentError::new("two").into()),
        3..10 => {
            if size > 5 {
                Err(PermanentError::new(format!("{size}")))
            } else {
                Ok(json!(size))
            }
        }
        _ => Ok(Value::Null),
    }
}

/// The errors of the function may be of another type.
#[on_update("kopfexamples")]
fn in_other_types(retry: u32) -> Result<(), Box<dyn Error + Send + Sync>> {
    let told = |text: &str| -> Result<(), PermanentError> { Err(PermanentError::new(text)) };
    if retry > 3 {
        told("in a closure, errors are as they are written")?;
    }
    Err(TemporaryError::new("again"))
}

#[on_resume("kopfexamples")]
async fn short(spec: &Value, name: &str, retry: u32) -> HandlerResult {
    if spec["ready"] != true {
        retry!(5, "{name} is not ready, attempt {}", retry + 1);
    }
    let Some(size) = spec["size"].as_u64() else {
        retry!("no size yet");
    };
    if size > 100 {
        fail!("spec.size is {size}: expected at most 100");
    }
    limit(size)
}

/// Functions without an attribute, too.
fn limit(size: u64) -> HandlerResult {
    match size {
        0 => retry!(std::time::Duration::from_secs(5), "size is {size}"),
        1 => fail!("it is 1"),
        _ => Ok(()),
    }
}

#[test]
fn annotated_functions_fail_as_they_say() {
    let told = |result: HandlerResult<Value>| result.unwrap_err();
    assert!(matches!(told(ready(written_out(&json!({"size": 5}), 0))), HandlerError::Temporary(_)));
    for (size, is_permanent) in [(0, false), (1, false), (2, true), (6, true)] {
        let error = told(ready(written_out(&json!({"size": size}), 1)));
        assert_eq!(matches!(error, HandlerError::Permanent(_)), is_permanent);
    }
    assert!(in_other_types(0).unwrap_err().is::<TemporaryError>());
    assert!(in_other_types(4).unwrap_err().is::<PermanentError>());
}

#[test]
fn short_forms_say_what_is_to_become_of_it() {
    let said = |spec: Value| ready(short(&spec, "x", 1)).unwrap_err();
    let waiting = said(json!({}));
    assert_eq!(waiting.to_string(), "x is not ready, attempt 2");
    assert!(matches!(waiting, HandlerError::Temporary(_)));
    let refused = said(json!({"ready": true, "size": 101}));
    assert_eq!(refused.to_string(), "spec.size is 101: expected at most 100");
    assert!(matches!(refused, HandlerError::Permanent(_)));
    assert!(limit(0).is_err() && limit(1).is_err() && limit(2).is_ok());
}

#[test]
fn closures_have_the_short_forms() {
    let registry = Registry::new().on_create(
        "kopfexamples",
        handler("closure", |cause: Context| async move {
            if cause.retry() == 0 {
                retry!(0.5, "not yet");
            }
            fail!("never: {}", cause.name());
            #[expect(unreachable_code, reason = "it says what the closure returns")]
            Ok(())
        }),
    );
    registry.check().unwrap();
}

fn ready<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("it waits"),
    }
}
