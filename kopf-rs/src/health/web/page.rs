//! The main page, written from the operator's status as JSON. Pure.

use serde_json::Value;

use crate::health::web::graph;
use crate::health::web::html::{Cell, Html, Table, duration};
use crate::health::web::values::{list, text};

/// The sections of the main page: their ids and headings.
const SECTIONS: [(&str, &str); 7] = [
    ("state", "State"),
    ("errors", "Recent errors"),
    ("running", "Running handlers"),
    ("waiting", "Waiting handlers"),
    ("queue", "Queue"),
    ("kinds", "Kinds and watches"),
    ("handlers", "Handlers"),
];

/// Returns the main page.
pub(super) fn page(status: &Value) -> String {
    let name = status["operator"].as_str().unwrap_or("operator").to_owned();
    let mut html = begin(&name);
    news(&mut html, status);
    html.raw("<nav aria-label=\"Sections\"><ul>\n");
    for (id, title) in SECTIONS {
        html.raw("<li><a href=\"#").raw(id).raw("\">").raw(title).raw("</a></li>\n");
    }
    html.raw("<li><a href=\"#find\">Explain an object</a></li>\n</ul></nav>\n</header>\n");
    html.raw("<main id=\"main\" tabindex=\"-1\">\n");
    let write = [state, errors, running, waiting, queue, kinds, handlers];
    for ((id, title), write) in SECTIONS.into_iter().zip(write) {
        section(&mut html, id, title, |html| write(html, status));
    }
    find(&mut html, status, ["", "", ""]);
    end(html)
}

/// Begins a document with this title and heading, up to the navigation in its header.
pub(super) fn begin(title: &str) -> Html {
    let mut html = Html::default();
    html.raw("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    html.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    html.raw("<meta name=\"color-scheme\" content=\"light dark\">\n<title>").text(title);
    html.raw(" – operator</title>\n<link rel=\"icon\" href=\"data:,\">\n");
    html.raw("<link rel=\"stylesheet\" href=\"page.css\">\n<script src=\"page.js\" defer></script>\n");
    html.raw("</head>\n<body>\n<a class=\"skip\" href=\"#main\">Skip to the content</a>\n<header>\n<h1>");
    html.text(title).raw("</h1>\n<p id=\"updates\"><span id=\"connection\" role=\"status\">");
    html.raw("Reload the page to update it.</span></p>\n");
    html
}

/// Writes the last error, which assistive technology reads when it changes.
fn news(html: &mut Html, status: &Value) {
    html.raw("<p id=\"news\" role=\"status\">");
    match status["lastErrors"].get(0) {
        Some(error) => {
            html.raw("Last error at ").time(&text(&error["time"])).raw(": ");
            html.text(&text(&error["object"])).raw(": ").text(&first_line(&error["line"]))
        }
        None => html.raw("No errors."),
    };
    html.raw("</p>\n");
}

/// Ends a document after its sections.
pub(super) fn end(mut html: Html) -> String {
    html.raw("</main>\n</body>\n</html>\n");
    html.into_text()
}

pub(super) fn section(html: &mut Html, id: &'static str, title: &'static str, write: impl FnOnce(&mut Html)) {
    html.raw("<section id=\"").raw(id).raw("\" aria-labelledby=\"").raw(id).raw("-title\">\n<h2 id=\"");
    html.raw(id).raw("-title\">").raw(title).raw("</h2>\n");
    write(html);
    html.raw("</section>\n");
}

/// Writes the form that asks for an object, filled with the kind, the namespace and the name of the last one.
pub(super) fn find(html: &mut Html, status: &Value, last: [&str; 3]) {
    section(html, "find", "Explain an object", |html| {
        html.raw("<form action=\"object\" method=\"get\">\n");
        let fields = [
            ("kind", "Kind", " list=\"known-kinds\" required"),
            ("namespace", "Namespace", ""),
            ("name", "Name", " required"),
        ];
        for ((id, label, more), value) in fields.into_iter().zip(last) {
            html.raw("<div><label for=\"").raw(id).raw("\">").raw(label).raw("</label>\n<input id=\"");
            html.raw(id).raw("\" name=\"").raw(id).raw("\" value=\"").text(value);
            html.raw("\" autocomplete=\"off\" autocapitalize=\"none\" spellcheck=\"false\"")
                .raw(more)
                .raw("></div>\n");
        }
        html.raw("<datalist id=\"known-kinds\">\n");
        for watched in list(&status["watched"]) {
            html.raw("<option value=\"").text(&text(&watched["resource"])).raw("\"></option>\n");
        }
        html.raw("</datalist>\n<button type=\"submit\">Explain</button>\n</form>\n");
        html.raw("<p class=\"hint\">The answer tells what the object waits for, what was done for it, and which filter excludes it from a handler. \
                  Without a namespace, it is the default one.</p>\n");
    });
}

fn state(html: &mut Html, status: &Value) {
    let queue = &status["queue"];
    html.raw("<dl class=\"facts\">\n");
    fact(html, "Phase", |html| {
        let phase = text(&status["phase"]);
        html.state(phase == "serving", &phase);
    });
    fact(html, "Ready", |html| {
        let is_ready = status["ready"]["ok"] == true;
        html.state(is_ready, if is_ready { "yes" } else { "no" });
    });
    fact(html, "Objects", |html| _ = html.text(&text(&queue["objects"])));
    fact(html, "Objects with work", |html| _ = html.text(&text(&queue["atWork"])));
    fact(html, "Changes in the queue", |html| _ = html.text(&text(&queue["waiting"])));
    fact(html, "Running handlers", |html| {
        let [changes, others] =
            ["handlersInFlight", "daemonsAndTimersInFlight"].map(|it| list(&status[it]).len());
        html.number(changes + others);
    });
    fact(html, "Waiting for a retry", |html| _ = html.number(list(&status["handlersWaiting"]).len()));
    fact(html, "Uptime", |html| _ = html.text(&seconds(&status["uptimeSeconds"])));
    fact(html, "kopf-rs", |html| _ = html.text(&text(&status["version"])));
    html.raw("</dl>\n");
    if status["paused"] == true {
        html.raw("<p>")
            .state(false, "Paused: another operator with a higher priority works in its place.")
            .raw("</p>\n");
    }
    lease(html, &status["lease"]);
    for endpoint in ["live", "ready"] {
        for failing in list(&status[endpoint]["failing"]) {
            let line = format!("{}: {}", text(&failing["check"]), text(&failing["reason"]));
            html.raw("<p>").state(false, &line).raw("</p>\n");
        }
    }
    for unserved in list(&status["unserved"]) {
        let line = format!("{} is not served: {}", text(&unserved["resource"]), text(&unserved["reason"]));
        html.raw("<p>").state(false, &line).raw("</p>\n");
    }
}

fn lease(html: &mut Html, lease: &Value) {
    if !lease.is_object() {
        return;
    }
    html.raw("<p>");
    if lease["atWork"] == true {
        html.state(true, "This instance is the leader");
    } else {
        html.raw("This instance is a standby; the leader is ").text(&text(&lease["holder"]));
    }
    html.raw(", by the Lease ").text(&text(&lease["lease"])).raw(".</p>\n");
}

fn fact(html: &mut Html, name: &'static str, write: impl FnOnce(&mut Html)) {
    html.raw("<div><dt>").raw(name).raw("</dt><dd>");
    write(html);
    html.raw("</dd></div>\n");
}

fn errors(html: &mut Html, status: &Value) {
    let rows = list(&status["lastErrors"]).iter().map(|error| {
        let level = text(&error["level"]);
        let level = Cell::State { is_good: false, text: level.to_lowercase() };
        vec![Cell::Time(text(&error["time"])), level, object(error, "kind"), Cell::Line(text(&error["line"]))]
    });
    html.table(Table {
        id: "errors-table",
        caption: "The last warnings and errors about objects, the newest first (UTC)",
        columns: &["Time", "Level", "Object", "Message"],
        rows: rows.collect(),
        empty: "There are no warnings or errors about objects.",
    });
    let failed = list(&status["failedForGood"]).iter();
    let failed: Vec<Vec<Cell>> = failed.map(|it| vec![cell(&it["object"]), cell(&it["handler"])]).collect();
    if !failed.is_empty() {
        html.table(Table {
            id: "failed-table",
            caption: "Handlers that failed and are not tried again, the last ones first",
            columns: &["Object", "Handler"],
            rows: failed,
            empty: "",
        });
    }
}

fn running(html: &mut Html, status: &Value) {
    let rows = list(&status["handlersInFlight"]).iter().map(|call| {
        vec![object(call, "kind"), cell(&call["handler"]), Cell::Text(seconds(&call["seconds"]))]
    });
    html.table(Table {
        id: "running-table",
        caption: "Handlers of changes, the longest first",
        columns: &["Object", "Handler", "Runs for"],
        rows: rows.collect(),
        empty: "No handler of changes runs.",
    });
    let rows = list(&status["daemonsAndTimersInFlight"]).iter().map(|call| {
        let is_stopping = call["stopping"] == true;
        let state = if is_stopping { "is asked to end" } else { "runs" };
        vec![object(call, "kind"), cell(&call["handler"]), Cell::Text(state.to_owned())]
    });
    html.table(Table {
        id: "background-table",
        caption: "Daemons, timers and reconcile functions",
        columns: &["Object", "Handler", "State"],
        rows: rows.collect(),
        empty: "No daemon, timer or reconcile function runs.",
    });
}

fn waiting(html: &mut Html, status: &Value) {
    let rows = list(&status["handlersWaiting"]).iter().map(|call| {
        vec![object(call, "kind"), cell(&call["handler"]), Cell::Text(seconds(&call["inSeconds"]))]
    });
    html.table(Table {
        id: "retries-table",
        caption: "Handlers that wait for their next attempt, those that are due first in front",
        columns: &["Object", "Handler", "Next attempt in"],
        rows: rows.collect(),
        empty: "No handler waits for another attempt.",
    });
    let wakes = &status["wakeUps"];
    let rows = list(&wakes["next"]).iter().map(|due| {
        let kind = cell(&due["resource"]);
        vec![object(due, "resource"), kind, Cell::Text(seconds(&due["inSeconds"]))]
    });
    html.table(Table {
        id: "wakes-table",
        caption: "The next calls of timers, daemons and reconcile functions for idle objects",
        columns: &["Object", "Kind", "Due in"],
        rows: rows.collect(),
        empty: "No call of a timer, a daemon or a reconcile function is scheduled for an idle object.",
    });
}

fn queue(html: &mut Html, status: &Value) {
    let queue = &status["queue"];
    html.raw("<p>").text(&text(&queue["waiting"])).raw(" changes wait, ");
    html.text(&text(&queue["atWork"])).raw(" objects have a worker, and ").text(&text(&queue["events"]));
    html.raw(" events have arrived since the start.</p>\n");
    let rows = list(&queue["longest"]).iter().map(|it| {
        let reason = if it["requestsFail"] == true {
            "requests to the API server fail"
        } else {
            "a handler or a worker permit"
        };
        let age = Cell::Text(seconds(&it["seconds"]));
        vec![object(it, "resource"), cell(&it["resource"]), age, Cell::Text(reason.to_owned())]
    });
    html.table(Table {
        id: "queue-table",
        caption: "Objects whose newest change waits, the longest first",
        columns: &["Object", "Kind", "Waits for", "Because of"],
        rows: rows.collect(),
        empty: "No change waits.",
    });
}

fn kinds(html: &mut Html, status: &Value) {
    let counts = ["objects", "added", "modified", "deleted", "listings", "failures"];
    let rows = list(&status["watched"]).iter().map(|kind| {
        let counts = counts.iter().map(|count| cell(&kind[count]));
        std::iter::once(cell(&kind["resource"])).chain(counts).collect()
    });
    html.table(Table {
        id: "kinds-table",
        caption: "Kinds, with their objects and the events of their watches since the start",
        columns: &["Kind", "Objects", "Added", "Modified", "Deleted", "Listings", "Failures"],
        rows: rows.collect(),
        empty: "No kind is watched yet.",
    });
    let rows = list(&status["watches"]).iter().map(|watch| {
        let state = text(&watch["state"]);
        let namespace = watch["namespace"].as_str().unwrap_or("all").to_owned();
        let state = Cell::State { is_good: state == "synced", text: state };
        let heard = format!("{} ago", seconds(&watch["silentSeconds"]));
        vec![
            cell(&watch["resource"]),
            Cell::Text(namespace),
            state,
            Cell::Text(heard),
            Cell::Line(text(&watch["error"])),
        ]
    });
    html.table(Table {
        id: "watches-table",
        caption: "Watches",
        columns: &["Kind", "Namespace", "State", "Last message", "Error"],
        rows: rows.collect(),
        empty: "No watch is open yet.",
    });
}

fn handlers(html: &mut Html, status: &Value) {
    graph::draw(html, status);
    let rows = list(&status["handlers"]).iter().map(|handler| {
        let names = |key: &str| {
            let names: Vec<String> = list(&handler[key]).iter().map(text).collect();
            Cell::Text(names.join(", "))
        };
        let id = cell(&handler["handler"]);
        let attribute = cell(&handler["attribute"]);
        vec![
            id,
            attribute,
            names("kinds"),
            names("owns"),
            names("watches"),
            Cell::Line(text(&handler["declaredAt"])),
        ]
    });
    html.table(Table {
        id: "handlers-table",
        caption: "Handlers in the order of their declaration",
        columns: &["Handler", "Attribute", "Kinds", "Children", "Refers to", "Declared at"],
        rows: rows.collect(),
        empty: "There are no handlers.",
    });
}

/// Returns a link to the page of an object.
fn object(entry: &Value, kind: &str) -> Cell {
    let (kind, object) = (text(&entry[kind]), text(&entry["object"]));
    if kind.is_empty() || object.is_empty() {
        return Cell::Text(object);
    }
    let (namespace, name) = object.split_once('/').unwrap_or(("", &object));
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("kind", &kind).append_pair("namespace", namespace).append_pair("name", name);
    Cell::Object { href: format!("object?{}", query.finish()), text: object }
}

fn cell(value: &Value) -> Cell {
    Cell::Text(text(value))
}

fn first_line(value: &Value) -> String {
    value.as_str().unwrap_or_default().lines().next().unwrap_or_default().to_owned()
}

fn seconds(value: &Value) -> String {
    duration(value.as_f64().unwrap_or_default())
}
