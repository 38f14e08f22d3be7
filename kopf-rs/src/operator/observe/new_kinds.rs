//! Finds out if kinds that are defined later may matter. An operator for built-in kinds alone does not need to watch definitions.
//!
//! Must not know why definitions are watched.

use crate::handler::definition::Handler;
use crate::object::resource::Resource;
use crate::object::selector::Selector;

/// Returns whether one of these handlers is, or may become, responsible for a custom kind.
pub(super) fn may_matter<'a>(
    handlers: impl IntoIterator<Item = &'a Handler>,
    resources: &[Resource],
) -> bool {
    let is_built_in = |selector: &Selector| {
        let found = selector.select(resources);
        selector.is_specific() && !found.is_empty() && found.iter().all(|it| !it.is_custom())
    };
    handlers.into_iter().any(|handler| {
        let owns = handler.owns.iter().map(|it| &it.selector);
        let watches = handler.watches.iter().map(|it| &it.selector);
        let selectors = handler.selector().into_iter();
        let mut all = selectors.chain(owns).chain(watches);
        all.any(|selector| !is_built_in(selector))
    })
}
