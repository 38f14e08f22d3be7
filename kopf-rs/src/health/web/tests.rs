//! Tests of the pages: complete, accessible markup without foreign markup, and readable colours.

use http::header::HeaderValue;

use super::asked::LONGEST;
use super::*;
use crate::handler::registry::Registry;
use crate::handler::registry::callback::handler;
use crate::object::resource::Resource;

/// A text that would be markup, and that would end an attribute.
const EVIL: &str = "<script>alert(1)</script>\"'&\u{202E}\u{7}";

/// Returns a status whose texts are all evil.
fn evil_status() -> Value {
    let object = json!({"kind": EVIL, "resource": EVIL, "object": format!("{EVIL}/{EVIL}"), "handler": EVIL, "seconds": 61, "inSeconds": 3661,
        "time": EVIL, "level": EVIL, "line": EVIL, "stopping": true, "requestsFail": true});
    let check = json!({"ok": false, "failing": [{"check": EVIL, "reason": EVIL}]});
    json!({
        "operator": EVIL, "version": EVIL, "phase": EVIL, "paused": true, "uptimeSeconds": 90061, "live": check, "ready": check,
        "lease": {"lease": EVIL, "holder": EVIL, "atWork": false},
        "watches": [{"resource": EVIL, "namespace": EVIL, "state": EVIL, "error": EVIL, "silentSeconds": 1}],
        "watched": [{"resource": EVIL, "objects": 3}],
        "unserved": [{"resource": EVIL, "reason": EVIL}],
        "queue": {"objects": 3, "atWork": 2, "waiting": 1, "events": 9, "longest": [object]},
        "handlersInFlight": [object], "handlersWaiting": [object], "daemonsAndTimersInFlight": [object],
        "wakeUps": {"next": [object]}, "lastErrors": [object], "failedForGood": [object],
        "handlers": [{"handler": EVIL, "attribute": EVIL, "kinds": [EVIL], "owns": [EVIL, "a"], "watches": [EVIL], "declaredAt": EVIL}],
    })
}

fn evil_explanation() -> Value {
    let line =
        json!({"handler": EVIL, "state": EVIL, "because": EVIL, "attempts": 1, "error": EVIL, "due": EVIL});
    json!({
        "explanation": {"object": EVIL, "verdict": EVIL, "summary": EVIL, "wakes": EVIL, "handlers": [line],
            "evidence": [{"source": EVIL, "text": EVIL}]},
        "history": [{"time": EVIL, "level": EVIL, "line": EVIL}],
    })
}

/// Returns all pages: with evil texts, with a problem, and without any facts.
fn pages() -> Vec<String> {
    let asked = AskedObject { kind: EVIL.to_owned(), namespace: EVIL.to_owned(), name: EVIL.to_owned() };
    let object = |explained: Value| object::page(&evil_status(), &asked, &explained);
    vec![
        page::page(&evil_status()),
        page::page(&Value::Null),
        object(evil_explanation()),
        object(json!({"problem": EVIL})),
        object(Value::Null),
    ]
}

/// Returns the names and attributes of all tags.
fn tags(page: &str) -> Vec<&str> {
    let begins = page.split('<').skip(1);
    begins.map(|it| it.split_once('>').expect("each tag ends").0).collect()
}

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    rest.split('"').next()
}

#[test]
fn texts_of_the_cluster_never_become_markup() {
    let plain: Vec<String> = pages();
    for page in &plain {
        assert!(!page.contains("<script>") && !page.contains(['\u{202E}', '\u{7}']), "{page}");
        let scripts = tags(page).into_iter().filter(|tag| tag.starts_with("script")).count();
        assert_eq!(scripts, 1, "only the page's own");
        for tag in tags(page) {
            let name = tag.trim_start_matches('/').split([' ', '\n']).next().unwrap_or_default();
            assert!(name.starts_with('!') || name.chars().all(|it| it.is_ascii_alphanumeric()), "<{tag}>");
            assert_eq!(tag.matches('"').count() % 2, 0, "an attribute ends early: <{tag}>");
            assert!(!tag.contains(" on") && !tag.contains(" style="), "the policy forbids it: <{tag}>");
        }
    }
    assert!(plain[0].contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;\u{FFFD}\u{FFFD}"));
}

#[test]
fn pages_have_the_structure_that_assistive_technology_needs() {
    for page in pages() {
        let tags = tags(&page);
        let count = |name: &str| tags.iter().filter(|tag| tag.split(' ').next() == Some(name)).count();
        assert!(page.contains("<html lang=\"en\">"));
        assert!(!page.contains("<title> "), "the title names the operator or the object first");
        assert_eq!(["header", "main", "nav", "h1"].map(count), [1; 4], "{page}");
        let mut ids: Vec<&str> = tags.iter().filter_map(|tag| attribute(tag, "id")).collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all, "an id occurs twice");
        let references = ["for", "aria-labelledby", "list"];
        for reference in tags.iter().flat_map(|tag| references.iter().filter_map(|it| attribute(tag, it))) {
            assert!(reference.split(' ').all(|id| ids.contains(&id)), "nothing has the id {reference}");
        }
        for link in tags.iter().filter_map(|tag| attribute(tag, "href")?.strip_prefix('#')) {
            assert!(ids.contains(&link), "a link leads nowhere: {link}");
        }
        assert_eq!(count("table"), count("caption"), "each table has a caption");
        assert_eq!(count("section"), count("h2"), "each section has a heading");
        assert_eq!(count("input"), count("label"));
        assert!(
            tags.iter()
                .all(|tag| !tag.starts_with("th") || tag.contains("scope=") || tag.starts_with("thead"))
        );
        for region in tags.iter().filter(|tag| tag.contains("class=\"scroll\"")) {
            assert!(region.contains("tabindex=\"0\"") && region.contains("role=\"region\""), "<{region}>");
        }
        for graph in tags.iter().filter(|tag| tag.starts_with("svg")) {
            assert!(graph.contains("role=\"img\"") && page.contains("<desc id=\"graph-text\">"));
        }
    }
}

/// Returns the colours of the light and of the dark scheme by their names.
fn schemes() -> [Vec<(&'static str, [f64; 3])>; 2] {
    let (light, dark) = STYLE.split_once("prefers-color-scheme: dark").expect("there are two");
    let colours = |text: &'static str| {
        let lines = text.lines().filter_map(|line| line.trim().strip_prefix("--")?.split_once(": #"));
        lines
            .map(|(name, code)| {
                let part = |at: usize| {
                    let part = u8::from_str_radix(&code[at..at + 2], 16).expect("a colour");
                    let part = f64::from(part) / 255.0;
                    if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
                };
                (name, [part(0), part(2), part(4)])
            })
            .collect::<Vec<_>>()
    };
    [colours(light), colours(dark)]
}

#[test]
fn colours_have_the_contrast_of_wcag_aa() {
    for scheme in schemes() {
        let luminance = |name: &str| {
            let (_, [red, green, blue]) = scheme.iter().find(|it| it.0 == name).expect("a colour");
            0.2126 * red + 0.7152 * green + 0.0722 * blue
        };
        let contrast = |one: &str, other: &str| {
            let (one, other) = (luminance(one), luminance(other));
            (one.max(other) + 0.05) / (one.min(other) + 0.05)
        };
        for back in ["back", "panel"] {
            for text in ["fore", "soft", "link", "good", "bad"] {
                assert!(contrast(text, back) >= 4.5, "{text} on {back}: {}", contrast(text, back));
            }
            // Edges of fields, of buttons and of the graph.
            assert!(contrast("line", back) >= 3.0, "{}", contrast("line", back));
        }
    }
}

#[test]
fn requests_of_other_pages_are_recognized() {
    let table: [(&[(&str, &str)], bool); 8] = [
        (&[], false),
        (&[("sec-fetch-site", "none")], false),
        (&[("sec-fetch-site", "same-origin")], false),
        (&[("sec-fetch-site", "same-site")], true),
        (&[("sec-fetch-site", "cross-site")], true),
        (&[("origin", "http://localhost:8090")], false),
        (&[("origin", "http://localhost:3000")], true),
        (&[("origin", "null")], true),
    ];
    for (pairs, is_other) in table {
        let mut headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static("localhost:8090"))]);
        for (name, value) in pairs {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        assert_eq!(is_of_other_origin(&headers), is_other, "{pairs:?}");
    }
}

#[test]
fn objects_are_named_by_the_query() {
    let notation = |query: &str| AskedObject::parse(query).notation();
    assert_eq!(notation("kind=Pod.v1&name=a").as_deref(), Ok("Pod.v1/a"));
    assert_eq!(
        notation("name=a%3Ab&namespace=+team+&kind=x.example.com").as_deref(),
        Ok("x.example.com/team/a:b")
    );
    for wrong in [
        "",
        "kind=a",
        "name=a",
        "kind=a&name=b%2Fc",
        "kind=a&name=b%3Fc",
        "kind=..%2Fa&name=b",
        "kind=a&name=..",
    ] {
        assert!(notation(wrong).is_err(), "{wrong}");
    }
    assert!(notation(&format!("kind=a&name={}", "b".repeat(LONGEST + 1))).is_err());
}

#[test]
fn links_lead_to_the_objects_of_the_tables() {
    let status = json!({"handlersInFlight": [{"kind": "Pod.v1", "object": "team/a:b", "handler": "h", "seconds": 1.25}]});
    let page = page::page(&status);
    assert!(
        page.contains("<a href=\"object?kind=Pod.v1&amp;namespace=team&amp;name=a%3Ab\">team/a:b</a>"),
        "{page}"
    );
    assert!(page.contains("<td>1.2 s</td>") || page.contains("<td>1.3 s</td>"), "{page}");
}

#[test]
fn handlers_are_listed_with_the_names_of_watched_kinds() {
    let registry = Registry::new()
        .reconcile("widgets", handler("keep", |_| async { Ok(()) }).owns("configmaps").owns("pods.v1"));
    let kind = |plural: &str, group: &str| Resource {
        plural: plural.to_owned(),
        group: group.to_owned(),
        version: "v1".to_owned(),
        ..Resource::default()
    };
    let (widgets, maps) = (kind("widgets", "example.com"), kind("configmaps", ""));
    let told = declared::declared(&registry.handlers()[0], &[&widgets, &maps]);
    assert_eq!(told["kinds"], json!(["widgets.example.com"]));
    assert_eq!(told["owns"], json!(["configmaps", "pods.v1"]));
    assert_eq!((&told["handler"], &told["attribute"]), (&json!("keep"), &json!("reconcile")));
}

#[test]
fn durations_are_written_in_two_units() {
    for (seconds, words) in [
        (0.04, "0.0 s"),
        (9.26, "9.3 s"),
        (59.4, "59 s"),
        (61.0, "1 min 1 s"),
        (3661.0, "1 h 1 min"),
        (90_061.0, "1 d 1 h"),
        (-1.0, "-1.0 s"),
    ] {
        assert_eq!(html::duration(seconds), words);
    }
}

/// Everything that a program carries for the page.
#[test]
fn the_files_of_the_page_are_small() {
    assert!(STYLE.len() + SCRIPT.len() + page::page(&Value::Null).len() < 40_000);
}
