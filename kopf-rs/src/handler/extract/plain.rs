//! Arguments with dedicated types: names, times, the logger, the memo, the diff.

use std::time::{Duration, SystemTime};

use crate::handler::cause::Cause;
use crate::handler::error::{HandlerError, PermanentError};
use crate::handler::extract::{GivenAs, LentAs, arg};
use crate::handler::logger::Logger;
use crate::handler::memo::Memo;
use crate::handler::operation::Operation;
use crate::handler::review::Warnings;
use crate::handler::subject::Reason;
use crate::object::body::Body;
use crate::object::diff::Diff;
use crate::object::event::EventType;
use crate::object::labels::Labels;
use crate::object::resource::Resource;

/// Arguments that the cause stores as `$kept`: received as `&$kept`, or cloned.
macro_rules! kept {
    ($($name:ident: $kept:ty, $($owned:ty)?, |$cause:ident| $get:expr;)*) => {$(
        impl<'a> LentAs<'a, arg::$name> for $kept {
            type Held = &'a $kept;
            fn hold($cause: &'a Cause) -> Result<&'a $kept, HandlerError> {
                $get.ok_or_else(|| absent(stringify!($name)))
            }
            fn hold_if_any($cause: &'a Cause) -> Result<Option<&'a $kept>, HandlerError> {
                Ok($get)
            }
        }
        $(
            impl<'a> GivenAs<'a, arg::$name> for $owned {
                fn from_arg(cause: &'a Cause) -> Result<Self, HandlerError> {
                    <$kept as LentAs<'a, arg::$name>>::hold(cause).map(Self::from)
                }
                fn from_arg_if_any(cause: &'a Cause) -> Result<Option<Self>, HandlerError> {
                    Ok(<$kept as LentAs<'a, arg::$name>>::hold_if_any(cause)?.map(Self::from))
                }
            }
        )?
    )*};
}

/// Arguments that are copied out of the cause.
macro_rules! copied {
    ($($name:ident: $type:ty, |$cause:ident| $get:expr;)*) => {$(
        impl<'a> GivenAs<'a, arg::$name> for $type {
            fn from_arg($cause: &'a Cause) -> Result<Self, HandlerError> {
                $get.ok_or_else(|| absent(stringify!($name)))
            }
            fn from_arg_if_any($cause: &'a Cause) -> Result<Option<Self>, HandlerError> {
                Ok($get)
            }
        }
    )*};
}

kept! {
    name: str, String, |cause| Some(cause.name());
    uid: str, String, |cause| Some(cause.uid());
    namespace: str, String, |cause| cause.namespace();
    activity: str, String, |cause| cause.activity();
    reason: str, , |cause| cause.reason().map(Reason::as_str);
    event_type: str, , |cause| cause.event_type().and_then(EventType::as_str);
    operation: str, String, |cause| cause.operation().map(Operation::as_str);
    subresource: str, String, |cause| cause.subresource();
    warnings: Warnings, , |cause| cause.review().map(|it| &it.warnings);
    body: Body, , |cause| Some(cause.body());
    resource: Resource, , |cause| cause.resource();
    logger: Logger, , |cause| Some(cause.logger());
    memo: Memo, , |cause| Some(cause.memo());
    diff: Diff, , |cause| Some(cause.diff());
    labels: Labels, , |cause| Some(cause.labels());
    annotations: Labels, , |cause| Some(cause.annotations());
}

copied! {
    body: Body, |cause| Some(cause.body().clone());
    resource: Resource, |cause| cause.resource().cloned();
    logger: Logger, |cause| Some(cause.logger().clone());
    memo: Memo, |cause| Some(cause.memo().clone());
    diff: Diff, |cause| Some(cause.diff().clone());
    labels: Labels, |cause| Some(cause.labels().clone());
    annotations: Labels, |cause| Some(cause.annotations().clone());
    reason: Reason, |cause| cause.reason();
    operation: Operation, |cause| cause.operation();
    dryrun: bool, |cause| Some(cause.dryrun());
    warnings: Warnings, |cause| Some(cause.warnings());
    event_type: EventType, |cause| cause.event_type();
    started: SystemTime, |cause| Some(cause.started());
    started: String, |cause| Some(cause.attempt.started.to_string());
    runtime: Duration, |cause| Some(cause.runtime());
    retry: u8, |cause| Some(cause.retry().try_into().unwrap_or(u8::MAX));
    retry: u16, |cause| Some(cause.retry().try_into().unwrap_or(u16::MAX));
    retry: u32, |cause| Some(cause.retry());
    retry: u64, |cause| Some(cause.retry().into());
    retry: u128, |cause| Some(cause.retry().into());
    retry: usize, |cause| Some(usize::try_from(cause.retry()).unwrap_or(usize::MAX));
}

fn absent(name: &str) -> HandlerError {
    let advice = match name {
        "subresource" => "the request is about the object itself; take `subresource` as an `Option`",
        "namespace" => "the object is cluster-scoped; take `namespace` as an `Option`",
        _ => "there is none here; take it as an `Option`",
    };
    PermanentError::new(format!("the handler asks for `{name}`, but {advice}")).into()
}
