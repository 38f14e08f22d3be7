//! Answers conversion reviews: converts the objects of a review within its deadline.
//!
//! Runs the users' functions on blocking threads, so that they hold up nothing else. Must not know sockets.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::admission::answer::ReviewReply;
use crate::conversion::graph::{Conversions, ConvertedKind};
use crate::conversion::review::ConversionReview;
use crate::conversion::rules::Rules;
use crate::engine::invoke::guarded;
use crate::engine::report::{post, report, report_of_operator};
use crate::handler::event_sink::OperatorSink;
use crate::handler::logger::Logger;
use crate::happening::webhooks::Converting;
use crate::object::body::Body;

/// Answers conversion reviews. Clones share all state.
#[derive(Clone)]
pub(crate) struct Converter {
    conversions: Arc<Conversions>,
    definitions: Definitions,
    told: Arc<Told>,
}

/// The rules of the definitions (CRDs) of converted kinds, each empty until the definition has been read. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Definitions(Arc<HashMap<String, watch::Sender<Option<Rules>>>>);

/// The problems already reported. The API server converts the same objects again and again, and each problem is reported once.
struct Told {
    told: Mutex<HashSet<u64>>,
    /// The sink for Kubernetes Events about objects.
    events: Option<OperatorSink>,
}

/// The number of remembered reports; beyond it, all are forgotten.
const TOLD: usize = 1000;

impl Definitions {
    pub(crate) fn of(conversions: &Conversions) -> Self {
        let kinds = conversions.kinds().iter();
        let kinds = kinds.map(|kind| (kind.name.clone(), watch::Sender::new(None)));
        Self(Arc::new(kinds.collect()))
    }

    /// Stores the rules of the kind's definition.
    pub(crate) fn learn(&self, kind: &str, rules: Rules) {
        if let Some(known) = self.0.get(kind) {
            known.send_replace(Some(rules));
        }
    }

    /// Notes that the definition of the kind cannot be read. Rules that were read before stay in force.
    pub(crate) fn give_up(&self, kind: &str) {
        if let Some(known) = self.0.get(kind) {
            known.send_if_modified(|known| {
                let is_first = known.is_none();
                known.get_or_insert(Rules::Unknown);
                is_first
            });
        }
    }

    /// Returns the rules of the kind. Waits until the definition has been read or given up for the first time.
    async fn rules(&self, kind: &str) -> Rules {
        let Some(known) = self.0.get(kind) else {
            return Rules::Unknown;
        };
        let mut known = known.subscribe();
        let found = known.wait_for(Option::is_some).await;
        found.ok().and_then(|it| it.clone()).unwrap_or(Rules::Unknown)
    }
}

impl Converter {
    pub(crate) fn new(
        conversions: Arc<Conversions>,
        definitions: Definitions,
        events: Option<OperatorSink>,
    ) -> Self {
        Self { conversions, definitions, told: Arc::new(Told { told: Mutex::default(), events }) }
    }

    /// Answers the review that was posted to `path`.
    pub(crate) async fn answer(&self, path: &str, body: Bytes, within: Duration) -> ReviewReply {
        let Some(kind) = self.conversions.at_path(path) else {
            return ReviewReply::failed(404, "no objects are converted at this path");
        };
        let kind = kind.clone();
        let (name, told) = (kind.name.clone(), self.told.clone());
        // A blocking thread cannot be aborted, so it checks this token before each object.
        let over = CancellationToken::new();
        let _waiting = over.clone().drop_guard();
        let converting = async {
            let rules = self.definitions.rules(&name).await;
            tokio::task::spawn_blocking(move || told.answer(&kind, &body, &rules, &over)).await
        };
        match tokio::time::timeout(within, converting).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(_)) => ReviewReply::failed(500, "the conversion was cut off"),
            Err(_) => {
                let seconds = within.as_secs_f64();
                let message = format!("objects of {name} are not converted within {seconds:.1} seconds");
                let told = Converting::OutOfTime { kind: name, within };
                report_of_operator(&told);
                ReviewReply::failed(500, &message)
            }
        }
    }
}

impl Told {
    /// Answers a review. Cancelling `over` ends the work early, since the requester waits no more.
    fn answer(
        &self,
        kind: &ConvertedKind,
        body: &[u8],
        rules: &Rules,
        over: &CancellationToken,
    ) -> ReviewReply {
        if over.is_cancelled() {
            return ReviewReply::failed(500, "the time of the conversion is over");
        }
        let review = match ConversionReview::parse(body) {
            Ok(review) => review,
            Err(message) => return ReviewReply::failed(400, &message),
        };
        let ConversionReview { uid, desired, objects } = review;
        let converted: Result<Vec<_>, _> = objects
            .into_iter()
            .take_while(|_| !over.is_cancelled())
            .map(|object| self.converted(kind, object, &desired, rules))
            .collect();
        ReviewReply { status: 200, code: 200, body: ConversionReview::answer(&uid, converted) }
    }

    fn converted(
        &self,
        kind: &ConvertedKind,
        object: Value,
        desired: &str,
        rules: &Rules,
    ) -> Result<Value, String> {
        let about = Body::new(object.clone()).reference();
        let converted = guarded(|| kind.convert(object, desired, rules)).unwrap_or_else(Err);
        let version = desired.to_owned();
        let (result, told) = match converted {
            Ok(converted) => {
                let told = match (converted.omitted, converted.problem) {
                    (Some(omitted), _) => Some(Converting::Omitted { version, omitted }),
                    (_, Some(problem)) => Some(Converting::Kept { version, problem }),
                    (None, None) => None,
                };
                (Ok(converted.object), told)
            }
            Err(problem) => {
                let message = format!("{about}: {problem}");
                (Err(message), Some(Converting::Refused { version, problem }))
            }
        };
        if let Some(told) = told
            && self.is_news(&format!("{about} {told:?}"))
        {
            let about = Arc::new(about);
            report(&Logger::of(about.clone()), &told);
            if let Some(events) = &self.events {
                post(events, about, &told);
            }
        }
        result
    }

    fn is_news(&self, text: &str) -> bool {
        let mut told = self.told.lock();
        if told.len() >= TOLD {
            told.clear();
        }
        // A digest, because the sender of the review chooses the names in the text and their length.
        let digest = told.hasher().hash_one(text);
        told.insert(digest)
    }
}

#[cfg(test)]
mod fuzz;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::handler::conversion::{Conversion, conversion};
    use crate::handler::registry::Registry;

    fn converter(up: Conversion) -> Converter {
        let down = conversion("down", |spec: Value| Ok(spec));
        let of = |version| ("example.com", version, "things");
        let registry =
            Registry::new().on_convert(of("v1"), of("v2"), up).on_convert(of("v2"), of("v1"), down);
        assert_eq!(registry.check(), Ok(()));
        let conversions = Arc::new(Conversions::of(registry.conversions()));
        let definitions = Definitions::of(&conversions);
        definitions.give_up("things.example.com");
        Converter::new(conversions, definitions, None)
    }

    fn review(objects: &[Value]) -> Bytes {
        let review = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "request": {"uid": "u", "desiredAPIVersion": "example.com/v2", "objects": objects},
        });
        review.to_string().into()
    }

    fn object(version: &str, number: usize) -> Value {
        json!({
            "apiVersion": format!("example.com/{version}"), "kind": "Thing",
            "metadata": {"name": format!("n{number}"), "uid": number.to_string()}, "spec": {"number": number},
        })
    }

    async fn asked(converter: &Converter, objects: &[Value]) -> Value {
        let path = "/convert/things.example.com";
        let answer = converter.answer(path, review(objects), Duration::from_secs(29));
        let reply = answer.await;
        assert_eq!(reply.status, 200);
        let body: Value = serde_json::from_slice(&reply.body).unwrap();
        assert_eq!(body["response"]["uid"], "u");
        body["response"].clone()
    }

    #[tokio::test]
    async fn objects_are_answered_in_their_order_however_many_there_are() {
        let converter = converter(conversion("up", |spec: Value| Ok(json!({"n": spec["number"]}))));
        let none = asked(&converter, &[]).await;
        assert_eq!(none["convertedObjects"], json!([]));
        let objects: Vec<_> =
            (0..10_000).map(|number| object(if number % 3 == 0 { "v2" } else { "v1" }, number)).collect();
        let answer = asked(&converter, &objects).await;
        let objects = answer["convertedObjects"].as_array().unwrap();
        assert_eq!((answer["result"]["status"].as_str(), objects.len()), (Some("Success"), 10_000));
        for (number, object) in objects.iter().enumerate() {
            assert_eq!(object["metadata"]["name"], format!("n{number}"));
            assert_eq!(object["apiVersion"], "example.com/v2");
            let member = if number % 3 == 0 { "number" } else { "n" };
            assert_eq!(object["spec"][member], number);
        }
    }

    #[tokio::test]
    async fn one_bad_object_fails_no_list() {
        let converter = converter(conversion("up", |spec: Value| {
            assert!(spec["number"] != 1, "unlucky");
            Ok(spec)
        }));
        let objects = [object("v1", 0), object("v1", 1), object("v1", 2)];
        let answer = asked(&converter, &objects).await;
        let objects = answer["convertedObjects"].as_array().unwrap();
        assert_eq!(objects.len(), 3);
        assert_eq!(objects[1]["spec"], json!({}));
        assert_eq!(objects[2]["spec"], json!({"number": 2}));
    }

    #[tokio::test]
    async fn what_would_lose_something_is_refused_with_the_name() {
        let converter = converter(conversion("up", |spec: Value| Ok(spec)));
        let mut other = object("v1", 1);
        other["apiVersion"] = json!("example.com/v9");
        let answer = asked(&converter, &[object("v1", 0), other]).await;
        assert_eq!(answer["result"]["status"], "Failure");
        let message = answer["result"]["message"].as_str().unwrap();
        assert!(
            message.starts_with("n1: objects of things.example.com cannot be converted from v9 to v2"),
            "{message}"
        );
        assert!(answer.get("convertedObjects").is_none());
    }

    #[tokio::test]
    async fn what_is_no_review_and_what_is_nobodys_are_refused() {
        let converter = converter(conversion("up", |spec: Value| Ok(spec)));
        for (path, body, expected) in [
            ("/convert/others.example.com", review(&[]), 404),
            ("/convert/things.example.com", Bytes::from_static(b"junk"), 400),
        ] {
            let reply = converter.answer(path, body, Duration::from_secs(1)).await;
            assert_eq!(reply.status, expected);
        }
    }

    #[tokio::test]
    async fn a_function_that_hangs_is_not_waited_for() {
        let (ends, waits) = std::sync::mpsc::channel::<()>();
        let waits = Mutex::new(waits);
        let converter = converter(conversion("up", move |spec: Value| {
            let ended = waits.lock().recv();
            assert!(ended.is_err(), "nobody sends anything");
            Ok(spec)
        }));
        let path = "/convert/things.example.com";
        let within = Duration::from_millis(20);
        let reply = converter.answer(path, review(&[object("v1", 1)]), within).await;
        drop(ends);
        assert_eq!(reply.status, 500);
        let message = String::from_utf8_lossy(&reply.body).into_owned();
        assert!(message.contains("things.example.com are not converted within 0.0 seconds"), "{message}");
    }
    /// A body that signals when its last owner drops it.
    struct Held(Bytes, Option<tokio::sync::oneshot::Sender<()>>);

    impl AsRef<[u8]> for Held {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            let _ = self.1.take().map(|gone| gone.send(()));
        }
    }

    #[tokio::test]
    async fn what_is_out_of_time_is_held_until_its_thread_is_done_and_converts_no_more() {
        let (ends, waits) = std::sync::mpsc::channel::<()>();
        let waits = Mutex::new(waits);
        let calls = Arc::new(Mutex::new(0));
        let counted = calls.clone();
        let converter = converter(conversion("up", move |spec: Value| {
            *counted.lock() += 1;
            let _ = waits.lock().recv();
            Ok(spec)
        }));
        let (sender, mut gone) = tokio::sync::oneshot::channel();
        let body = review(&[object("v1", 1), object("v1", 2), object("v1", 3)]);
        let body = Bytes::from_owner(Held(body, Some(sender)));
        let path = "/convert/things.example.com";
        let within = Duration::from_millis(20);
        let reply = converter.answer(path, body, within).await;
        assert_eq!(reply.status, 500);
        assert!(gone.try_recv().is_err(), "the thread has it");
        drop(ends);
        gone.await.expect("it is dropped");
        assert!(*calls.lock() <= 1);
    }
}
