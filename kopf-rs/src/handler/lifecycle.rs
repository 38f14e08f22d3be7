//! Selects which of the due handlers run in one pass.
//!
//! This module does not know what a pass is.

use std::fmt;
use std::sync::Arc;

use crate::handler::named_panic::named;
use crate::object::body::Body;

/// Selects which of the due handlers of an object run in one pass. Applies to an operator, or to one group of
/// sub-handlers.
///
/// After each pass, the operator writes the progress to the object. Handlers of one object never run concurrently.
///
/// ```
/// use kopf_rs::{Lifecycle, Settings};
///
/// let mut settings = Settings::default();
/// // Two at a time:
/// settings.execution.lifecycle = Lifecycle::custom(|_, due| (0..due.len().min(2)).collect());
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Lifecycle {
    /// The handler with the fewest attempts. The default.
    #[default]
    Asap,
    /// The first handler.
    OneByOne,
    /// All handlers, one after another.
    AllAtOnce,
    /// A random handler.
    Randomized,
    /// All handlers, in random order.
    Shuffled,
    /// The handlers that a custom function picks.
    Custom(CustomLifecycle),
}

/// A function that picks handlers. Created by [`Lifecycle::custom`].
#[derive(Clone)]
pub struct CustomLifecycle(Arc<Picking>);

type Picking = dyn Fn(&Body, &[DueHandler<'_>]) -> Vec<usize> + Send + Sync;

/// A handler that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DueHandler<'a> {
    /// The id of the handler.
    pub id: &'a str,
    /// The number of attempts so far.
    pub retries: u32,
}

impl<'a> DueHandler<'a> {
    pub(crate) fn new(id: &'a str, retries: u32) -> Self {
        Self { id, retries }
    }
}

impl Lifecycle {
    /// Runs the handlers that `pick` returns, in that order. It returns indices into the list of due handlers. If it
    /// returns none, the first handler runs.
    pub fn custom(pick: impl Fn(&Body, &[DueHandler<'_>]) -> Vec<usize> + Send + Sync + 'static) -> Self {
        Self::Custom(CustomLifecycle(Arc::new(pick)))
    }

    /// Returns distinct positions in `due`, at least one unless `due` is empty. `random` lies in `0.0..1.0`.
    pub(crate) fn pick(&self, body: &Body, due: &[DueHandler<'_>], random: f64) -> Vec<usize> {
        let places = 0..due.len();
        match self {
            _ if due.is_empty() => Vec::new(),
            Self::Asap => {
                let fewest = places.min_by_key(|place| due[*place].retries);
                fewest.into_iter().collect()
            }
            Self::OneByOne => vec![0],
            Self::AllAtOnce => places.collect(),
            Self::Randomized => shuffled(due.len(), random).into_iter().take(1).collect(),
            Self::Shuffled => shuffled(due.len(), random),
            Self::Custom(CustomLifecycle(pick)) => {
                let mut picked = Vec::new();
                let all = named(|| "the lifecycle".to_owned(), || pick(body, due));
                for place in all {
                    if place < due.len() && !picked.contains(&place) {
                        picked.push(place);
                    }
                }
                if picked.is_empty() {
                    picked.push(0);
                }
                picked
            }
        }
    }
}

impl fmt::Debug for CustomLifecycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CustomLifecycle(..)")
    }
}

/// Shuffles all positions with one random number as the seed.
fn shuffled(count: usize, random: f64) -> Vec<usize> {
    let mut state = random.to_bits();
    let mut next = |below: usize| {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let limit = u64::try_from(below).unwrap_or(1);
        usize::try_from((mixed ^ (mixed >> 31)) % limit).unwrap_or_default()
    };
    let mut places: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        places.swap(last, next(last + 1));
    }
    places
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn picks(lifecycle: &Lifecycle, retries: &[u32], random: f64) -> Vec<usize> {
        let due: Vec<_> = retries.iter().map(|it| DueHandler::new("h", *it)).collect();
        lifecycle.pick(&Body::new(json!({})), &due, random)
    }

    #[test]
    fn each_picks_its_own() {
        let retries = [2, 1, 1];
        for (lifecycle, expected) in [
            (Lifecycle::Asap, vec![1]),
            (Lifecycle::OneByOne, vec![0]),
            (Lifecycle::AllAtOnce, vec![0, 1, 2]),
            (Lifecycle::custom(|_, _| vec![2, 9, 2, 0]), vec![2, 0]),
            (Lifecycle::custom(|_, _| vec![]), vec![0]),
        ] {
            assert_eq!(picks(&lifecycle, &retries, 0.5), expected, "{lifecycle:?}");
            assert!(picks(&lifecycle, &[], 0.5).is_empty(), "{lifecycle:?}");
        }
    }

    #[test]
    fn chance_reaches_every_order() {
        let mut orders = std::collections::BTreeSet::new();
        let mut firsts = std::collections::BTreeSet::new();
        for step in 0..200 {
            let random = f64::from(step) / 200.0;
            orders.insert(picks(&Lifecycle::Shuffled, &[0, 0, 0], random));
            firsts.insert(picks(&Lifecycle::Randomized, &[0, 0, 0], random));
        }
        assert_eq!((orders.len(), firsts.len()), (6, 3));
    }
}
