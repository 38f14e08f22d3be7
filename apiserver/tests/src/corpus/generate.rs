//! Random, plausible scripts: a definition, then requests to its objects and to itself.
//!
//! The same seed produces the same script. Must not know servers or the expected answers.

mod builtin;
mod definition;
mod request;
mod schema;
mod value;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::script::{Script, Step};

/// The minimum number of requests in a script.
pub const REQUESTS: usize = 100;

/// A small deterministic random number generator that gives the same numbers on every platform.
struct Chance(u64);

// === impl Chance ===

impl Chance {
    fn of(seed: u64) -> Self {
        let mut chance = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..8 {
            chance.next();
        }
        chance
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap_or_default()
    }

    fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// Generates the script of a seed. Every fifth seed uses built-in kinds.
#[must_use]
pub fn generate(seed: u64) -> Script {
    let mut chance = Chance::of(seed);
    if seed.is_multiple_of(5) {
        return of_builtin_kinds(seed, &mut chance);
    }
    let mut root = schema::root(&mut chance, 1);
    let version = definition::version(&mut chance, &root);
    let first = root.clone();
    let mut steps = watched().to_vec();
    let turn = chance.one_in(2).then_some(REQUESTS / 2);
    while steps.len() < REQUESTS {
        if turn.is_some_and(|turn| steps.len() >= turn) && schema::marker(&root) == 1 {
            root = schema::changed(&mut chance, &root, 2);
            // The real server ends watches when a definition changes.
            steps.extend(read_up("middle"));
            steps.extend(redefined(&root, &version));
            steps.extend(watched());
        }
        steps.extend(request::requests(&mut chance, &root, &version));
    }
    steps.extend(read_up("last"));
    Script {
        name: format!("seed-{seed}"),
        about: String::new(),
        templates: Value::Null,
        schema: first,
        version,
        steps,
    }
}

fn of_builtin_kinds(seed: u64, chance: &mut Chance) -> Script {
    let mut steps = Vec::new();
    while steps.len() < REQUESTS {
        steps.extend(builtin::requests(chance));
    }
    Script {
        name: format!("seed-{seed}"),
        about: String::new(),
        templates: Value::Null,
        schema: Value::Null,
        version: Value::Null,
        steps,
    }
}

/// Returns the steps that open a watch from the current resource version.
fn watched() -> [Step; 2] {
    let at = ("since".to_owned(), "/metadata/resourceVersion".to_owned());
    [
        Step {
            request: "GET ${things}".to_owned(),
            capture: BTreeMap::from([at]),
            ..Step::default()
        },
        Step {
            request: "GET ${things}?watch=1&resourceVersion=${since}".to_owned(),
            watch: Some("all".to_owned()),
            ..Step::default()
        },
    ]
}

/// Returns the steps that create a last object and read all watch events up to it.
fn read_up(last: &str) -> [Step; 2] {
    let body = json!({"apiVersion": "${group}/v1", "kind": "Thing", "metadata": {"name": last}});
    [
        Step {
            request: "POST ${things}".to_owned(),
            body: Some(body),
            ..Step::default()
        },
        Step {
            read_up: BTreeMap::from([("all".to_owned(), last.to_owned())]),
            ..Step::default()
        },
    ]
}

/// Returns the steps that replace the schema and wait until the new one is in effect.
fn redefined(root: &Value, version: &Value) -> [Step; 2] {
    let mut changed = json!({
        "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": root},
    });
    for (name, value) in version.as_object().into_iter().flatten() {
        changed[name] = value.clone();
    }
    let marker = schema::marker(root);
    let canary =
        json!({"apiVersion": "${group}/v1", "kind": "Thing", "metadata": {"name": "canary"}});
    [
        Step {
            request: "PATCH ${crds}/things.${group}".to_owned(),
            body: Some(json!({"spec": {"versions": [changed]}})),
            ..Step::default()
        },
        Step {
            request: "POST ${things}?dryRun=All".to_owned(),
            body: Some(canary),
            until: BTreeMap::from([(format!("/{}", schema::MARKER), marker)]),
            ..Step::default()
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_script() {
        let text = |seed| serde_json::to_string(&generate(seed)).unwrap();
        assert_eq!(text(7), text(7));
        assert_ne!(text(7), text(8));
        assert!(generate(7).steps.len() >= REQUESTS);
        assert!(generate(10).steps.len() >= REQUESTS);
    }
}
