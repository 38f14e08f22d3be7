//! Checks `format` calls before evaluation.
//!
//! Only a literal string with a literal list of arguments is checked. Independent of values.

use crate::cel::Complaint;
use crate::cel::clauses::{self, Clause, Told};
use crate::cel::kind::Kind;
use crate::cel::tree::{Part, Tree};

use super::Found;

/// An error and its position, or `None` if it concerns the whole call.
struct Wrong(Option<usize>, String);

impl Told for Wrong {
    fn told(before: &str, Self(place, why): Self) -> Self {
        Self(place, format!("{before}{why}"))
    }

    fn plain(why: String) -> Self {
        Self(None, why)
    }
}

/// Collects the errors of all `format` calls in the expression.
pub(super) fn check(tree: &Tree, found: &Found, complaints: &mut Vec<Complaint>) {
    tree.each_part(&mut |part| {
        let Part::Call {
            name,
            target: Some(target),
            given,
        } = &part.part
        else {
            return;
        };
        if let (
            "format",
            Part::Text(text),
            [
                Tree {
                    part: Part::List(items),
                    ..
                },
            ],
        ) = (name.as_str(), &target.part, given.as_slice())
        {
            complaints.extend(judge(part, text, items, found));
        }
    });
}

fn judge(call: &Tree, text: &str, items: &[Tree], found: &Found) -> Option<Complaint> {
    let mut used = 0;
    let show = |at: usize, (clause, _): Clause| {
        used = at + 1;
        match unfit(&items[at], clause, found) {
            Some(part) => Err(Wrong(
                Some(part.place),
                clauses::refusal(clause, &type_name(found.kind(part))),
            )),
            None => Ok(String::new()),
        }
    };
    match clauses::filled(text, items.len(), show) {
        Err(Wrong(place, why)) => Some((place.unwrap_or(call.place), why)),
        Ok(_) if items.len() > used => Some((
            call.place,
            format!(
                "too many arguments supplied to string.format (expected {used}, got {})",
                items.len()
            ),
        )),
        Ok(_) => None,
    }
}

/// Returns the argument that does not fit this clause.
fn unfit<'a>(item: &'a Tree, clause: char, found: &Found) -> Option<&'a Tree> {
    if let Part::Perhaps(of) = &item.part {
        return unfit(of, clause, found);
    }
    let kind = found.kind(item);
    if kind.is_loose() {
        return None;
    }
    let fits = match clause {
        'd' | 'o' => matches!(kind, Kind::Int | Kind::Uint),
        'f' | 'e' => matches!(kind, Kind::Double | Kind::Text),
        'b' => matches!(kind, Kind::Int | Kind::Uint | Kind::Bool),
        's' => !matches!(kind, Kind::Optional(_) | Kind::Object(_) | Kind::Named(_)),
        _ => matches!(kind, Kind::Int | Kind::Uint | Kind::Text | Kind::Bytes),
    };
    if !fits {
        return Some(item);
    }
    let inner = |part: &'a Tree| unfit(part, 's', found);
    match &item.part {
        Part::List(items) if clause == 's' => items.iter().find_map(inner),
        Part::Map(entries) if clause == 's' => entries
            .iter()
            .find_map(|(key, of)| inner(key).or_else(|| inner(of))),
        _ => None,
    }
}

fn type_name(kind: &Kind) -> String {
    match kind {
        Kind::List(_) => "list".to_owned(),
        Kind::Map(..) => "map".to_owned(),
        Kind::Optional(_) => "optional_type".to_owned(),
        Kind::Null => "null_type".to_owned(),
        Kind::Timestamp => "google.protobuf.Timestamp".to_owned(),
        Kind::Duration => "google.protobuf.Duration".to_owned(),
        other => other.to_string(),
    }
}
