#![allow(unused)]

use kopf_rs::prelude::*;

#[on_mutate("pods")]
async fn makes_children(children: Children) {}

#[on_validate("pods")]
async fn is_told_oddly(dryrun: String, operation: u8) {}

#[on_validate("pods")]
async fn is_told_well(operation: &str, #[inject] owner: Owner, userinfo: &Value, warnings: Warnings) {}

fn main() {}
