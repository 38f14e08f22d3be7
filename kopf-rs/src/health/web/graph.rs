//! The graph of kinds, handlers and children, as SVG with a text alternative. Pure.
//!
//! Three columns: the handled kinds, the handlers, and the kinds that these own or refer to.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::health::web::html::Html;
use crate::health::web::values::{list, text};

const WIDTH: usize = 250;
const HEIGHT: usize = 40;
/// The distance between the tops of two nodes of a column.
const ROW: usize = 52;
/// The left edges of the columns.
const COLUMNS: [usize; 3] = [10, 340, 670];
/// The space above the first node, for the heads of the columns.
const TOP: usize = 34;
/// The maximum number of letters in a node.
const LETTERS: usize = 29;
/// The maximum number of handlers in the graph.
const SHOWN: usize = 60;

/// A node of an outer column.
struct Outer {
    name: String,
    note: String,
    /// The rows of the handlers that it is connected with, and whether these only refer to it.
    handlers: Vec<(usize, bool)>,
    /// Half rows, as the mean of two rows may lie between them.
    at: usize,
}

/// Writes the graph.
pub(super) fn draw(html: &mut Html, status: &Value) {
    let of_objects = |handler: &&Value| !list(&handler["kinds"]).is_empty();
    let all: Vec<&Value> = list(&status["handlers"]).iter().filter(of_objects).collect();
    if all.is_empty() {
        html.raw("<p class=\"empty\">No handler is for objects.</p>\n");
        return;
    }
    let shown = &all[..all.len().min(SHOWN)];
    let kinds = kinds(shown, status);
    let others = others(shown);
    let lowest = |nodes: &[Outer]| nodes.last().map_or(0, |node| node.at / 2 + 1);
    let rows = shown.len().max(lowest(&kinds)).max(lowest(&others));
    let height = TOP + rows * ROW + 6;
    html.raw("<div class=\"scroll\" role=\"region\" tabindex=\"0\" id=\"graph-region\" aria-labelledby=\"graph-title\">\n");
    html.raw("<svg role=\"img\" aria-labelledby=\"graph-title graph-text\" width=\"930\" height=\"")
        .number(height);
    html.raw("\" viewBox=\"0 0 930 ")
        .number(height)
        .raw("\">\n<title id=\"graph-title\">Graph of kinds, handlers and children</title>\n");
    html.raw("<desc id=\"graph-text\">").text(&in_words(shown)).raw("</desc>\n");
    html.raw("<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\">");
    html.raw("<path d=\"M0 0L8 4L0 8z\"/></marker></defs>\n");
    for (column, head) in COLUMNS.into_iter().zip(["Kinds", "Handlers", "Children and references"]) {
        html.raw("<text class=\"head\" x=\"").number(column).raw("\" y=\"20\">").raw(head).raw("</text>\n");
    }
    for kind in &kinds {
        for (row, _) in &kind.handlers {
            edge(html, "edge", (COLUMNS[0] + WIDTH, kind.at), (COLUMNS[1], 2 * row));
        }
    }
    for other in &others {
        for (row, is_reference) in &other.handlers {
            let class = if *is_reference { "edge refers" } else { "edge" };
            edge(html, class, (COLUMNS[1] + WIDTH, 2 * row), (COLUMNS[2], other.at));
        }
    }
    for kind in &kinds {
        node(html, "node kind", (COLUMNS[0], kind.at), [&kind.name, &kind.note]);
    }
    for (row, handler) in shown.iter().enumerate() {
        let note = format!("#[{}]", text(&handler["attribute"]));
        node(html, "node", (COLUMNS[1], 2 * row), [&text(&handler["handler"]), &note]);
    }
    for other in &others {
        node(html, "node other", (COLUMNS[2], other.at), [&other.name, &other.note]);
    }
    html.raw("</svg>\n</div>\n");
    if all.len() > SHOWN {
        html.raw("<p class=\"hint\">The graph has the first ").number(SHOWN).raw(" of ").number(all.len());
        html.raw(" handlers of objects; the table has all.</p>\n");
    }
}

/// Returns the handled kinds from top to bottom.
fn kinds(shown: &[&Value], status: &Value) -> Vec<Outer> {
    let objects = |kind: &str| {
        let watched = list(&status["watched"]).iter().find(|it| it["resource"] == kind);
        watched.map_or_else(|| "not watched".to_owned(), |it| format!("{} objects", text(&it["objects"])))
    };
    let mut found = BTreeMap::<String, Outer>::new();
    for (row, handler) in shown.iter().enumerate() {
        for name in list(&handler["kinds"]).iter().map(text) {
            let note = objects(&name);
            let outer = || Outer { name: name.clone(), note, handlers: Vec::new(), at: 0 };
            found.entry(name.clone()).or_insert_with(outer).handlers.push((row, false));
        }
    }
    placed(found)
}

/// Returns the kinds that handlers own or refer to from top to bottom.
fn others(shown: &[&Value]) -> Vec<Outer> {
    let mut found = BTreeMap::<String, Outer>::new();
    for (row, handler) in shown.iter().enumerate() {
        for (key, note) in [("owns", "child"), ("watches", "reference")] {
            for name in list(&handler[key]).iter().map(text) {
                let outer =
                    || Outer { name: name.clone(), note: note.to_owned(), handlers: Vec::new(), at: 0 };
                let outer = found.entry(name.clone()).or_insert_with(outer);
                if outer.note != note {
                    "child and reference".clone_into(&mut outer.note);
                }
                outer.handlers.push((row, key == "watches"));
            }
        }
    }
    placed(found)
}

/// Places each node beside the middle of its handlers, or below the node above it.
fn placed(found: BTreeMap<String, Outer>) -> Vec<Outer> {
    let mut nodes: Vec<Outer> = found.into_values().collect();
    for node in &mut nodes {
        let rows: usize = node.handlers.iter().map(|(row, _)| row).sum();
        node.at = 2 * rows / node.handlers.len().max(1);
    }
    nodes.sort_by_key(|node| node.at);
    let mut free = 0;
    for node in &mut nodes {
        node.at = node.at.max(free);
        free = node.at + 2;
    }
    nodes
}

/// Returns the graph in words.
fn in_words(shown: &[&Value]) -> String {
    let joined = |value: &Value| list(value).iter().map(text).collect::<Vec<_>>().join(", ");
    let sentences = shown.iter().map(|handler| {
        let id = text(&handler["handler"]);
        let parts = [("kinds", "handles"), ("owns", "owns"), ("watches", "refers to")];
        let parts = parts.into_iter().filter(|(key, _)| !list(&handler[key]).is_empty());
        let parts: Vec<String> =
            parts.map(|(key, verb)| format!("{verb} {}", joined(&handler[key]))).collect();
        format!("{id} {}.", parts.join(", "))
    });
    sentences.collect::<Vec<_>>().join(" ")
}

fn middle(at: usize) -> usize {
    TOP + at * ROW / 2 + HEIGHT / 2
}

fn edge(html: &mut Html, class: &'static str, (left, from): (usize, usize), (right, to): (usize, usize)) {
    let (from, to, bend) = (middle(from), middle(to), (right - left) / 2);
    html.raw("<path class=\"").raw(class).raw("\" marker-end=\"url(#arrow)\" d=\"M").number(left).raw(" ");
    html.number(from).raw("C").number(left + bend).raw(" ").number(from).raw(" ").number(right - bend);
    html.raw(" ").number(to).raw(" ").number(right).raw(" ").number(to).raw("\"/>\n");
}

fn node(html: &mut Html, class: &'static str, (left, at): (usize, usize), [name, note]: [&str; 2]) {
    let top = middle(at) - HEIGHT / 2;
    html.raw("<g class=\"").raw(class).raw("\"><title>").text(name).raw("</title><rect x=\"").number(left);
    html.raw("\" y=\"").number(top).raw("\" width=\"").number(WIDTH).raw("\" height=\"").number(HEIGHT);
    html.raw("\" rx=\"6\"/><text x=\"").number(left + 10).raw("\" y=\"").number(top + 17).raw("\">");
    html.text(&shortened(name)).raw("</text><text class=\"note\" x=\"").number(left + 10).raw("\" y=\"");
    html.number(top + 32).raw("\">").text(&shortened(note)).raw("</text></g>\n");
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= LETTERS {
        return name.to_owned();
    }
    let begin: String = name.chars().take(LETTERS - 1).collect();
    begin + "…"
}
