//! Checks that the arguments of admission handlers fit their options.

use syn::ItemFn;

use crate::ast::{Argument, Function};
use crate::attr::Attribute;
use crate::fallback::Mistakes;

/// Reports functions whose arguments contradict their options.
pub(crate) fn check_review(
    function: &Function,
    attributes: &[Attribute],
    item: &ItemFn,
    mistakes: &mut Mistakes,
) {
    let takes_patch = function.arguments.iter().any(|it| matches!(it, Argument::Patch | Argument::Status(_)));
    for attribute in attributes {
        let name = attribute.kind.attribute;
        if attribute.options.is_on("side_effects") && !knows_dry_runs(function) {
            let message = format!(
                "#[{name}] with `side_effects` is called for dry runs too, and must have none then: take `dryrun: bool`, and ask it"
            );
            mistakes.at(&item.sig.ident, message);
        }
        if takes_patch && attribute.options.are_only_deletions() {
            let message = format!(
                "nothing can be changed of what is being deleted: #[{name}] for `operations = [DELETE]` has no `patch`"
            );
            mistakes.at(&item.sig.ident, message);
        }
    }
}

/// Returns whether the function can learn that a request is a dry run: by the argument, or by a custom type that is
/// made from the cause.
fn knows_dry_runs(function: &Function) -> bool {
    function.arguments.iter().any(|argument| match argument {
        Argument::Named(name, _) => name == "dryrun",
        Argument::Injected(_) => true,
        _ => false,
    })
}
