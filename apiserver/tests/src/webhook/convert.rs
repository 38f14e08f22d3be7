//! Conversions for tests: the fields `host` and `port` of `v1` are `address` in all other versions.
//!
//! The label `case` of an object makes its conversions fail in a particular way: those to versions other than `v1`, or, with the prefix
//! `back-`, those to `v1`. Must not know servers.

use serde_json::{Value, json};

/// Returns the status code and the body that answer a `ConversionReview`; `None` to send no answer.
pub(super) fn answer(review: &Value) -> Option<(u16, String)> {
    let request = &review["request"];
    let wanted = request["desiredAPIVersion"].as_str().unwrap_or_default();
    let objects = request["objects"].as_array().map_or(&[][..], Vec::as_slice);
    let case = case(objects.first().unwrap_or(&Value::Null), wanted);
    match case {
        "never" => return None,
        "500" => return Some((500, "kaboom".to_owned())),
        "404" => return Some((404, "nope".to_owned())),
        "number" => return Some((200, "7".to_owned())),
        "garbage" => return Some((200, "{".to_owned())),
        _ => {}
    }
    let mut converted: Vec<Value> = objects
        .iter()
        .map(|object| spoilt(case, object, converted(object, wanted)))
        .collect();
    match case {
        "none" => converted.clear(),
        "two" => converted.push(converted[0].clone()),
        _ => {}
    }
    let mut answer = json!({
        "apiVersion": review["apiVersion"],
        "kind": review["kind"],
        "response": {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": converted},
    });
    let response = &mut answer["response"];
    match case {
        "failure" => {
            response["result"] = json!({"status": "Failure", "message": "it cannot be done"});
        }
        "silent" => response["result"] = json!({"status": "Failure"}),
        "unsaid" => response["result"] = Value::Null,
        "uid" => response["uid"] = "other".into(),
        "absent" => *response = Value::Null,
        "null" => response["convertedObjects"] = Value::Null,
        "review" => answer["kind"] = "Foo".into(),
        "beta" => answer["apiVersion"] = "apiextensions.k8s.io/v1beta1".into(),
        "bare" => answer = json!({"response": answer["response"]}),
        _ => {}
    }
    Some((200, answer.to_string()))
}

/// Returns how the conversion of an object is to fail; empty if it is to succeed.
fn case<'a>(object: &'a Value, wanted: &str) -> &'a str {
    let case = object["metadata"]["labels"]["case"].as_str();
    let case = case.unwrap_or_default();
    match case.strip_prefix("back-") {
        Some(back) if wanted.ends_with("/v1") => back,
        None if !wanted.ends_with("/v1") => case,
        _ => "",
    }
}

fn converted(object: &Value, wanted: &str) -> Value {
    let mut object = object.clone();
    object["apiVersion"] = wanted.into();
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
        return object;
    };
    if wanted.ends_with("/v1") {
        if let Some(Value::String(address)) = spec.remove("address") {
            let (host, port) = address.split_once(':').unwrap_or((&address, "0"));
            spec.insert("host".to_owned(), host.into());
            let port: i64 = port.parse().unwrap_or_default();
            spec.insert("port".to_owned(), port.into());
        }
    } else if let Some(Value::String(host)) = spec.remove("host") {
        let port = spec.remove("port").unwrap_or_default();
        spec.insert("address".to_owned(), format!("{host}:{port}").into());
    }
    object
}

/// Returns a converted object with the error of its case.
fn spoilt(case: &str, was: &Value, mut object: Value) -> Value {
    let own = was["apiVersion"].clone();
    let meta = &mut object["metadata"];
    match case {
        "labelled" => meta["labels"]["converted"] = "yes".into(),
        "annotated" => meta["annotations"] = json!({"from": own}),
        "bare-labels" => meta["labels"] = Value::Null,
        "meta" => {
            meta["finalizers"] = json!(["example.com/hold"]);
            meta["generation"] = 77.into();
            meta["creationTimestamp"] = Value::Null;
        }
        "asked" => meta["annotations"] = json!({"asked": asked(was)}),
        "othername" => meta["name"] = "other".into(),
        "othernamespace" => meta["namespace"] = "other".into(),
        "otheruid" => meta["uid"] = "other".into(),
        "numbers" => meta["labels"]["n"] = 1.into(),
        "badlabel" => meta["labels"]["a b"] = "c d".into(),
        "badannotation" => meta["annotations"] = json!({"a b": "c"}),
        "labellist" => meta["labels"] = json!([1]),
        "nometa" => object["metadata"] = Value::Null,
        "metatext" => object["metadata"] = "text".into(),
        "otherkind" => object["kind"] = "Other".into(),
        "nokind" => object["kind"] = Value::Null,
        "same" => object["apiVersion"] = own,
        "elsewhere" => object["apiVersion"] = "example.org/v9".into(),
        "list" => object["items"] = json!([]),
        "undeclared" => object["spec"]["undeclared"] = json!({"a": 1}),
        "mistyped" => object["spec"]["address"] = 7.into(),
        "text" => object = "text".into(),
        "nothing" => object = Value::Null,
        _ => {}
    }
    object
}

/// Returns an object as it was sent, without server-generated values.
fn asked(object: &Value) -> String {
    let mut object = object.clone();
    if let Some(meta) = object["metadata"].as_object_mut() {
        for field in ["uid", "creationTimestamp"] {
            if meta.contains_key(field) {
                meta.insert(field.to_owned(), "some".into());
            }
        }
        let managed = meta.remove("managedFields");
        meta.insert("managed".to_owned(), managed.is_some().into());
    }
    let object = super::sorted(&object).to_string();
    let (_, rest) = object.split_once("/v").unwrap_or_default();
    rest.to_owned()
}
