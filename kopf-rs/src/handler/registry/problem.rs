//! The problems with the handlers of an operator that can be found before it starts.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::handler::conversion::{ConversionFunction, ConvertedPart};
use crate::handler::definition::Handler;
use crate::handler::index::erased::{IndexType, RequiredIndex};
use crate::handler::location::DeclaredAt;
use crate::handler::registry::selectors::disjoint;
use crate::handler::required::Requirement;
use crate::handler::subject::Reason;
use crate::handler::validation_rule::DeclaredRule;

/// All problems with the handlers, one per line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", lines(.0))]
pub struct RegistryError(pub(crate) Vec<Problem>);

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// An invalid selector, or an option that the family does not have.
    Declaration { attribute: &'static str, name: String, declared_at: DeclaredAt, message: String },
    /// A validation rule that the API server would reject, or whose selector is invalid.
    Rule { id: String, declared_at: DeclaredAt, message: String },
    /// Two validation rules with the same id, whose policies would have the same name.
    SameRule { id: String, first: DeclaredAt, second: DeclaredAt },
    /// Two functions with the same id that can be called for the same change, so that they would share one progress
    /// record.
    SameId { id: Arc<str>, first: DeclaredAt, second: DeclaredAt },
    /// Two functions that fill the same index with keys or values of different types.
    MixedIndex { id: Arc<str>, first: (DeclaredAt, IndexType), second: (DeclaredAt, IndexType) },
    /// A handler that asks for an index which no function fills.
    NoSuchIndex { handler: String, declared_at: DeclaredAt, name: &'static str, known: Vec<Arc<str>> },
    /// A handler that asks for an index with the wrong types.
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
            Self::Declaration { attribute, name, declared_at, message } => {
                write!(f, "{declared_at}: {attribute} of handler `{name}`: {message}")
            }
            Self::Rule { id, declared_at, message } => {
                write!(f, "{declared_at}: validation rule `{id}`: {message}")
            }
            Self::SameRule { id, first, second } => write!(
                f,
                "{second}: the validation rule at {first} has the id `{id}`, too; give one of them another `id`"
            ),
            Self::SameId { id, first, second } => write!(
                f,
                "{second}: the handler id `{id}` is already used at {first} for changes of resources that may be the same; give one of them another `id`"
            ),
            Self::MixedIndex { id, first: (first, had), second: (second, has) } => write!(
                f,
                "{second}: this function makes an `{has}`, but the one at {first} makes an `{had}`, and both feed the index `{id}`; give one of them another `id`, or let both return the same types"
            ),
            Self::NoSuchIndex { handler, declared_at, name, known } => {
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

/// Finds ids that several functions use which can be called for the same change of the same object.
pub(crate) fn clashes(handlers: &[Arc<Handler>]) -> Vec<Problem> {
    let mut by_id: HashMap<(&str, &str), Vec<&Handler>> = HashMap::new();
    let mut clashes = Vec::new();
    for handler in handlers.iter().filter(|it| it.admission().is_none()) {
        let same_id = by_id.entry((id_scope(handler), &*handler.id)).or_default();
        let mut others = same_id.iter().filter(|other| other.declared_at != handler.declared_at);
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

/// Finds validation rules with the same id.
pub(crate) fn shared_names(rules: &[Arc<DeclaredRule>]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (at, second) in rules.iter().enumerate() {
        let id = &second.rule.id;
        if let Some(first) = rules[..at].iter().find(|it| it.rule.id == *id) {
            problems.push(Problem::SameRule {
                id: id.clone(),
                first: first.rule.declared_at,
                second: second.rule.declared_at,
            });
        }
    }
    problems
}

/// Finds functions that fill the same index with different types.
pub(crate) fn mixed_indices(handlers: &[Arc<Handler>]) -> Vec<Problem> {
    let mixed = handlers.iter().filter_map(|handler| {
        let (second, (first, had)) = (handler.index?, first_index(handlers, &handler.id)?);
        (had != second).then(|| Problem::MixedIndex {
            id: Arc::clone(&handler.id),
            first: (first, had),
            second: (handler.declared_at, second),
        })
    });
    mixed.collect()
}

/// Finds requested indices that do not exist, or that have different types.
pub(crate) fn unknown_indices(
    handlers: &[Arc<Handler>],
    required: &[Requirement<RequiredIndex>],
) -> Vec<Problem> {
    let mut problems = Vec::new();
    for Requirement { declared_at, handler, what: index } in required {
        let (handler, declared_at) = (handler.clone(), *declared_at);
        let problem = match first_index(handlers, index.name) {
            Some((_, found)) if found == index.ty => continue,
            Some(found) => Problem::OtherIndex { handler, declared_at, wanted: index.clone(), found },
            None => {
                Problem::NoSuchIndex { handler, declared_at, name: index.name, known: index_names(handlers) }
            }
        };
        // Reports a function with several attributes only once.
        if !problems.contains(&problem) {
            problems.push(problem);
        }
    }
    problems
}

/// Returns the first function that fills the index of that name, with the types it implies.
fn first_index(handlers: &[Arc<Handler>], name: &str) -> Option<(DeclaredAt, IndexType)> {
    let mut named = handlers.iter().filter(|it| *it.id == *name);
    named.find_map(|it| Some((it.declared_at, it.index?)))
}

fn index_names(handlers: &[Arc<Handler>]) -> Vec<Arc<str>> {
    let feeding = handlers.iter().filter(|it| it.index.is_some());
    feeding.map(|it| Arc::clone(&it.id)).collect()
}

/// Returns the most similar known name, as a suggestion.
fn closest<'a>(name: &str, known: &'a [Arc<str>]) -> Option<&'a Arc<str>> {
    let distance = |it: &&Arc<str>| strsim::damerau_levenshtein(name, it);
    let near = known.iter().min_by_key(distance)?;
    (distance(&near) <= name.len().div_ceil(3)).then_some(near)
}

/// Finds functions that convert the same part between the same versions.
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

/// Returns the scope of a handler's id. Handlers in the same scope need different ids if their resources overlap.
fn id_scope(handler: &Handler) -> &'static str {
    if handler.is_for_changes() {
        "changes"
    } else if handler.is_background() {
        "background"
    } else {
        handler.kind.attribute()
    }
}

fn overlap(one: &Handler, other: &Handler) -> bool {
    let selectors = one.selector().zip(other.selector());
    !selectors.is_some_and(|(one, other)| disjoint(one, other)) && share_a_cycle(one, other)
}

/// Returns whether both can be called in the same cycle. Different cycles use different progress records, since each
/// record stores its reason.
fn share_a_cycle(one: &Handler, other: &Handler) -> bool {
    if !one.is_for_changes() || !other.is_for_changes() {
        return true;
    }
    let reasons = [Reason::Create, Reason::Update, Reason::Delete, Reason::Resume];
    let mut cycles = reasons.iter().flat_map(|it| [(*it, false), (*it, true)]);
    cycles.any(|(reason, initial)| one.is_for(reason, initial) && other.is_for(reason, initial))
}

fn lines(problems: &[Problem]) -> String {
    let lines: Vec<_> = problems.iter().map(Problem::to_string).collect();
    lines.join("\n")
}
