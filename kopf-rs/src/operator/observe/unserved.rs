//! Reports kinds that have handlers but are not served, once for as long as that lasts.
//!
//! Must not know why they are not served.

use std::collections::BTreeSet;

use crate::engine::report::report_of_operator;
use crate::happening::serving::Serving;

/// The kinds that cannot be served at present.
#[derive(Default)]
pub(super) struct Unserved {
    /// The lines that have been reported.
    lines: BTreeSet<String>,
    /// The selectors of kinds that are not served.
    unresolved: BTreeSet<String>,
}

impl Unserved {
    pub(super) fn lines(&self) -> impl Iterator<Item = &String> {
        self.lines.iter()
    }

    /// Replaces the present kinds, and reports the new ones.
    pub(super) fn replace(&mut self, unserved: Vec<Serving>) {
        let (mut lines, mut unresolved) = (BTreeSet::new(), BTreeSet::new());
        for serving in unserved {
            let line = serving.to_string();
            if let Serving::Unresolved { selectors } = &serving {
                unresolved.extend(selectors.iter().cloned());
            }
            if let Some(news) = self.news(serving, &line) {
                report_of_operator(&news);
            }
            lines.insert(line);
        }
        (self.lines, self.unresolved) = (lines, unresolved);
    }

    /// Returns the part that has not been reported yet. A list that has become shorter is not reported.
    fn news(&self, serving: Serving, line: &str) -> Option<Serving> {
        match serving {
            Serving::Unresolved { mut selectors } => {
                selectors.retain(|it| !self.unresolved.contains(it));
                (!selectors.is_empty()).then_some(Serving::Unresolved { selectors })
            }
            other => (!self.lines.contains(line)).then_some(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unresolved(selectors: &[&str]) -> Serving {
        let selectors = selectors.iter().map(|it| (*it).to_owned()).collect();
        Serving::Unresolved { selectors }
    }

    #[test]
    fn each_unresolved_kind_is_reported_once() {
        let mut unserved = Unserved::default();
        for (now, expected) in [
            (&["a", "b"][..], Some(&["a", "b"][..])),
            (&["b"], None),
            (&["b", "c"], Some(&["c"])),
            (&["a", "b", "c"], Some(&["a"])),
        ] {
            let news = unserved.news(unresolved(now), "");
            assert_eq!(news, expected.map(unresolved), "{now:?}");
            unserved.replace(vec![unresolved(now)]);
            assert_eq!(unserved.lines().count(), 1);
        }
    }
}
