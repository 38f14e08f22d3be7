//! Reduces a script that shows a difference.
//!
//! Every candidate is smaller than the script, so the search for the smallest one ends. Must not know servers.

use serde_json::Value;

use super::script::Script;

/// Returns smaller scripts to try, the largest reductions first.
pub(super) fn smaller(script: &Script) -> Vec<Script> {
    let mut all = Vec::new();
    let steps = script.steps.len();
    let mut width = steps / 2;
    while width > 0 {
        let mut start = 0;
        while start + width < steps {
            let mut fewer = script.clone();
            fewer.steps.drain(start..start + width);
            all.push(fewer);
            start += width;
        }
        width /= 2;
    }
    all.extend(plainer(script));
    all
}

/// Returns the script up to and including a step.
pub(super) fn cut(script: &Script, last: usize) -> Script {
    let end = (last + 1).min(script.steps.len());
    Script {
        steps: script.steps[..end].to_vec(),
        ..script.clone()
    }
}

/// Returns scripts with fewer parts in the schema or in the last body.
fn plainer(script: &Script) -> Vec<Script> {
    let mut all = Vec::new();
    for pointer in leaves(&script.schema) {
        let mut plainer = script.clone();
        if remove(&mut plainer.schema, &pointer) {
            all.push(plainer);
        }
    }
    let bodies = script.steps.iter().enumerate();
    for (at, step) in bodies {
        for pointer in step.body.as_ref().map(leaves).unwrap_or_default() {
            let mut plainer = script.clone();
            let body = plainer.steps[at].body.as_mut();
            if body.is_some_and(|body| remove(body, &pointer)) {
                all.push(plainer);
            }
        }
    }
    all
}

/// Returns pointers to all removable parts of a value, shortest first.
fn leaves(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect(value, "", &mut found);
    found.sort_by_key(|pointer| pointer.matches('/').count());
    found
}

fn collect(value: &Value, at: &str, found: &mut Vec<String>) {
    if let Value::Object(map) = value {
        for (name, part) in map {
            let at = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
            collect(part, &at, found);
            let kept = [
                "/apiVersion",
                "/kind",
                "/metadata",
                "/metadata/name",
                "/type",
            ];
            if !kept.contains(&at.as_str()) {
                found.push(at);
            }
        }
    }
}

fn remove(value: &mut Value, pointer: &str) -> bool {
    let Some((parent, name)) = pointer.rsplit_once('/') else {
        return false;
    };
    let name = name.replace("~1", "/").replace("~0", "~");
    let parent = value.pointer_mut(parent).and_then(Value::as_object_mut);
    parent.is_some_and(|parent| parent.remove(&name).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::generate;

    #[test]
    fn what_is_offered_is_smaller() {
        let script = generate(3);
        let size = |script: &Script| serde_json::to_string(script).unwrap().len();
        let offered = smaller(&script);
        assert!(!offered.is_empty());
        assert!(offered.iter().all(|one| size(one) < size(&script)));
    }
}
