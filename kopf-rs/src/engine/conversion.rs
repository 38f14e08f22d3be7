//! Conversion reviews: converts the objects of a review within its time, and answers for them.
//!
//! Promises that functions of users hold up nothing else: they run on a thread of their own. Must not know sockets.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use crate::admission::answer::ReviewReply;
use crate::conversion::graph::{Conversions, ConvertedKind};
use crate::conversion::review::ConversionReview;
use crate::engine::invoke::guarded;
use crate::engine::report::{report, report_of_operator};
use crate::handler::logger::Logger;
use crate::happening::Happening;
use crate::happening::converting::Converting;
use crate::object::body::Body;

/// Answers conversion reviews. Clones share it.
#[derive(Clone)]
pub(crate) struct Converter {
    conversions: Arc<Conversions>,
    told: Arc<Told>,
}

/// What was told already: the same objects are converted again and again.
#[derive(Default)]
struct Told(Mutex<HashSet<String>>);

/// So much of it is kept in mind.
const TOLD: usize = 1000;

impl Converter {
    pub(crate) fn new(conversions: Arc<Conversions>) -> Self {
        Self {
            conversions,
            told: Arc::default(),
        }
    }

    /// Answer the review that was posted to `path`.
    pub(crate) async fn answer(&self, path: &str, body: Bytes, within: Duration) -> ReviewReply {
        let Some(kind) = self.conversions.at_path(path) else {
            return ReviewReply::failed(404, "no objects are converted at this path");
        };
        let kind = kind.clone();
        let (name, told) = (kind.name.clone(), self.told.clone());
        let converting = tokio::task::spawn_blocking(move || told.answer(&kind, &body));
        match tokio::time::timeout(within, converting).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(_)) => ReviewReply::failed(500, "the conversion was cut off"),
            Err(_) => {
                let seconds = within.as_secs_f64();
                let message =
                    format!("objects of {name} are not converted within {seconds:.1} seconds");
                let told = Converting::OutOfTime { kind: name, within };
                report_of_operator(&Happening::Converting(told));
                ReviewReply::failed(500, &message)
            }
        }
    }
}

impl Told {
    fn answer(&self, kind: &ConvertedKind, body: &[u8]) -> ReviewReply {
        let review = match ConversionReview::parse(body) {
            Ok(review) => review,
            Err(message) => return ReviewReply::failed(400, &message),
        };
        let (uid, desired, objects) = review.into_parts();
        let converted: Result<Vec<_>, _> = objects
            .into_iter()
            .map(|object| self.converted(kind, object, &desired))
            .collect();
        ReviewReply {
            status: 200,
            body: ConversionReview::answer(&uid, converted),
        }
    }

    fn converted(
        &self,
        kind: &ConvertedKind,
        object: Value,
        desired: &str,
    ) -> Result<Value, String> {
        let about = Body::new(object.clone()).reference();
        let converted = guarded(|| kind.convert(object, desired)).unwrap_or_else(Err);
        let version = desired.to_owned();
        let (result, told) = match converted {
            Ok(converted) => {
                let told = converted
                    .problem
                    .map(|problem| Converting::Kept { version, problem });
                (Ok(converted.object), told)
            }
            Err(problem) => {
                let message = format!("{about}: {problem}");
                (Err(message), Some(Converting::Refused { version, problem }))
            }
        };
        if let Some(told) = told
            && self.is_news(format!("{about} {told:?}"))
        {
            let logger = Logger::of(Arc::new(about));
            report(&logger, &Happening::Converting(told));
        }
        result
    }

    fn is_news(&self, text: String) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= TOLD {
            told.clear();
        }
        told.insert(text)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::handler::conversion::{Conversion, conversion};
    use crate::handler::registry::Registry;

    fn converter(up: Conversion) -> Converter {
        let down = conversion("down", |spec: Value| Ok(spec));
        let of = |version| ("example.com", version, "things");
        let registry = Registry::new()
            .on_convert(of("v1"), of("v2"), up)
            .on_convert(of("v2"), of("v1"), down);
        assert_eq!(registry.check(), Ok(()));
        Converter::new(Arc::new(Conversions::of(registry.conversions())))
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
        let converter = converter(conversion("up", |spec: Value| {
            Ok(json!({"n": spec["number"]}))
        }));
        let none = asked(&converter, &[]).await;
        assert_eq!(none["convertedObjects"], json!([]));
        let objects: Vec<_> = (0..10_000)
            .map(|number| object(if number % 3 == 0 { "v2" } else { "v1" }, number))
            .collect();
        let answer = asked(&converter, &objects).await;
        let objects = answer["convertedObjects"].as_array().unwrap();
        assert_eq!(
            (answer["result"]["status"].as_str(), objects.len()),
            (Some("Success"), 10_000)
        );
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
            message
                .starts_with("n1: objects of things.example.com cannot be converted from v9 to v2"),
            "{message}"
        );
        assert!(answer.get("convertedObjects").is_none());
    }

    #[tokio::test]
    async fn what_is_no_review_and_what_is_nobodys_are_refused() {
        let converter = converter(conversion("up", |spec: Value| Ok(spec)));
        for (path, body, expected) in [
            ("/convert/others.example.com", review(&[]), 404),
            (
                "/convert/things.example.com",
                Bytes::from_static(b"junk"),
                400,
            ),
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
            let ended = waits.lock().unwrap().recv();
            assert!(ended.is_err(), "nobody sends anything");
            Ok(spec)
        }));
        let path = "/convert/things.example.com";
        let within = Duration::from_millis(20);
        let reply = converter
            .answer(path, review(&[object("v1", 1)]), within)
            .await;
        drop(ends);
        assert_eq!(reply.status, 500);
        let message = String::from_utf8_lossy(&reply.body).into_owned();
        assert!(
            message.contains("things.example.com are not converted within 0.0 seconds"),
            "{message}"
        );
    }
}
