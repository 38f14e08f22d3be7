//! The problems with the handlers of an operator that can be found before it starts.

use std::collections::HashMap;
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
#[error("{}", .0.join("\n"))]
pub struct RegistryError(pub(crate) Vec<String>);

/// Says what is wrong with an attribute: an invalid selector, or an option that the family does not have.
pub(super) fn declaration(attribute: &str, name: &str, declared_at: DeclaredAt, message: &str) -> String {
    format!("{declared_at}: {attribute} of handler `{name}`: {message}")
}

/// The attribute of conversions.
pub(super) const ON_CONVERT: &str = "on_convert";

/// Finds ids that several functions use which can be called for the same change of the same object.
pub(crate) fn clashes(handlers: &[Arc<Handler>]) -> Vec<String> {
    let mut by_id: HashMap<(&str, &str), Vec<&Handler>> = HashMap::new();
    let mut clashes = Vec::new();
    for handler in handlers.iter().filter(|it| it.admission().is_none()) {
        let same_id = by_id.entry((id_scope(handler), &*handler.id)).or_default();
        let mut others = same_id.iter().filter(|other| other.declared_at != handler.declared_at);
        if let Some(first) = others.find(|other| overlap(other, handler)) {
            clashes.push(format!(
                "{}: the handler id `{}` is already used at {} for changes of resources that may be the same; give one of them another `id`",
                handler.declared_at, handler.id, first.declared_at
            ));
        }
        same_id.push(handler);
    }
    clashes
}

/// Finds validation rules with the same id.
pub(crate) fn shared_names(rules: &[Arc<DeclaredRule>]) -> Vec<String> {
    let shared = repeated(rules, |one, other| one.rule.id == other.rule.id).map(|(first, second)| {
        format!(
            "{}: the validation rule at {} has the id `{}`, too; give one of them another `id`",
            second.rule.declared_at, first.rule.declared_at, second.rule.id
        )
    });
    shared.collect()
}

/// Returns each item that is the same as an earlier one, after the first such one.
fn repeated<T>(all: &[Arc<T>], is_same: impl Fn(&T, &T) -> bool) -> impl Iterator<Item = (&T, &T)> {
    all.iter().enumerate().filter_map(move |(at, second)| {
        let first = all[..at].iter().find(|it| is_same(it, second))?;
        Some((&**first, &**second))
    })
}

/// Finds functions that fill the same index with different types.
pub(crate) fn mixed_indices(handlers: &[Arc<Handler>]) -> Vec<String> {
    let mixed = handlers.iter().filter_map(|handler| {
        let (has, (first, had)) = (handler.index?, first_index(handlers, &handler.id)?);
        let (second, id) = (handler.declared_at, &handler.id);
        (had != has).then(|| {
            format!(
                "{second}: this function makes an `{has}`, but the one at {first} makes an `{had}`, and both feed the index `{id}`; give one of them another `id`, or let both return the same types"
            )
        })
    });
    mixed.collect()
}

/// Finds requested indices that do not exist, or that have different types.
pub(crate) fn unknown_indices(
    handlers: &[Arc<Handler>],
    required: &[Requirement<RequiredIndex>],
) -> Vec<String> {
    let mut problems = Vec::new();
    for Requirement { declared_at, handler, what: RequiredIndex { name, ty } } in required {
        let asks = format!("{declared_at}: handler `{handler}` asks for the index `{name}`");
        let problem = match first_index(handlers, name) {
            Some((_, found)) if found == *ty => continue,
            Some((at, found)) => format!("{asks} as `{ty}`, but the function at {at} makes it an `{found}`"),
            None => {
                let advice = match closest(name, handlers) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!(
                        "an index is found by the name of the argument, or as `#[from(its_id)] {name}: Index<..>`"
                    ),
                };
                format!("{asks}, but no function with #[index] has this id; {advice}")
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

/// Returns the most similar name of an index, as a suggestion.
fn closest<'a>(name: &str, handlers: &'a [Arc<Handler>]) -> Option<&'a Arc<str>> {
    let known = handlers.iter().filter(|it| it.index.is_some()).map(|it| &it.id);
    let distance = |it: &&Arc<str>| strsim::damerau_levenshtein(name, it);
    let near = known.min_by_key(distance)?;
    (distance(&near) <= name.len().div_ceil(3)).then_some(near)
}

/// Finds functions that convert the same part between the same versions.
pub(super) fn doubled_conversions(all: &[Arc<ConversionFunction>]) -> Vec<String> {
    let is_same = |one: &ConversionFunction, other: &ConversionFunction| {
        let whole = ConvertedPart::Object;
        let overlaps = one.part == other.part || one.part == whole || other.part == whole;
        overlaps && (&one.kind, &one.from, &one.to) == (&other.kind, &other.from, &other.to)
    };
    let doubled = repeated(all, is_same).map(|(first, second)| {
        let message = format!(
            "the function at {} converts the same part of {} from {} to {}",
            first.declared_at, second.kind, second.from, second.to
        );
        declaration(ON_CONVERT, &second.name, second.declared_at, &message)
    });
    doubled.collect()
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
