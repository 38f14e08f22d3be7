//! Pods that are watched.

use kopf_rs::prelude::*;

#[on_event("pods", labels = {"watched": PRESENT})]
fn see(event_type: EventType, memo: Memo, name: &str) {
    let seen = memo.update::<u32>(|seen| *seen += 1);
    if event_type == "DELETED" {
        info!("{name} was seen {seen} times");
    }
}

#[on_update("pods", labels = {"watched": PRESENT})]
fn tell(diff: &Diff, name: &str) {
    for item in diff {
        if item.field.parts()[0] == "spec" {
            info!("{} of {} in {name}: from {:?} to {:?}", item.op, item.field, item.old, item.new);
        }
    }
}
