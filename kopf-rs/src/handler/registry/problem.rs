//! What can be wrong with the handlers of an operator, as far as it shows before anything is served.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::handler::definition::Handler;
use crate::handler::location::DeclaredAt;
use crate::handler::registry::selectors::disjoint;
use crate::handler::subject::Reason;

/// Everything that is wrong with the handlers, one line each.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", lines(.0))]
pub struct RegistryError(pub(crate) Vec<Problem>);

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// A selector that cannot be understood, or an option that does not belong there.
    Declaration {
        attribute: &'static str,
        name: String,
        declared_at: DeclaredAt,
        message: String,
    },
    /// Two functions with one id that may be called for the same change: they would share one progress record.
    SameId {
        id: Arc<str>,
        first: DeclaredAt,
        second: DeclaredAt,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Declaration {
                attribute,
                name,
                declared_at,
                message,
            } => write!(
                f,
                "{declared_at}: {attribute} of handler `{name}`: {message}"
            ),
            Self::SameId { id, first, second } => write!(
                f,
                "{second}: the handler id `{id}` is already used at {first} for changes of resources that may be the same; give one of them another `id`"
            ),
        }
    }
}

/// Ids used by different functions that may be called for the same change of the same object.
pub(crate) fn clashes(handlers: &[Arc<Handler>]) -> Vec<Problem> {
    let mut by_id: HashMap<(&str, &str), Vec<&Handler>> = HashMap::new();
    let mut clashes = Vec::new();
    for handler in handlers {
        let same_id = by_id.entry((handler.id_scope(), &*handler.id)).or_default();
        let mut others = same_id
            .iter()
            .filter(|other| other.declared_at != handler.declared_at);
        if let Some(first) = others.find(|other| overlap(other, handler)) {
            clashes.push(Problem::SameId {
                id: Arc::clone(&handler.id),
                first: first.declared_at,
                second: handler.declared_at,
            });
        }
        same_id.push(handler);
    }
    clashes
}

fn overlap(one: &Handler, other: &Handler) -> bool {
    let selectors = one.selector().zip(other.selector());
    !selectors.is_some_and(|(one, other)| disjoint(one, other)) && share_a_cycle(one, other)
}

/// Whether both may be called in one cycle. Those of different cycles have different records: each tells what it was made for.
fn share_a_cycle(one: &Handler, other: &Handler) -> bool {
    if !one.is_for_changes() || !other.is_for_changes() {
        return true;
    }
    let reasons = [
        Reason::Create,
        Reason::Update,
        Reason::Delete,
        Reason::Resume,
    ];
    let mut cycles = reasons.iter().flat_map(|it| [(*it, false), (*it, true)]);
    cycles.any(|(reason, initial)| one.is_for(reason, initial) && other.is_for(reason, initial))
}

fn lines(problems: &[Problem]) -> String {
    let lines: Vec<_> = problems.iter().map(Problem::to_string).collect();
    lines.join("\n")
}
