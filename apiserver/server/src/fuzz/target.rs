//! The fuzz targets, one per parser: each has samples, tokens, and a function that runs an input.
//!
//! A target does with an input what a request does. Must not depend on how inputs are generated.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use kopf_rs_fuzz::{Run, Target, texts as bytes};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::samples;
use crate::ApiServer;
use crate::call::{Call, go};
use crate::clock::Clock;
use crate::kind::Kind;
use crate::managed::Managed;
use crate::managed::outline::Outline;
use crate::managed::walk;
use crate::object::Body;
use crate::patch::{self, strategic};
use crate::schema;
use crate::selector::Selector;
use crate::store::Store;
use crate::typed::{self, proto};

const JSON: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"",
    ":",
    ",",
    "null",
    "true",
    "-1",
    "1e999",
    "9223372036854775808",
    "\\u0000",
    "\\ud800",
    "{\"a\":",
    "[[",
    "\"\":",
    "{}",
    "[]",
];

const PATCH_WORDS: &[&str] = &[
    "{\"op\":\"add\",\"path\":\"/spec/a\",\"value\":",
    "\"op\":\"copy\",\"from\":\"\",\"path\":\"/spec/a\"",
    "/-",
    "/0",
    "~0",
    "~1",
    "~2",
    "/spec/list",
    "{\"op\":\"copy\",\"from\":\"\",\"path\":\"/spec/a\"},",
    "18446744073709551615",
    "null",
    "[",
    "{",
];

const STRATEGIC_WORDS: &[&str] = &[
    "\"$patch\":\"delete\"",
    "\"$patch\":\"replace\"",
    "\"$patch\":\"merge\"",
    "\"$retainKeys\":[]",
    "\"$setElementOrder/containers\":",
    "\"$deleteFromPrimitiveList/finalizers\":",
    "\"name\":\"c\"",
    "null",
    "[",
    "{\"spec\":",
    "{",
    "}",
    "]",
    ",",
];

const YAML_WORDS: &[&str] = &[
    "&a ",
    "*a",
    "- ",
    "? ",
    ": ",
    "|",
    ">-",
    "!!binary ",
    "---\n",
    "...\n",
    "{",
    "[",
    "\t",
    "\n ",
    "<<: *a",
    "%YAML 1.2\n",
    "'",
    "\"",
    "#",
    "!<tag:x> ",
    "~",
];

const CEL_WORDS: &[&str] = &[
    "self",
    "oldSelf",
    ".all(x, ",
    ".map(x, ",
    ".exists_one(x, ",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "? ",
    " : ",
    "!",
    "-",
    "&&",
    "||",
    " in ",
    "'a'",
    "9223372036854775807",
    "-9223372036854775808",
    "1u",
    "1.5e300",
    "b'\\xff'",
    "r'\\'",
    "\"\\U0010ffff\"",
    "duration('",
    "timestamp('",
    "quantity('",
    ".matches('(a+)+$')",
    ".replace('', 'aa')",
    ".split('')",
    ".substring(-1, 5)",
    ".format([1])",
    "'%s'.format(",
    "size(",
    " / 0",
    " % 0",
    "has(self.a)",
    "optional.of(",
    "cel.bind(x, ",
    "x",
    "[1,2,3]",
    ".charAt(9)",
    ".lastIndexOf('')",
    "url('",
    "ip('",
    "cidr('",
    ".join()",
];

const SELECTOR_WORDS: &[&str] = &[
    "=",
    "==",
    "!=",
    " in (",
    " notin (",
    ")",
    ",",
    "!",
    "\\",
    "\n",
    ">",
    "<",
    "a/b",
    "metadata.name",
    "é",
    "()",
    "\\,",
    "\\=",
];

const PATH_WORDS: &[&str] = &[
    "/",
    "//",
    "%2F",
    "%",
    "%zz",
    "%ff",
    "?",
    "&",
    "=",
    "+",
    "/api/v1",
    "/apis/",
    "namespaces",
    "watch",
    "status",
    "..",
    "labelSelector=",
    "fieldSelector=",
    "limit=-1",
    "continue=",
    "resourceVersion=99999999999999999999",
    "timeoutSeconds=",
    "scale",
    "/openapi/v3",
];

const REQUEST_WORDS: &[&str] = &[
    "GET ",
    "PUT ",
    "PATCH ",
    "DELETE ",
    "POST ",
    "/api/v1/namespaces/default/",
    "/apis/demo.example/v1/",
    "configmaps",
    "myapps",
    "/status",
    "/scale",
    "?dryRun=All",
    "&force=true",
    "&fieldValidation=Strict",
    "content-type: application/apply-patch+yaml\n",
    "content-type: application/strategic-merge-patch+json\n",
    "content-type: application/vnd.kubernetes.protobuf\n",
    "\n\n",
    "\"metadata\":{",
    "null",
    "\"resourceVersion\":\"1\"",
    "\"finalizers\":[\"a\"]",
    "\"ownerReferences\":[{}]",
    "\"managedFields\":[]",
    "{",
    "[",
    "-1",
    "\"1.5Gi\"",
    "\"deletionTimestamp\":\"x\"",
    "accept: application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io\n",
];

const DEFINITION_WORDS: &[&str] = &[
    "\"type\":\"object\"",
    "\"properties\":{",
    "\"items\":{",
    "\"x-kubernetes-list-type\":\"map\"",
    "\"x-kubernetes-int-or-string\":true",
    "\"default\":{}",
    "\"pattern\":\"(\"",
    "\"enum\":[]",
    "\"additionalProperties\":true",
    "\"allOf\":[{}]",
    "\"not\":{}",
    "\"format\":\"int64\"",
    "\"nullable\":true",
    "\"rule\":\"self\"",
    "null",
    "{",
    "[",
    "\"versions\":[",
    "\"storage\":true",
    "\"scope\":\"Cluster\"",
    "\"jsonPath\":\".a[0]\"",
    "-1",
];

const PROTO_WORDS: &[&str] = &[
    "k8s\0",
    "\n",
    "\u{12}",
    "\u{1a}",
    "\u{0}",
    "\u{7f}",
    "\u{8}\u{1}",
    "\n\u{2}v1\u{12}\u{3}Pod",
    "\u{12}\u{0}",
    "\n\u{7f}",
];

/// All fuzz targets.
pub(super) const TARGETS: &[Target] = &[
    Target {
        name: "paths",
        share: 150,
        tokens: PATH_WORDS,
        samples: || bytes(samples::PATHS),
        begin: paths,
    },
    Target {
        name: "selectors",
        share: 150,
        tokens: SELECTOR_WORDS,
        samples: || bytes(samples::SELECTORS),
        begin: selectors,
    },
    Target {
        name: "json",
        share: 120,
        tokens: JSON,
        samples: || bytes(samples::TEXTS),
        begin: texts,
    },
    Target {
        name: "json-patches",
        share: 120,
        tokens: PATCH_WORDS,
        samples: || bytes(samples::JSON_PATCHES),
        begin: json_patches,
    },
    Target {
        name: "merge-patches",
        share: 80,
        tokens: JSON,
        samples: || bytes(samples::MERGE_PATCHES),
        begin: merge_patches,
    },
    Target {
        name: "strategic-patches",
        share: 80,
        tokens: STRATEGIC_WORDS,
        samples: || bytes(samples::MERGE_PATCHES),
        begin: strategic_patches,
    },
    Target {
        name: "managed-fields",
        share: 80,
        tokens: JSON,
        samples: || bytes(samples::MANAGED),
        begin: managed_fields,
    },
    Target {
        name: "apply",
        share: 40,
        tokens: YAML_WORDS,
        samples: || bytes(samples::APPLIED),
        begin: applied,
    },
    Target {
        name: "yaml",
        share: 60,
        tokens: YAML_WORDS,
        samples: || bytes(samples::DOCUMENTS),
        begin: documents,
    },
    Target {
        name: "protobuf",
        share: 80,
        tokens: PROTO_WORDS,
        samples: messages,
        begin: protobuf,
    },
    Target {
        name: "cel",
        share: 4,
        tokens: CEL_WORDS,
        samples: || bytes(samples::EXPRESSIONS),
        begin: expressions,
    },
    Target {
        name: "definitions",
        share: 6,
        tokens: DEFINITION_WORDS,
        samples: || bytes(&[samples::DEFINITION]),
        begin: definitions,
    },
    Target {
        name: "requests",
        share: 40,
        tokens: REQUEST_WORDS,
        samples: || bytes(samples::REQUESTS),
        begin: requests,
    },
];

fn call(method: &str, uri: &[u8], media: &str, body: &[u8]) -> Option<Call> {
    let uri = http::Uri::try_from(uri).ok()?;
    let request = Request::builder()
        .method(method)
        .uri(uri)
        .header("content-type", media);
    let (parts, ()) = request.body(()).ok()?.into_parts();
    Some(Call::new(&parts, Bytes::copy_from_slice(body)))
}

fn paths() -> Run {
    Box::new(|input| {
        for method in ["GET", "PATCH"] {
            if let Some(call) = call(method, input, "", b"") {
                // The options that a handler reads first.
                let _seen = (call.dry_run(), call.manager(), call.unknown_fields());
            }
        }
    })
}

fn selectors() -> Run {
    let store = Store::new(Clock::new());
    let pods: Arc<Kind> = store
        .kinds
        .kind("", "v1", "pods")
        .expect("it is built in")
        .clone();
    let stored = crate::write::draft(&pods, &pod(), Arc::default(), 1);
    Box::new(move |input| {
        let text = String::from_utf8_lossy(input);
        let (labels, fields) = text.split_once('\n').unwrap_or((&text, ""));
        if let Ok(selector) = Selector::parse(&pods, labels, fields) {
            selector.matches(&stored);
        }
    })
}

fn texts() -> Run {
    Box::new(|input| {
        let plain = go::parse(input);
        let noted = go::parse_noting(input);
        assert_eq!(
            plain.ok(),
            noted.ok().map(|(value, _)| value),
            "both parsers agree"
        );
        go::paths(input);
    })
}

fn pod() -> Body {
    let pod = json!({
        "metadata": {"name": "x", "namespace": "default", "labels": {"a": "b", "a/b": "c"}, "finalizers": ["a"]},
        "spec": {"map": {"a": 1}, "list": [{"a": 1}, 2], "replicas": 1, "containers": [{"name": "c", "image": "i"}]},
    });
    pod.as_object().cloned().unwrap_or_default()
}

fn json_patches() -> Run {
    let target = Value::Object(pod());
    Box::new(move |input| {
        if let Ok(patch) = go::parse(input) {
            // Applied or refused: the call must only return.
            let _outcome = patch::apply(&target, &patch);
        }
    })
}

fn merge_patches() -> Run {
    let target = Value::Object(pod());
    Box::new(move |input| {
        if let Ok(patch) = go::parse(input) {
            let mut once = target.clone();
            patch::merge(&mut once, patch.clone());
            // In Go, a list that replaces an object keeps its nulls, and a list that replaces a list does not; the second patch removes them.
            patch::merge(&mut once, patch.clone());
            let mut again = once.clone();
            patch::merge(&mut again, patch);
            assert_eq!(
                once, again,
                "a merge patch changes nothing once it is applied"
            );
        }
    })
}

fn strategic_patches() -> Run {
    let types = [
        typed::of_kind("apps/v1", "Deployment"),
        typed::of_kind("v1", "Pod"),
    ];
    Box::new(move |input| {
        if let Ok(Value::Object(patch)) = go::parse(input) {
            for of in types.into_iter().flatten() {
                if let Ok(mut merged) = strategic::merge(of, pod(), &mut patch.clone()) {
                    let _outcome = typed::restore(of, &mut merged);
                }
            }
        }
    })
}

fn managed_fields() -> Run {
    Box::new(|input| {
        let Some(managed) = go::parse(input).ok().as_ref().and_then(Managed::from_json) else {
            return;
        };
        let again = Managed::from_json(&managed.to_json()).expect("what was written is read");
        assert_eq!(again, managed, "reading what was written gives the same");
        let fields = walk::fields(Outline::Free, &pod());
        for entry in &managed.entries {
            entry.fields.shown();
            let rest = entry
                .fields
                .without(&fields)
                .union(&entry.fields.shared(&fields));
            assert_eq!(
                rest, *entry.fields,
                "a set is what it shares and what it does not"
            );
        }
    })
}

fn messages() -> Vec<Vec<u8>> {
    let messages: [&[u8]; 3] = [
        b"k8s\0\n\x0f\n\x02v1\x12\tConfigMap\x12\x15\n\x03\n\x01m\x12\x0e\n\x03key\x12\x05value\x1a\x00",
        b"k8s\0\n\x09\n\x02v1\x12\x03Pod\x12\x16\n\x05\n\x01p*\x00\x12\r\x12\x06\n\x01c\x12\x01i\x1a\x03Abc",
        b"k8s\0\n\x13\n\x02v1\x12\rDeleteOptions\x12\x07\x12\x05\n\x03uid",
    ];
    messages.map(<[u8]>::to_vec).into()
}

fn protobuf() -> Run {
    const KINDS: [(&str, &str); 5] = [
        ("v1", "ConfigMap"),
        ("v1", "Pod"),
        ("v1", "DeleteOptions"),
        ("apps/v1", "Deployment"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ];
    Box::new(|input| {
        for (version, kind) in KINDS {
            let Ok(body) = proto::decode(input, version, kind) else {
                continue;
            };
            if let Some(of) = typed::of_kind(version, kind) {
                let _outcome = typed::shape(of, body);
            }
        }
    })
}

fn documents() -> Run {
    Box::new(|input| {
        if let Some(call) = call("POST", b"/", "application/yaml", input) {
            let _outcome = call.yaml();
        }
    })
}

fn expressions() -> Run {
    let body =
        json!({"replicas": 3, "name": "abc", "list": [{"n": 1}, {"n": 2}], "map": {"a": "b"}});
    let body = body.as_object().cloned().unwrap_or_default();
    Box::new(move |input| {
        let rule = String::from_utf8_lossy(input);
        let schema = json!({
            "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"list": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}}},
            "x-kubernetes-validations": [{"rule": rule, "messageExpression": rule}],
        });
        schema::rules::check(&schema, &body, None, &[]);
        schema::rules::check(&schema, &body, Some(&body), &[]);
    })
}

/// A server that is replaced after some requests, so that it does not only fill up.
struct Asked {
    runtime: tokio::runtime::Runtime,
    server: ApiServer,
    requests: u32,
}

impl Asked {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build();
        let mut asked = Self {
            runtime: runtime.expect("a runtime"),
            server: ApiServer::new(),
            requests: 0,
        };
        asked.renew();
        asked
    }

    fn renew(&mut self) {
        let _within = self.runtime.enter();
        self.requests = 0;
        self.server = ApiServer::new();
        self.server.journal().limit(0);
        let definition = Request::post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions");
        let made = self.ask(definition, samples::DEFINITION.as_bytes());
        assert_eq!(made, Some(201), "the sample is in order");
    }

    /// Sends a request, checks the beginning of the answer, and returns its code.
    fn ask(&mut self, request: http::request::Builder, body: &[u8]) -> Option<u16> {
        self.requests += 1;
        if self.requests > 500 {
            self.renew();
        }
        let request = request.body(Full::new(Bytes::copy_from_slice(body))).ok()?;
        let service = self.server.service();
        self.runtime.block_on(async move {
            let answer = service.oneshot(request).await.expect("no fault is armed");
            let code = answer.status().as_u16();
            let json = answer.headers()["content-type"] == "application/json";
            let mut body = answer.into_body();
            let mut text = Vec::new();
            // A watch has no end; the data that is available at once is enough.
            while let Some(Some(Ok(frame))) = body.frame().now_or_never() {
                text.extend_from_slice(frame.data_ref().expect("no trailers"));
            }
            let mut lines = serde_json::Deserializer::from_slice(&text).into_iter::<Value>();
            assert!(!json || lines.all(|line| line.is_ok()), "an answer is JSON");
            Some(code)
        })
    }
}

fn applied() -> Run {
    const WHERE: [&str; 3] = [
        "/api/v1/namespaces/default/configmaps/x",
        "/apis/apps/v1/namespaces/default/deployments/d",
        "/apis/demo.example/v1/namespaces/default/myapps/x",
    ];
    let mut asked = Asked::new();
    Box::new(move |input| {
        let manager = input.len() % 3;
        for place in WHERE {
            let uri = format!(
                "{place}?fieldManager=m{manager}&force={}",
                input.len() % 2 == 0
            );
            asked.ask(
                Request::patch(uri).header("content-type", "application/apply-patch+yaml"),
                input,
            );
        }
    })
}

fn definitions() -> Run {
    let mut asked = Asked::new();
    Box::new(move |input| {
        const ALL: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let patch = Request::patch(format!("{ALL}/myapps.demo.example"))
            .header("content-type", "application/merge-patch+json");
        asked.ask(patch, input);
        let object = br#"{"apiVersion":"demo.example/v1","kind":"MyApp","metadata":{"generateName":"x"},"spec":{"replicas":2,"list":[{"name":"a","n":"b"}],"port":"http","any":{"x":1},"map":{"a":null}}}"#;
        asked.ask(
            Request::post("/apis/demo.example/v1/namespaces/default/myapps"),
            object,
        );
        asked.ask(Request::get("/openapi/v3/apis/demo.example/v1"), b"");
    })
}

fn requests() -> Run {
    let mut asked = Asked::new();
    Box::new(move |input| {
        let end = input.windows(2).position(|part| part == b"\n\n");
        let (head, body) = end.map_or((input, &b""[..]), |end| (&input[..end], &input[end + 2..]));
        let mut lines = head.split(|byte| *byte == b'\n');
        let first = lines.next().unwrap_or_default();
        let mut words = first.splitn(2, |byte| *byte == b' ');
        let mut request = Request::builder()
            .method(words.next().unwrap_or_default())
            .uri(words.next().unwrap_or_default());
        for line in lines {
            let mut parts = line.splitn(2, |byte| *byte == b':');
            if let (Some(name), Some(value)) = (parts.next(), parts.next()) {
                request = request.header(name, value.trim_ascii());
            }
        }
        asked.ask(request, body);
    })
}
