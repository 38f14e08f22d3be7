//! The page of one object, written from its explanation as JSON. Pure.

use serde_json::Value;

use crate::health::web::asked::AskedObject;
use crate::health::web::html::{Cell, Html, Table};
use crate::health::web::page::{begin, end, find, section};
use crate::health::web::values::{list, text};

/// Returns the page of an object.
pub(super) fn page(status: &Value, asked: &AskedObject, explained: &Value) -> String {
    let explanation = &explained["explanation"];
    let name = match explanation["object"].as_str() {
        Some(object) => object.to_owned(),
        None => format!("{} {}", asked.kind, asked.name),
    };
    let mut html = begin(&name);
    html.raw("<nav aria-label=\"Pages\"><ul>\n<li><a href=\"./\">Overview of ")
        .text(&text(&status["operator"]));
    html.raw("</a></li>\n</ul></nav>\n</header>\n<main id=\"main\" tabindex=\"-1\">\n");
    section(&mut html, "verdict", "Why it is as it is", |html| verdict(html, explained));
    if explained["problem"].is_null() {
        section(&mut html, "object-handlers", "Its handlers", |html| handlers(html, explanation));
        section(&mut html, "history", "History", |html| history(html, explained));
        section(&mut html, "evidence", "Evidence", |html| evidence(html, explanation));
    }
    find(&mut html, status, [&asked.kind, &asked.namespace, &asked.name]);
    end(html)
}

fn verdict(html: &mut Html, explained: &Value) {
    if let Some(problem) = explained["problem"].as_str() {
        html.raw("<p class=\"verdict\">").state(false, problem).raw("</p>\n");
        return;
    }
    let explanation = &explained["explanation"];
    html.raw("<p class=\"verdict\"><strong>").text(&text(&explanation["verdict"])).raw("</strong>: ");
    html.text(&text(&explanation["summary"])).raw("</p>\n");
    if let Some(wakes) = explanation["wakes"].as_str() {
        html.raw("<p>What wakes it: ").text(wakes).raw(".</p>\n");
    }
}

fn handlers(html: &mut Html, explanation: &Value) {
    let rows = list(&explanation["handlers"]).iter().map(|handler| {
        let cells = ["handler", "state"].map(|key| Cell::Text(text(&handler[key])));
        let because = Cell::Line(text(&handler["because"]));
        let attempts = Cell::Text(text(&handler["attempts"]));
        let due = match handler["due"].as_str() {
            Some(due) => Cell::Time(due.to_owned()),
            None => Cell::Text(String::new()),
        };
        let [id, state] = cells;
        vec![id, state, because, attempts, due, Cell::Line(text(&handler["error"]))]
    });
    html.table(Table {
        id: "object-handlers-table",
        caption: "The handlers of its kind",
        columns: &["Handler", "State", "Because", "Attempts", "Next attempt (UTC)", "Last error"],
        rows: rows.collect(),
        empty: "No handler is for objects of its kind.",
    });
}

fn history(html: &mut Html, explained: &Value) {
    let rows = list(&explained["history"]).iter().map(|line| {
        let level = text(&line["level"]).to_lowercase();
        let level = Cell::State { is_good: level == "info", text: level };
        vec![Cell::Time(text(&line["time"])), level, Cell::Line(text(&line["line"]))]
    });
    html.table(Table {
        id: "history-table",
        caption: "What this process has logged about it, the newest first (UTC); the operator keeps the last 1000 lines about all objects",
        columns: &["Time", "Level", "Message"],
        rows: rows.collect(),
        empty: "This process has logged nothing about it, or so long ago that the line is no longer kept.",
    });
}

fn evidence(html: &mut Html, explanation: &Value) {
    let rows = list(&explanation["evidence"]).iter();
    let rows = rows.map(|it| vec![Cell::Text(text(&it["source"])), Cell::Line(text(&it["text"]))]);
    html.table(Table {
        id: "evidence-table",
        caption: "What is known, and from where: the object itself, its Events, and the running operator",
        columns: &["Source", "Fact"],
        rows: rows.collect(),
        empty: "Nothing is known.",
    });
}
