//! Pods that are watched.

use kopf_rs::prelude::*;

#[derive(Clone, Default)]
struct Seen(u32);

#[on_event("pods", labels = {"watched": PRESENT})]
fn see(event_type: EventType, memo: Memo, name: &str) {
    let seen = memo.update::<Seen>(|seen| seen.0 += 1);
    if event_type == "DELETED" {
        info!("{name} was seen {} times", seen.0);
    }
}

#[on_update("pods", labels = {"watched": PRESENT})]
fn tell(diff: &Diff, name: &str) {
    for item in diff {
        let DiffItem { op, field, .. } = item;
        if field.parts()[0] == "spec" {
            info!(
                "{op} of {field} in {name}: from {:?} to {:?}",
                item.old, item.new
            );
        }
    }
}
