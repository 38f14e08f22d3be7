//! The arguments of handlers: one marker type per name, documented with the types it can be received in.
//!
//! The name of an argument selects the value, and its type decides the conversion. "JSON" below means: `Value`, `&Value`, `serde_json::Map`,
//! `&str`, or any type `T` or `&T` that implements `Deserialize`. A value that does not fit the type is a permanent error, which names the path,
//! such as `spec.image: expected a string, found integer 5`. Every argument can also be an `Option`, which is `None` if the value is absent.
//!
//! ```
//! use kopf_rs::prelude::*;
//!
//! #[derive(Deserialize)]
//! struct MyAppSpec { image: String }
//!
//! #[on_create("myapps")]
//! async fn create_myapp(
//!     spec: MyAppSpec,
//!     #[from(spec)] raw: &Value,       // another name for an argument
//!     namespace: Option<&str>,         // a cluster-scoped object has none
//!     _labels: &Value,                 // not used: an underscore changes nothing
//! ) -> HandlerResult {
//!     assert_eq!(raw["image"], spec.image);
//!     Ok(())
//! }
//! ```
//!
//! The implementations of [`FromArg`](crate::FromArg) and [`LendArg`](crate::LendArg) have these markers for `K`.

macro_rules! markers {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[expect(non_camel_case_types, reason = "named as the argument, so that compiler messages name it")]
        #[derive(Debug)]
        pub enum $name {}
    )*};
}

markers! {
    /// The whole object: [`&Body`](crate::Body), `Body`, or JSON (a type that derives `kube::CustomResource`, for instance).
    body
    /// The stanza `spec`, as JSON. A missing stanza is an empty one.
    spec
    /// The stanza `metadata`, as JSON.
    meta
    /// The stanza `status`, as JSON. A missing stanza is an empty one.
    status
    /// `metadata.uid`: `&str`, `String`.
    uid
    /// `metadata.name`: `&str`, `String`.
    name
    /// `metadata.namespace`: `&str`, `String`, and as an `Option` where objects may be cluster-scoped.
    namespace
    /// `metadata.labels`: [`&Labels`](crate::Labels), `Labels`, or JSON, such as `BTreeMap<String, String>`.
    labels
    /// `metadata.annotations`: as [`labels`].
    annotations
    /// The resource that the object belongs to: [`&Resource`](crate::Resource), `Resource`.
    resource
    /// The values that handlers of this object keep in the process: [`Memo`](crate::Memo), `&Memo`.
    memo
    /// Logs about this object, by `info!(logger, "...")`: [`Logger`](crate::Logger), `&Logger`.
    logger
    /// The value of the attribute's option `param`: `T` or `&T`, of exactly that type.
    param
    /// The number of the attempt, from 0: any unsigned integer.
    retry
    /// When the first attempt was due: `SystemTime`, or `String` in RFC 3339.
    started
    /// The time since `started`: `Duration`.
    runtime
    /// Only for `on_event`, the type of the watch event: [`EventType`](crate::EventType), `Option<&str>`. May also be written `r#type`.
    event_type
    /// Only for `on_event`, the watch event with its `type` and `object`: as JSON.
    event
    /// Why the object is handled: [`Reason`](crate::Reason), `&str`. Not for `on_event`.
    reason
    /// The essence of the object that was handled last, as JSON, or the value of the handler's `field` in it; absent for new objects. Not for
    /// `on_event`.
    old
    /// The current essence of the object, as JSON, or the value of the handler's `field` in it. The essence is the object without its status and
    /// system fields. Not for `on_event`.
    new
    /// The differences from `old` to `new`: [`&Diff`](crate::Diff), `Diff`. Not for `on_event`.
    diff
    /// Only for `daemon` and `timer`, the stop flag: [`&Stopped`](crate::Stopped), `Stopped`.
    stopped
    /// Only for activities, the operator's settings, which `on_startup` may change: [`LiveSettings`](crate::LiveSettings).
    settings
    /// Only for activities, `startup` or `cleanup`: `&str`, `String`.
    activity
    /// The Kubernetes client: [`Client`](crate::Client), `&Client`.
    client
}
