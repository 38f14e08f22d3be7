//! What can be wrong with the handlers of an operator, as far as it shows before anything is served.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::handler::conversion::{ConversionFunction, ConvertedPart};
use crate::handler::definition::Handler;
use crate::handler::index::erased::{IndexRequirement, IndexType, RequiredIndex};
use crate::handler::location::DeclaredAt;
use crate::handler::registry::selectors::disjoint;
use crate::handler::subject::Reason;
use crate::handler::validation_rule::DeclaredRule;

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
    /// A validation rule that the API server would refuse, or whose selector cannot be understood.
    Rule {
        id: String,
        declared_at: DeclaredAt,
        message: String,
    },
    /// Two validation rules with one id: their policies would have one name.
    SameRule {
        id: String,
        first: DeclaredAt,
        second: DeclaredAt,
    },
    /// Two functions with one id that may be called for the same change: they would share one progress record.
    SameId {
        id: Arc<str>,
        first: DeclaredAt,
        second: DeclaredAt,
    },
    /// Two functions that feed one index with keys or values of different types.
    MixedIndex {
        id: Arc<str>,
        first: (DeclaredAt, IndexType),
        second: (DeclaredAt, IndexType),
    },
    /// A handler asks for an index that no function feeds.
    NoSuchIndex {
        handler: String,
        declared_at: DeclaredAt,
        name: &'static str,
        known: Vec<Arc<str>>,
    },
    /// A handler asks for an index with other types than it has.
    OtherIndex {
        handler: String,
        declared_at: DeclaredAt,
        wanted: RequiredIndex,
        found: (DeclaredAt, IndexType),
    },
}

/// The attribute of conversions.
pub(super) const ON_CONVERT: &str = "on_convert";

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
            Self::Rule {
                id,
                declared_at,
                message,
            } => write!(f, "{declared_at}: validation rule `{id}`: {message}"),
            Self::SameRule { id, first, second } => write!(
                f,
                "{second}: the validation rule at {first} has the id `{id}`, too; give one of them another `id`"
            ),
            Self::SameId { id, first, second } => write!(
                f,
                "{second}: the handler id `{id}` is already used at {first} for changes of resources that may be the same; give one of them another `id`"
            ),
            Self::MixedIndex {
                id,
                first: (first, had),
                second: (second, has),
            } => write!(
                f,
                "{second}: this function makes an `{has}`, but the one at {first} makes an `{had}`, and both feed the index `{id}`; give one of them another `id`, or let both return the same types"
            ),
            Self::NoSuchIndex {
                handler,
                declared_at,
                name,
                known,
            } => {
                write!(
                    f,
                    "{declared_at}: handler `{handler}` asks for the index `{name}`, but no function with #[index] has this id"
                )?;
                match closest(name, known) {
                    Some(near) => write!(f, "; did you mean `{near}`?"),
                    None => write!(
                        f,
                        "; an index is found by the name of the argument, or as `#[from(its_id)] {name}: Index<..>`"
                    ),
                }
            }
            Self::OtherIndex {
                handler,
                declared_at,
                wanted: RequiredIndex { name, ty },
                found: (at, found),
            } => write!(
                f,
                "{declared_at}: handler `{handler}` asks for the index `{name}` as `{ty}`, but the function at {at} makes it an `{found}`"
            ),
        }
    }
}

/// Ids used by different functions that may be called for the same change of the same object.
pub(crate) fn clashes(handlers: &[Arc<Handler>]) -> Vec<Problem> {
    let mut by_id: HashMap<(&str, &str), Vec<&Handler>> = HashMap::new();
    let mut clashes = Vec::new();
    for handler in handlers.iter().filter(|it| !it.may_share_id()) {
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

/// Validation rules with the same id.
pub(crate) fn shared_names(rules: &[Arc<DeclaredRule>]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (at, second) in rules.iter().enumerate() {
        let id = &second.rule.id;
        if let Some(first) = rules[..at].iter().find(|it| it.rule.id == *id) {
            problems.push(Problem::SameRule {
                id: id.clone(),
                first: first.declared_at,
                second: second.declared_at,
            });
        }
    }
    problems
}

/// Functions that feed one index with different types.
pub(crate) fn mixed_indices(handlers: &[Arc<Handler>]) -> Vec<Problem> {
    let mixed = handlers.iter().filter_map(|handler| {
        let (second, (first, had)) = (handler.index()?, first_index(handlers, &handler.id)?);
        (had != second).then(|| Problem::MixedIndex {
            id: Arc::clone(&handler.id),
            first: (first, had),
            second: (handler.declared_at, second),
        })
    });
    mixed.collect()
}

/// Indices that handlers ask for, and that are not there, or not so.
pub(crate) fn unknown_indices(
    handlers: &[Arc<Handler>],
    required: &[IndexRequirement],
) -> Vec<Problem> {
    let mut problems = Vec::new();
    for IndexRequirement {
        declared_at,
        handler,
        index,
    } in required
    {
        let (handler, declared_at) = (handler.clone(), *declared_at);
        let problem = match first_index(handlers, index.name) {
            Some((_, found)) if found == index.ty => continue,
            Some(found) => Problem::OtherIndex {
                handler,
                declared_at,
                wanted: index.clone(),
                found,
            },
            None => Problem::NoSuchIndex {
                handler,
                declared_at,
                name: index.name,
                known: index_names(handlers),
            },
        };
        // A function with several attributes asks once.
        if !problems.contains(&problem) {
            problems.push(problem);
        }
    }
    problems
}

/// The first function that feeds the index of that name, and the types it has by that.
fn first_index(handlers: &[Arc<Handler>], name: &str) -> Option<(DeclaredAt, IndexType)> {
    let mut named = handlers.iter().filter(|it| *it.id == *name);
    named.find_map(|it| Some((it.declared_at, it.index()?)))
}

fn index_names(handlers: &[Arc<Handler>]) -> Vec<Arc<str>> {
    let feeding = handlers.iter().filter(|it| it.index().is_some());
    feeding.map(|it| Arc::clone(&it.id)).collect()
}

/// What may have been meant.
fn closest<'a>(name: &str, known: &'a [Arc<str>]) -> Option<&'a Arc<str>> {
    let distance = |it: &&Arc<str>| strsim::damerau_levenshtein(name, it);
    let near = known.iter().min_by_key(distance)?;
    (distance(&near) <= name.len().div_ceil(3)).then_some(near)
}

/// Two functions that convert the same.
pub(super) fn doubled_conversions(all: &[Arc<ConversionFunction>]) -> Vec<Problem> {
    let is_same = |one: &ConversionFunction, other: &ConversionFunction| {
        let whole = ConvertedPart::Object;
        let overlaps = one.part == other.part || one.part == whole || other.part == whole;
        overlaps && (&one.kind, &one.from, &one.to) == (&other.kind, &other.from, &other.to)
    };
    let mut problems = Vec::new();
    for (at, second) in all.iter().enumerate() {
        if let Some(first) = all[..at].iter().find(|it| is_same(it, second)) {
            problems.push(Problem::Declaration {
                attribute: ON_CONVERT,
                name: second.name.clone(),
                declared_at: second.declared_at,
                message: format!(
                    "the function at {} converts the same part of {} from {} to {}",
                    first.declared_at, second.kind, second.from, second.to
                ),
            });
        }
    }
    problems
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
