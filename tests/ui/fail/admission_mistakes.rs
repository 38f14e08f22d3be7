#![allow(unused)]

use kopf_rs::prelude::*;

#[on_validate("pods")]
fn changes(patch: &mut Patch) {
    patch["a"] = json!(1);
}

#[on_validate("pods", operations = [CREATE, UPDATED], subresource = 5)]
fn odd_operations(name: &str) {}

#[on_mutate("pods", operations = CREATE, deleted)]
fn no_list(name: &str) {}

#[on_mutate("pods", operations = [DELETE])]
fn changes_what_goes(patch: &mut Patch) {}

#[on_validate("pods", side_effects, retries = 3)]
fn knows_no_dry_runs(name: &str) {}

#[on_mutate("pods", side_effects)]
fn is_told_otherwise(name: &str) {}

#[on_validate("pods")]
fn warns(warnings: &mut Vec<String>, reason: Reason) {}

#[on_create("pods")]
fn asks(dryrun: bool) {}

fn main() {}
